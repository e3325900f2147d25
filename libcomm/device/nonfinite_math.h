/* SPDX-License-Identifier: Apache-2.0 */
/* NaN and infinity have every bit of the exponent set: adding to its last bit carries into the sign's place, whose bit
 * (31) is the answer. One test of the OR of many answers tells of all. */
#ifndef WEFT_DEVICE_NONFINITE_MATH_H
#define WEFT_DEVICE_NONFINITE_MATH_H
#include "device/formula.h"

WEFT_MATH uint32_t weft__nonfinite_float(float value)
{
    return (weft__bits_of(value) & 0x7f800000u) + 0x00800000u;
}

WEFT_MATH uint32_t weft__nonfinite_double(double value)
{
    return ((uint32_t)(weft__bits_of_double(value) >> 32) & 0x7ff00000u) + 0x00100000u;
}

WEFT_MATH uint32_t weft__nonfinite_bf16(uint16_t bits)
{
    return ((uint32_t)(bits & 0x7f80) + 0x0080u) << 16;
}

WEFT_MATH uint32_t weft__nonfinite_fp16(uint16_t bits)
{
    return ((uint32_t)(bits & 0x7c00) + 0x0400u) << 16;
}

#endif
