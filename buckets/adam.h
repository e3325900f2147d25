/* SPDX-License-Identifier: Apache-2.0 */
/* The state of AdamW, and one bucket's step. */
#ifndef WEFT_BUCKETS_ADAM_H
#define WEFT_BUCKETS_ADAM_H
#include <weft/adam.h>

#include "set_gpu.h"

/* fp32, one element for each that this rank owns of a bucket. */
typedef struct weft__adam_state {
    float *master; /* NULL: the params themselves are fp32 */
    float *m, *v;
} weft__adam_state;

struct weft_adam {
    float beta1, beta2, epsilon;
    uint64_t steps; /* made so far */
    bool skipping;  /* the last one was skipped */
    uint32_t set_count;
    weft_buckets **sets;
    weft__adam_state **states; /* of each set: one a bucket */
    float *memory;             /* where that of the sets is */
    size_t memory_floats;
    weft__step_verdict *verdict; /* on a GPU: of the step at hand, there, */
    weft__step_verdict *seen;    /* and as the host has seen it */
};

/* What is common to all params in step number @p number. */
weft__adamw weft__adam_rates(const weft_adam *adam, const weft_step *how, float clip, uint64_t number);
/* Update what this rank owns of a bucket; on a GPU in the order of its stream, as the verdict says. */
weft_result weft__adam_update(const weft_adam *adam, uint32_t set, uint32_t bucket, const weft__adamw *rates);

#endif
