/* SPDX-License-Identifier: Apache-2.0 */
/* From the shards back to every rank: gathers, and waiting for the params that are needed next. */
#include "base/error.h"
#include "device/gpu.h"
#include "set.h"
#include "set_gpu.h"

void weft__gather_make(weft_buckets *set)
{
    for (uint32_t i = 0; i < set->bucket_count; i++) {
        weft__bucket *bucket = &set->buckets[i];
        bucket->gather = (weft__op){.comm = bucket->lane->gather_comm, .what = WEFT_COLLECTIVE_INIT};
        weft_collective *what = &bucket->gather.what;
        what->kind = WEFT_ALL_GATHER;
        what->dtype = bucket->dtype;
        what->send = bucket->params + weft__dtype_offset(bucket->shard_start, bucket->dtype);
        what->recv = bucket->params;
        what->count = bucket->shard_elements;
        what->label = weft__bucket_label(set, bucket, "gather");
    }
}

/* On a GPU others may still come: remember where on @p stream it has been gathered. */
static weft_result note_stream(weft_buckets *set, const weft__bucket *bucket, weft_stream stream)
{
    size_t index = (size_t)(bucket - set->buckets);
    if (!set->gpu)
        return WEFT_OK;
    set->gpu->gatherer[index] = stream;
    if (stream.kind == WEFT_DEVICE_HOST)
        return WEFT_OK;
    return set->gpu->device->calls->record(set->gpu->device, set->gpu->gathered[index], stream);
}

weft_result weft__gather_start(weft_buckets *set, weft__bucket *bucket, weft_work after, weft_stream stream)
{
    WEFT_TRY(weft__phase_check(set, bucket, WEFT__CALL_GATHER, WEFT_LAYOUT_NONE));
    set->usage.gathers++;
    if (set->flags & WEFT_BUCKETS_UNSHARDED) { /* every rank has made all values itself */
        bucket->phase = WEFT__FRESH;
        return note_stream(set, bucket, stream);
    }
    weft__guard_close(bucket);
    bucket->gather.what.after = after;
    weft_result result = weft_collective_start(bucket->gather.comm, &bucket->gather.what, stream, &bucket->gather.work);
    if (result != WEFT_OK) {
        weft__guard_open(bucket);
        return result;
    }
    return weft__phase_move(set, bucket, WEFT__CALL_GATHER);
}

/* It has been acquired before, perhaps for another stream. */
static weft_result follow(weft_buckets *set, const weft__bucket *bucket, weft_stream stream)
{
    size_t index = (size_t)(bucket - set->buckets);
    weft__set_gpu *gpu = set->gpu;
    if (!gpu)
        return WEFT_OK;
    weft_stream gatherer = gpu->gatherer[index];
    bool is_same = gatherer.kind == stream.kind && gatherer.handle == stream.handle;
    if (gatherer.kind == WEFT_DEVICE_HOST || is_same)
        return WEFT_OK;
    if (stream.kind == WEFT_DEVICE_HOST)
        return weft__gpu_await(set->world, gpu->gathered[index]);
    return gpu->device->calls->order(gpu->device, stream, gpu->gathered[index]);
}

weft_result weft__gather_finish(weft_buckets *set, weft__bucket *bucket, weft_stream stream)
{
    if (bucket->phase != WEFT__GATHERING)
        return follow(set, bucket, stream);
    WEFT_TRY(weft__op_finish(&bucket->gather, stream));
    WEFT_TRY(note_stream(set, bucket, stream));
    weft__guard_open(bucket);
    bucket->phase = set->window == WEFT__WINDOW_CLOSED ? WEFT__FRESH : WEFT__ACCUMULATING;
    return WEFT_OK;
}

weft_result weft_buckets_gather(weft_buckets *set, uint32_t bucket, weft_stream stream)
{
    if (!set)
        return weft__fail(WEFT_E_INVALID, "buckets: no set");
    if (bucket >= set->bucket_count)
        return weft__fail(WEFT_E_RANGE, "rank %d, set '%s': no bucket %u, there are %u", set->rank, set->name, bucket,
                          set->bucket_count);
    WEFT_TRY(weft__set_takes(set, stream));
    return weft__gather_start(set, &set->buckets[bucket], WEFT_WORK_NONE, stream);
}

weft_result weft_buckets_acquire(weft_buckets *set, uint32_t first, uint32_t count, weft_stream stream)
{
    if (!set)
        return weft__fail(WEFT_E_INVALID, "buckets: no set");
    uint32_t params = weft_params_count(set->params);
    if (count > params || first > params - count)
        return weft__fail(WEFT_E_RANGE, "rank %d, set '%s': params %u to %llu of %u are to be acquired", set->rank,
                          set->name, first, (unsigned long long)first + count, params);
    WEFT_TRY(weft__set_takes(set, stream));
    for (uint32_t i = first; i < first + count; i++)
        if (set->marks[i].bucket != WEFT_LAYOUT_NONE)
            WEFT_TRY(weft__gather_finish(set, &set->buckets[set->marks[i].bucket], stream));
    return WEFT_OK;
}

weft_result weft_buckets_check_whole(const weft_buckets *set)
{
    if (!set)
        return weft__fail(WEFT_E_INVALID, "buckets: no set");
    for (uint32_t i = 0; i < weft_params_count(set->params); i++)
        if (set->marks[i].bucket != WEFT_LAYOUT_NONE)
            WEFT_TRY(weft__phase_check(set, &set->buckets[set->marks[i].bucket], WEFT__CALL_READ, i));
    return WEFT_OK;
}
