/* SPDX-License-Identifier: Apache-2.0 */
/* bf16 and fp16 to fp32, which is exact, and back, rounded to nearest even: subnormals are exact, what is too large
 * becomes infinite, NaN stays NaN. Intermediates are no fp32 subnormals: those are slow, and a program may flush them.
 * What is cut to 16 bits is shifted there last, so that vectors stay in lanes of 32 bits until then. */
#ifndef WEFT_DEVICE_CONVERT_MATH_H
#define WEFT_DEVICE_CONVERT_MATH_H
#include <math.h>

#include "device/formula.h"

WEFT_MATH float weft__math_bf16_to_float(uint16_t bits)
{
    return weft__float_of((uint32_t)bits << 16);
}

WEFT_MATH uint16_t weft__math_float_to_bf16(float value)
{
    uint32_t bits = weft__bits_of(value);
    uint32_t odd = bits >> 16 & 1;
    uint32_t rounded = bits + 0x7fffu + odd; /* a carry leads to the next binade, the last to infinity */
    return (uint16_t)((value != value ? 0x7fc00000u : rounded) >> 16);
}

WEFT_MATH float weft__math_fp16_to_float(uint16_t bits)
{
    uint32_t sign = (uint32_t)(bits & 0x8000u) << 16;
    int32_t magnitude = (int32_t)(bits & 0x7fffu) << 13; /* the fields where fp32 has them */
    uint32_t rebias = (uint32_t)(127 - 15) << 23;
    int is_subnormal = magnitude < 0x00800000;
    uint32_t special = magnitude >= 0x0f800000 ? rebias : 0;
    uint32_t quiet = magnitude > 0x0f800000 ? 0x00400000u : 0;
    /* A subnormal becomes the fraction of 2^-14, which has the same ulp, and 2^-14 is taken off again. */
    uint32_t lifted = (uint32_t)magnitude + rebias + (is_subnormal ? 0x00800000u : 0);
    float finite = weft__float_of(lifted) - weft__float_of(is_subnormal ? 0x38800000u : 0);
    return weft__float_of((weft__bits_of(finite) + special) | quiet | sign);
}

WEFT_MATH uint16_t weft__math_float_to_fp16(float value)
{
    uint32_t bits = weft__bits_of(value);
    uint32_t sign = bits & 0x80000000u;
    int32_t magnitude = (int32_t)(bits & 0x7fffffffu);
    int32_t bounded = magnitude < 0x47800000 ? magnitude : 0x47800000; /* 2^16 comes out as infinity */
    int32_t binade = bounded & 0x7f800000;
    binade = binade > 0x38800000 ? binade : 0x38800000; /* 2^-14 and the subnormals below share an ulp */
    /* 2^13 binades up the ulp of fp32 is that of fp16 here: the addition rounds, and leaves a count of such ulps. */
    uint32_t ruler = (uint32_t)binade + (13u << 23);
    uint32_t ulps = weft__bits_of(weft__float_of((uint32_t)bounded) + weft__float_of(ruler)) - ruler;
    uint32_t rounded = (ulps << 16) + ((uint32_t)(binade - 0x38800000) << 3); /* the first bit counts as exponent */
    uint32_t payload = ((uint32_t)magnitude << 3 & 0x01ff0000u) | 0x02000000u;
    return (uint16_t)((sign | rounded | (magnitude > 0x7f800000 ? payload : 0)) >> 16);
}

/* fp64 to fp32 rounded to odd: cut off, and the last bit set if anything was lost. To round that to 16 bits is to
 * round the fp64 once. */
WEFT_MATH float weft__math_double_to_odd_float(double value)
{
    float nearest = (float)value;
    double back = (double)nearest;
    uint32_t too_far = (value < 0 ? back < value : back > value) ? 1 : 0;
    uint32_t inexact = back != value ? 1 : 0;
    return weft__float_of((weft__bits_of(nearest) - too_far) | inexact);
}

/* Rounded to nearest even and kept within limits; NaN becomes 0. */
WEFT_MATH int64_t weft__math_double_to_int64(double value, int64_t lowest, int64_t highest)
{
    if (value != value)
        return 0;
    if (value <= (double)lowest)
        return lowest;
    return value >= (double)highest ? highest : (int64_t)rint(value);
}

#endif
