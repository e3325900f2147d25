/* SPDX-License-Identifier: Apache-2.0 */
/* The learning rate as a function of the samples seen so far. */
#ifndef WEFT_BENCH_GPT_LR_H
#define WEFT_BENCH_GPT_LR_H
#include <stdint.h>

typedef enum gpt_lr_style {
    GPT_LR_CONSTANT,
    GPT_LR_LINEAR,
    GPT_LR_COSINE,
    GPT_LR_INVERSE_SQUARE_ROOT,
    GPT_LR_STABLE /* warm-up, stable, decay: the highest rate until `anneal` samples before the end of the decay */
} gpt_lr_style;
#define GPT_LR_STYLES "constant|linear|cosine|inverse-square-root|WSD" /* in the order of gpt_lr_style */

typedef enum gpt_lr_curve { GPT_LR_BY_LINE, GPT_LR_BY_COSINE, GPT_LR_BY_POWER, GPT_LR_BY_ROOT } gpt_lr_curve;
#define GPT_LR_CURVES "linear|cosine|exponential|minus_sqrt" /* in the order of gpt_lr_curve */

typedef struct gpt_lr {
    gpt_lr_style style;
    double first, highest, lowest; /* where the warm-up begins and ends; where the decay ends */
    uint64_t warmup, decay;        /* samples from the start: end of the warm-up, end of the decay */
    gpt_lr_curve curve;            /* GPT_LR_STABLE: how it falls in the last */
    uint64_t anneal;               /* ... samples of the decay */
} gpt_lr;

double gpt_lr_at(const gpt_lr *lr, uint64_t samples);

#endif
