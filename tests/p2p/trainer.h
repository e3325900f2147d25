/* SPDX-License-Identifier: Apache-2.0 */
/* A trainer that pipelines tensors of integers, and knows what must come out: every part does to a tensor what no other
 * part does, by microbatch and element, so a tensor in the wrong place changes a result. Activations are int64,
 * gradients int32, and all arithmetic wraps. */
#ifndef WEFT_TESTS_P2P_TRAINER_H
#define WEFT_TESTS_P2P_TRAINER_H
#include <weft/pipeline.h>

#include "harness/ranks.h"
#include "schedules.h"

enum { TRAINER_CHUNKS = 3, TRAINER_MICROBATCHES = 16, TRAINER_EVENTS = 4096 };

typedef struct trainer {
    /* Set by the test. */
    size_t count, grad_count;
    uint32_t stages, chunks, microbatches;
    uint32_t flags;        /* WEFT_PIPELINE_* */
    uint32_t late_percent; /* of tasks that take 5 ms more */
    weft_action_kind fail_kind;
    uint32_t fail_microbatch;
    weft_result fail_with; /* in that task of the first chunk; WEFT_OK = never */
    weft_result fail_sync, fail_finalize, fail_release;
    /* Called in every task, before anything else. NULL = nothing to do. */
    void (*before)(struct trainer *t, const weft_pipeline_task *task);
    void *shared;

    uint32_t stage;
    weft_pipeline *pipeline;
    bool backwards, split; /* the schedule has B, W */

    /* What has been in this window. */
    int64_t loss[TRAINER_MICROBATCHES];                     /* on the last part */
    int64_t input_grad[TRAINER_MICROBATCHES];               /* on the first part */
    int64_t weight_grad[TRAINER_CHUNKS];                    /* of all microbatches */
    int kept[TRAINER_CHUNKS][TRAINER_MICROBATCHES];         /* an activation: microbatch + 1 */
    uint32_t kept_as[TRAINER_CHUNKS][TRAINER_MICROBATCHES]; /* a microbatch: its activation */
    uint32_t forwards[TRAINER_CHUNKS], backwards_of[TRAINER_CHUNKS], gradients[TRAINER_CHUNKS]; /* how many tasks */
    bool synced[TRAINER_CHUNKS];
    uint32_t syncs, finals, releases;
    uint32_t random;
    char events[TRAINER_EVENTS]; /* "F0.0 B0.0 sync0 ..." */
} trainer;

/* A config with all callbacks that this schedule needs and knows, for @p t. */
weft_pipeline_config trainer_config(trainer *t, const weft_schedule *schedule);
/* Make the pipeline of this rank; @p comm may be NULL. Sizes are set before. */
void trainer_open(trainer *t, weft_comm *comm, const weft_schedule *schedule);
void trainer_close(trainer *t);
/* Run one window and forget the one before. */
weft_result trainer_run(trainer *t);
/* Run one window and check every value against a serial computation. */
void trainer_check(trainer *t);

#endif
