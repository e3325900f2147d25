/* SPDX-License-Identifier: Apache-2.0 */
/* The model's losses and gradients against two others: an fp64 forward with central differences, and PyTorch. */
#include <stdlib.h>

#include "fixture.h"
#include "harness/test.h"
#include "oracle.h"

/* All parameters of the one chunk in fp64, where the oracle reads them. */
typedef struct doubles {
    double *values[32];
    oracle_model model;
} doubles;

static doubles to_doubles(const fixture *f)
{
    const gpt_shape *s = &f->shape;
    const gpt_chunk *c = &f->chunks[0];
    doubles d = {.model = {.layers = (int)s->layers,
                           .hidden = (int)s->hidden,
                           .ffn = (int)s->ffn,
                           .heads = (int)s->heads,
                           .groups = (int)s->groups,
                           .channels = (int)s->channels,
                           .sequence = (int)s->sequence,
                           .batch = (int)s->micro_batch,
                           .vocabulary = (int)s->vocabulary,
                           .epsilon = (double)s->norm_epsilon,
                           .rotary_base = (double)s->rotary_base}};
    for (size_t i = 0; i < c->param_count; i++) {
        d.values[i] = malloc(c->params[i].count * sizeof(double));
        for (size_t k = 0; k < c->params[i].count; k++)
            d.values[i][k] = (double)((const float *)c->params[i].value)[k];
    }
    d.model.embedding = d.values[0];
    for (size_t l = 0; l < s->layers; l++) {
        double **v = d.values + 1 + l * 6;
        d.model.layer[l] = (oracle_layer){v[0], v[1], v[2], v[3], v[4], v[5]};
    }
    d.model.final_norm = d.values[1 + s->layers * 6];
    d.model.output = s->tied ? d.values[0] : d.values[2 + s->layers * 6];
    return d;
}

static void release(doubles *d, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(d->values[i]);
}

static double slope(doubles *d, double *value, double step, const fixture *f)
{
    double kept = *value;
    *value = kept + step;
    double above = oracle_loss(&d->model, f->tokens, f->targets);
    *value = kept - step;
    double below = oracle_loss(&d->model, f->tokens, f->targets);
    *value = kept;
    return (above - below) / (2 * step);
}

static void check_against_oracle(bool tied, size_t groups)
{
    gpt_shape shape = fixture_shape();
    gpt_failure failure;
    fixture f;
    shape.tied = tied;
    shape.groups = groups;
    CHECK(gpt_shape_complete(&shape, &failure) == 0);
    fixture_open(&f, shape, NULL, 0, 1);
    fixture_batch(&f, 0);
    double loss = 0, worst = 0;
    CHECK_OK(gpt_chunk_forward(&f.chunks[0], 0, NULL, NULL, f.tokens, f.targets, &loss));
    CHECK_OK(gpt_chunk_backward(&f.chunks[0], 0, NULL, NULL, 1 / (float)shape.tokens));

    doubles d = to_doubles(&f);
    CHECK_NEAR(loss / (double)shape.tokens, oracle_loss(&d.model, f.tokens, f.targets), 1e-6);
    for (size_t i = 0; i < f.chunks[0].param_count; i++) {
        const gpt_param *p = &f.chunks[0].params[i];
        double *coarse = malloc(p->count * sizeof *coarse), apart = 0, length = 0;
        for (size_t k = 0; k < p->count; k++) {
            double fine = slope(&d, &d.values[i][k], 1e-4, &f);
            coarse[k] = slope(&d, &d.values[i][k], 2e-4, &f);
            apart += (fine - coarse[k]) * (fine - coarse[k]);
            length += fine * fine;
            coarse[k] = fine + (fine - coarse[k]) / 3; /* Richardson: free of the error in step^2 */
        }
        CHECK_MSG(sqrt(apart / length) < 1e-6, "%s: differences of two steps are %g apart", p->name,
                  sqrt(apart / length));
        double distance = relative_distance(p->grad, coarse, p->count);
        CHECK_MSG(distance < 1e-4, "%s: gradient is %g away", p->name, distance);
        worst = distance > worst ? distance : worst;
        free(coarse);
    }
    test_note("largest distance of a gradient, by its norm: %.2g", worst);
    release(&d, f.chunks[0].param_count);
    fixture_close(&f);
}

TEST(gradients_are_central_differences_of_an_fp64_model)
{
    check_against_oracle(false, 2);
}

TEST(gradients_of_tied_embeddings_are_central_differences_too)
{
    check_against_oracle(true, 2);
}

TEST(gradients_with_a_key_for_each_head_and_with_one_for_all)
{
    check_against_oracle(true, 4);
    check_against_oracle(false, 1);
}

/* The committed values of tests/data/gpt/make_torch_values.py. */
static FILE *open_torch_values(void)
{
    char path[1024];
    const char *folder = getenv("WEFT_TEST_DATA");
    snprintf(path, sizeof path, "%s/gpt/torch_values.txt", folder ? folder : "tests/data");
    FILE *file = fopen(path, "r");
    CHECK_MSG(file, "cannot read %s", path);
    return file;
}

/* The sizes of the next case, up to its loss; false behind the last. */
static bool read_case(FILE *file, gpt_shape *shape, char *name, double *loss)
{
    char word[32];
    double value, tied = 0, deviation = 0, base = 0;
    *shape = fixture_shape();
    const struct {
        const char *name;
        size_t *size;
        double *real;
    } fields[] = {{"layers", &shape->layers, NULL},
                  {"hidden", &shape->hidden, NULL},
                  {"ffn", &shape->ffn, NULL},
                  {"heads", &shape->heads, NULL},
                  {"groups", &shape->groups, NULL},
                  {"channels", &shape->channels, NULL},
                  {"sequence", &shape->sequence, NULL},
                  {"batch", &shape->micro_batch, NULL},
                  {"vocabulary", &shape->vocabulary, NULL},
                  {"multiple", &shape->vocabulary_multiple, NULL},
                  {"rotary_base", NULL, &base},
                  {"deviation", NULL, &deviation},
                  {"tied", NULL, &tied}};
    if (fscanf(file, " case %99[^\n]", name) != 1)
        return false;
    while (fscanf(file, " shape %31s %lf", word, &value) == 2)
        for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
            if (strcmp(fields[i].name, word) == 0 && fields[i].size)
                *fields[i].size = (size_t)value;
            else if (strcmp(fields[i].name, word) == 0)
                *fields[i].real = value;
    shape->tied = tied != 0;
    shape->init_deviation = (float)deviation;
    shape->rotary_base = (float)base;
    CHECK(fscanf(file, "loss %lf", loss) == 1); /* the scan for "shape" has eaten the space before */
    return true;
}

static double check_param(FILE *file, fixture *f)
{
    char name[64];
    size_t count;
    double sum, squares, *grads;
    CHECK(fscanf(file, " param %63s %zu %lf %lf", name, &count, &sum, &squares) == 4);
    gpt_param *p = fixture_find(f, name);
    CHECK_MSG(p && p->count == count, "%s has not %zu elements here", name, count);
    for (size_t i = 0; i < count; i++) {
        double value = (double)((const float *)p->value)[i];
        sum -= value;
        squares -= value * value;
    }
    CHECK_MSG(fabs(sum) < 1e-6 && fabs(squares) < 1e-6, "%s: first values differ by %g, %g", name, sum, squares);
    grads = malloc(count * sizeof *grads);
    for (size_t i = 0; i < count; i++)
        CHECK(fscanf(file, "%lf", &grads[i]) == 1);
    double distance = relative_distance(p->grad, grads, count);
    CHECK_MSG(distance < 1e-5, "%s: gradient is %g away", name, distance);
    free(grads);
    return distance;
}

TEST(first_values_losses_and_gradients_are_those_of_pytorch)
{
    FILE *file = open_torch_values();
    gpt_shape shape;
    gpt_failure failure;
    char name[100];
    double want;
    int cases = 0;
    for (; read_case(file, &shape, name, &want); cases++) {
        fixture f;
        double loss = 0, worst = 0;
        CHECK_MSG(gpt_shape_complete(&shape, &failure) == 0, "%s", failure.text);
        fixture_open(&f, shape, NULL, 0, 1);
        fixture_batch(&f, 0);
        CHECK_OK(gpt_chunk_forward(&f.chunks[0], 0, NULL, NULL, f.tokens, f.targets, &loss));
        CHECK_OK(gpt_chunk_backward(&f.chunks[0], 0, NULL, NULL, 1 / (float)shape.tokens));
        CHECK_NEAR(loss / (double)shape.tokens, want, 2e-6);
        for (size_t i = 0; i < f.chunks[0].param_count; i++)
            worst = fmax(worst, check_param(file, &f));
        test_note("%s: largest distance of a gradient %.2g", name, worst);
        fixture_close(&f);
    }
    CHECK_INT(cases, 3);
    fclose(file);
}
