/* SPDX-License-Identifier: Apache-2.0 */
/* What a set is before it has memory: who shares what, where everything lies, what each bucket is. */
#include "base/dtype.h"
#include "base/error.h"
#include "base/memory.h"
#include "set.h"

static weft_result check_dtypes(const weft_buckets *set)
{
    for (uint32_t i = 0; i < weft_params_count(set->params); i++) {
        const weft_param *param = weft_params_get(set->params, i);
        const weft_dtype dtypes[] = {param->dtype, param->grad_dtype};
        for (size_t k = 0; k < 2 && !(param->flags & WEFT_PARAM_FROZEN); k++)
            if (!weft__is_within_fp32(dtypes[k]))
                return weft__fail(WEFT_E_UNSUPPORTED, "set '%s', param '%s': %s of dtype %s", set->name, param->name,
                                  k ? "gradients" : "values", weft_dtype_string(dtypes[k]));
    }
    return WEFT_OK;
}

static size_t ranks_of(const weft_comm *shard, const weft_comm *replica)
{
    return (size_t)weft_comm_size(shard) * (replica ? (size_t)weft_comm_size(replica) : 1);
}

void weft__plan_lanes(weft_buckets *set, const weft_buckets_comms *comms)
{
    weft__bucket_lane *dense = &set->lanes[0], *expert = &set->lanes[1];
    *dense = (weft__bucket_lane){.shard = comms->shard, .replica = comms->replica, .scale = 1};
    *expert = (weft__bucket_lane){.shard = comms->expert_shard, .replica = comms->expert_replica, .scale = 1};
    /* An expert saw the tokens of all dense ranks: its average is over as many. */
    if (expert->shard && set->reduction == WEFT_AVERAGE)
        expert->scale =
            (double)ranks_of(expert->shard, expert->replica) / (double)ranks_of(dense->shard, dense->replica);
    set->norm = comms->norm ? comms->norm : comms->shard;
}

static weft_result make_layout(weft_buckets *set, const weft_buckets_config *config)
{
    const weft_comm *experts = set->lanes[1].shard;
    weft_layout_config layout = WEFT_LAYOUT_CONFIG_INIT;
    layout.bucket_elements = config->bucket_elements;
    layout.last_bucket_elements = config->last_bucket_elements;
    layout.shard_ranks = weft_comm_size(set->lanes[0].shard);
    layout.expert_shard_ranks = experts ? weft_comm_size(experts) : 0;
    layout.param_alignment = config->param_alignment;
    layout.bucket_alignment = config->bucket_alignment;
    layout.flags = config->flags & WEFT__LAYOUT_FLAGS;
    return weft_layout_create(set->params, &layout, &set->layout);
}

static void describe_bucket(weft_buckets *set, uint32_t index)
{
    weft__bucket *bucket = &set->buckets[index];
    bucket->place = weft_layout_bucket_at(set->layout, index);
    const weft_layout_buffer *buffer = weft_layout_buffer_at(set->layout, bucket->place->buffer);
    bucket->lane = &set->lanes[buffer->expert && set->lanes[1].shard];
    bucket->lane->buckets++;
    bucket->dtype = buffer->dtype;
    bucket->grad_dtype = buffer->grad_dtype;
    bucket->elements = bucket->place->end - bucket->place->start;
    bucket->shard_elements = bucket->elements / (size_t)buffer->shard_ranks;
    if (buffer->shard_ranks > 1)
        bucket->shard_start = (size_t)weft_comm_rank(bucket->lane->shard) * bucket->shard_elements;
}

static weft_result describe(weft_buckets *set)
{
    uint32_t params = weft_params_count(set->params), buckets = weft_layout_buckets(set->layout);
    set->buckets = weft__alloc(buckets * sizeof *set->buckets);
    set->marks = weft__alloc(params * sizeof *set->marks);
    set->norm_room = weft__alloc(weft__norm_room(weft_comm_size(set->norm)));
    if (!set->buckets || !set->marks || !set->norm_room)
        return WEFT_E_NO_MEMORY;
    set->bucket_count = buckets;
    for (uint32_t i = 0; i < buckets; i++)
        describe_bucket(set, i);
    for (uint32_t i = 0; i < params; i++)
        set->marks[i] = (weft__mark){.contributions = weft_params_get(set->params, i)->contributions,
                                     .bucket = weft_layout_param_at(set->layout, i)->bucket};
    return WEFT_OK;
}

static void count_elements(weft_buckets *set)
{
    for (uint32_t i = 0; i < weft_layout_buffers(set->layout); i++)
        set->usage.elements += weft_layout_buffer_at(set->layout, i)->elements;
    set->usage.padding = set->usage.elements;
    for (uint32_t i = 0; i < weft_params_count(set->params); i++)
        if (set->marks[i].bucket != WEFT_LAYOUT_NONE)
            set->usage.padding -= weft_params_elements(set->params, i);
}

weft_result weft__plan_make(weft_buckets *set, const weft_buckets_config *config)
{
    WEFT_TRY(check_dtypes(set));
    WEFT_TRY(make_layout(set, config));
    WEFT_TRY(describe(set));
    count_elements(set);
    return WEFT_OK;
}
