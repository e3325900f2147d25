/* SPDX-License-Identifier: Apache-2.0 */
/* Elements as bits: integers wrap in 64 bits and are cut, floating ones go through fp32 or fp64. */
#include "perf/element.h"

#include <math.h>
#include <string.h>

/* Fraction bits and least exponent of the types that are kept in less than C's float. */
typedef struct half {
    int fraction, bias;
} half;
static const half bf16 = {7, 127}, fp16 = {10, 15};

static double number_of(half h, uint64_t bits)
{
    int exponent_bits = 15 - h.fraction;
    int exponent = (int)(bits >> h.fraction & ((1u << exponent_bits) - 1));
    double fraction = (double)(bits & ((1u << h.fraction) - 1)) / (double)(1u << h.fraction);
    double sign = bits >> 15 & 1 ? -1 : 1;
    if (exponent == (1 << exponent_bits) - 1)
        return fraction != 0 ? NAN : sign * INFINITY;
    return sign * (exponent ? ldexp(1 + fraction, exponent - h.bias) : ldexp(fraction, 1 - h.bias));
}

/* Rounded to nearest even. */
static uint64_t bits_of(half h, double number)
{
    uint64_t sign = signbit(number) ? 1u << 15 : 0, infinity = ((1u << (15 - h.fraction)) - 1) << h.fraction;
    double size = fabs(number);
    if (isnan(number))
        return infinity | 1;
    if (isinf(size) || size == 0)
        return sign | (size == 0 ? 0 : infinity);
    int exponent;
    frexp(size, &exponent); /* size < 2^exponent */
    int power = exponent - 1 < 1 - h.bias ? 1 - h.bias : exponent - 1;
    double units = nearbyint(ldexp(size, h.fraction - power)); /* a carry goes into the exponent by itself */
    uint64_t bits = (uint64_t)units + ((uint64_t)(power + h.bias - 1) << h.fraction);
    return sign | (bits < infinity ? bits : infinity);
}

perf_element perf_element_of(weft_dtype dtype, double number)
{
    perf_element element = 0;
    float single = (float)number;
    switch (dtype) {
    case WEFT_FP32:
        memcpy(&element, &single, sizeof single);
        return element;
    case WEFT_FP64:
        memcpy(&element, &number, sizeof number);
        return element;
    case WEFT_BF16:
        return bits_of(bf16, number);
    case WEFT_FP16:
        return bits_of(fp16, number);
    case WEFT_INT32:
        return (uint32_t)(int32_t)number;
    case WEFT_INT64:
        return (uint64_t)(int64_t)number;
    case WEFT_UINT8:
        return (uint8_t)number;
    }
    return 0;
}

double perf_element_number(weft_dtype dtype, perf_element element)
{
    float single;
    double number;
    switch (dtype) {
    case WEFT_FP32:
        memcpy(&single, &element, sizeof single);
        return (double)single;
    case WEFT_FP64:
        memcpy(&number, &element, sizeof number);
        return number;
    case WEFT_BF16:
        return number_of(bf16, element);
    case WEFT_FP16:
        return number_of(fp16, element);
    case WEFT_INT32:
        return (int32_t)(uint32_t)element;
    case WEFT_INT64:
        return (double)(int64_t)element;
    case WEFT_UINT8:
        return (uint8_t)element;
    }
    return NAN;
}

double perf_element_epsilon(weft_dtype dtype)
{
    static const double epsilon[WEFT_DTYPES] = {
        [WEFT_FP32] = 0x1p-24, [WEFT_FP64] = 0x1p-53, [WEFT_BF16] = 0x1p-8, [WEFT_FP16] = 0x1p-11};
    return epsilon[dtype];
}

/* Partial results of 16-bit types are fp32, as those of fp32. */
static double combine(weft_dtype dtype, weft_reduction reduction, double a, double b)
{
    double result = a;
    if (reduction == WEFT_MIN || reduction == WEFT_MAX)
        return (reduction == WEFT_MIN ? b < a : b > a) ? b : a;
    if (dtype == WEFT_FP64)
        result = reduction == WEFT_PRODUCT ? a * b : a + b;
    else /* the fp64 result of two fp32 rounds to what fp32 arithmetic gives */
        result = (double)(float)(reduction == WEFT_PRODUCT ? a * b : a + b);
    return result;
}

static perf_element reduce_floating(weft_dtype dtype, weft_reduction reduction, const perf_element *elements, int count)
{
    double result = perf_element_number(dtype, elements[0]);
    for (int r = 1; r < count; r++)
        result = combine(dtype, reduction, result, perf_element_number(dtype, elements[r]));
    if (reduction == WEFT_AVERAGE)
        result = dtype == WEFT_FP64 ? result / count : (double)((float)result / (float)count);
    return perf_element_of(dtype, result);
}

static perf_element reduce_integers(weft_dtype dtype, weft_reduction reduction, const perf_element *elements, int count)
{
    perf_element result = elements[0];
    for (int r = 1; r < count; r++) {
        perf_element e = elements[r];
        bool less = perf_element_number(dtype, e) < perf_element_number(dtype, result);
        bool more = perf_element_number(dtype, e) > perf_element_number(dtype, result);
        if (reduction == WEFT_MIN || reduction == WEFT_MAX)
            result = (reduction == WEFT_MIN ? less : more) ? e : result;
        else
            result = reduction == WEFT_PRODUCT ? result * e : result + e;
    }
    size_t bits = 8 * weft_dtype_bytes(dtype);
    return bits < 64 ? result & (((perf_element)1 << bits) - 1) : result;
}

perf_element perf_element_reduce(weft_dtype dtype, weft_reduction reduction, const perf_element *elements, int count)
{
    return perf_element_epsilon(dtype) > 0 ? reduce_floating(dtype, reduction, elements, count)
                                           : reduce_integers(dtype, reduction, elements, count);
}
