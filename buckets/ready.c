/* SPDX-License-Identifier: Apache-2.0 */
/* Counts marks: when the gradient of a param is final, and when a bucket is full. */
#include <inttypes.h>

#include "base/dtype.h"
#include "base/error.h"
#include "set.h"
#include "set_gpu.h"

static uint64_t marks_of(const weft_buckets *set, const weft__mark *mark)
{
    return mark->round == set->round ? mark->count : 0;
}

/* How many there are when all that has begun is complete. */
static uint64_t marks_due(const weft_buckets *set, const weft__mark *mark)
{
    return set->begun * mark->contributions;
}

static weft_result check_param(const weft_buckets *set, uint32_t param)
{
    if (!set)
        return weft__fail(WEFT_E_INVALID, "buckets: no set");
    if (param >= weft_params_count(set->params))
        return weft__fail(WEFT_E_RANGE, "rank %d, set '%s': no param %u, there are %u", set->rank, set->name, param,
                          weft_params_count(set->params));
    if (set->marks[param].bucket == WEFT_LAYOUT_NONE)
        return weft__fail(WEFT_E_INVALID, "rank %d, set '%s', param '%s': it is frozen and has no gradient", set->rank,
                          set->name, weft_params_get(set->params, param)->name);
    return WEFT_OK;
}

/* May something be added to this gradient now? */
static weft_result check_open(const weft_buckets *set, uint32_t param)
{
    const weft__mark *mark = &set->marks[param];
    const weft__bucket *bucket = &set->buckets[mark->bucket];
    WEFT_TRY(weft__phase_check(set, bucket, WEFT__CALL_MARK, param));
    if (marks_of(set, mark) == marks_due(set, mark))
        return weft__refuse(set, bucket, param, WEFT_E_TWICE,
                            "its gradient is final already in this microbatch (marks a microbatch: %u)",
                            mark->contributions);
    return WEFT_OK;
}

/* A param of the microbatch that ends has some of its contributions, but not all: name it. */
static weft_result refuse_incomplete(const weft_buckets *set)
{
    for (uint32_t i = 0; i < weft_params_count(set->params); i++) {
        const weft__mark *mark = &set->marks[i];
        uint64_t marks = mark->bucket == WEFT_LAYOUT_NONE ? 0 : marks_of(set, mark);
        if (marks && marks < mark->contributions)
            return weft__refuse(set, &set->buckets[mark->bucket], i, WEFT_E_STATE,
                                "a microbatch begins, but in the one before it has %" PRIu64 " of %u marks", marks,
                                mark->contributions);
    }
    return weft__fail(WEFT_E_BUG, "set '%s': marks were miscounted", set->name);
}

/* Gradients are cleared behind the step that read them. */
static weft_result open_window(weft_buckets *set, weft_stream stream)
{
    weft_stream where = stream.kind == WEFT_DEVICE_HOST ? weft__set_stream(set) : stream;
    if (set->gpu)
        WEFT_TRY(set->gpu->device->calls->order(set->gpu->device, where, set->gpu->stepped));
    for (uint32_t i = 0; i < set->bucket_count; i++) {
        weft__bucket *bucket = &set->buckets[i];
        WEFT_TRY(weft__set_fill(set, bucket->grads, bucket->elements, bucket->grad_dtype, 0, where));
    }
    set->next_launch = 0;
    set->found_nonfinite = false;
    return weft__set_pass(set, where, stream);
}

weft_result weft_buckets_begin(weft_buckets *set, int last)
{
    return weft_buckets_begin_on(set, last, WEFT_STREAM_HOST);
}

weft_result weft_buckets_begin_on(weft_buckets *set, int last, weft_stream stream)
{
    if (!set)
        return weft__fail(WEFT_E_INVALID, "buckets: no set");
    WEFT_TRY(weft__set_takes(set, stream));
    if (set->window == WEFT__WINDOW_LAST)
        return weft__fail(WEFT_E_STATE,
                          "rank %d, set '%s': a microbatch begins, but the last one of the window has: step", set->rank,
                          set->name);
    bool late = set->flags & WEFT_BUCKETS_LATE_MARKS, opens = set->window == WEFT__WINDOW_CLOSED;
    if (set->incomplete && !late)
        return refuse_incomplete(set);
    for (uint32_t i = 0; i < set->bucket_count; i++)
        WEFT_TRY(weft__phase_check(set, &set->buckets[i], WEFT__CALL_BEGIN, WEFT_LAYOUT_NONE));
    if (opens)
        WEFT_TRY(open_window(set, stream));
    for (uint32_t i = 0; i < set->bucket_count; i++) {
        WEFT_TRY(weft__phase_move(set, &set->buckets[i], WEFT__CALL_BEGIN));
        set->buckets[i].pending = set->buckets[i].place->param_count;
        set->buckets[i].scattered = false;
        set->buckets[i].stream = WEFT_STREAM_HOST;
    }
    set->window = last ? WEFT__WINDOW_LAST : WEFT__WINDOW_OPEN;
    set->begun = late && !opens ? set->begun + 1 : 1;
    set->round += set->begun == 1;
    return WEFT_OK;
}

weft_result weft_buckets_accumulate(weft_buckets *set, uint32_t param, size_t start, const void *grad, weft_dtype dtype,
                                    size_t count)
{
    WEFT_TRY(check_param(set, param));
    WEFT_TRY(check_open(set, param));
    const weft__bucket *bucket = &set->buckets[set->marks[param].bucket];
    size_t elements = weft_params_elements(set->params, param);
    if (start > elements || count > elements - start)
        return weft__refuse(set, bucket, param, WEFT_E_RANGE, "elements %zu to %zu of %zu", start, start + count,
                            elements);
    if (!weft__is_within_fp32(dtype))
        return weft__refuse(set, bucket, param, WEFT_E_INVALID, "a gradient of dtype %s", weft_dtype_string(dtype));
    if (bucket->grad_dtype != WEFT_FP32)
        return weft__refuse(set, bucket, param, WEFT_E_UNSUPPORTED, "its gradient is kept in %s: add to it yourself",
                            weft_dtype_string(bucket->grad_dtype));
    if (set->gpu)
        return weft__refuse(set, bucket, param, WEFT_E_UNSUPPORTED, "its gradient is on a GPU: add to it yourself");
    if (!grad && count)
        return weft__refuse(set, bucket, param, WEFT_E_INVALID, "no gradient to add");
    set->vector->accumulate((float *)weft_buckets_grad(set, param) + start, grad, dtype, count);
    return WEFT_OK;
}

/* The bucket is reduced behind this stream, too: what the others hold is gathered where it will be launched. */
static weft_result join_stream(weft_buckets *set, weft__bucket *bucket, weft_stream stream)
{
    bool other = bucket->stream.kind != stream.kind || bucket->stream.handle != stream.handle;
    if (set->gpu && other && bucket->stream.kind != WEFT_DEVICE_HOST) {
        WEFT_TRY(weft__set_pass(set, bucket->stream, set->gpu->launches));
        bucket->scattered = true;
    }
    bucket->stream = stream.kind == WEFT_DEVICE_HOST && bucket->scattered ? bucket->stream : stream;
    return WEFT_OK;
}

static weft_result complete(weft_buckets *set, weft__bucket *bucket, weft_stream stream)
{
    WEFT_TRY(weft__phase_check(set, bucket, WEFT__CALL_COMPLETE, WEFT_LAYOUT_NONE));
    WEFT_TRY(join_stream(set, bucket, stream));
    if (bucket->scattered) {
        WEFT_TRY(weft__set_pass(set, bucket->stream, set->gpu->launches));
        bucket->stream = set->gpu->launches;
    }
    return weft__phase_move(set, bucket, WEFT__CALL_COMPLETE);
}

weft_result weft_buckets_mark_ready(weft_buckets *set, uint32_t param, weft_stream stream)
{
    WEFT_TRY(check_param(set, param));
    WEFT_TRY(check_open(set, param));
    WEFT_TRY(weft__set_takes(set, stream));
    weft__mark *mark = &set->marks[param];
    weft__bucket *bucket = &set->buckets[mark->bucket];
    bool begins = marks_of(set, mark) % mark->contributions == 0;
    mark->count = marks_of(set, mark) + 1;
    mark->round = set->round;
    bool ends = mark->count % mark->contributions == 0;
    set->incomplete += begins && !ends;
    set->incomplete -= !begins && ends;
    bool final = mark->count == marks_due(set, mark);
    if (!final || set->window != WEFT__WINDOW_LAST)
        return WEFT_OK;
    if (--bucket->pending)
        return join_stream(set, bucket, stream);
    WEFT_TRY(complete(set, bucket, stream));
    return set->flags & WEFT_BUCKETS_REDUCE_AT_STEP ? WEFT_OK : weft__launch_due(set);
}

/* Name the first param of a bucket that is not final. */
static weft_result refuse_unused(const weft_buckets *set, const weft__bucket *bucket)
{
    uint32_t of = bucket->place->param_count;
    for (uint32_t i = 0; i < of; i++) {
        uint32_t param = bucket->place->params[i];
        const weft__mark *mark = &set->marks[param];
        if (marks_of(set, mark) < marks_due(set, mark))
            return weft__refuse(set, bucket, param, WEFT_E_STATE,
                                "not marked ready in the %s (%" PRIu64 " of %" PRIu64
                                " marks); %u of %u params of its bucket are marked",
                                set->flags & WEFT_BUCKETS_LATE_MARKS ? "window" : "last microbatch",
                                marks_of(set, mark), marks_due(set, mark), of - bucket->pending, of);
    }
    return weft__refuse(set, bucket, WEFT_LAYOUT_NONE, WEFT_E_BUG, "marks were miscounted");
}

weft_result weft__ready_check(const weft_buckets *set)
{
    for (uint32_t i = 0; i < set->bucket_count; i++) {
        const weft__bucket *bucket = &set->buckets[i];
        if (bucket->pending == 0)
            continue;
        if (!(set->flags & WEFT_BUCKETS_UNUSED_ZERO))
            return refuse_unused(set, bucket);
        WEFT_TRY(weft__phase_check(set, bucket, WEFT__CALL_COMPLETE, WEFT_LAYOUT_NONE));
    }
    return WEFT_OK;
}

weft_result weft__ready_all(weft_buckets *set)
{
    for (uint32_t i = 0; i < set->bucket_count; i++) {
        weft__bucket *bucket = &set->buckets[i];
        if (bucket->pending == 0)
            continue;
        WEFT_TRY(complete(set, bucket, WEFT_STREAM_HOST));
        bucket->pending = 0;
    }
    set->incomplete = 0;
    return weft__launch_due(set);
}
