/* SPDX-License-Identifier: Apache-2.0 */
/* What a set of buckets is made of, and which file does what with it. Everything is made at creation: the calls of a
 * step find operations filled in, and start them. */
#ifndef WEFT_BUCKETS_SET_H
#define WEFT_BUCKETS_SET_H
#include <stdbool.h>
#include <weft/buckets.h>
#include <weft/collective.h>
#include <weft/trace.h>

#include "device/vector.h"
#include "phase.h"

/* One operation of a bucket, filled in at creation; started once a window. */
typedef struct weft__op {
    weft_comm *comm;
    weft_collective what;
    weft_work work; /* in flight, or none */
} weft__op;

/* The ranks that share buckets: one lane for dense params, one for expert params if these are shared otherwise. */
typedef struct weft__bucket_lane {
    weft_comm *shard, *replica;                          /* as given; replica may be NULL */
    weft_comm *reduce_comm, *gather_comm, *replica_comm; /* ours */
    uint32_t buckets;
    double scale; /* what is left to multiply after an average over these ranks; 1 = nothing */
} weft__bucket_lane;

/* A comm of ours for sums of params over further ranks. */
typedef struct weft__sum_comm {
    weft_comm *given, *comm;
    const char *name; /* the set's or the sum's */
    uint32_t ops;
} weft__sum_comm;

/* One param that is summed over further ranks. */
typedef struct weft__sum {
    uint32_t param;
    weft_comm *given;
    char *name;
    weft__sum_comm *comm;
} weft__sum;

typedef struct weft__bucket {
    weft__bucket_phase phase;
    uint32_t pending;   /* params that are not final yet in the last microbatch */
    weft_stream stream; /* of its last mark, then: behind which it is reduced */
    bool scattered;     /* its marks came on several streams of a GPU */
    const weft_layout_bucket *place;
    weft__bucket_lane *lane;
    weft_dtype dtype, grad_dtype;
    unsigned char *params; /* where gathers land; other ranks read them */
    unsigned char *view;   /* what the trainer sees: params, or pages that can be guarded */
    unsigned char *grads;
    size_t elements;
    size_t shard_start, shard_elements; /* what this rank owns, from the start of the bucket */
    weft_owned *owned;
    uint32_t owned_count;
    weft__op *reduce; /* the chain that makes owned gradients whole: each runs after the one before */
    uint32_t reduce_count;
    bool meets_copies; /* it ends with the sum of a tied param: other stages may come to that much later */
    weft__op gather;
    weft__double2 squares; /* sum over what this rank counts, once reduced */
} weft__bucket;

/* How far the gradient of a param is. */
typedef struct weft__mark {
    uint64_t round; /* the last one in which it was marked */
    uint64_t count; /* how often it was marked there */
    uint32_t contributions;
    uint32_t bucket;
} weft__mark;

typedef enum weft__window {
    WEFT__WINDOW_CLOSED, /* before the first microbatch, and after the reduction */
    WEFT__WINDOW_OPEN,
    WEFT__WINDOW_LAST /* the last microbatch has begun */
} weft__window;

/* The flat memory of one buffer. */
typedef struct weft__memory {
    unsigned char *params, *grads;
    bool params_ours, grads_ours;
} weft__memory;

typedef struct weft__set_gpu weft__set_gpu;

struct weft_buckets {
    weft_params *params;
    weft_layout *layout;
    weft_world *world;
    const weft__vector *vector; /* arithmetic on the host, ... */
    weft__set_gpu *gpu;         /* ... unless it is on a GPU */
    char *name;
    uint32_t flags;
    weft_reduction reduction;
    int rank; /* in the world: for messages */

    weft__bucket_lane lanes[2];  /* dense; expert */
    weft_comm *norm, *norm_comm; /* as given, and ours */
    uint32_t norm_number;        /* of this set among all that were given it: alike on all its ranks */
    weft__sum *sums;
    size_t sum_count;
    weft__sum_comm *sum_comms;
    size_t sum_comm_count;
    struct weft__comms *comms; /* ours, as a list */

    weft__memory *memory; /* one a buffer */
    uint32_t bucket_count;
    weft__bucket *buckets;
    weft__op *ops; /* of all buckets */
    weft_owned *owned;
    size_t owned_count, owned_elements;
    weft__mark *marks; /* one a param */

    weft__window window;
    uint64_t round;       /* over which marks are counted: a microbatch, or a window if marks may be late */
    uint64_t begun;       /* microbatches of this round: so many times its contributions a param is marked */
    uint32_t incomplete;  /* params with some, not all marks of this round */
    uint32_t next_launch; /* index into the launch order */
    bool found_nonfinite; /* in this window, on this rank */
    bool has_optimizer;
    bool is_stuck;       /* operations ended with E_STUCK: its memory may still be written by others */
    uint32_t step_label; /* of the spans of an optimizer: one a bucket, with its number */
    double *norm_room;   /* for the exchange: what this rank gives, then what all give */
    weft_buckets_usage usage;
};

static inline size_t weft__dtype_offset(size_t elements, weft_dtype dtype)
{
    return elements * weft_dtype_bytes(dtype);
}

/* phase.c: refuse a call, with a message that names the rank, the set, the bucket and, unless WEFT_LAYOUT_NONE, the
 * param. */
weft_result weft__refuse(const weft_buckets *set, const weft__bucket *bucket, uint32_t param, weft_result result,
                         const char *format, ...) WEFT_PRINTF(5, 6);
/* May @p call be made on the bucket as it is? The refusal speaks of @p param, unless WEFT_LAYOUT_NONE. */
weft_result weft__phase_check(const weft_buckets *set, const weft__bucket *bucket, weft__call call, uint32_t param);
/* The same, and go on to the phase that follows. */
weft_result weft__phase_move(const weft_buckets *set, weft__bucket *bucket, weft__call call);

/* agree.c: all ranks that the given comms join learn whether all are well; else all get the same failure. */
weft_result weft__agree(const weft_buckets_comms *comms, weft_result mine);
/* plan.c: which ranks share buckets, and what each bucket is. */
#define WEFT__LAYOUT_FLAGS (WEFT_BUCKETS_UNSHARDED | WEFT_BUCKETS_PAD_FOR_BUSBW)
void weft__plan_lanes(weft_buckets *set, const weft_buckets_comms *comms);
weft_result weft__plan_make(weft_buckets *set, const weft_buckets_config *config);
/* compare.c: do all ranks of each given comm hold what they must hold alike? What a rank learns is of its own comms. */
weft_result weft__compare(const weft_buckets *set, const weft_buckets_config *config);
/* sums.c: the list of params that are summed over further ranks. */
weft_result weft__sums_take(weft_buckets *set, const weft_buckets_comms *comms);
void weft__sums_release(weft_buckets *set);
/* comms.c: our comms over the ranks of the given ones. */
weft_result weft__comms_plan(weft_buckets *set);
weft_result weft__comms_start(weft_buckets *set);
weft_result weft__comms_finish(weft_buckets *set);
void weft__comms_release(weft_buckets *set);
/* buffer.c: memory, and what in it this rank owns. */
weft_result weft__memory_make(weft_buckets *set, const weft_buckets_config *config);
void weft__memory_release(weft_buckets *set);
weft_result weft__owned_make(weft_buckets *set);
/* guard.c: pages that the trainer cannot read while their bucket is not acquired. */
weft_result weft__guard_make(weft_buckets *set);
void weft__guard_release(weft_buckets *set);
void weft__guard_close(const weft__bucket *bucket);
void weft__guard_open(const weft__bucket *bucket);

/* stop.c: nothing may be in flight when comms are destroyed. @p said: the last failure on this thread, which may be why
 * the set goes. */
void weft__stop(weft_buckets *set, const char *said);
/* ready.c: may every param count as final? If not, names the first. */
weft_result weft__ready_check(const weft_buckets *set);
/* Every param counts as final: start what is left. */
weft_result weft__ready_all(weft_buckets *set);
/* launch.c: start what is full and next in the order. */
weft_result weft__launch_due(weft_buckets *set);
/* The bucket that is launched as number @p index. */
weft__bucket *weft__launched(const weft_buckets *set, uint32_t index);

/* reduce.c: the chain of operations of each bucket. */
weft_result weft__reduce_make(weft_buckets *set);
weft_result weft__reduce_start(weft_buckets *set, weft__bucket *bucket);
/* Finish an operation, once; later calls tell how its comm is. */
weft_result weft__op_finish(weft__op *op, weft_stream stream);
/* A label for traces, such as "model reduce 3". */
uint32_t weft__bucket_label(const weft_buckets *set, const weft__bucket *bucket, const char *what);
weft_result weft__check_sets(weft_buckets *const *sets, uint32_t count);
/* norm.c: bytes of the room for the exchange among @p ranks. */
size_t weft__norm_room(int ranks);
/* A window ends: nothing is counted yet. */
weft_result weft__norm_begin(weft_buckets *set);
/* Count the squares of a bucket that are this rank's to count. */
weft_result weft__norm_add(weft_buckets *set, weft__bucket *bucket);
/* The norm over all ranks; *nonfinite_rank_out is the lowest world rank whose check found something, or -1. */
weft_result weft__norm_exchange(weft_buckets *const *sets, uint32_t count, float *norm_out, int *nonfinite_rank_out);
/* The square root, rounded once. */
float weft__norm_round(weft__double2 squares);
/* gather.c */
void weft__gather_make(weft_buckets *set);
/* Behind the work @p after of another set, too, if there is one. */
weft_result weft__gather_start(weft_buckets *set, weft__bucket *bucket, weft_work after, weft_stream stream);
/* Wait for the gather of a bucket, if there is one. */
weft_result weft__gather_finish(weft_buckets *set, weft__bucket *bucket, weft_stream stream);

#endif
