/* SPDX-License-Identifier: Apache-2.0 */
/* From a full bucket to its shards: the operations that each bucket needs, and the end of a window. */
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "base/memory.h"
#include "set.h"
#include "set_gpu.h"

uint32_t weft__bucket_label(const weft_buckets *set, const weft__bucket *bucket, const char *what)
{
    char text[WEFT_TRACE_LABEL_BYTES];
    snprintf(text, sizeof text, "%s %s %u", set->name, what, (unsigned)(bucket - set->buckets));
    return weft_trace_label(set->world, text);
}

static weft__op all_reduce(weft_comm *comm, void *data, size_t count, weft_dtype dtype, weft_reduction reduction)
{
    weft__op op = {.comm = comm, .what = WEFT_COLLECTIVE_INIT};
    op.what.kind = WEFT_ALL_REDUCE;
    op.what.dtype = dtype;
    op.what.reduction = reduction;
    op.what.send = op.what.recv = data;
    op.what.count = count;
    return op;
}

static weft__op reduce_shard(const weft_buckets *set, const weft__bucket *bucket, void *shard)
{
    weft__op op =
        all_reduce(bucket->lane->reduce_comm, bucket->grads, bucket->elements, bucket->grad_dtype, set->reduction);
    if (!(set->flags & WEFT_BUCKETS_UNSHARDED)) {
        op.what.kind = WEFT_REDUCE_SCATTER;
        op.what.recv = shard;
        op.what.count = bucket->shard_elements;
    }
    op.what.label = weft__bucket_label(set, bucket, "reduce");
    return op;
}

/* Write the chain of one bucket to @p next: over the shard ranks, over their replicas, then the sums of single params.
 * Returns what follows it. */
static weft__op *write_chain(const weft_buckets *set, weft__bucket *bucket, weft__op *next)
{
    void *shard = bucket->grads + weft__dtype_offset(bucket->shard_start, bucket->grad_dtype);
    bucket->reduce = next;
    *next++ = reduce_shard(set, bucket, shard);
    if (bucket->lane->replica) {
        *next =
            all_reduce(bucket->lane->replica_comm, shard, bucket->shard_elements, bucket->grad_dtype, set->reduction);
        next++->what.label = weft__bucket_label(set, bucket, "replica");
    }
    for (uint32_t i = 0; i < bucket->owned_count; i++)
        for (size_t k = 0; k < set->sum_count; k++)
            if (set->sums[k].param == bucket->owned[i].param) {
                *next = all_reduce(set->sums[k].comm->comm, bucket->owned[i].grad, bucket->owned[i].count,
                                   bucket->grad_dtype, WEFT_SUM);
                next++->what.label = weft__bucket_label(set, bucket, "sum");
                bucket->meets_copies |= weft_params_get(set->params, set->sums[k].param)->flags & WEFT_PARAM_TIED;
            }
    bucket->reduce_count = (uint32_t)(next - bucket->reduce);
    return next;
}

weft_result weft__reduce_make(weft_buckets *set)
{
    set->ops = weft__alloc((2 * (size_t)set->bucket_count + set->sum_count) * sizeof *set->ops);
    if (!set->ops)
        return WEFT_E_NO_MEMORY;
    weft__op *next = set->ops;
    for (uint32_t i = 0; i < set->bucket_count; i++)
        next = write_chain(set, &set->buckets[i], next);
    return WEFT_OK;
}

/* How much of the chain is started when the bucket is full. On a GPU sums over ranks of other stages come last in the
 * window: all that a device is given may go through one queue, where they would wait before messages that the others
 * need to come as far. */
static uint32_t prompt_count(const weft_buckets *set, const weft__bucket *bucket)
{
    return set->gpu && bucket->reduce_count ? 1 + (bucket->lane->replica != NULL) : bucket->reduce_count;
}

/* Operations @p first ... end - 1 of the chain, each behind the one before. */
static weft_result start_chain(weft_buckets *set, weft__bucket *bucket, uint32_t first, uint32_t end)
{
    for (uint32_t i = first; i < end; i++) {
        weft__op *op = &bucket->reduce[i];
        op->what.after = i > 0 ? bucket->reduce[i - 1].work : WEFT_WORK_NONE;
        weft_result result = weft_collective_start(op->comm, &op->what, bucket->stream, &op->work);
        if (result != WEFT_OK && i > 0) /* the chain has begun and cannot be made whole: tell its ranks */
            (void)weft_comm_abort_because(op->comm, weft_last_error());
        WEFT_TRY(result);
        if (i == 0)
            WEFT_TRY(weft__phase_move(set, bucket, WEFT__CALL_LAUNCH));
    }
    return WEFT_OK;
}

weft_result weft__reduce_start(weft_buckets *set, weft__bucket *bucket)
{
    WEFT_TRY(weft__phase_check(set, bucket, WEFT__CALL_LAUNCH, WEFT_LAYOUT_NONE));
    WEFT_TRY(start_chain(set, bucket, 0, prompt_count(set, bucket)));
    set->usage.reductions++;
    return WEFT_OK;
}

weft_result weft__op_finish(weft__op *op, weft_stream stream)
{
    if (op->work.value == 0) { /* finished before; if it failed then, its comm knows how */
        char text[256];
        weft_result result = weft_comm_error(op->comm, text, sizeof text);
        return result < 0 ? weft__fail_quietly(result, text) : WEFT_OK;
    }
    weft_work work = op->work;
    op->work = WEFT_WORK_NONE;
    return weft_work_finish(work, stream);
}

/* Wait for the chain of a bucket, and make its owned gradients what the optimizer and the norm take. */
static weft_result finish(weft_buckets *set, weft__bucket *bucket, double divisor)
{
    if (bucket->phase == WEFT__REDUCED) /* by a call that failed at a later bucket */
        return WEFT_OK;
    WEFT_TRY(weft__phase_check(set, bucket, WEFT__CALL_FINISH, WEFT_LAYOUT_NONE));
    for (uint32_t i = 0; i < bucket->reduce_count; i++)
        WEFT_TRY(weft__op_finish(&bucket->reduce[i], weft__set_stream(set)));
    double factor = bucket->lane->scale / (divisor != 0 ? divisor : 1);
    void *shard = bucket->grads + weft__dtype_offset(bucket->shard_start, bucket->grad_dtype);
    if (factor != 1)
        WEFT_TRY(weft__set_scale(set, shard, bucket->shard_elements, bucket->grad_dtype, factor));
    WEFT_TRY(weft__norm_add(set, bucket));
    return weft__phase_move(set, bucket, WEFT__CALL_FINISH);
}

/* Wait for the chains of all sets, those of the last set first: its params are used last, so its gradients were final
 * first. */
static weft_result finish_all(weft_buckets *const *sets, uint32_t count, bool meets_copies, double divisor)
{
    for (uint32_t i = count; i-- > 0;)
        for (uint32_t b = 0; b < sets[i]->bucket_count; b++) {
            weft__bucket *bucket = weft__launched(sets[i], b);
            if (bucket->meets_copies == meets_copies)
                WEFT_TRY(finish(sets[i], bucket, divisor));
        }
    return WEFT_OK;
}

static weft_result start_rest(weft_buckets *const *sets, uint32_t count)
{
    for (uint32_t i = count; i-- > 0;)
        for (uint32_t b = 0; b < sets[i]->bucket_count; b++) {
            weft__bucket *bucket = weft__launched(sets[i], b);
            WEFT_TRY(start_chain(sets[i], bucket, prompt_count(sets[i], bucket), bucket->reduce_count));
        }
    return WEFT_OK;
}

static weft_result check_window(const weft_buckets *set)
{
    if (set->window == WEFT__WINDOW_LAST)
        return WEFT_OK;
    return weft__fail(WEFT_E_STATE, "rank %d, set '%s': the window is to end, but %s: nothing was reduced", set->rank,
                      set->name,
                      set->window == WEFT__WINDOW_OPEN ? "none of its microbatches was begun as the last one"
                                                       : "no microbatch has begun since the last one ended");
}

weft_result weft__check_sets(weft_buckets *const *sets, uint32_t count)
{
    if (!sets || count == 0)
        return weft__fail(WEFT_E_INVALID, "buckets: no sets");
    for (uint32_t i = 0; i < count; i++)
        if (!sets[i])
            return weft__fail(WEFT_E_INVALID, "buckets: set %u of %u is none", i, count);
    return WEFT_OK;
}

weft_result weft_buckets_reduce(weft_buckets *const *sets, uint32_t count, double divisor)
{
    WEFT_TRY(weft__check_sets(sets, count));
    if (!isfinite(divisor) || divisor < 0)
        return weft__fail(WEFT_E_INVALID, "rank %d, set '%s': gradients cannot be divided by %g", sets[0]->rank,
                          sets[0]->name, divisor);
    for (uint32_t i = 0; i < count; i++) {
        WEFT_TRY(check_window(sets[i]));
        WEFT_TRY(weft__ready_check(sets[i]));
    }
    for (uint32_t i = 0; i < count; i++)
        WEFT_TRY(weft__ready_all(sets[i]));
    for (uint32_t i = 0; i < count; i++)
        WEFT_TRY(weft__norm_begin(sets[i]));
    WEFT_TRY(start_rest(sets, count));
    WEFT_TRY(finish_all(sets, count, false, divisor));
    WEFT_TRY(finish_all(sets, count, true, divisor));
    for (uint32_t i = 0; i < count; i++) {
        sets[i]->window = WEFT__WINDOW_CLOSED;
        sets[i]->usage.windows++;
    }
    return WEFT_OK;
}
