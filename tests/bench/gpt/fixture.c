/* SPDX-License-Identifier: Apache-2.0 */
/* The shape, weights, tokens and memory of the small GPT that tests look into. */
#include "fixture.h"

#include <stdlib.h>

#include "gpt/host/device.h"
#include "gpt/random.h"
#include "harness/test.h"

gpt_shape fixture_shape(void)
{
    return (gpt_shape){.layers = 2,
                       .hidden = 8,
                       .ffn = 12,
                       .heads = 4,
                       .groups = 2,
                       .channels = 4,
                       .sequence = 6,
                       .vocabulary = 11,
                       .vocabulary_multiple = 4,
                       .micro_batch = 2,
                       .norm_epsilon = 1e-5f,
                       .rotary_base = 100,
                       .init_deviation = 0.3f,
                       .tensor = 1,
                       .pipeline = 1,
                       .virtual_stages = 1};
}

static void *allocate(size_t bytes)
{
    void *memory = aligned_alloc(256, (bytes + 255) / 256 * 256 + 256);
    CHECK(memory);
    return memset(memory, 0, bytes);
}

static void fill(fixture *f, gpt_param *p)
{
    enum { SEED = 5 };
    float *values = allocate(p->count * sizeof *values);
    gpt_param_fill(p, SEED, f->model.tp.rank, f->model.tp.ranks, values);
    if (p->deviation == 0) {
        gpt_random_normal(gpt_random_stream(SEED, p->name), 0, p->count, 0.25, values);
        for (size_t i = 0; i < p->count; i++)
            values[i] += 1;
    }
    f->device->ops->convert(f->device, p->count, values, WEFT_FP32, p->value, f->shape.dtype);
    free(values);
}

static void place_params(fixture *f)
{
    size_t element = weft_dtype_bytes(f->shape.dtype), at = 0;
    for (int c = 0; c < f->chunk_count; c++)
        for (size_t i = 0; i < f->chunks[c].param_count; i++)
            f->param_elements += f->chunks[c].params[i].count;
    f->values = allocate(f->param_elements * element);
    f->grads = allocate(f->param_elements * sizeof *f->grads);
    for (int c = 0; c < f->chunk_count; c++)
        for (size_t i = 0; i < f->chunks[c].param_count; i++) {
            gpt_param *p = &f->chunks[c].params[i];
            p->value = (char *)f->values + at * element;
            p->grad = f->grads + at;
            at += p->count;
            fill(f, p);
        }
}

void fixture_open(fixture *f, gpt_shape shape, weft_comm *comm, size_t stage, size_t slots)
{
    fixture_open_with(f, shape, true, comm, stage, slots);
}

void fixture_open_with(fixture *f, gpt_shape shape, bool bf16, weft_comm *comm, size_t stage, size_t slots)
{
    gpt_failure failure = {0};
    *f = (fixture){.shape = shape, .chunk_count = (int)shape.virtual_stages};
    CHECK_MSG(gpt_host_open_with(&shape, bf16, &f->device, &failure) == 0, "%s", failure.text);
    gpt_model_open(&f->model, &shape, f->device, comm);
    for (int c = 0; c < f->chunk_count; c++)
        CHECK(gpt_chunk_open(&f->chunks[c], &f->model, (size_t)c * shape.pipeline + stage, slots, &failure) == 0);
    gpt_arena arena = {0};
    for (int pass = 0; pass < 2; pass++) {
        gpt_model_place(&f->model, &arena);
        for (int c = 0; c < f->chunk_count; c++)
            gpt_chunk_place(&f->chunks[c], &arena);
        if (pass == 0) {
            f->memory = allocate(arena.used_bytes);
            memset(f->memory, 0xff, arena.used_bytes); /* NaN: nothing may count on zeros */
            arena = (gpt_arena){.memory = f->memory};
        }
    }
    place_params(f);
    f->tokens = allocate(shape.tokens * sizeof *f->tokens);
    f->targets = allocate(shape.tokens * sizeof *f->targets);
}

void fixture_close(fixture *f)
{
    for (int c = 0; c < f->chunk_count; c++)
        gpt_chunk_close(&f->chunks[c]);
    f->device->ops->close(f->device);
    free(f->memory);
    free(f->values);
    free(f->grads);
    free(f->tokens);
    free(f->targets);
}

void fixture_clear_grads(fixture *f)
{
    memset(f->grads, 0, f->param_elements * sizeof *f->grads);
}

void fixture_batch(fixture *f, int number)
{
    for (size_t i = 0; i < f->shape.tokens; i++) {
        size_t n = i + (size_t)number * f->shape.tokens;
        f->tokens[i] = (int32_t)((7 * n * n + 3 * n + 5) % f->shape.vocabulary);
        f->targets[i] = (int32_t)((5 * n * n + n + 2) % f->shape.vocabulary);
    }
}

gpt_param *fixture_find(fixture *f, const char *name)
{
    for (int c = 0; c < f->chunk_count; c++)
        for (size_t i = 0; i < f->chunks[c].param_count; i++)
            if (strcmp(f->chunks[c].params[i].name, name) == 0)
                return &f->chunks[c].params[i];
    return NULL;
}

double relative_distance(const float *a, const double *b, size_t count)
{
    double apart = 0, length = 0;
    for (size_t i = 0; i < count; i++) {
        apart += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        length += b[i] * b[i];
    }
    return sqrt(apart) / sqrt(length);
}
