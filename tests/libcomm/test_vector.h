/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of vectors share: arithmetic on single elements the slow way, written from the definitions of the
 * formats, and random elements of every kind. */
#ifndef WEFT_TESTS_LIBCOMM_TEST_VECTOR_H
#define WEFT_TESTS_LIBCOMM_TEST_VECTOR_H
#include <weft/dtype.h>

#include "base/dtype.h"
#include "device/vector.h"
#include "harness/test.h"

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

typedef struct format {
    int exponent_bits, fraction_bits;
} format;

static inline format format_of(weft_dtype dtype)
{
    static const format formats[WEFT_DTYPES] = {
        [WEFT_FP32] = {8, 23}, [WEFT_BF16] = {8, 7}, [WEFT_FP16] = {5, 10}, [WEFT_FP64] = {11, 52}};
    CHECK_MSG(formats[dtype].exponent_bits, "%s has no format here", weft_dtype_string(dtype));
    return formats[dtype];
}

/* The value that IEEE 754 gives these bits. */
static inline double value_of_bits(uint64_t bits, format f)
{
    int bias = (1 << (f.exponent_bits - 1)) - 1;
    int exponent = (int)(bits >> f.fraction_bits) & ((1 << f.exponent_bits) - 1);
    double fraction = (double)(bits & ((1ull << f.fraction_bits) - 1));
    double sign = bits >> (f.exponent_bits + f.fraction_bits) & 1 ? -1 : 1;
    if (exponent == (1 << f.exponent_bits) - 1)
        return fraction != 0 ? (double)NAN : sign * (double)INFINITY;
    if (exponent == 0)
        return sign * ldexp(fraction, 1 - bias - f.fraction_bits);
    return sign * ldexp(fraction + ldexp(1, f.fraction_bits), exponent - bias - f.fraction_bits);
}

/* The bits of the value of this format that is nearest, of two such the even one. */
static inline uint64_t bits_of_value(double value, format f)
{
    int bias = (1 << (f.exponent_bits - 1)) - 1;
    uint64_t infinity = ((1ull << f.exponent_bits) - 1) << f.fraction_bits;
    uint64_t sign = (uint64_t)(signbit(value) != 0) << (f.exponent_bits + f.fraction_bits);
    if (isnan(value))
        return infinity | 1ull << (f.fraction_bits - 1);
    if (isinf(value))
        return sign | infinity;
    int exponent;
    frexp(value, &exponent);
    exponent = value == 0 || exponent - 1 < 1 - bias ? 1 - bias : exponent - 1;
    double ulps = rint(ldexp(fabs(value), f.fraction_bits - exponent)); /* scaling is exact; rint rounds to even */
    uint64_t whole = 1ull << f.fraction_bits;
    uint64_t bits = ((uint64_t)(exponent + bias) << f.fraction_bits) + (uint64_t)ulps - whole;
    return sign | (bits < infinity ? bits : infinity);
}

static inline uint64_t bits_at(const void *array, size_t i, weft_dtype dtype)
{
    uint64_t bits = 0;
    size_t bytes = weft_dtype_bytes(dtype);
    memcpy(&bits, (const char *)array + i * bytes, bytes);
    return bits;
}

static inline void put_bits(void *array, size_t i, weft_dtype dtype, uint64_t bits)
{
    size_t bytes = weft_dtype_bytes(dtype);
    memcpy((char *)array + i * bytes, &bits, bytes);
}

static inline double value_at(const void *array, size_t i, weft_dtype dtype)
{
    return value_of_bits(bits_at(array, i, dtype), format_of(dtype));
}

static inline void put_value(void *array, size_t i, weft_dtype dtype, double value)
{
    put_bits(array, i, dtype, bits_of_value(value, format_of(dtype)));
}

/* The same bits, or both NaN. */
static inline bool same_element(const void *a, size_t i, const void *b, size_t j, weft_dtype dtype)
{
    uint64_t x = bits_at(a, i, dtype), y = bits_at(b, j, dtype);
    return x == y || (weft__is_floating(dtype) && isnan(value_of_bits(x, format_of(dtype))) &&
                      isnan(value_of_bits(y, format_of(dtype))));
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
