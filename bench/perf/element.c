/* SPDX-License-Identifier: Apache-2.0 */
/* Elements as bits: integers wrap in 64 bits and are cut, floating ones go through fp32 or fp64. */
#include "perf/element.h"

#include <math.h>
#include <string.h>

/* Fraction bits and bias of the exponent of the types that are kept in less than C's float. */
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
        return infinity | 1u << (h.fraction - 1); /* one that is quiet */
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
    static const double epsilon[] = {
        [WEFT_FP32] = 0x1p-24, [WEFT_FP64] = 0x1p-53, [WEFT_BF16] = 0x1p-8, [WEFT_FP16] = 0x1p-11,
        [WEFT_INT32] = 0,      [WEFT_INT64] = 0,      [WEFT_UINT8] = 0};
    _Static_assert(sizeof epsilon / sizeof *epsilon == WEFT_DTYPES, "each dtype has a row");
    return epsilon[dtype];
}

bool perf_element_is_whole(weft_dtype dtype)
{
    return perf_element_epsilon(dtype) == 0;
}

perf_element perf_element_load(const void *at, weft_dtype dtype)
{
    perf_element element = 0;
    memcpy(&element, at, weft_dtype_bytes(dtype)); /* hosts are little-endian */
    return element;
}

void perf_element_store(void *at, weft_dtype dtype, perf_element element)
{
    memcpy(at, &element, weft_dtype_bytes(dtype));
}

perf_element perf_element_cut(weft_dtype dtype, uint64_t bits)
{
    size_t width = 8 * weft_dtype_bytes(dtype);
    return width < 64 ? bits & (((uint64_t)1 << width) - 1) : bits;
}

/* ------------------------------------------------------------------------------------------- reductions */

/* Of whole elements. */
static bool is_less(weft_dtype dtype, perf_element a, perf_element b)
{
    if (dtype == WEFT_INT32)
        return (int32_t)(uint32_t)a < (int32_t)(uint32_t)b;
    return dtype == WEFT_INT64 ? (int64_t)a < (int64_t)b : a < b;
}

static perf_element combine_whole(weft_dtype dtype, weft_reduction reduction, perf_element a, perf_element b)
{
    switch (reduction) {
    case WEFT_MIN:
        return is_less(dtype, b, a) ? b : a;
    case WEFT_MAX:
        return is_less(dtype, a, b) ? b : a;
    case WEFT_PRODUCT:
        return perf_element_cut(dtype, a * b);
    default:
        return perf_element_cut(dtype, a + b);
    }
}

static double combine_exactly(weft_reduction reduction, double a, double b)
{
    switch (reduction) {
    case WEFT_MIN:
        return isnan(a) || isnan(b) ? NAN : b < a ? b : a;
    case WEFT_MAX:
        return isnan(a) || isnan(b) ? NAN : b > a ? b : a;
    case WEFT_PRODUCT:
        return a * b;
    default:
        return a + b;
    }
}

/* Partial results are fp64, or fp32: the fp64 result of two fp32 rounds to what fp32 arithmetic gives. */
static double rounded(weft_dtype dtype, double number)
{
    return dtype == WEFT_FP64 ? number : (double)(float)number;
}

static perf_element reduce_whole(weft_dtype dtype, weft_reduction reduction, const perf_element *elements, int count)
{
    perf_element result = elements[0];
    for (int r = 1; r < count; r++)
        result = combine_whole(dtype, reduction, result, elements[r]);
    return result;
}

static double reduce_group(weft_dtype dtype, weft_reduction reduction, const perf_element *elements, int count)
{
    double result = perf_element_number(dtype, elements[0]);
    for (int r = 1; r < count; r++)
        result = rounded(dtype, combine_exactly(reduction, result, perf_element_number(dtype, elements[r])));
    return result;
}

perf_element perf_element_reduce(weft_dtype dtype, weft_reduction reduction, const perf_element *elements, int count,
                                 int group)
{
    if (perf_element_is_whole(dtype))
        return reduce_whole(dtype, reduction, elements, count);
    double result = 0;
    for (int first = 0; first < count; first += group) {
        double next = reduce_group(dtype, reduction, elements + first, first + group < count ? group : count - first);
        result = first ? rounded(dtype, combine_exactly(reduction, result, next)) : next;
    }
    if (reduction == WEFT_AVERAGE)
        result = rounded(dtype, result / count);
    return perf_element_of(dtype, result);
}
