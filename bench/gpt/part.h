/* SPDX-License-Identifier: Apache-2.0 */
/* A chunk of the model with its parameters in buckets: weft holds their values and gradients, the chunk computes with
 * them, and its hooks say what it needs next and what is ready to be reduced. */
#ifndef WEFT_BENCH_GPT_PART_H
#define WEFT_BENCH_GPT_PART_H
#include <weft/buckets.h>

#include "gpt/layout.h"
#include "gpt/model.h"

typedef struct gpt_part {
    gpt_chunk chunk;
    weft_params *params; /* numbered as the chunk's */
    weft_buckets *set;
    /* Of each bucket in the step at hand, ns of the clock: when the forward came to use it first, and when its last
     * gradient of the last microbatch was made. */
    int64_t *used_ns, *ready_ns;
} gpt_part;

/* Open chunk @p index of the whole model with room for @p slots microbatches, and list its parameters for weft. */
int gpt_part_open(gpt_part *part, gpt_model *model, const gpt_layout *layout, size_t index, size_t slots,
                  gpt_failure *failure);
/* Make the set of buckets and hand its memory to the chunk. @p all: a comm of all ranks. Collective. */
int gpt_part_connect(gpt_part *part, const char *name, const gpt_options *options, const gpt_layout *layout,
                     weft_comm *all, gpt_failure *failure);
void gpt_part_close(gpt_part *part);

/* Forget when buckets were used. */
void gpt_part_begin(gpt_part *part);
/* End the window's gradients: all of them are final. */
weft_result gpt_part_reduce(gpt_part *part);

/* Give the parameters their first values. */
int gpt_part_fill(gpt_part *part, uint64_t seed, gpt_failure *failure);
/* A sum over the parameters' elements, each hashed with its name and its place in the whole tensor: parts of a model
 * add up to the same number however it is shared out. @p once: leave out what other ranks of this replica have too. */
uint64_t gpt_part_hash(const gpt_part *part, bool once);

#endif
