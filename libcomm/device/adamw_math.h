/* SPDX-License-Identifier: Apache-2.0 */
/* One element's step of AdamW (Loshchilov & Hutter, "Decoupled Weight Decay Regularization", algorithm 2) in fp32. */
#ifndef WEFT_DEVICE_ADAMW_MATH_H
#define WEFT_DEVICE_ADAMW_MATH_H
#include <math.h>

#include "device/formula.h"
#include "device/vector.h"

/* What all elements share: both bias corrections are taken out of the element's formula. */
typedef struct weft__adamw_rates {
    float beta1, one_minus_beta1, beta2, one_minus_beta2;
    float epsilon, grad_scale;
    float decay;  /* lr * weight_decay */
    float step;   /* lr / correction1 */
    float spread; /* 1 / sqrt(correction2) */
} weft__adamw_rates;

typedef struct weft__adamw_state {
    float master, m, v;
} weft__adamw_state;

WEFT_MATH weft__adamw_rates weft__adamw_rates_of(const weft__adamw *step)
{
    weft__adamw_rates rates;
    rates.beta1 = step->beta1;
    rates.one_minus_beta1 = (float)(1.0 - (double)step->beta1);
    rates.beta2 = step->beta2;
    rates.one_minus_beta2 = (float)(1.0 - (double)step->beta2);
    rates.epsilon = step->epsilon;
    rates.grad_scale = step->grad_scale;
    rates.decay = (float)((double)step->lr * (double)step->weight_decay);
    rates.step = (float)((double)step->lr / (double)step->correction1);
    rates.spread = (float)(1.0 / sqrt((double)step->correction2));
    return rates;
}

WEFT_MATH weft__adamw_state weft__adamw_step(weft__adamw_rates rates, weft__adamw_state state, float grad)
{
    float g = grad * rates.grad_scale;
    state.m = rates.beta1 * state.m + rates.one_minus_beta1 * g;
    state.v = rates.beta2 * state.v + rates.one_minus_beta2 * (g * g);
    float size = sqrtf(state.v) * rates.spread + rates.epsilon;
    state.master -= rates.decay * state.master + rates.step * (state.m / size);
    return state;
}

#endif
