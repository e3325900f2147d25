/* SPDX-License-Identifier: Apache-2.0 */
/* The exponential function, written out so that compilers turn loops of it into vector instructions and every device
 * gives the same bits. */
#ifndef WEFT_BENCH_GPT_MATH_EXP_H
#define WEFT_BENCH_GPT_MATH_EXP_H
#include <stdint.h>
#include <string.h>

#include "gpt/math/function.h"

MATH_FUNCTION float math_from_bits(int32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

MATH_FUNCTION int32_t math_bits(float value)
{
    int32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* @p yes if @p condition, else @p no. By bits: compilers turn the ?: of a bound into two paths, compute the one at the
 * bound for good measure, and there meet subnormal numbers, which cost a hundred cycles each. */
MATH_FUNCTION float math_select(int condition, float yes, float no)
{
    int32_t mask = -(condition != 0);
    return math_from_bits((math_bits(yes) & mask) | (math_bits(no) & ~mask));
}

/* exp(x) within 1 unit of the last place; 0 below -87, where results would be subnormal; above 88 as at 88. */
MATH_FUNCTION float math_exp(float x)
{
    const float to_whole = 12582912.0f; /* 1.5 * 2^23: adding it rounds to a whole number, kept in the low bits */
    int vanishes = x < -87.0f;
    x = math_select(vanishes, 0.0f, math_select(x > 88.0f, 88.0f, x));
    float shifted = x * 1.44269504f + to_whole;
    float n = shifted - to_whole;
    float r = (x - n * 0.693145751953125f) - n * 1.42860682e-6f; /* ln 2 in two parts: n times the first is exact */
    /* exp(r) = 1 + r + r^2 p(r): p is the polynomial with the least largest error for |r| <= ln(2) / 2. */
    float p = 1.381464186e-3f;
    p = p * r + 8.368722163e-3f;
    p = p * r + 4.166838899e-2f;
    p = p * r + 1.666652113e-1f;
    p = p * r + 4.999999404e-1f;
    float e = (p * (r * r) + r) + 1.0f;
    int32_t exponent = math_bits(shifted) - math_bits(to_whole);
    return math_select(vanishes, 0.0f, e * math_from_bits((int32_t)((uint32_t)(exponent + 127) << 23)));
}

#endif
