/* SPDX-License-Identifier: Apache-2.0 */
/* Computes a learning rate: linear warm-up, then one of the decays, then the lowest rate. */
#include "gpt/lr.h"

#include <math.h>

/* How much is left of the way from the highest to the lowest rate once the share @p done of the decay is over. */
static double left_over(gpt_lr_curve curve, double done)
{
    switch (curve) {
    case GPT_LR_BY_LINE:
        return 1 - done;
    case GPT_LR_BY_COSINE:
        return 0.5 * (cos(3.14159265358979323846 * done) + 1);
    case GPT_LR_BY_POWER:
        return 2 * exp2(-done) - 1;
    case GPT_LR_BY_ROOT:
        return 1 - sqrt(done);
    }
    return 0;
}

static double inverse_square_root(const gpt_lr *lr, uint64_t samples)
{
    double warmup = lr->warmup > 1 ? (double)lr->warmup : 1, now = samples > 1 ? (double)samples : 1;
    return fmax(lr->lowest, lr->highest * sqrt(warmup) / sqrt(now));
}

static double falling(const gpt_lr *lr, gpt_lr_curve curve, uint64_t start, uint64_t samples)
{
    double done = samples > start ? (double)(samples - start) / (double)(lr->decay - start) : 0;
    return lr->lowest + left_over(curve, done) * (lr->highest - lr->lowest);
}

double gpt_lr_at(const gpt_lr *lr, uint64_t samples)
{
    if (lr->warmup > 0 && samples <= lr->warmup)
        return lr->first + (lr->highest - lr->first) * (double)samples / (double)lr->warmup;
    if (lr->style == GPT_LR_CONSTANT)
        return lr->highest;
    if (samples > lr->decay)
        return lr->lowest;
    switch (lr->style) {
    case GPT_LR_INVERSE_SQUARE_ROOT:
        return inverse_square_root(lr, samples);
    case GPT_LR_STABLE:
        return falling(lr, lr->curve, lr->decay > lr->anneal ? lr->decay - lr->anneal : 0, samples);
    default:
        return falling(lr, lr->style == GPT_LR_LINEAR ? GPT_LR_BY_LINE : GPT_LR_BY_COSINE, lr->warmup, samples);
    }
}
