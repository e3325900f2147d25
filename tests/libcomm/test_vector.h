/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of vectors share: random elements of every kind. */
#ifndef WEFT_TESTS_LIBCOMM_TEST_VECTOR_H
#define WEFT_TESTS_LIBCOMM_TEST_VECTOR_H
#include "base/dtype.h"
#include "device/vector.h"
#include "harness/values.h"

#define COUNT_OF(array) ((int)(sizeof(array) / sizeof *(array)))

static const weft_dtype floating_types[] = {WEFT_FP32, WEFT_BF16, WEFT_FP16, WEFT_FP64};

/* A generator of 64 random bits (xorshift64*). */
static inline uint64_t random_bits(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 0x2545f4914f6cdd1du;
}

/* In [0, limit). */
static inline size_t random_below(uint64_t *state, size_t limit)
{
    return (size_t)((random_bits(state) >> 20) % limit);
}

/* Any bits at all, or near 1, or small whole numbers, or zero. */
static inline void random_elements(void *array, size_t count, weft_dtype dtype, uint64_t seed)
{
    uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
    for (size_t i = 0; i < count; i++) {
        uint64_t bits = random_bits(&state), kind = random_bits(&state) >> 61;
        double sign = bits & 1 ? -1 : 1;
        if (kind < 3 || !weft__is_floating(dtype))
            put_bits(array, i, dtype, bits);
        else if (kind < 6)
            put_value(array, i, dtype, sign * ldexp((double)(bits >> 11), -53) * ldexp(1, (int)(bits >> 1 & 7) - 4));
        else
            put_value(array, i, dtype, kind == 6 ? sign * (double)(bits >> 1 & 255) : sign * 0.0);
    }
}

/* Random, but finite, and of any magnitude up to 2^limit or down to 2^-limit. */
static inline void random_finite(void *array, size_t count, weft_dtype dtype, int limit, uint64_t seed)
{
    uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
    for (size_t i = 0; i < count; i++) {
        uint64_t bits = random_bits(&state);
        double sign = bits & 1 ? -1 : 1;
        int exponent = (int)random_below(&state, 2 * (size_t)limit) - limit;
        put_value(array, i, dtype, sign * ldexp(1 + ldexp((double)(bits >> 12), -52), exponent));
    }
}

#endif
