/* SPDX-License-Identifier: Apache-2.0 */
/* The list of parameters of every part of the model, and their first values. */
#include <stdlib.h>

#include "fixture.h"
#include "gpt/params.h"
#include "gpt/random.h"
#include "harness/test.h"

static gpt_shape complete(gpt_shape shape)
{
    gpt_failure failure;
    CHECK_MSG(gpt_shape_complete(&shape, &failure) == 0, "%s", failure.text);
    return shape;
}

static void check_names(const gpt_param *params, size_t count, const char *const *names)
{
    size_t i = 0;
    for (; names[i]; i++)
        CHECK_STR(i < count ? params[i].name : "nothing", names[i]);
    CHECK_INT(count, i);
}

TEST(parameters_are_listed_in_the_order_of_the_forward)
{
    gpt_shape s = fixture_shape();
    gpt_param params[32];
    s.layers = 1;
    s = complete(s);
    size_t count = gpt_params_list(&s, 0, 1, true, true, params);
    check_names(params, count,
                (const char *const[]){"embedding", "layers.0.attention.norm", "layers.0.attention.qkv",
                                      "layers.0.attention.output", "layers.0.mlp.norm", "layers.0.mlp.gate_up",
                                      "layers.0.mlp.down", "final_norm", "output", NULL});
    CHECK_INT(gpt_params_list(&s, 0, 1, true, true, NULL), count);
    CHECK(!params[0].tied && params[0].decays && !params[1].decays && !params[7].decays);
    size_t elements = 0;
    for (size_t i = 0; i < count; i++)
        elements += params[i].count;
    CHECK_INT(elements, gpt_shape_parameters(&s));
}

TEST(a_tied_embedding_is_on_both_ends_or_once_with_two_contributions)
{
    gpt_shape s = fixture_shape();
    gpt_param params[32];
    s.layers = 4;
    s.tied = true;
    s = complete(s);
    size_t count = gpt_params_list(&s, 0, 4, true, true, params);
    CHECK_STR(params[count - 1].name, "final_norm");
    CHECK(!params[0].tied);
    CHECK_INT(params[0].contributions, 2);
    count = gpt_params_list(&s, 0, 2, true, false, params);
    CHECK(count == 13 && params[0].tied && params[0].contributions == 1);
    count = gpt_params_list(&s, 2, 2, false, true, params);
    check_names(params, count,
                (const char *const[]){"layers.2.attention.norm", "layers.2.attention.qkv", "layers.2.attention.output",
                                      "layers.2.mlp.norm", "layers.2.mlp.gate_up", "layers.2.mlp.down",
                                      "layers.3.attention.norm", "layers.3.attention.qkv", "layers.3.attention.output",
                                      "layers.3.mlp.norm", "layers.3.mlp.gate_up", "layers.3.mlp.down", "final_norm",
                                      "embedding", NULL});
    CHECK(params[13].tied && params[13].contributions == 1);
}

TEST(only_norms_are_summed_over_sequence_parallel_ranks)
{
    gpt_shape s = fixture_shape();
    gpt_param params[32];
    s.tensor = 2;
    s.sequence_parallel = true;
    s = complete(s);
    size_t count = gpt_params_list(&s, 0, 2, true, true, params);
    for (size_t i = 0; i < count; i++) {
        bool norm = strstr(params[i].name, "norm") != NULL;
        CHECK_MSG(params[i].summed == norm && params[i].sharded == !norm, "%s", params[i].name);
    }
    s.sequence_parallel = false;
    s = complete(s);
    gpt_params_list(&s, 0, 2, true, true, params);
    CHECK(!params[1].summed && !params[1].sharded);
}

/* Every element of every rank's part, against the whole tensor made at once. */
static void check_shards(const gpt_param *p, const float *whole, size_t ranks)
{
    size_t rows = p->rows / ranks;
    float *shard = malloc(p->count * sizeof *shard);
    for (size_t rank = 0; rank < ranks; rank++) {
        gpt_param_fill(p, 9, rank, ranks, shard);
        for (size_t i = 0; i < p->count; i++) {
            size_t part = i / p->columns / rows, row = rank * rows + i / p->columns % rows;
            float want = row < p->filled_rows ? whole[(part * p->rows + row) * p->columns + i % p->columns] : 0;
            CHECK_MSG(shard[i] == want, "%s: element %zu of rank %zu is %g, not %g", p->name, i, rank, (double)shard[i],
                      (double)want);
        }
    }
    free(shard);
}

TEST(every_layout_gives_an_element_the_same_first_value)
{
    for (size_t ranks = 1; ranks <= 4; ranks *= 2) {
        gpt_shape s = fixture_shape();
        gpt_param params[32];
        s.groups = 4;
        s.vocabulary = 27;
        s.tensor = ranks;
        s = complete(s);
        size_t count = gpt_params_list(&s, 0, 2, true, true, params);
        for (size_t i = 0; i < count; i++) {
            const gpt_param *p = &params[i];
            size_t elements = p->parts * p->rows * p->columns;
            float *whole = malloc(elements * sizeof *whole);
            gpt_random_normal(gpt_random_stream(9, p->name), 0, elements, p->deviation, whole);
            if (p->sharded)
                check_shards(p, whole, ranks);
            free(whole);
        }
    }
}

TEST(first_values_have_the_deviation_that_is_asked_for_and_norms_are_one)
{
    gpt_shape s = fixture_shape();
    gpt_param params[32];
    s.hidden = 256;
    s.ffn = 256;
    s.init_deviation = 0.02f;
    s = complete(s);
    size_t count = gpt_params_list(&s, 0, 2, true, true, params);
    float *values = malloc(2 * 256 * 256 * sizeof *values);
    for (size_t i = 0; i < count; i++) {
        const gpt_param *p = &params[i];
        bool residual = strstr(p->name, "down") || strstr(p->name, "attention.output");
        double square = 0, want = strstr(p->name, "norm") ? 1 : residual ? 0.02 / 2 : 0.02;
        gpt_param_fill(p, 9, 0, 1, values);
        for (size_t k = 0; k < p->count; k++)
            square += (double)values[k] * (double)values[k];
        double filled = (double)(p->count / p->rows * p->filled_rows);
        CHECK_MSG(fabs(sqrt(square / filled) - want) < 0.05 * want, "%s: %g, not %g", p->name, sqrt(square / filled),
                  want);
    }
    free(values);
}
