/* SPDX-License-Identifier: Apache-2.0 */
/* Inputs and results of collectives, one element at a time. */
#include "perf/conform/values.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------- bits and numbers */

conform_bits conform_load(const unsigned char *at, weft_dtype dtype)
{
    conform_bits bits = 0;
    memcpy(&bits, at, weft_dtype_bytes(dtype)); /* hosts are little-endian */
    return bits;
}

void conform_store(unsigned char *at, weft_dtype dtype, conform_bits bits)
{
    memcpy(at, &bits, weft_dtype_bytes(dtype));
}

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static double half_to_double(uint32_t bits)
{
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    double magnitude = exponent == 31  ? (fraction ? NAN : INFINITY)
                       : exponent == 0 ? ldexp(fraction, -24)
                                       : ldexp(1024 + fraction, exponent - 25);
    return bits & 0x8000 ? -magnitude : magnitude;
}

static uint32_t half_of(double value)
{
    uint32_t sign = signbit(value) ? 0x8000 : 0;
    double magnitude = fabs(value);
    if (isnan(value))
        return 0x7e00;
    if (magnitude >= 65520)
        return sign | 0x7c00;
    int exponent = -14;
    (void)frexp(magnitude, &exponent);
    exponent = magnitude == 0 || exponent - 1 < -14 ? -14 : exponent - 1;
    double ulps = rint(ldexp(magnitude, 10 - exponent)); /* 1024 and more are normal; a carry goes up */
    return sign | (uint32_t)((exponent + 14) * 1024 + (int)ulps);
}

static uint32_t bfloat_of(float value)
{
    uint32_t bits = bits_of(value), below = bits & 0xffff, kept = bits >> 16;
    if (isnan(value))
        return 0x7fc0;
    return below > 0x8000 || (below == 0x8000 && kept & 1) ? kept + 1 : kept;
}

static bool is_integer(weft_dtype dtype)
{
    return dtype == WEFT_INT32 || dtype == WEFT_INT64 || dtype == WEFT_UINT8;
}

static double number_of(weft_dtype dtype, conform_bits bits)
{
    double wide;
    switch (dtype) {
    case WEFT_FP32:
        return float_of((uint32_t)bits);
    case WEFT_BF16:
        return float_of((uint32_t)bits << 16);
    case WEFT_FP16:
        return half_to_double((uint32_t)bits);
    default:
        memcpy(&wide, &bits, sizeof wide);
        return wide;
    }
}

/* A value that fp32 holds, but for fp64. */
static conform_bits round_to(weft_dtype dtype, double value)
{
    conform_bits bits;
    switch (dtype) {
    case WEFT_FP32:
        return bits_of((float)value);
    case WEFT_BF16:
        return bfloat_of((float)value);
    case WEFT_FP16:
        return half_of(value);
    default:
        memcpy(&bits, &value, sizeof bits);
        return bits;
    }
}

/* ------------------------------------------------------------------------------------------- inputs */

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* Of either sign, from 2^-@p binades to 2^(@p binades + 1), with every bit of the fraction in use: the order of a sum
 * shows. */
static double spread(uint64_t random, int binades)
{
    double fraction = 1 + (double)(random & 0xfffffffffffffu) * 0x1p-52;
    int exponent = (int)(random >> 52 & 0xff) % (2 * binades + 1) - binades;
    return ldexp(random >> 63 ? -fraction : fraction, exponent);
}

conform_bits conform_value(const conform_values *v, int rank, size_t index)
{
    uint64_t random = mix(v->seed + mix((uint64_t)rank << 48 ^ index % CONFORM_PERIOD));
    size_t bytes = weft_dtype_bytes(v->dtype);
    if (!v->reduces || is_integer(v->dtype))
        return bytes == 8 ? random : random & (((uint64_t)1 << 8 * bytes) - 1);
    bool extreme = v->reduction == WEFT_MIN || v->reduction == WEFT_MAX;
    if (extreme && mix(random) % 64 == 0)
        return round_to(v->dtype, NAN);
    double value = spread(random, v->reduction == WEFT_PRODUCT ? 1 : 6);
    return round_to(v->dtype, v->dtype == WEFT_FP64 ? value : (float)value);
}

/* ------------------------------------------------------------------------------------------- integers: exact */

static int64_t sign_extended(weft_dtype dtype, conform_bits bits)
{
    return dtype == WEFT_INT32 ? (int64_t)(int32_t)(uint32_t)bits : (int64_t)bits;
}

static conform_bits combine_integers(weft_dtype dtype, weft_reduction reduction, conform_bits a, conform_bits b)
{
    bool less = sign_extended(dtype, a) < sign_extended(dtype, b);
    switch (reduction) {
    case WEFT_MIN:
        return less ? a : b;
    case WEFT_MAX:
        return less ? b : a;
    case WEFT_PRODUCT:
        return a * b;
    default:
        return a + b;
    }
}

static conform_bits integer_result(const conform_values *v, size_t index)
{
    size_t bytes = weft_dtype_bytes(v->dtype);
    conform_bits mask = bytes == 8 ? UINT64_MAX : ((uint64_t)1 << 8 * bytes) - 1;
    conform_bits result = conform_value(v, 0, index);
    for (int r = 1; r < v->ranks; r++)
        result = combine_integers(v->dtype, v->reduction, result, conform_value(v, r, index)) & mask;
    return result;
}

/* ------------------------------------------------------------------------------------------- in rank order */

static double combine(weft_reduction reduction, double a, double b)
{
    switch (reduction) {
    case WEFT_MIN:
        return isnan(a) || isnan(b) ? NAN : a < b ? a : b;
    case WEFT_MAX:
        return isnan(a) || isnan(b) ? NAN : a > b ? a : b;
    case WEFT_PRODUCT:
        return a * b;
    default:
        return a + b;
    }
}

/* fp64 in itself, the others in fp32 (fp64 of two fp32, rounded to fp32, is what fp32 gives), rounded once more at the
 * end. */
static conform_bits ordered_result(const conform_values *v, size_t index)
{
    bool wide = v->dtype == WEFT_FP64;
    double result = number_of(v->dtype, conform_value(v, 0, index));
    for (int r = 1; r < v->ranks; r++) {
        result = combine(v->reduction, result, number_of(v->dtype, conform_value(v, r, index)));
        result = wide ? result : (double)(float)result;
    }
    if (v->reduction == WEFT_AVERAGE)
        result = wide ? result / v->ranks : (double)(float)(result / v->ranks);
    return round_to(v->dtype, result);
}

/* ------------------------------------------------------------------------------------------- in any order */

static bool is_near(const conform_values *v, size_t index, double got)
{
    static const double own_ulp[WEFT_DTYPES] = {
        [WEFT_FP32] = 0x1p-24, [WEFT_BF16] = 0x1p-8, [WEFT_FP16] = 0x1p-11, [WEFT_FP64] = 0x1p-53};
    double ulp = v->dtype == WEFT_FP64 ? 0x1p-53 : 0x1p-24; /* of every step; the last is of the type's own */
    long double result = v->reduction == WEFT_PRODUCT, sizes = result;
    for (int r = 0; r < v->ranks; r++) {
        long double value = number_of(v->dtype, conform_value(v, r, index));
        result = v->reduction == WEFT_PRODUCT ? result * value : result + value;
        sizes = v->reduction == WEFT_PRODUCT ? fabsl(result) : sizes + fabsl(value);
    }
    long double divisor = v->reduction == WEFT_AVERAGE ? v->ranks : 1;
    long double steps = (long double)(v->ranks + 1) * 1.01L;
    long double smallest = v->dtype == WEFT_FP16 ? 0x1p-25 : 0; /* half of the distance of subnormals */
    long double far = (steps * ulp * sizes + own_ulp[v->dtype] * 1.01L * fabsl(result)) / divisor + smallest;
    return fabsl((long double)got - result / divisor) <= far;
}

bool conform_is_right(const conform_values *v, size_t index, conform_bits got, conform_bits *want_out)
{
    bool integer = is_integer(v->dtype), rounds = v->reduction != WEFT_MIN && v->reduction != WEFT_MAX;
    *want_out = integer ? integer_result(v, index) : ordered_result(v, index);
    if (got == *want_out)
        return true;
    if (integer)
        return false;
    double got_number = number_of(v->dtype, got);
    if (isnan(number_of(v->dtype, *want_out)))
        return isnan(got_number);
    return !v->ordered && rounds && is_near(v, index, got_number);
}
