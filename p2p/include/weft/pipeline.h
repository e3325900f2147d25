/* SPDX-License-Identifier: Apache-2.0 */
/** @file  Pipelines: run a schedule through the callbacks of a trainer, with messages under way while it computes.
 *
 *      @code
 *      typedef struct trainer trainer;
 *      weft_result forward(void *cookie, const weft_pipeline_task *task);  // task->input to task->output
 *      weft_result backward(void *cookie, const weft_pipeline_task *task); // task->output_grad to task->input_grad
 *      weft_result optimize(trainer *t);
 *
 *      weft_result make_stage(weft_comm *stages, trainer *t, size_t elements, weft_pipeline **pipeline_out)
 *      {
 *          weft_schedule_config policy = WEFT_SCHEDULE_CONFIG_INIT;
 *          policy.policy = WEFT_POLICY_1F1B, policy.microbatches = 16;
 *          policy.stages = (uint32_t)weft_comm_size(stages);
 *          weft_pipeline_config config = WEFT_PIPELINE_CONFIG_INIT;
 *          config.count = elements, config.dtype = WEFT_BF16; // tokens * hidden, say
 *          config.cookie = t, config.forward = forward, config.backward = backward;
 *          weft_schedule *schedule = NULL;
 *          weft_result result = weft_schedule_create(&policy, &schedule);
 *          if (result == WEFT_OK)
 *              result = weft_pipeline_create(stages, schedule, &config, pipeline_out);
 *          weft_schedule_destroy(schedule);
 *          return result;
 *      }
 *
 *      weft_result train(weft_pipeline *pipeline, trainer *t, int steps)
 *      {
 *          weft_result result = WEFT_OK;
 *          for (int step = 0; step < steps && result == WEFT_OK; step++) {
 *              result = weft_pipeline_run(pipeline);
 *              if (result == WEFT_OK)
 *                  result = optimize(t);
 *          }
 *          return result;
 *      }
 *      @endcode
 *
 *  A run takes all microbatches of one window through this stage, as its list says; how a list is run stands in
 *  weft/schedule.h. Every callback runs on the thread that called weft_pipeline_run(), one at a time, in the order of
 *  the list. Tensors are borrowed by the callback, and lie in memory that other ranks reach without a copy.
 *
 *  What the switches of other pipelines are called here:
 *
 *      gradients stay local (no sync)      a task whose `last` is 0
 *      gradients may be reduced            the callback `sync`, and `last` of the one B that may come behind it
 *      parameters must be whole            a task whose `first` is 1
 *      finalize                            the callback `finalize`
 *
 *  With buckets (weft/buckets.h), a set for each chunk: every B begins with weft_buckets_begin(set, task->last), and
 *  what adds to the gradient of a param marks it. A schedule may put `sync` behind a chunk's last B
 *  (WEFT_LOWER_ALIGN_SYNC: `left` is 0); then the callback itself begins a last microbatch and marks every param.
 *
 *  If backwards are split, the set has WEFT_BUCKETS_LATE_MARKS, and every param is marked in every microbatch: in B
 *  if B makes its gradient (norms, say), in W if W does (matrices), in B as well if `split` is 0 and so no W follows. W
 *  begins nothing: microbatches are counted by their B, and those before may still have W to come, whatever the order.
 *  A bucket is reduced in the B or W that makes the last mark of the window in it.
 *
 *  A callback that does not return WEFT_OK ends the run: the comm is aborted, so that no stage waits for this one, and
 *  the run returns what the callback did. Stages that still need this one get E_ABORTED, which names this
 *  rank and says why. */
#ifndef WEFT_PIPELINE_H
#define WEFT_PIPELINE_H
#include <weft/comm.h>
#include <weft/dtype.h>
#include <weft/schedule.h>
WEFT_BEGIN_DECLS

typedef struct weft_pipeline weft_pipeline; /**< One stage: its list, its buffers, its callbacks. */

/** One computation. */
typedef struct weft_pipeline_task {
    weft_action_kind kind; /**< F, B or W. */
    uint32_t chunk;
    uint32_t microbatch;
    uint32_t activation;     /**< Which of the chunk's weft_pipeline_activations() the microbatch has, from F to its
                                  last task. */
    int first;               /**< F: the first of its chunk in this window. */
    int last;                /**< B: SYNC came before, and no other B of the chunk follows: what it makes is final as it
                                  is made. W: likewise, and no other W follows: all is final behind it. */
    int split;               /**< B: a W of this microbatch follows, and makes the gradients of the weights. */
    const void *input;       /**< What the part before made; stays until the last task of the microbatch. NULL on the
                                  first part. */
    void *output;            /**< F: to fill, for the part behind. NULL on the last part. */
    const void *output_grad; /**< B, W: from the part behind; stays likewise. NULL on the last part. */
    void *input_grad;        /**< B: to fill, for the part before. NULL on the first part. */
} weft_pipeline_task;

enum {
    WEFT_PIPELINE_NO_SPANS = 1,  /**< Do not mark computations in the trace. Default: spans "F0", "B0", ... (kind and
                                    chunk), numbered by microbatch. */
    WEFT_PIPELINE_WAIT_SENDS = 2 /**< For comparison: wait for every batch that holds a send as soon as it is started.
                                    Default: when its buffer is wanted again. */
};

typedef struct weft_pipeline_config {
    size_t size;      /**< Set by WEFT_PIPELINE_CONFIG_INIT. */
    size_t count;     /**< Elements that one part gives to the next for one microbatch; 0 only with a single part. */
    weft_dtype dtype; /**< Their type. */
    weft_dtype grad_dtype; /**< Used if grad_count is given. */
    size_t grad_count;     /**< Elements of a gradient; 0 = gradients are as what they belong to. */
    uint32_t flags;        /**< WEFT_PIPELINE_*. */
    uint32_t lower_flags;  /**< WEFT_LOWER_*, for what the schedule lacks. */
    void *cookie;          /**< For the callbacks. */

    weft_result (*forward)(void *cookie, const weft_pipeline_task *task);
    weft_result (*backward)(void *cookie, const weft_pipeline_task *task);    /**< If the schedule has B. */
    weft_result (*weight_grad)(void *cookie, const weft_pipeline_task *task); /**< If it has W. */
    /** The gradients of @p chunk may be reduced as they become final: @p left more B come, 1 or 0, and the W of any
     *  that are split. NULL = not wanted. */
    weft_result (*sync)(void *cookie, uint32_t chunk, uint32_t left);
    /** All is computed; the last sends may still be under way. NULL = not wanted. */
    weft_result (*finalize)(void *cookie);
    /** What @p task filled (F: output, B: input_grad) has been sent. Comes when its buffer is wanted again, at the
     *  latest at the end of the run. NULL = not wanted. */
    weft_result (*release)(void *cookie, const weft_pipeline_task *task);
} weft_pipeline_config;
#define WEFT_PIPELINE_CONFIG_INIT WEFT_SIZED_INIT(weft_pipeline_config)

/** Make the stage of this rank: rank r of @p comm is stage r. What @p schedule lacks of messages, SYNC and numbers of
 *  buffers is added as by weft_schedule_lower(), with the config's lower_flags; then it is verified, for the comm's
 *  queues, and compared between the stages. All memory is taken here. If one stage fails, all do, and the comm can
 *  still be used.
 *  @param comm      borrowed, outlives the pipeline; NULL = one stage without messages (and without spans). Of its
 *  channels 0 and 1 are used; they may be shared by pipelines that are run one after the other, in one order.
 *  @param schedule  copied.   @param config  copied.
 *  @param pipeline_out  given, release with weft_pipeline_destroy().
 *  Threads: setup.  Blocks: peers.  Collective.
 *  Errors: E_INVALID (also: what weft_schedule_verify() refuses), E_RANGE, E_NO_MEMORY, E_MISMATCH (stages differ in
 *  schedule or tensors: names two), what another stage failed with, and those of weft_collective_run(). */
WEFT_API WEFT_NODISCARD weft_result weft_pipeline_create(weft_comm *comm, const weft_schedule *schedule,
                                                         const weft_pipeline_config *config,
                                                         weft_pipeline **pipeline_out);

/** How many microbatches a chunk of this stage has under way at most, between F and their last task: for so many the
 *  trainer keeps activations. Threads: any. Blocks: never. */
WEFT_API uint32_t weft_pipeline_activations(const weft_pipeline *pipeline, uint32_t chunk);

/** Take one window through this stage. When it returns no message is under way, whatever the result.
 *  Threads: owner.  Blocks: peers.  Hot, but for its callbacks.  Collective.
 *  Errors: E_INVALID, what a callback returned (E_INVALID if that was positive), and those of weft_p2p_start() and
 *  weft_work_finish(): on all of them the comm has failed. */
WEFT_API WEFT_NODISCARD weft_result weft_pipeline_run(weft_pipeline *pipeline);

/** Give the stage back; NULL is fine. weft_last_error() stays. Threads: setup. Blocks: local. */
WEFT_API void weft_pipeline_destroy(weft_pipeline *pipeline);

WEFT_END_DECLS
#endif
