/* SPDX-License-Identifier: Apache-2.0 */
/* Sums over rows in sixteen lanes, folded in one order: the same result from every instruction set. */
#ifndef WEFT_BENCH_GPT_HOST_LANES_H
#define WEFT_BENCH_GPT_HOST_LANES_H
#include <stddef.h>
#include <string.h>

enum { LANES = 16 };
typedef float lanes __attribute__((vector_size(LANES * sizeof(float)), aligned(4), may_alias));

static inline lanes lanes_at(const float *values)
{
    return *(const lanes *)values;
}

/* The first @p count < LANES of @p values; the other lanes are @p rest. */
static inline lanes lanes_part(const float *values, size_t count, float rest)
{
    float part[LANES];
    for (size_t i = 0; i < LANES; i++)
        part[i] = i < count ? values[i] : rest;
    return lanes_at(part);
}

static inline float lanes_sum(const lanes *sum)
{
    float part[LANES];
    memcpy(part, sum, sizeof part);
    for (size_t width = LANES / 2; width > 0; width /= 2)
        for (size_t i = 0; i < width; i++)
            part[i] += part[i + width];
    return part[0];
}

static inline float row_sum(const float *a, size_t count)
{
    lanes sum = {0};
    size_t i = 0;
    for (; i + LANES <= count; i += LANES)
        sum += lanes_at(a + i);
    if (i < count)
        sum += lanes_part(a + i, count - i, 0);
    return lanes_sum(&sum);
}

static inline float row_dot(const float *a, const float *b, size_t count)
{
    lanes sum = {0};
    size_t i = 0;
    for (; i + LANES <= count; i += LANES)
        sum += lanes_at(a + i) * lanes_at(b + i);
    if (i < count)
        sum += lanes_part(a + i, count - i, 0) * lanes_part(b + i, count - i, 0);
    return lanes_sum(&sum);
}

/* The sum of a b c. */
static inline float row_dot3(const float *a, const float *b, const float *c, size_t count)
{
    lanes sum = {0};
    size_t i = 0;
    for (; i + LANES <= count; i += LANES)
        sum += lanes_at(a + i) * lanes_at(b + i) * lanes_at(c + i);
    if (i < count)
        sum += lanes_part(a + i, count - i, 0) * lanes_part(b + i, count - i, 0) * lanes_part(c + i, count - i, 0);
    return lanes_sum(&sum);
}

/* The largest of @p a and of @p least. */
static inline float row_max(const float *a, size_t count, float least)
{
    float best[LANES];
    for (size_t j = 0; j < LANES; j++)
        best[j] = least;
    size_t i = 0;
    for (; i + LANES <= count; i += LANES)
        for (size_t j = 0; j < LANES; j++)
            best[j] = a[i + j] > best[j] ? a[i + j] : best[j];
    for (; i < count; i++)
        best[0] = a[i] > best[0] ? a[i] : best[0];
    for (size_t j = 1; j < LANES; j++)
        best[0] = best[j] > best[0] ? best[j] : best[0];
    return best[0];
}

#endif
