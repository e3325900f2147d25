/* SPDX-License-Identifier: Apache-2.0 */
/* The list of one stage with all looked up beforehand: tensors, messages, and what each computation waits for. */
#ifndef WEFT_P2P_PROGRAM_H
#define WEFT_P2P_PROGRAM_H
#include <weft/pipeline.h>
#include <weft/work.h>

#include "channel.h"

/* Messages that are started together. */
typedef struct weft__program_batch {
    uint32_t first, count; /* among the messages */
    uint32_t label;        /* in the trace */
    bool sends;            /* at least one of them is a send */
    weft_work work;        /* while it is under way */
} weft__program_batch;

/* A computation, a batch, or SYNC. */
typedef struct weft__step {
    weft_action_kind kind;   /* a batch: of its first message */
    uint32_t batch;          /* messages: which */
    uint32_t waits[2];       /* computations: the batches that must be over before; NONE */
    uint32_t left;           /* SYNC: how many B the chunk has to come */
    uint32_t label;          /* computations: in the trace */
    weft_pipeline_task task; /* computations; SYNC has the chunk only */
} weft__step;

typedef struct weft__program {
    weft__step *steps;
    size_t step_count;
    weft__program_batch *batches;
    uint32_t batch_count;
    weft_p2p *messages;
    const weft_pipeline_task **makers; /* of each message that is a send: the task that filled its buffer; else NULL */
    uint32_t *activations;             /* a chunk: how many microbatches are under way at most */
    uint32_t under_way;                /* batches, at most at a time */
} weft__program;

/* @p schedule is verified, @p channels (of each kind of message) are open; they are used up: make one program of them.
 * Release @p out in any case. E_NO_MEMORY. */
weft_result weft__program_make(const weft_schedule *schedule, uint32_t stage, weft__channel *channels,
                               weft__program *out);
void weft__program_release(weft__program *program);

#endif
