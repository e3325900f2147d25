/* SPDX-License-Identifier: Apache-2.0 */
/* Starts reductions in one fixed order, the same on all ranks, whatever the order in which buckets become full. */
#include "base/error.h"
#include "base/log.h"
#include "set.h"

static float value_at(const weft_buckets *set, const weft__bucket *bucket, size_t at)
{
    float value;
    set->vector->cast(&value, WEFT_FP32, bucket->grads + weft__dtype_offset(at, bucket->grad_dtype), bucket->grad_dtype,
                      1);
    return value;
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
                           in_buffer - place->start, (double)value_at(set, bucket, at));
        weft__log(WEFT_LOG_WARN, "%s", weft_last_error()); /* nobody is returned it */
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
