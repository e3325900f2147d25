/* SPDX-License-Identifier: Apache-2.0 */
/** @file  Buckets: the gradients and values of a model in flat memory, reduced and gathered while the trainer computes.
 *
 *  A bucket is a run of params side by side in memory. When the gradient of its last param is final, one operation adds
 *  the bucket up over the ranks, and each rank is left with the sum of the part that it owns. There the optimizer
 *  works; then one operation gives the new values to every rank. The trainer says three things: a microbatch begins, a
 *  gradient is final, these params are needed now.
 *
 *      @code
 *      #include <weft/adam.h>
 *
 *      typedef struct layer {
 *          uint32_t first, count; // its params
 *      } layer;
 *      weft_result forward(const layer *l, const weft_buckets *set);  // reads weft_buckets_param(set, i)
 *      weft_result backward(const layer *l, const weft_buckets *set); // adds to weft_buckets_grad(set, i)
 *
 *      weft_result make(weft_comm *data_parallel, weft_params **params, weft_buckets **set, weft_adam **adam)
 *      {
 *          weft_param embedding = WEFT_PARAM_INIT;
 *          embedding.name = "embedding", embedding.dtype = WEFT_BF16;
 *          embedding.shape[0] = 50304, embedding.shape[1] = 768, embedding.dims = 2;
 *          weft_buckets_comms comms = WEFT_BUCKETS_COMMS_INIT;
 *          comms.shard = data_parallel;
 *          weft_result result = weft_params_create(params);
 *          if (result == WEFT_OK) // and so on, in order of use
 *              result = weft_params_add(*params, &embedding, NULL);
 *          if (result == WEFT_OK)
 *              result = weft_buckets_create(*params, &comms, NULL, set);
 *          if (result == WEFT_OK) // then fill weft_buckets_param(*set, i) of every param, alike on every rank
 *              result = weft_adam_create(set, 1, NULL, adam);
 *          return result;
 *      }
 *
 *      weft_result microbatch(weft_buckets *set, const layer *layers, int count, int last)
 *      {
 *          weft_result result = WEFT_OK;
 *          for (int l = 0; l < count && result == WEFT_OK; l++) {
 *              result = weft_buckets_acquire(set, layers[l].first, layers[l].count, WEFT_STREAM_HOST);
 *              if (result == WEFT_OK)
 *                  result = forward(&layers[l], set);
 *          }
 *          if (result == WEFT_OK)
 *              result = weft_buckets_begin(set, last);
 *          for (int l = count - 1; l >= 0 && result == WEFT_OK; l--) {
 *              result = backward(&layers[l], set);
 *              for (uint32_t i = layers[l].count; i-- > 0 && result == WEFT_OK;)
 *                  result = weft_buckets_mark_ready(set, layers[l].first + i, WEFT_STREAM_HOST);
 *          }
 *          return result;
 *      }
 *
 *      weft_result step(weft_buckets *set, weft_adam *adam, const layer *layers, int count, int microbatches)
 *      {
 *          weft_step how = WEFT_STEP_INIT;
 *          how.lr = 1e-3f, how.clip_norm = 1, how.divisor = microbatches;
 *          weft_result result = WEFT_OK;
 *          for (int m = 0; m < microbatches && result == WEFT_OK; m++)
 *              result = microbatch(set, layers, count, m == microbatches - 1);
 *          return result == WEFT_OK ? weft_adam_step(adam, &how, NULL) : result;
 *      }
 *      @endcode
 *
 *  All params are acquired before they are saved, say, and before the set is destroyed. docs/trainer.md has a trainer,
 *  and what becomes of it.
 *
 *  The microbatches between two steps are a window. The first begin of a window clears the gradients; reductions start
 *  in the last microbatch, in one order on all ranks, whatever the order of the marks. A trainer whose backward is
 *  split, so that the gradients of some params are made later, when other microbatches have begun, takes
 *  WEFT_BUCKETS_LATE_MARKS: marks are then counted over the window, and it does not matter of which microbatch they
 *  are.
 *
 *  A trainer with an optimizer of its own puts three calls in place of weft_adam_step():
 *
 *      @code
 *      void update(const weft_owned *part, float norm); // part->data, from part->grad
 *
 *      weft_result own_step(weft_buckets *set)
 *      {
 *          float norm = 0;
 *          size_t count, i = 0;
 *          const weft_owned *owned = weft_buckets_owned(set, &count); // bucket by bucket
 *          weft_result result = weft_buckets_reduce(&set, 1, 0);
 *          if (result == WEFT_OK)
 *              result = weft_buckets_norm(&set, 1, &norm);
 *          for (uint32_t b = 0; b < weft_layout_buckets(weft_buckets_layout(set)) && result == WEFT_OK; b++) {
 *              for (; i < count && owned[i].bucket == b; i++)
 *                  update(&owned[i], norm);
 *              result = weft_buckets_gather(set, b, WEFT_STREAM_HOST);
 *          }
 *          return result;
 *      }
 *      @endcode
 *
 *  Every call that does not fit the state of a bucket is refused with a message that names rank, bucket and param, and
 *  changes nothing. Elements that belong to no param are always zero. */
#ifndef WEFT_BUCKETS_H
#define WEFT_BUCKETS_H
#include <weft/comm.h>
#include <weft/layout.h>
#include <weft/params.h>
#include <weft/stream.h>
WEFT_BEGIN_DECLS

typedef struct weft_buckets weft_buckets; /**< The buckets of one list of params: a set. */

enum {
    WEFT_BUCKETS_UNSHARDED = WEFT_LAYOUT_UNSHARDED,         /**< Every rank owns, and updates, everything. */
    WEFT_BUCKETS_PAD_FOR_BUSBW = WEFT_LAYOUT_PAD_FOR_BUSBW, /**< Bucket ends are multiples of 65536 elements. */
    WEFT_BUCKETS_REDUCE_AT_STEP = 4, /**< Start reductions in the step, not as soon as a bucket is full. */
    WEFT_BUCKETS_GATHER_IN_STEP = 8, /**< weft_adam_step() returns when all params are gathered. */
    WEFT_BUCKETS_UNUSED_ZERO = 16,   /**< A param without a mark counts as final; without this flag it is an error. */
    WEFT_BUCKETS_CHECK_FINITE = 32,  /**< Before its reduction each bucket is searched for NaN and infinity; rank,
                                            bucket, param and element of the first are logged. */
    WEFT_BUCKETS_GUARD_UNACQUIRED = 64, /**< For debugging on the host: reading a param that was not acquired is a
                                            SIGSEGV. Costs a second copy of the params; not with arenas for them. */
    WEFT_BUCKETS_LATE_MARKS = 128       /**< A param may be marked when later microbatches have begun. None may be left
                                            out: it is final when the last microbatch has begun and it has the marks of
                                            every microbatch of the window. */
};

/** A param that is summed over further ranks once its bucket is reduced: a tensor parallel replica whose ranks saw
 *  different tokens, or a tied weight. Only the owned part is sent.
 *
 *  Each copy of a tied weight is reduced as soon as its own gradient is final: an output layer's at the beginning of
 *  the backward. The sum over the copies is started right behind, on a comm of its own, and waits for the last of them;
 *  nothing else does: other buckets go on, and the end of a window takes the buckets with such a sum last. A weight
 *  that one rank uses twice (contributions: 2) is not reduced in two parts: the second would be as large as the whole,
 *  and the sum would be made in another order. */
typedef struct weft_buckets_sum {
    uint32_t param;  /**< All ranks of the comm must own the same part of it: see WEFT_PARAM_TIED. */
    weft_comm *comm; /**< Borrowed, outlives the set: the ranks over which it is summed. */
    const char
        *name; /**< Copied; NULL = the set's name. Alike on all ranks of comm, no other set's sum over it has it. */
} weft_buckets_sum;

/** Who shares what. weft makes comms of its own over the same ranks; these are borrowed and outlive the set. */
typedef struct weft_buckets_comms {
    size_t size;               /**< Set by WEFT_BUCKETS_COMMS_INIT. */
    weft_comm *shard;          /**< Hold the same params and divide the owning of them: data parallel ranks. */
    weft_comm *replica;        /**< Own the same parts in other shard comms; NULL = none. */
    weft_comm *expert_shard;   /**< shard for expert params; NULL = as the others, with their replica. */
    weft_comm *expert_replica; /**< replica for expert params. */
    weft_comm *norm;           /**< All ranks whose gradients make one norm, for the report and clipping. NULL = shard:
                                       right only where its ranks hold the whole model; with pipeline stages or tensor
                                       ranks each would clip by a norm of its own part. Its ranks make as many sets
                                       with it, in one order. */
    const weft_buckets_sum *sums; /**< Copied. */
    size_t sum_count;
} weft_buckets_comms;
#define WEFT_BUCKETS_COMMS_INIT WEFT_SIZED_INIT(weft_buckets_comms)

/** Memory of the trainer's for one buffer of the layout; what is NULL weft allocates. Any memory is right; that of
 *  weft_memory_alloc() is fast. It begins at a multiple of the size of its elements; no two arenas overlap. How large a
 *  buffer is, the layout says, which can be made beforehand, with the same params and numbers:
 *
 *      @code
 *      weft_result measure(const weft_params *params, const weft_layout_config *as_the_set, weft_buckets_arena *arena)
 *      {
 *          weft_layout *layout; // shard_ranks: weft_comm_size() of the shard comm; flags: those of WEFT_LAYOUT_*
 *          weft_result result = weft_layout_create(params, as_the_set, &layout);
 *          if (result == WEFT_OK) {
 *              const weft_layout_buffer *first = weft_layout_buffer_at(layout, 0); // of weft_layout_buffers()
 *              arena->param_bytes = first->elements * weft_dtype_bytes(first->dtype);
 *              arena->grad_bytes = first->elements * weft_dtype_bytes(first->grad_dtype);
 *              weft_layout_destroy(layout);
 *          }
 *          return result;
 *      }
 *      @endcode
 *
 *  Values may stand in `params` before the set is made, those of a param from element weft_layout_param_at()->start of
 *  its buffer on; padding and gradients are cleared. */
typedef struct weft_buckets_arena {
    void *params, *grads;           /**< Borrowed, outlive the set. */
    size_t param_bytes, grad_bytes; /**< At least the elements of the buffer, with padding, times the size of one. */
} weft_buckets_arena;

typedef struct weft_buckets_config {
    size_t size;            /**< Set by WEFT_BUCKETS_CONFIG_INIT. */
    const char *name;       /**< Copied; NULL = "buckets". Alike on all ranks of the set's shard and replica comms, and
                                    no other set's over these; ranks that only share the norm may call theirs
                                    otherwise. */
    size_t bucket_elements; /**< As in weft_layout_config, ... */
    uint32_t param_alignment;  /**< ... and this, ... */
    uint32_t bucket_alignment; /**< ... and this. */
    uint32_t flags;            /**< WEFT_BUCKETS_*. */
    weft_reduction reduction;  /**< WEFT_SUM, or WEFT_AVERAGE: over shard and replica ranks, for expert params too. */
    const weft_buckets_arena *arenas; /**< Copied: one for each buffer of the layout; NULL = all memory is weft's. */
    uint32_t arena_count;
    uint32_t reserved;           /**< 0. */
    size_t last_bucket_elements; /**< As in weft_layout_config. */
    weft_device device;          /**< Where params and gradients lie, and operations run; the given comms may be the
                                      host's. Arenas are its memory. */
    uint32_t reserved2;          /**< 0. */
} weft_buckets_config;
#define WEFT_BUCKETS_CONFIG_INIT WEFT_SIZED_INIT(weft_buckets_config)

/** Lay @p params out, make or take their memory, compare params and layout over the given comms, and make comms over
 *  the same ranks. If one rank fails, all of its norm comm and those they share replicas with do, with its result and
 *  its message; only a rank that gives no shard comm, or no place for the set, returns alone.
 *  @param params  borrowed, outlives the set, and cannot change while the set lives.   @param comms  copied.
 *  @param config  copied; NULL = defaults.   @param set_out  given, release with weft_buckets_destroy().
 *  Threads: setup.  Blocks: peers.  Collective over all comms.
 *  Errors: E_INVALID, E_RANGE, E_UNSUPPORTED (a dtype other than fp32, bf16, fp16), E_NO_MEMORY, E_MISMATCH (ranks hold
 *  different params: names the first), E_TIMEOUT, E_PEER_LOST. */
WEFT_API WEFT_NODISCARD weft_result weft_buckets_create(weft_params *params, const weft_buckets_comms *comms,
                                                        const weft_buckets_config *config, weft_buckets **set_out);
/** Give the set back, and its memory; NULL is fine. Acquire all params first: gathers that are still in flight, those
 *  of the last step too, are aborted with a warning, and so are reductions. Ranks that wait for them get E_ABORTED,
 *  with this thread's weft_last_error() as the reason. It stays weft_last_error() here. If an operation is stuck
 *  (E_STUCK), the memory is kept, for it may still be written.
 *  Threads: setup.  Blocks: local, on a GPU until no operation is in flight there. */
WEFT_API void weft_buckets_destroy(weft_buckets *set);

/** Where the values of param @p param are; NULL if it is frozen. Borrowed: as long as the set. Read them only when they
 *  are acquired, write them only before the first step or where this rank owns them. Threads: any. Blocks: never. */
WEFT_API void *weft_buckets_param(const weft_buckets *set, uint32_t param);
/** Where the gradient of param @p param is; NULL if it is frozen. Borrowed: as long as the set. The trainer adds to it
 *  between begin and its last mark; after the reduction only the owned part has a meaning. Threads: any. Blocks:
 *  never. */
WEFT_API void *weft_buckets_grad(const weft_buckets *set, uint32_t param);
/** The layout. Borrowed: as long as the set. Threads: any. Blocks: never. */
WEFT_API const weft_layout *weft_buckets_layout(const weft_buckets *set);

/** Begin the backward pass of a microbatch; @p last: it is the last one of the window, and reductions start in it.
 *  Threads: owner.  Blocks: never.  Hot.
 *  Errors: E_INVALID, E_STATE (the window's last microbatch has begun already; a bucket of the window before was not
 *  gathered; without LATE_MARKS, a param had some of its contributions only). */
WEFT_API WEFT_NODISCARD weft_result weft_buckets_begin(weft_buckets *set, int last);
/** The same on a GPU: if it is the first microbatch of a window, the gradients are cleared in the order of @p stream. A
 *  trainer that accumulates on several streams orders the others behind it.
 *  Threads: owner.  Blocks: on the host stream until they are cleared, else never.  Hot.
 *  Errors: the same, and E_UNSUPPORTED (no such stream here). */
WEFT_API WEFT_NODISCARD weft_result weft_buckets_begin_on(weft_buckets *set, int last, weft_stream stream);
/** Add @p count elements to the gradient of @p param, from its element @p start on, in fp32.
 *  @param grad  fp32, bf16 or fp16; borrowed during the call.
 *  Threads: owner.  Blocks: never.  Hot.
 *  Errors: E_INVALID, E_RANGE, E_UNSUPPORTED (the gradient is not kept in fp32, or on a GPU), and those of
 *  weft_buckets_mark_ready(). */
WEFT_API WEFT_NODISCARD weft_result weft_buckets_accumulate(weft_buckets *set, uint32_t param, size_t start,
                                                            const void *grad, weft_dtype dtype, size_t count);
/** Say that one contribution to the gradient of @p param is complete in this microbatch; with the last one it is final.
 *  In the last microbatch every param is marked, even one that got no gradient. In the others marks may be left out,
 *  but not with WEFT_BUCKETS_LATE_MARKS.
 *  Threads: owner.  Blocks: never.  Hot.  Stream: the reduction is queued behind what @p stream holds now.
 *  Errors: E_INVALID, E_RANGE, E_TWICE (final already, or reduced already), E_STATE (no microbatch has begun; the
 *  param was not acquired), E_UNSUPPORTED (no such stream here), and what starting an operation may return. */
WEFT_API WEFT_NODISCARD weft_result weft_buckets_mark_ready(weft_buckets *set, uint32_t param, weft_stream stream);
/** Make what is queued next on @p stream run after params @p first ... first + count - 1 have their new values. Buckets
 *  may be acquired in any order, and again.
 *  Threads: owner.  Blocks: peers on the host stream, else never.  Hot.
 *  Errors: E_INVALID, E_RANGE, E_UNSUPPORTED, and those of weft_work_finish(). */
WEFT_API WEFT_NODISCARD weft_result weft_buckets_acquire(weft_buckets *set, uint32_t first, uint32_t count,
                                                         weft_stream stream);
/** WEFT_OK if every param on this rank has its new value and may be read or saved.
 *  Threads: owner.  Blocks: never.  Errors: E_INVALID, E_STATE (names the first param that is still gathered or
 *  updated: acquire it first). */
WEFT_API WEFT_NODISCARD weft_result weft_buckets_check_whole(const weft_buckets *set);

/** End the window of @p count sets: start the reductions that have not been started, finish all, and divide what this
 *  rank owns by @p divisor (tokens, say; 0 = do not). weft_adam_step() does this itself.
 *  Threads: owner.  Blocks: peers.  Hot.  Collective.
 *  Errors: E_INVALID, E_STATE (no microbatch of the window was the last; a param was not marked: names it, its bucket
 *  and how many were), and those of weft_work_finish(). */
WEFT_API WEFT_NODISCARD weft_result weft_buckets_reduce(weft_buckets *const *sets, uint32_t count, double divisor);
/** The L2 norm of the reduced gradients of @p count sets over the ranks of the first one's norm comm. Of the sets
 *  that were given that comm, each rank takes those which were made at the same place in the order as the others', in
 *  any order here. Every element is counted once. The same float on every rank, whatever the buckets. Not finite if any
 *  gradient is not: leave the params as they are then, but gather them all the same.
 *  Threads: owner.  Blocks: peers.  Hot.  Collective.
 *  Errors: E_INVALID, E_STATE (not reduced), and those of weft_collective_run(). */
WEFT_API WEFT_NODISCARD weft_result weft_buckets_norm(weft_buckets *const *sets, uint32_t count, float *norm_out);
/** Say that this rank has updated what it owns of bucket @p bucket: the values go to every rank. Outside of a window
 *  also after loading: it makes all ranks hold what the owners hold.
 *  Threads: owner.  Blocks: never.  Hot.  Collective, in one order.  Stream: queued behind what @p stream holds now.
 *  Errors: E_INVALID, E_RANGE, E_UNSUPPORTED, E_STATE (the window is open, or a gather is under way), and what starting
 *  an operation may return. */
WEFT_API WEFT_NODISCARD weft_result weft_buckets_gather(weft_buckets *set, uint32_t bucket, weft_stream stream);

/** The part of one param that this rank owns. */
typedef struct weft_owned {
    uint32_t param, bucket;
    size_t start, count; /**< Elements of the param. */
    size_t offset;       /**< Where it begins among everything this rank owns, with padding: an index for own state. */
    void *data;          /**< Its values: weft_buckets_param() + start. */
    void *grad;          /**< Its gradient. */
} weft_owned;
/** All that this rank owns, bucket by bucket. Borrowed: as long as the set. Threads: any. Blocks: never. */
WEFT_API const weft_owned *weft_buckets_owned(const weft_buckets *set, size_t *count_out);

/** What a set takes, and what it has done. */
typedef struct weft_buckets_usage {
    size_t size;                    /**< Set by WEFT_BUCKETS_USAGE_INIT. */
    size_t elements;                /**< Of all buffers, with padding. */
    size_t padding;                 /**< Of them, those of no param. */
    size_t owned_elements;          /**< Of this rank's parts, with padding. */
    size_t param_bytes, grad_bytes; /**< Of all buffers. */
    size_t state_bytes;             /**< Of optimizers on this set: master values and moments. */
    uint64_t windows;               /**< Reduced so far. */
    uint64_t reductions, gathers;   /**< Buckets for which they have been started so far. */
} weft_buckets_usage;
#define WEFT_BUCKETS_USAGE_INIT WEFT_SIZED_INIT(weft_buckets_usage)
/** Threads: owner.  Blocks: never.  Errors: E_INVALID. */
WEFT_API WEFT_NODISCARD weft_result weft_buckets_usage_get(const weft_buckets *set, weft_buckets_usage *usage_out);

WEFT_END_DECLS
#endif
