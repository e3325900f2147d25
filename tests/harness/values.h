/* SPDX-License-Identifier: Apache-2.0 */
/* Arithmetic on single elements the slow way, written from the definitions of the formats and reductions, and what
 * ranks give to collectives. */
#ifndef WEFT_TESTS_HARNESS_VALUES_H
#define WEFT_TESTS_HARNESS_VALUES_H
#include <stddef.h>
#include <weft/collective.h>
#include <weft/dtype.h>

#include "harness/test.h"

/* ------------------------------------------------------------------------------------------- formats */

typedef struct format {
    int exponent_bits, fraction_bits;
} format;

/* All 0: it holds integers. */
static inline format format_of(weft_dtype dtype)
{
    static const format formats[] = {
        [WEFT_FP32] = {8, 23}, [WEFT_BF16] = {8, 7},  [WEFT_FP16] = {5, 10}, [WEFT_FP64] = {11, 52},
        [WEFT_INT32] = {0, 0}, [WEFT_INT64] = {0, 0}, [WEFT_UINT8] = {0, 0}};
    _Static_assert(sizeof formats / sizeof *formats == WEFT_DTYPES, "each dtype has a row");
    return formats[dtype];
}

static inline bool is_floating(weft_dtype dtype)
{
    return format_of(dtype).exponent_bits != 0;
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
    return x == y || (is_floating(dtype) && isnan(value_of_bits(x, format_of(dtype))) &&
                      isnan(value_of_bits(y, format_of(dtype))));
}

/* Integers as numbers. */
static inline int64_t integer_at(const void *array, size_t i, weft_dtype dtype)
{
    uint64_t bits = bits_at(array, i, dtype);
    return dtype == WEFT_INT32 ? (int64_t)(bits ^ 0x80000000u) - 0x80000000ll : (int64_t)bits;
}

/* ------------------------------------------------------------------------------------------- reductions */

/* One step, rounded to what sums of the type are kept in: fp64, or else fp32. */
double combine_floating(double a, double b, weft_reduction reduction, weft_dtype dtype);
/* One after another; an average is not divided yet. */
double fold_floating(const double *values, int count, weft_reduction reduction, weft_dtype dtype);
double divide_floating(double value, int divisor, weft_dtype dtype);
/* Sums and products are cut to the type when they are stored. */
int64_t fold_integer(const int64_t *values, int count, weft_reduction reduction);

/* ------------------------------------------------------------------------------------------- of ranks */

/* Ranks that lie side by side on machines. */
typedef struct shape {
    int machines, per_machine;
} shape;

/* Element @p i of what rank @p rank sends. Sums of them round, so that another order gives other bits; some are NaN. */
void value_write(void *to, weft_dtype dtype, size_t i, int rank);
/* The reduction of element @p i of all ranks: over those of each machine in their order, then over machines; rounded to
 * the type once. */
void value_reduce(void *to, weft_dtype dtype, weft_reduction reduction, size_t i, shape s);

#endif
