/* SPDX-License-Identifier: Apache-2.0 */
/* Computes where params lie, where buckets end and who owns what: a pure function of numbers. */
#include "layout.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/sized.h"

#define ALL_FLAGS           (WEFT_LAYOUT_UNSHARDED | WEFT_LAYOUT_PAD_FOR_BUSBW)
#define PARAM_ALIGNMENT     64
#define BUCKET_ALIGNMENT    128
#define BUSBW_ALIGNMENT     65536
#define MIN_BUCKET_ELEMENTS 40000000
#define ELEMENTS_PER_RANK   1000000
#define MAX_ELEMENTS        (PTRDIFF_MAX / 8) /* of a buffer: its bytes can be counted too */
#define IS_FROZEN(param)    ((param)->flags & WEFT_PARAM_FROZEN)
#define IS_EXPERT(param)    (((param)->flags & WEFT_PARAM_EXPERT) != 0)

struct weft_layout {
    weft_layout_config config; /* defaults filled in */
    uint32_t param_count, buffer_count, bucket_count;
    weft_layout_buffer *buffers;
    weft_layout_bucket *buckets;
    weft_layout_place *places; /* one a param */
    uint32_t *members;         /* the params of bucket 0, of bucket 1, ... */
    uint32_t *order;           /* buckets by the time of their last gradient */
};

/* Where the walk through one buffer stands. */
typedef struct walk {
    weft_layout *layout;
    const weft_params *params;
    weft_layout_buffer *buffer;
    size_t param_multiple, bucket_multiple;
    size_t position;     /* behind the last param, or at the padded end of the last bucket */
    size_t bucket_start; /* of the open bucket */
    uint32_t *members;   /* of the open bucket */
    uint32_t member_count;
    uint32_t tail; /* the param before which a bucket closes, so that the last one is small; NONE */
} walk;

bool weft__pad_up(size_t value, size_t multiple, size_t *padded_out)
{
    size_t rest = value % multiple;
    return !__builtin_add_overflow(value, rest ? multiple - rest : 0, padded_out);
}

static bool lcm(size_t a, size_t b, size_t *lcm_out)
{
    size_t x = a, y = b;
    while (y) {
        size_t rest = x % y;
        x = y;
        y = rest;
    }
    return !__builtin_mul_overflow(a / x, b, lcm_out);
}

bool weft__bucket_multiple(int shard_ranks, uint32_t alignment, bool pad_for_busbw, size_t *multiple_out)
{
    size_t multiple;
    return lcm((size_t)shard_ranks, alignment, &multiple) &&
           lcm(multiple, pad_for_busbw ? BUSBW_ALIGNMENT : 1, multiple_out);
}

static bool sharded(const weft_layout *layout)
{
    return !(layout->config.flags & WEFT_LAYOUT_UNSHARDED);
}

static weft_result fill_config(weft_layout_config *own, const weft_layout_config *config)
{
    *own = (weft_layout_config)WEFT_LAYOUT_CONFIG_INIT;
    WEFT_TRY(weft__take_sized(own, sizeof *own, config, "weft_layout_config"));
    if (own->flags & ~(uint32_t)ALL_FLAGS)
        return weft__fail(WEFT_E_INVALID, "layout: unknown flags 0x%x", own->flags);
    if (own->reserved)
        return weft__fail(WEFT_E_INVALID, "layout: reserved is %u, not 0", own->reserved);
    if (own->shard_ranks < 0 || own->expert_shard_ranks < 0)
        return weft__fail(WEFT_E_INVALID, "layout: %d shard ranks and %d expert shard ranks", own->shard_ranks,
                          own->expert_shard_ranks);
    if (own->shard_ranks == 0)
        own->shard_ranks = 1;
    if (own->expert_shard_ranks == 0)
        own->expert_shard_ranks = own->shard_ranks;
    if (own->param_alignment == 0)
        own->param_alignment = PARAM_ALIGNMENT;
    if (own->bucket_alignment == 0)
        own->bucket_alignment = BUCKET_ALIGNMENT;
    if (own->bucket_elements == 0) {
        size_t by_ranks = (size_t)own->shard_ranks * ELEMENTS_PER_RANK;
        own->bucket_elements = by_ranks > MIN_BUCKET_ELEMENTS ? by_ranks : MIN_BUCKET_ELEMENTS;
    }
    if (own->last_bucket_elements > own->bucket_elements)
        return weft__fail(WEFT_E_INVALID, "layout: last_bucket_elements %zu is more than bucket_elements %zu",
                          own->last_bucket_elements, own->bucket_elements);
    return WEFT_OK;
}

/* The buffer of a param, made if this is the first of its kind. */
static uint32_t buffer_of(weft_layout *layout, const weft_param *param)
{
    uint32_t i = 0;
    for (; i < layout->buffer_count; i++) {
        const weft_layout_buffer *b = &layout->buffers[i];
        if (b->dtype == param->dtype && b->grad_dtype == param->grad_dtype && b->expert == IS_EXPERT(param))
            return i;
    }
    const weft_layout_config *config = &layout->config;
    int ranks = IS_EXPERT(param) ? config->expert_shard_ranks : config->shard_ranks;
    layout->buffers[layout->buffer_count++] = (weft_layout_buffer){
        .dtype = param->dtype,
        .grad_dtype = param->grad_dtype,
        .expert = IS_EXPERT(param),
        .shard_ranks = sharded(layout) ? ranks : 1,
    };
    return i;
}

static void split_into_buffers(weft_layout *layout, const weft_params *params)
{
    for (uint32_t i = 0; i < layout->param_count; i++) {
        const weft_param *param = weft_params_get(params, i);
        layout->places[i] = (weft_layout_place){.buffer = WEFT_LAYOUT_NONE, .bucket = WEFT_LAYOUT_NONE};
        if (!IS_FROZEN(param))
            layout->places[i].buffer = buffer_of(layout, param);
    }
}

/* Close the open bucket; its used part ends at @p used_end. */
static bool close_bucket(walk *w, size_t used_end)
{
    size_t end;
    if (!weft__pad_up(used_end, w->bucket_multiple, &end))
        return false;
    w->layout->buckets[w->layout->bucket_count++] = (weft_layout_bucket){
        .buffer = (uint32_t)(w->buffer - w->layout->buffers),
        .param_count = w->member_count,
        .params = w->members,
        .start = w->bucket_start,
        .end = end,
        .used = used_end - w->bucket_start,
    };
    w->buffer->bucket_count++;
    w->buffer->used += used_end - w->bucket_start;
    w->position = w->bucket_start = end;
    w->members += w->member_count;
    w->member_count = 0;
    return true;
}

/* Lay @p index behind what lies there already. */
static bool place_param(walk *w, uint32_t index)
{
    bool alone = sharded(w->layout) && weft_params_get(w->params, index)->flags & WEFT_PARAM_TIED;
    size_t start, end;
    if (index == w->tail && w->member_count && !close_bucket(w, w->position))
        return false;
    if (!weft__pad_up(w->position, w->param_multiple, &start))
        return false;
    if (alone && w->member_count && (!close_bucket(w, start) || !weft__pad_up(w->position, w->param_multiple, &start)))
        return false;
    if (__builtin_add_overflow(start, weft_params_elements(w->params, index), &end))
        return false;
    weft_layout_place *place = &w->layout->places[index];
    place->bucket = w->layout->bucket_count;
    place->start = start;
    place->end = end;
    w->members[w->member_count++] = index;
    w->position = end;
    bool full = end - w->bucket_start >= w->layout->config.bucket_elements;
    return full || alone ? close_bucket(w, end) : true;
}

static weft_result fail_count(const walk *w, uint32_t index)
{
    return weft__fail(WEFT_E_RANGE, "layout: param '%s' brings its buffer to more elements than can be counted",
                      weft_params_get(w->params, index)->name);
}

/* Where the tail of a buffer begins: at the last param of the shortest run behind its first one that has
 * last_bucket_elements. */
static uint32_t find_tail(const walk *w)
{
    size_t wanted = w->layout->config.last_bucket_elements, found = 0;
    uint32_t buffer = (uint32_t)(w->buffer - w->layout->buffers), i = 0;
    while (i < w->layout->param_count && w->layout->places[i].buffer != buffer)
        i++;
    for (i++; wanted && i < w->layout->param_count; i++) {
        if (w->layout->places[i].buffer != buffer)
            continue;
        size_t elements = weft_params_elements(w->params, i);
        if (elements >= wanted - found)
            return i;
        found += elements;
    }
    return WEFT_LAYOUT_NONE;
}

/* Lay out one buffer, last registered param first. *members has room for its params, and is moved behind them. */
static weft_result lay_out(weft_layout *layout, const weft_params *params, uint32_t buffer, uint32_t **members)
{
    const weft_layout_config *config = &layout->config;
    walk w = {.layout = layout, .params = params, .buffer = &layout->buffers[buffer], .members = *members};
    bool busbw = config->flags & WEFT_LAYOUT_PAD_FOR_BUSBW;
    w.param_multiple = w.bucket_multiple = 1;
    if (sharded(layout)) {
        w.param_multiple = config->param_alignment;
        if (!weft__bucket_multiple(w.buffer->shard_ranks, config->bucket_alignment, busbw, &w.bucket_multiple))
            return weft__fail(WEFT_E_RANGE,
                              "layout: %d ranks and an alignment of %u have no multiple that can be counted",
                              w.buffer->shard_ranks, config->bucket_alignment);
    }
    w.buffer->first_bucket = layout->bucket_count;
    w.tail = find_tail(&w);
    uint32_t last = 0;
    for (uint32_t i = layout->param_count; i-- > 0;) {
        if (layout->places[i].buffer != buffer)
            continue;
        last = i;
        if (!place_param(&w, i) || w.position > MAX_ELEMENTS)
            return fail_count(&w, i);
    }
    if (w.member_count && (!close_bucket(&w, w.position) || w.position > MAX_ELEMENTS))
        return fail_count(&w, last);
    w.buffer->elements = w.position;
    *members = w.members;
    return WEFT_OK;
}

/* Inside a bucket params lie in reverse order of registration, so the last one is the first in use. */
static uint32_t first_used(const weft_layout_bucket *bucket)
{
    return bucket->params[bucket->param_count - 1];
}

/* Buckets by their first used param, the highest first: buffers are sorted already, so insertion merges them. */
static void set_order(weft_layout *layout)
{
    for (uint32_t i = 0; i < layout->bucket_count; i++) {
        uint32_t at = i;
        for (; at > 0 && first_used(&layout->buckets[layout->order[at - 1]]) < first_used(&layout->buckets[i]); at--)
            layout->order[at] = layout->order[at - 1];
        layout->order[at] = i;
    }
}

static weft_result make_room(weft_layout *layout)
{
    size_t n = layout->param_count ? layout->param_count : 1;
    layout->buffers = weft__alloc(n * sizeof *layout->buffers);
    layout->buckets = weft__alloc(n * sizeof *layout->buckets);
    layout->places = weft__alloc(n * sizeof *layout->places);
    layout->members = weft__alloc(n * sizeof *layout->members);
    layout->order = weft__alloc(n * sizeof *layout->order);
    bool all = layout->buffers && layout->buckets && layout->places && layout->members && layout->order;
    return all ? WEFT_OK : WEFT_E_NO_MEMORY;
}

static weft_result compute(weft_layout *layout, const weft_params *params)
{
    layout->param_count = weft_params_count(params);
    WEFT_TRY(make_room(layout));
    split_into_buffers(layout, params);
    uint32_t *members = layout->members;
    for (uint32_t b = 0; b < layout->buffer_count; b++)
        WEFT_TRY(lay_out(layout, params, b, &members));
    set_order(layout);
    return WEFT_OK;
}

weft_result weft_layout_create(const weft_params *params, const weft_layout_config *config, weft_layout **layout_out)
{
    if (!params || !layout_out)
        return weft__fail(WEFT_E_INVALID, "layout: no params or no place for the result");
    *layout_out = NULL;
    weft_layout_config filled;
    WEFT_TRY(fill_config(&filled, config));
    weft_layout *layout = weft__alloc(sizeof *layout);
    if (!layout)
        return WEFT_E_NO_MEMORY;
    layout->config = filled;
    weft_result result = compute(layout, params);
    if (result != WEFT_OK) {
        weft_layout_destroy(layout);
        return result;
    }
    *layout_out = layout;
    return WEFT_OK;
}

void weft_layout_destroy(weft_layout *layout)
{
    if (!layout)
        return;
    free(layout->buffers);
    free(layout->buckets);
    free(layout->places);
    free(layout->members);
    free(layout->order);
    free(layout);
}

uint32_t weft_layout_buffers(const weft_layout *layout)
{
    return layout ? layout->buffer_count : 0;
}

const weft_layout_buffer *weft_layout_buffer_at(const weft_layout *layout, uint32_t index)
{
    return index < weft_layout_buffers(layout) ? &layout->buffers[index] : NULL;
}

uint32_t weft_layout_buckets(const weft_layout *layout)
{
    return layout ? layout->bucket_count : 0;
}

const weft_layout_bucket *weft_layout_bucket_at(const weft_layout *layout, uint32_t index)
{
    return index < weft_layout_buckets(layout) ? &layout->buckets[index] : NULL;
}

const weft_layout_place *weft_layout_param_at(const weft_layout *layout, uint32_t index)
{
    return layout && index < layout->param_count ? &layout->places[index] : NULL;
}

uint32_t weft_layout_order(const weft_layout *layout, uint32_t index)
{
    return index < weft_layout_buckets(layout) ? layout->order[index] : WEFT_LAYOUT_NONE;
}

/* Where the part of @p bucket that @p rank owns begins and ends; without shards that is everything. */
static void part_of(const weft_layout *layout, uint32_t bucket, int rank, size_t *start, size_t *end)
{
    const weft_layout_bucket *b = &layout->buckets[bucket];
    size_t part = (b->end - b->start) / (size_t)layout->buffers[b->buffer].shard_ranks;
    *start = b->start + (sharded(layout) ? (size_t)rank * part : 0);
    *end = *start + part;
}

void weft__layout_owned(const weft_layout *layout, uint32_t param, int rank, size_t *start, size_t *end)
{
    const weft_layout_place *place = &layout->places[param];
    *start = *end = 0;
    if (place->bucket == WEFT_LAYOUT_NONE)
        return;
    size_t part_start, part_end;
    part_of(layout, place->bucket, rank, &part_start, &part_end);
    *start = place->start > part_start ? place->start : part_start;
    *end = place->end < part_end ? place->end : part_end;
    if (*start >= *end)
        *start = *end = 0;
}

weft_result weft_layout_shard(const weft_layout *layout, uint32_t bucket, int rank, size_t *start_out, size_t *end_out)
{
    if (!layout || !start_out || !end_out)
        return weft__fail(WEFT_E_INVALID, "layout: no layout or no place for the result");
    if (bucket >= layout->bucket_count)
        return weft__fail(WEFT_E_RANGE, "layout: no bucket %u, there are %u", bucket, layout->bucket_count);
    int ranks = layout->buffers[layout->buckets[bucket].buffer].shard_ranks;
    if (sharded(layout) && (rank < 0 || rank >= ranks))
        return weft__fail(WEFT_E_RANGE, "layout: no shard rank %d, bucket %u has %d", rank, bucket, ranks);
    part_of(layout, bucket, rank, start_out, end_out);
    return WEFT_OK;
}
