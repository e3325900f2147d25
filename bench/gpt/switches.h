/* SPDX-License-Identifier: Apache-2.0 */
/* What of a step's communication may run beside its computing: a switch for each part, so that the gain of each can be
 * measured. None of them changes a bit of what is trained. */
#ifndef WEFT_BENCH_GPT_SWITCHES_H
#define WEFT_BENCH_GPT_SWITCHES_H
#include <stdbool.h>
#include <stdint.h>

typedef enum gpt_switch {
    GPT_GRAD_REDUCE,  /* a full bucket is reduced while the last backward goes on; off: all behind it */
    GPT_OPTIMIZER,    /* a bucket is gathered while the next is updated; off: all are updated first */
    GPT_PARAM_GATHER, /* the forward waits for each bucket where it uses it; off: the step waits for all */
    GPT_TENSOR,       /* tensor parallel operations of the backward run beside its products */
    GPT_RECEIVES,     /* receives between stages are posted one computation early */
    GPT_SENDS,        /* a stage computes while it sends; off: it waits for each send */
    GPT_RUN_AHEAD,    /* 1F1B starts with more forwards: room for messages, for up to twice the activations */
    GPT_BUBBLE,       /* a stage reduces its gradients in its bubble; off: when stage 0 does */
    GPT_SWITCHES
} gpt_switch;

typedef uint32_t gpt_switch_set; /* a bit for each that is on */
#define GPT_ALL_SWITCHES  ((1u << GPT_SWITCHES) - 1)
#define GPT_FREE_SWITCHES (GPT_ALL_SWITCHES & ~(1u << GPT_RUN_AHEAD)) /* those that cost no memory: the default */

static inline bool gpt_is_on(gpt_switch_set set, gpt_switch which)
{
    return set >> which & 1;
}

#endif
