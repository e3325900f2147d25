/* SPDX-License-Identifier: Apache-2.0 */
/** @file  Adam: AdamW on the parts of params that each rank owns. Master values and moments are fp32 and exist only
 *         there: 12 bytes a param over the shard ranks, 8 if the param is fp32 and its own master.
 *
 *  m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2;  and with the bias of both corrected,
 *  w = w - lr (m / (sqrt(v) + epsilon) + weight_decay w). */
#ifndef WEFT_ADAM_H
#define WEFT_ADAM_H
#include <weft/buckets.h>
WEFT_BEGIN_DECLS

typedef struct weft_adam weft_adam; /**< The state of one optimizer over one or more sets. */

typedef struct weft_adam_config {
    size_t size;        /**< Set by WEFT_ADAM_CONFIG_INIT. */
    float beta1, beta2; /**< 0 = 0.9 and 0.999. */
    float epsilon;      /**< 0 = 1e-8. */
    uint32_t reserved;  /**< 0. */
} weft_adam_config;
#define WEFT_ADAM_CONFIG_INIT WEFT_SIZED_INIT(weft_adam_config)

/** Make the state for @p count sets that are stepped together: the chunks of a pipeline rank, say, in the order in
 *  which the forward uses them. So they are stepped, bucket by bucket, and what is used first is gathered first. Ranks
 *  that share sets have them in the same order; others, of other stages, may have theirs in another.
 *  @param sets  the array is copied; the sets are borrowed and outlive the optimizer.   @param config  copied; NULL =
 *  defaults.   @param adam_out  given, release with weft_adam_destroy().
 *  Threads: owner of the sets.  Blocks: never.  Errors: E_INVALID, E_TWICE (the set has an optimizer), E_NO_MEMORY. */
WEFT_API WEFT_NODISCARD weft_result weft_adam_create(weft_buckets *const *sets, uint32_t count,
                                                     const weft_adam_config *config, weft_adam **adam_out);
/** Give the state back; NULL is fine. Threads: owner. Blocks: never. */
WEFT_API void weft_adam_destroy(weft_adam *adam);
/* ------------------------------------------------------------------------------------------- checkpoints */

/** What the optimizer keeps of some elements of one param: with it, and with the number of steps, a training goes on
 *  from where it was, bit for bit, if ranks and layout are the same. A training may also go on with other ranks and
 *  buckets: each rank writes what it owns now.
 *
 *      @code
 *      // 12 bytes an element go to where the trainer wants them, and come back.
 *      int put(void *file, const char *param, size_t start, size_t count, const float *master, const float *m,
 *              const float *v);
 *      int get(void *file, const char *param, size_t start, size_t count, float *master, float *m, float *v);
 *
 *      weft_result part(weft_adam *adam, weft_buckets *set, const weft_params *params, const weft_owned *owned,
 *                       float *room, void *file, int load) // room: 3 * owned->count
 *      {
 *          const char *name = weft_params_get(params, owned->param)->name;
 *          weft_adam_values values = WEFT_ADAM_VALUES_INIT;
 *          values.param = owned->param, values.start = owned->start, values.count = owned->count;
 *          values.master = room, values.m = room + owned->count, values.v = values.m + owned->count;
 *          if (load)
 *              return get(file, name, owned->start, owned->count, values.master, values.m, values.v)
 *                         ? WEFT_E_SYSTEM
 *                         : weft_adam_write(adam, set, &values);
 *          weft_result result = weft_adam_read(adam, set, &values);
 *          return result == WEFT_OK && put(file, name, owned->start, owned->count, values.master, values.m, values.v)
 *                     ? WEFT_E_SYSTEM
 *                     : result;
 *      }
 *
 *      weft_result loaded(weft_adam *adam, weft_buckets *set, uint64_t steps) // when all parts are written
 *      {
 *          weft_result result = weft_adam_set_steps(adam, steps);
 *          for (uint32_t b = 0; b < weft_layout_buckets(weft_buckets_layout(set)) && result == WEFT_OK; b++)
 *              result = weft_buckets_gather(set, b, WEFT_STREAM_HOST); // what all ranks own comes to all
 *          return result; // acquire the params before they are read
 *      }
 *      @endcode
 *
 *  Which elements are a rank's depends on its buckets and ranks, so a checkpoint is kept by param and element. */
typedef struct weft_adam_values {
    size_t size;         /**< Set by WEFT_ADAM_VALUES_INIT. */
    uint32_t param;      /**< Of the set. */
    uint32_t reserved;   /**< 0. */
    size_t start, count; /**< Elements of it that this rank owns: those of a weft_owned, or some of them. */
    float *master;       /**< [count], the host's memory: the values that steps are made on; NULL = leave them out. */
    float *m, *v;        /**< [count], the host's memory: the moments; NULL = leave them out. */
} weft_adam_values;
#define WEFT_ADAM_VALUES_INIT WEFT_SIZED_INIT(weft_adam_values)

/** Copy to @p values what the optimizer keeps. Before the first step master values are the params, and moments are 0.
 *  Threads: owner of the sets.  Blocks: never; on a GPU until what is queued on the set is done.
 *  Errors: E_INVALID, E_RANGE (no such param, or not all of the elements are this rank's), E_STATE (the params were not
 *  acquired, or are reduced and not stepped). */
WEFT_API WEFT_NODISCARD weft_result weft_adam_read(weft_adam *adam, weft_buckets *set, const weft_adam_values *values);
/** Copy it back. The part of the param gets the master values too, rounded: gather the buckets afterwards, so that all
 *  ranks have them. What is left out stays.
 *  @param values  its arrays are only read.
 *  Threads: owner of the sets.  Blocks: never; on a GPU until what is queued on the set is done.
 *  Errors: the same, and E_STATE (a window is open). */
WEFT_API WEFT_NODISCARD weft_result weft_adam_write(weft_adam *adam, weft_buckets *set, const weft_adam_values *values);
/** Steps made so far, without those skipped.
 *  Threads: owner of the sets.  Blocks: never; on a GPU until what is queued is done.  Errors: E_INVALID. */
WEFT_API WEFT_NODISCARD weft_result weft_adam_steps(weft_adam *adam, uint64_t *steps_out);
/** Go on as after @p steps steps: they correct the bias of the moments. 0: the next step takes master values from the
 *  params, whatever was written.
 *  Threads: owner of the sets.  Blocks: never; on a GPU until what is queued is done.  Errors: E_INVALID. */
WEFT_API WEFT_NODISCARD weft_result weft_adam_set_steps(weft_adam *adam, uint64_t steps);
/** Forget steps and moments. The next step takes master values from the params, as the first one does: call it after
 *  other values have been loaded. Threads: owner. Blocks: never. */
WEFT_API void weft_adam_reset(weft_adam *adam);

enum {
    WEFT_STEP_GATHER_LAST = 1 /**< Update all that this rank owns before the first gather starts. Default: each bucket's
                                   gather starts as soon as it is updated, so that the next is updated meanwhile. */
};

/** How to step: all of it equal on all ranks. */
typedef struct weft_step {
    size_t size;        /**< Set by WEFT_STEP_INIT. */
    float lr;           /**< Learning rate, before the lr_scale of each param. */
    float weight_decay; /**< But for params with WEFT_PARAM_NO_DECAY. */
    float clip_norm;    /**< Scale gradients by clip_norm / (norm + 1e-6) if that is below 1; 0 = do not. */
    uint32_t flags;     /**< WEFT_STEP_*. */
    double divisor;     /**< Gradients are divided by it first, before the norm; 0 = not. */
    weft_stream after;  /**< On a GPU: params are written behind what this stream holds, their last readers. */
} weft_step;
#define WEFT_STEP_INIT WEFT_SIZED_INIT(weft_step)

/** What a step did. */
typedef struct weft_step_report {
    size_t size;        /**< Set by WEFT_STEP_REPORT_INIT. */
    uint64_t step;      /**< Steps made so far, this one included unless it was skipped. */
    float norm;         /**< Of all gradients before clipping: the same float on every rank. */
    float clip;         /**< What gradients were multiplied by. */
    int skipped;        /**< Not 0: the norm is not finite, so nothing was changed. A warning says so when the first
                             of a run of steps is skipped. */
    int nonfinite_rank; /**< With WEFT_BUCKETS_CHECK_FINITE: lowest world rank that made what is not finite; else -1. */
} weft_step_report;
#define WEFT_STEP_REPORT_INIT WEFT_SIZED_INIT(weft_step_report)

/** End the window: finish the reductions, take the norm, clip, and bucket by bucket in order of use update what this
 *  rank owns and start to gather it. It returns while params are gathered: acquire them, all of them before the sets
 *  are destroyed. The trace has a span a bucket, "<set> step", with the bucket's number.
 *  On a GPU everything up to the gathers is queued, and the host waits only if it wants a report.
 *  @param how  copied.   @param report_out  may be NULL.
 *  Threads: owner of the sets.  Blocks: peers.  Hot.  Collective.
 *  Errors: E_INVALID, those of weft_buckets_reduce(), weft_buckets_norm() and weft_buckets_gather(). */
WEFT_API WEFT_NODISCARD weft_result weft_adam_step(weft_adam *adam, const weft_step *how, weft_step_report *report_out);

WEFT_END_DECLS
#endif
