/* SPDX-License-Identifier: Apache-2.0 */
/* The global gradient norm: every element of the model once, as an exact sum, rounded once. */
#include <math.h>

#include "base/error.h"
#include "device/gpu.h"
#include "set.h"
#include "set_gpu.h"

/* What one rank gives to the others. */
enum { HIGH, LOW, FOUND, PER_RANK };

/* Which elements of an owned part this rank counts: those that no other rank does. */
static size_t counted(const weft_buckets *set, const weft__bucket *bucket, const weft_owned *owned, size_t *first_out)
{
    const weft__bucket_lane *lane = bucket->lane;
    *first_out = 0;
    if (weft_params_get(set->params, owned->param)->flags & WEFT_PARAM_COPY ||
        (lane->replica && weft_comm_rank(lane->replica) > 0))
        return 0;
    if (!(set->flags & WEFT_BUCKETS_UNSHARDED))
        return owned->count;
    /* All ranks own everything: each counts an even part of the param. */
    size_t ranks = (size_t)weft_comm_size(lane->shard), rank = (size_t)weft_comm_rank(lane->shard);
    size_t part = owned->count / ranks, rest = owned->count % ranks;
    *first_out = rank * part + (rank < rest ? rank : rest);
    return part + (rank < rest);
}

weft_result weft__norm_begin(weft_buckets *set)
{
    if (!set->gpu)
        return WEFT_OK;
    return weft__set_fill(set, set->gpu->sum, sizeof *set->gpu->sum / sizeof(double), WEFT_FP64, 0, set->gpu->stream);
}

weft_result weft__norm_add(weft_buckets *set, weft__bucket *bucket)
{
    weft__double2 sum = {0, 0};
    for (uint32_t i = 0; i < bucket->owned_count; i++) {
        const weft_owned *owned = &bucket->owned[i];
        size_t first, count = counted(set, bucket, owned, &first);
        const unsigned char *grad = (const unsigned char *)owned->grad + weft__dtype_offset(first, bucket->grad_dtype);
        if (set->gpu)
            WEFT_TRY(set->gpu->device->calls->sum_of_squares(set->gpu->device, grad, count, bucket->grad_dtype,
                                                             set->gpu->sum, set->gpu->stream));
        else
            sum = weft__double2_add(sum, set->vector->sum_of_squares(grad, count, bucket->grad_dtype));
    }
    bucket->squares = sum;
    return WEFT_OK;
}

static bool less(weft__double2 a, double b)
{
    return a.high < b || (a.high == b && a.low < 0);
}

static bool greater(weft__double2 a, double b)
{
    return a.high > b || (a.high == b && a.low > 0);
}

/* The rounding of the square root to double and then to float is at most one float off. A number half-way between two
 * floats has 25 bits, so its square is exact: comparing with it finds the right side. */
float weft__norm_round(weft__double2 squares)
{
    float norm = (float)sqrt(squares.high);
    if (!isfinite(norm))
        return norm;
    float down = nextafterf(norm, 0), up = nextafterf(norm, INFINITY);
    double lower = ((double)down + (double)norm) / 2, upper = ((double)norm + (double)up) / 2;
    if (less(squares, lower * lower))
        return down;
    if (greater(squares, upper * upper))
        return up;
    return norm;
}

/* Where all ranks meet, whatever order each has its sets in: of those that share the first one's norm comm, the one
 * that was made first. */
static const weft_buckets *meeting_set(weft_buckets *const *sets, uint32_t count)
{
    const weft_buckets *oldest = sets[0];
    for (uint32_t i = 1; i < count; i++)
        if (sets[i]->norm == sets[0]->norm && sets[i]->norm_number < oldest->norm_number)
            oldest = sets[i];
    return oldest;
}

static weft_result check_reduced(weft_buckets *const *sets, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t b = 0; b < sets[i]->bucket_count; b++)
            WEFT_TRY(weft__phase_check(sets[i], &sets[i]->buckets[b], WEFT__CALL_NORM, WEFT_LAYOUT_NONE));
    return WEFT_OK;
}

weft_result weft__norm_judge(weft_buckets *const *sets, uint32_t count, const weft__step_rule *rule,
                             weft__step_verdict *verdict)
{
    WEFT_TRY(check_reduced(sets, count));
    const weft_buckets *meeting = meeting_set(sets, count);
    weft__set_gpu *gpu = meeting->gpu;
    const weft__device_calls *calls = gpu->device->calls;
    weft_comm *comm = meeting->norm_comm;
    WEFT_TRY(weft__set_fill(meeting, gpu->total, 2, WEFT_FP64, 0, gpu->stream));
    for (uint32_t i = 0; i < count; i++)
        WEFT_TRY(calls->fold(gpu->device, sets[i]->gpu->sum, gpu->total, gpu->stream));
    WEFT_TRY(weft_all_gather_run(comm, gpu->total, gpu->totals, 2, WEFT_FP64, gpu->stream));
    return calls->judge(gpu->device, gpu->totals, weft_comm_size(comm), rule, verdict, gpu->stream);
}

weft_result weft__norm_exchange(weft_buckets *const *sets, uint32_t count, float *norm_out, int *nonfinite_rank_out)
{
    weft__double2 sum = {0, 0};
    bool found = false;
    WEFT_TRY(check_reduced(sets, count));
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t b = 0; b < sets[i]->bucket_count; b++)
            sum = weft__double2_add(sum, sets[i]->buckets[b].squares);
        found = found || sets[i]->found_nonfinite;
    }
    weft_comm *comm = meeting_set(sets, count)->norm_comm;
    double *mine = meeting_set(sets, count)->norm_room, *all = mine + PER_RANK;
    mine[HIGH] = sum.high, mine[LOW] = sum.low, mine[FOUND] = found;
    WEFT_TRY(weft_all_gather_run(comm, mine, all, PER_RANK, WEFT_FP64, WEFT_STREAM_HOST));
    sum = (weft__double2){0, 0};
    *nonfinite_rank_out = -1;
    for (int rank = 0; rank < weft_comm_size(comm); rank++) {
        const double *theirs = all + (size_t)rank * PER_RANK;
        sum = weft__double2_add(sum, (weft__double2){theirs[HIGH], theirs[LOW]});
        int world_rank = weft_comm_world_rank(comm, rank);
        if (theirs[FOUND] != 0 && (*nonfinite_rank_out < 0 || world_rank < *nonfinite_rank_out))
            *nonfinite_rank_out = world_rank;
    }
    *norm_out = weft__norm_round(sum);
    return WEFT_OK;
}

/* With a verdict that nobody else sees; the host waits for it. */
static weft_result norm_of_gpu(weft_buckets *const *sets, uint32_t count, float *norm_out)
{
    const weft__set_gpu *gpu = sets[0]->gpu;
    const weft__device_calls *calls = gpu->device->calls;
    const weft__step_rule rule = {0};
    weft__step_verdict verdict, *there;
    WEFT_TRY(calls->alloc(gpu->device, sizeof verdict, (void **)&there));
    weft_result result = weft__norm_judge(sets, count, &rule, there);
    if (result == WEFT_OK)
        result = calls->copy(gpu->device, &verdict, there, sizeof verdict, gpu->stream);
    if (result == WEFT_OK)
        result = weft__gpu_synchronize(sets[0]->world, gpu->stream);
    weft__gpu_release(sets[0]->world, there);
    *norm_out = result == WEFT_OK ? (float)verdict.norm : 0;
    return result;
}

size_t weft__norm_room(int ranks)
{
    return ((size_t)ranks + 1) * PER_RANK * sizeof(double);
}

weft_result weft_buckets_norm(weft_buckets *const *sets, uint32_t count, float *norm_out)
{
    int nonfinite_rank;
    WEFT_TRY(weft__check_sets(sets, count));
    if (!norm_out)
        return weft__fail(WEFT_E_INVALID, "buckets: no place for the norm");
    if (sets[0]->gpu)
        return norm_of_gpu(sets, count, norm_out);
    return weft__norm_exchange(sets, count, norm_out, &nonfinite_rank);
}
