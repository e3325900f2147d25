/* SPDX-License-Identifier: Apache-2.0 */
/* The flat memory behind a layout, weft's own or the trainer's, and where in it buckets and owned parts lie. */
#include <stdlib.h>
#include <weft/memory.h>

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "layout.h"
#include "set.h"
#include "set_gpu.h"

/* Take the trainer's memory for @p what of a buffer, or allocate it. */
static weft_result take(weft_buckets *set, uint32_t buffer, const char *what, void *given, size_t given_bytes,
                        size_t bytes, size_t alignment, unsigned char **memory_out, bool *ours_out)
{
    if (!given) {
        void *memory;
        weft_device device = set->gpu ? set->gpu->device->calls->kind : WEFT_DEVICE_HOST;
        WEFT_TRY(weft_memory_alloc_on(set->world, device, bytes, &memory));
        *memory_out = memory;
        *ours_out = true;
        return WEFT_OK;
    }
    if (set->gpu && !set->gpu->device->calls->owns(set->gpu->device, given))
        return weft__fail(WEFT_E_INVALID, "set '%s': the arena for the %s of buffer %u is not memory of its GPU",
                          set->name, what, buffer);
    if (given_bytes < bytes)
        return weft__fail(WEFT_E_INVALID, "set '%s': the arena for the %s of buffer %u has %zu bytes, it takes %zu",
                          set->name, what, buffer, given_bytes, bytes);
    if ((uintptr_t)given % alignment)
        return weft__fail(WEFT_E_INVALID, "set '%s': the arena for the %s of buffer %u is not aligned to its elements",
                          set->name, what, buffer);
    *memory_out = given;
    return WEFT_OK;
}

/* A run of bytes. */
typedef struct extent {
    uintptr_t start, end;
} extent;

/* Number @p index of the extents of all buffers: values and gradients in turn. */
static extent extent_of(const weft_buckets *set, uint32_t index)
{
    const weft__memory *memory = &set->memory[index / 2];
    const weft_layout_buffer *buffer = weft_layout_buffer_at(set->layout, index / 2);
    uintptr_t start = (uintptr_t)(index % 2 ? memory->grads : memory->params);
    return (extent){start,
                    start + weft__dtype_offset(buffer->elements, index % 2 ? buffer->grad_dtype : buffer->dtype)};
}

/* No two of the trainer's arenas may share a byte. */
static weft_result check_apart(const weft_buckets *set)
{
    static const char *const what[] = {"params", "gradients"};
    for (uint32_t i = 0; i < 2 * weft_layout_buffers(set->layout); i++)
        for (uint32_t k = 0; k < i; k++) {
            extent a = extent_of(set, k), b = extent_of(set, i);
            if (a.start < b.end && b.start < a.end)
                return weft__fail(WEFT_E_INVALID,
                                  "set '%s': the arenas for the %s of buffer %u and the %s of buffer %u overlap",
                                  set->name, what[k % 2], k / 2, what[i % 2], i / 2);
        }
    return WEFT_OK;
}

static weft_result clear(const weft_buckets *set, unsigned char *memory, weft_dtype dtype, size_t start, size_t end)
{
    return weft__set_fill(set, memory + weft__dtype_offset(start, dtype), end - start, dtype, 0, weft__set_stream(set));
}

/* Clear what belongs to no param, and leave the values. */
static weft_result clear_padding(const weft_buckets *set, const weft__bucket *bucket)
{
    size_t at = bucket->place->start;
    for (uint32_t i = 0; i < bucket->place->param_count; i++) {
        const weft_layout_place *place = weft_layout_param_at(set->layout, bucket->place->params[i]);
        WEFT_TRY(
            clear(set, bucket->params, bucket->dtype, at - bucket->place->start, place->start - bucket->place->start));
        at = place->end;
    }
    return clear(set, bucket->params, bucket->dtype, at - bucket->place->start, bucket->elements);
}

static weft_result bind_bucket(weft_buckets *set, weft__bucket *bucket)
{
    const weft__memory *memory = &set->memory[bucket->place->buffer];
    bucket->params = memory->params + weft__dtype_offset(bucket->place->start, bucket->dtype);
    bucket->grads = memory->grads + weft__dtype_offset(bucket->place->start, bucket->grad_dtype);
    bucket->view = bucket->params;
    WEFT_TRY(clear_padding(set, bucket));
    return clear(set, bucket->grads, bucket->grad_dtype, 0, bucket->elements);
}

weft_result weft__memory_make(weft_buckets *set, const weft_buckets_config *config)
{
    uint32_t buffers = weft_layout_buffers(set->layout);
    if (config->arenas && config->arena_count != buffers)
        return weft__fail(WEFT_E_INVALID, "set '%s': %u arenas, but the layout has %u buffers", set->name,
                          config->arena_count, buffers);
    set->memory = weft__alloc(buffers * sizeof *set->memory);
    if (!set->memory)
        return WEFT_E_NO_MEMORY;
    for (uint32_t i = 0; i < buffers; i++) {
        const weft_layout_buffer *buffer = weft_layout_buffer_at(set->layout, i);
        const weft_buckets_arena arena = config->arenas ? config->arenas[i] : (weft_buckets_arena){0};
        size_t element = weft_dtype_bytes(buffer->dtype), grad = weft_dtype_bytes(buffer->grad_dtype);
        weft__memory *m = &set->memory[i];
        if (arena.params && set->flags & WEFT_BUCKETS_GUARD_UNACQUIRED)
            return weft__fail(WEFT_E_INVALID, "set '%s': params in the trainer's arena cannot be guarded", set->name);
        WEFT_TRY(take(set, i, "params", arena.params, arena.param_bytes, buffer->elements * element, element,
                      &m->params, &m->params_ours));
        WEFT_TRY(take(set, i, "gradients", arena.grads, arena.grad_bytes, buffer->elements * grad, grad, &m->grads,
                      &m->grads_ours));
        set->usage.param_bytes += buffer->elements * element;
        set->usage.grad_bytes += buffer->elements * grad;
    }
    WEFT_TRY(check_apart(set));
    for (uint32_t i = 0; i < set->bucket_count; i++)
        WEFT_TRY(bind_bucket(set, &set->buckets[i]));
    return weft__set_pass(set, weft__set_stream(set), WEFT_STREAM_HOST); /* the trainer writes there next */
}

void weft__memory_release(weft_buckets *set)
{
    if (set->is_stuck)
        weft__log(WEFT_LOG_ERROR, "set '%s': its memory is kept: a rank that stands still may yet write there",
                  set->name);
    for (uint32_t i = 0; set->memory && !set->is_stuck && i < weft_layout_buffers(set->layout); i++) {
        if (set->memory[i].params_ours)
            weft_memory_free(set->world, set->memory[i].params);
        if (set->memory[i].grads_ours)
            weft_memory_free(set->world, set->memory[i].grads);
    }
    free(set->memory);
}

/* The owned part of a param of @p bucket; its count is 0 if there is none. */
static weft_owned owned_part(const weft_buckets *set, const weft__bucket *bucket, uint32_t param)
{
    size_t start, end;
    weft__layout_owned(set->layout, param, weft_comm_rank(bucket->lane->shard), &start, &end);
    size_t in_bucket = start - bucket->place->start;
    return (weft_owned){
        .param = param,
        .bucket = (uint32_t)(bucket - set->buckets),
        .start = start - weft_layout_param_at(set->layout, param)->start,
        .count = end - start,
        .offset = set->owned_elements + in_bucket - bucket->shard_start,
        .data = bucket->view + weft__dtype_offset(in_bucket, bucket->dtype),
        .grad = bucket->grads + weft__dtype_offset(in_bucket, bucket->grad_dtype),
    };
}

weft_result weft__owned_make(weft_buckets *set)
{
    set->owned = weft__alloc(weft_params_count(set->params) * sizeof *set->owned);
    if (!set->owned)
        return WEFT_E_NO_MEMORY;
    for (uint32_t b = 0; b < set->bucket_count; b++) {
        weft__bucket *bucket = &set->buckets[b];
        bucket->owned = set->owned + set->owned_count;
        for (uint32_t i = 0; i < bucket->place->param_count; i++) {
            weft_owned part = owned_part(set, bucket, bucket->place->params[i]);
            if (part.count)
                bucket->owned[bucket->owned_count++] = part;
        }
        set->owned_count += bucket->owned_count;
        set->owned_elements += bucket->shard_elements;
    }
    set->usage.owned_elements = set->owned_elements;
    return WEFT_OK;
}
