/* SPDX-License-Identifier: Apache-2.0 */
/* Starts reductions in one fixed order, the same on all ranks, whatever the order in which buckets become full. */
#include "base/error.h"
#include "base/log.h"
#include "set.h"

static float value_at(const weft__bucket *bucket, size_t at)
{
    const void *value = bucket->grads + weft__dtype_offset(at, bucket->grad_dtype);
    if (bucket->grad_dtype == WEFT_FP32)
        return *(const float *)value;
    uint16_t bits = *(const uint16_t *)value;
    return bucket->grad_dtype == WEFT_BF16 ? weft__bf16_to_float(bits) : weft__fp16_to_float(bits);
}

/* Name the param and element at @p at of a bucket. */
static void tell_nonfinite(const weft_buckets *set, const weft__bucket *bucket, size_t at)
{
    size_t in_buffer = bucket->place->start + at;
    for (uint32_t i = 0; i < bucket->place->param_count; i++) {
        uint32_t param = bucket->place->params[i];
        const weft_layout_place *place = weft_layout_param_at(set->layout, param);
        if (in_buffer < place->start || in_buffer >= place->end)
            continue;
        (void)weft__refuse(set, bucket, param, WEFT_E_INVALID, "element %zu of its gradient is %g",
                           in_buffer - place->start, (double)value_at(bucket, at));
        weft__log(WEFT_LOG_ERROR, "%s", weft_last_error()); /* no call fails with it */
    }
}

static void look_for_nonfinite(weft_buckets *set, const weft__bucket *bucket)
{
    size_t at = set->vector->first_nonfinite(bucket->grads, bucket->elements, bucket->grad_dtype);
    if (at == bucket->elements || set->found_nonfinite)
        return;
    set->found_nonfinite = true;
    tell_nonfinite(set, bucket, at);
}

weft__bucket *weft__launched(const weft_buckets *set, uint32_t index)
{
    return &set->buckets[weft_layout_order(set->layout, index)];
}

weft_result weft__launch_due(weft_buckets *set)
{
    for (; set->next_launch < set->bucket_count; set->next_launch++) {
        weft__bucket *bucket = weft__launched(set, set->next_launch);
        if (bucket->phase != WEFT__READY)
            break;
        if (set->flags & WEFT_BUCKETS_CHECK_FINITE)
            look_for_nonfinite(set, bucket);
        WEFT_TRY(weft__reduce_start(set, bucket));
    }
    return WEFT_OK;
}
