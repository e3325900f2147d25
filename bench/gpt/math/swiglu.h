/* SPDX-License-Identifier: Apache-2.0 */
/* SwiGLU: silu(gate) * up, where silu(x) = x / (1 + exp(-x)). */
#ifndef WEFT_BENCH_GPT_MATH_SWIGLU_H
#define WEFT_BENCH_GPT_MATH_SWIGLU_H
#include "gpt/math/exp.h"

MATH_FUNCTION float math_sigmoid(float x)
{
    return 1.0f / (1.0f + math_exp(-x));
}

MATH_FUNCTION float math_swiglu(float gate, float up)
{
    return gate * math_sigmoid(gate) * up;
}

MATH_FUNCTION void math_swiglu_grad(float gate, float up, float dy, float *dgate, float *dup)
{
    float s = math_sigmoid(gate), silu = gate * s;
    *dgate = dy * up * (s + silu * (1.0f - s));
    *dup = dy * silu;
}

#endif
