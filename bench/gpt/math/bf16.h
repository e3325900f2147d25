/* SPDX-License-Identifier: Apache-2.0 */
/* bf16, held in uint16_t: the upper half of an fp32. libcomm converts whole arrays in the same way, but out of sight:
 * the command uses its public headers only, and kernels want a formula that they can compile in. */
#ifndef WEFT_BENCH_GPT_MATH_BF16_H
#define WEFT_BENCH_GPT_MATH_BF16_H
#include "gpt/math/exp.h"

MATH_FUNCTION float math_bf16_to_float(uint16_t bits)
{
    return math_from_bits((int32_t)((uint32_t)bits << 16));
}

/* To nearest even; a NaN stays one. */
MATH_FUNCTION uint16_t math_float_to_bf16(float value)
{
    uint32_t bits = (uint32_t)math_bits(value);
    uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
    return (uint16_t)(value == value ? rounded : bits >> 16 | 0x40u);
}

#endif
