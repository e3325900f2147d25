/* SPDX-License-Identifier: Apache-2.0 */
/* The weights of a part as a whole: their first values, and a number by which two sets of weights are told apart. */
#include <stdlib.h>

#include "gpt/math/bf16.h"
#include "gpt/part.h"
#include "gpt/random.h"

static size_t largest(const gpt_chunk *chunk)
{
    size_t count = 0;
    for (size_t i = 0; i < chunk->param_count; i++)
        count = chunk->params[i].count > count ? chunk->params[i].count : count;
    return count;
}

/* In place, to what a parameter is. */
static void round_values(float *values, size_t count, weft_dtype dtype)
{
    uint16_t *rounded = (uint16_t *)(void *)values;
    for (size_t i = 0; i < count && dtype == WEFT_BF16; i++)
        rounded[i] = math_float_to_bf16(values[i]);
}

int gpt_part_fill(gpt_part *part, uint64_t seed, gpt_failure *failure)
{
    gpt_chunk *chunk = &part->chunk;
    gpt_device *device = chunk->model->device;
    float *values = malloc(largest(chunk) * sizeof *values);
    if (!values)
        return gpt_fail(failure, EXIT_FAILED, "no memory for the first values of %zu weights", largest(chunk));
    for (size_t i = 0; i < chunk->param_count; i++) {
        gpt_param *p = &chunk->params[i];
        gpt_param_fill(p, seed, chunk->model->tp.rank, chunk->model->tp.ranks, values);
        round_values(values, p->count, device->parameter);
        device->ops->bring(device, p->count * weft_dtype_bytes(device->parameter), values, p->value);
    }
    free(values);
    return 0;
}

/* Spread a number over all 64 bits (the finalizer of SplitMix64). */
static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static uint64_t bits_at(const void *values, size_t i, size_t element_bytes)
{
    switch (element_bytes) {
    case 8:
        return ((const uint64_t *)values)[i];
    case 4:
        return ((const uint32_t *)values)[i];
    case 2:
        return ((const uint16_t *)values)[i];
    default:
        return ((const uint8_t *)values)[i];
    }
}

/* Rows that are padding are in no whole tensor. */
static uint64_t hash_values(const gpt_param *p, const gpt_model *model, const void *values)
{
    gpt_random stream = gpt_random_stream(0, p->name);
    uint64_t key = (uint64_t)stream.key[1] << 32 | stream.key[0], sum = 0;
    size_t element_bytes = weft_dtype_bytes(model->device->parameter);
    size_t rows = p->count / (p->parts * p->columns), first_row = p->sharded ? model->tp.rank * rows : 0, i = 0;
    for (size_t part = 0; part < p->parts; part++)
        for (size_t row = first_row; row < first_row + rows; row++)
            for (size_t column = 0; column < p->columns; column++, i++)
                if (row < p->filled_rows)
                    sum += mix(mix(key + (part * p->rows + row) * p->columns + column) +
                               bits_at(values, i, element_bytes));
    return sum;
}

weft_result gpt_part_hash(const gpt_part *part, bool once, uint64_t *hash_out)
{
    gpt_device *device = part->chunk.model->device;
    size_t element_bytes = weft_dtype_bytes(device->parameter);
    void *values = malloc(largest(&part->chunk) * element_bytes);
    *hash_out = 0;
    if (!values)
        return WEFT_E_NO_MEMORY;
    for (size_t i = 0; i < part->chunk.param_count; i++) {
        const gpt_param *p = &part->chunk.params[i];
        bool copy = weft_params_get(part->params, (uint32_t)i)->flags & WEFT_PARAM_COPY;
        if (once && copy)
            continue;
        device->ops->fetch(device, p->count * element_bytes, p->value, values);
        *hash_out += hash_values(p, part->chunk.model, values);
    }
    free(values);
    return WEFT_OK;
}
