/* SPDX-License-Identifier: Apache-2.0 */
/* Streams and arithmetic of a set, where its memory is. */
#include "set_gpu.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"
#include "device/gpu.h"

static const weft__device_calls *calls_of(const weft_buckets *set)
{
    return set->gpu->device->calls;
}

static weft_result refuse_flags(const weft_buckets *set)
{
    static const struct {
        uint32_t flag;
        const char *name;
    } host_only[] = {{WEFT_BUCKETS_CHECK_FINITE, "WEFT_BUCKETS_CHECK_FINITE"},
                     {WEFT_BUCKETS_GUARD_UNACQUIRED, "WEFT_BUCKETS_GUARD_UNACQUIRED"}};
    for (size_t i = 0; i < sizeof host_only / sizeof *host_only; i++)
        if (set->flags & host_only[i].flag)
            return weft__fail(WEFT_E_UNSUPPORTED, "set '%s': %s is for sets of the host", set->name, host_only[i].name);
    return WEFT_OK;
}

static weft_result make_parts(weft_buckets *set)
{
    weft__set_gpu *gpu = set->gpu;
    const weft__device_calls *calls = gpu->device->calls;
    gpu->gathered = weft__alloc(set->bucket_count * sizeof(weft__event *));
    gpu->gatherer = weft__alloc(set->bucket_count * sizeof *gpu->gatherer);
    if (!gpu->gathered || !gpu->gatherer)
        return WEFT_E_NO_MEMORY;
    WEFT_TRY(calls->stream_open(gpu->device, 1, &gpu->launches));
    WEFT_TRY(calls->event_open(gpu->device, &gpu->stepped));
    WEFT_TRY(calls->event_open(gpu->device, &gpu->judged));
    WEFT_TRY(calls->event_open(gpu->device, &gpu->passed));
    for (uint32_t i = 0; i < set->bucket_count; i++)
        WEFT_TRY(calls->event_open(gpu->device, &gpu->gathered[i]));
    size_t ranks = (size_t)weft_comm_size(set->norm);
    WEFT_TRY(calls->alloc(gpu->device, sizeof *gpu->sum, (void **)&gpu->sum));
    WEFT_TRY(calls->alloc(gpu->device, (1 + ranks) * sizeof *gpu->total, (void **)&gpu->total));
    gpu->totals = gpu->total + 1;
    return calls->record(gpu->device, gpu->stepped, gpu->stream);
}

weft_result weft__set_gpu_open(weft_buckets *set, weft_device device)
{
    if (device == WEFT_DEVICE_HOST)
        return WEFT_OK;
    WEFT_TRY(refuse_flags(set));
    weft__device *opened;
    WEFT_TRY(weft__gpu_of(set->world, device, &opened));
    set->gpu = weft__alloc(sizeof *set->gpu);
    if (!set->gpu)
        return WEFT_E_NO_MEMORY;
    set->gpu->device = opened;
    set->gpu->stream = weft__gpu_stream(set->world);
    return make_parts(set);
}

weft_result weft__set_gpu_attach(weft_buckets *set)
{
    uint32_t buffer = UINT32_MAX;
    bool parallel = false;
    for (uint32_t i = 0; set->gpu && i < set->bucket_count; i++) {
        const weft__bucket *bucket = &set->buckets[i];
        parallel |= weft_comm_size(bucket->lane->shard) > 1;
        if (bucket->place->buffer == buffer)
            continue;
        buffer = bucket->place->buffer;
        const weft__memory *memory = &set->memory[buffer];
        const weft_layout_buffer *whole = weft_layout_buffer_at(set->layout, buffer);
        WEFT_TRY(weft__gpu_attach(bucket->lane->reduce_comm, memory->grads,
                                  weft__dtype_offset(whole->elements, whole->grad_dtype)));
        if (bucket->lane->gather_comm)
            WEFT_TRY(weft__gpu_attach(bucket->lane->gather_comm, memory->params,
                                      weft__dtype_offset(whole->elements, whole->dtype)));
    }
    if (parallel)
        weft__gpu_warn_of_one_queue();
    return WEFT_OK;
}

void weft__set_gpu_close(weft_buckets *set)
{
    weft__set_gpu *gpu = set->gpu;
    if (!gpu)
        return;
    const weft__device_calls *calls = gpu->device->calls;
    (void)weft__gpu_synchronize(set->world, gpu->stream);
    for (uint32_t i = 0; gpu->gathered && i < set->bucket_count; i++)
        calls->event_close(gpu->device, gpu->gathered[i]);
    calls->event_close(gpu->device, gpu->passed);
    calls->event_close(gpu->device, gpu->judged);
    calls->event_close(gpu->device, gpu->stepped);
    if (gpu->launches.handle && !weft__gpu_is_stuck(set->world)) /* what it holds may never end */
        calls->stream_close(gpu->device, gpu->launches);
    weft__gpu_release(set->world, gpu->total);
    weft__gpu_release(set->world, gpu->sum);
    free(gpu->gatherer);
    free(gpu->gathered);
    free(gpu);
    set->gpu = NULL;
}

/* ------------------------------------------------------------------------------------------- streams */

weft_result weft__set_takes(const weft_buckets *set, weft_stream stream)
{
    if (stream.kind == WEFT_DEVICE_HOST || (set->gpu && stream.kind == (uint64_t)calls_of(set)->kind))
        return WEFT_OK;
    return weft__fail(WEFT_E_UNSUPPORTED, "rank %d, set '%s': a device stream, but the set is on the host", set->rank,
                      set->name);
}

weft_stream weft__set_stream(const weft_buckets *set)
{
    return set->gpu ? set->gpu->stream : WEFT_STREAM_HOST;
}

weft_result weft__set_pass(const weft_buckets *set, weft_stream from, weft_stream to)
{
    weft__set_gpu *gpu = set->gpu;
    if (!gpu || from.kind == WEFT_DEVICE_HOST || (from.kind == to.kind && from.handle == to.handle))
        return WEFT_OK;
    WEFT_TRY(calls_of(set)->record(gpu->device, gpu->passed, from));
    if (to.kind == WEFT_DEVICE_HOST)
        return weft__gpu_await(set->world, gpu->passed);
    return calls_of(set)->order(gpu->device, to, gpu->passed);
}

/* ------------------------------------------------------------------------------------------- arithmetic */

weft_result weft__set_fill(const weft_buckets *set, void *dst, size_t count, weft_dtype dtype, double value,
                           weft_stream stream)
{
    if (set->gpu)
        return weft__device_fill(set->gpu->device, dst, count, dtype, value, stream);
    set->vector->fill(dst, count, dtype, value);
    return WEFT_OK;
}

weft_result weft__set_scale(const weft_buckets *set, void *dst, size_t count, weft_dtype dtype, double factor)
{
    if (set->gpu)
        return calls_of(set)->scale(set->gpu->device, dst, count, dtype, factor, set->gpu->stream);
    set->vector->scale(dst, count, dtype, factor);
    return WEFT_OK;
}

weft_result weft__set_cast(const weft_buckets *set, void *dst, weft_dtype to, const void *src, weft_dtype from,
                           size_t count)
{
    if (set->gpu)
        return calls_of(set)->cast(set->gpu->device, dst, to, src, from, count, set->gpu->stream);
    set->vector->cast(dst, to, src, from, count);
    return WEFT_OK;
}
