/* SPDX-License-Identifier: Apache-2.0 */
/* Memory for the operations that are timed. It holds random numbers: a GPU multiplies zeros faster. */
#include "gpu/bed.h"

#include <stdlib.h>
#include <string.h>
#include <weft/memory.h>

#include "complain.h"
#include "gpt/device.h"

enum { PATTERN_BYTES = 4 << 20 };

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Tokens from everywhere in the vocabulary. */
static int bring_tokens(gpu_bed *bed, gpt_failure *failure)
{
    size_t count = bed->shape.tokens;
    int32_t *tokens = malloc(count * sizeof *tokens);
    if (!tokens)
        return gpt_fail(failure, EXIT_FAILED, "no memory for %zu tokens", count);
    for (size_t i = 0; i < count; i++)
        tokens[i] = (int32_t)(i * 7919 % bed->shape.vocabulary);
    bed->device->ops->bring(bed->device, count * sizeof *tokens, tokens, bed->tokens);
    int code = gpu_bed_await(bed, failure);
    free(tokens);
    return code;
}

/* bf16 of both signs between 1/64 and 1; as fp32 too, near enough. */
static void fill_pattern(uint16_t *pattern)
{
    uint32_t state = 1;
    for (size_t i = 0; i < PATTERN_BYTES / sizeof *pattern; i++) {
        state = state * 1664525 + 1013904223; /* Numerical Recipes */
        pattern[i] = (uint16_t)((state >> 31) << 15 | (121u + (state >> 24) % 6) << 7 | (state >> 8 & 127));
    }
}

static weft_result allocate(gpu_bed *bed, size_t bytes, const void *pattern, void *pointer)
{
    void *memory;
    weft_result result = weft_memory_alloc_on(bed->world, WEFT_DEVICE_CUDA, bytes, &memory);
    if (result != WEFT_OK)
        return result;
    for (size_t at = 0; pattern && at < bytes; at += PATTERN_BYTES)
        bed->device->ops->bring(bed->device, bytes - at < PATTERN_BYTES ? bytes - at : PATTERN_BYTES, pattern,
                                (char *)memory + at);
    memcpy(pointer, &memory, sizeof memory);
    return WEFT_OK;
}

static weft_result allocate_all(gpu_bed *bed, const void *pattern)
{
    const gpt_shape *s = &bed->shape;
    size_t widest = larger(larger(2 * s->local_ffn, s->qkv_width), larger(s->local_vocabulary, s->hidden));
    size_t element = weft_dtype_bytes(s->dtype), weights = widest * s->hidden;
    const struct {
        void *pointer;
        size_t bytes;
        const void *pattern;
    } parts[] = {
        {&bed->a, s->tokens * widest * element, pattern},
        {&bed->b, s->tokens * widest * element, pattern},
        {&bed->c, s->tokens * larger(s->hidden, s->local_ffn) * element, pattern},
        {&bed->weight, weights * element, pattern},
        {&bed->grad, weights * sizeof(float), NULL},
        {&bed->floats, (2 + s->local_heads) * s->tokens * sizeof(float), NULL},
        {&bed->tokens, s->tokens * sizeof(int32_t), NULL},
        {&bed->total, sizeof(double), NULL},
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        weft_result result = allocate(bed, parts[i].bytes, parts[i].pattern, parts[i].pointer);
        if (result != WEFT_OK)
            return result;
    }
    return WEFT_OK;
}

int gpu_bed_open(gpu_bed *bed, gpt_failure *failure)
{
    const gpt_shape *s = &bed->shape;
    int code = gpt_gpu_open(bed->world, s, &bed->device, failure);
    if (code)
        return code;
    bed->attention = (gpt_attention){s->sequence, s->micro_batch, s->local_groups, s->heads / s->groups, s->channels};
    bed->vocabulary = (gpt_vocabulary){0, s->local_vocabulary, s->vocabulary};
    uint16_t *pattern = malloc(PATTERN_BYTES);
    if (pattern)
        fill_pattern(pattern);
    weft_result result = pattern ? allocate_all(bed, pattern) : WEFT_E_NO_MEMORY;
    if (result == WEFT_OK)
        code = bring_tokens(bed, failure);
    else
        code = gpt_fail(failure, EXIT_FAILED, "no memory for the operations: %s", weft_last_error());
    free(pattern);
    return code;
}

void gpu_bed_close(gpu_bed *bed)
{
    void *const memory[] = {bed->a, bed->b, bed->c, bed->weight, bed->grad, bed->floats, bed->tokens, bed->total};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        weft_memory_free(bed->world, memory[i]);
    if (bed->device)
        bed->device->ops->close(bed->device);
}

int gpu_bed_await(gpu_bed *bed, gpt_failure *failure)
{
    const char *why = "";
    bed->device->ops->fetch(bed->device, 0, NULL, NULL);
    return bed->device->ops->check(bed->device, &why) == WEFT_OK ? 0 : gpt_fail(failure, EXIT_FAILED, "%s", why);
}
