/* SPDX-License-Identifier: Apache-2.0 */
/* The set: checks what it is given, makes its parts in order, and gives them back. */
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/sized.h"
#include "params.h"
#include "set.h"
#include "set_gpu.h"

#define ALL_FLAGS                                                                                                \
    (WEFT__LAYOUT_FLAGS | WEFT_BUCKETS_REDUCE_AT_STEP | WEFT_BUCKETS_GATHER_IN_STEP | WEFT_BUCKETS_UNUSED_ZERO | \
     WEFT_BUCKETS_CHECK_FINITE | WEFT_BUCKETS_GUARD_UNACQUIRED | WEFT_BUCKETS_LATE_MARKS)

static weft_result check_config(const weft_buckets_config *config)
{
    if (config->flags & ~(uint32_t)ALL_FLAGS)
        return weft__fail(WEFT_E_INVALID, "set '%s': unknown flags 0x%x", config->name, config->flags);
    if (config->reserved || config->reserved2)
        return weft__fail(WEFT_E_INVALID, "set '%s': reserved is %u and reserved2 is %u, not 0", config->name,
                          config->reserved, config->reserved2);
    if (config->reduction != WEFT_SUM && config->reduction != WEFT_AVERAGE)
        return weft__fail(WEFT_E_INVALID, "set '%s': gradients are summed or averaged, not reduced by %s", config->name,
                          weft_reduction_string(config->reduction));
    return WEFT_OK;
}

static weft_result check_comms(const weft_buckets_config *config, const weft_buckets_comms *comms)
{
    if (comms->expert_replica && !comms->expert_shard)
        return weft__fail(WEFT_E_INVALID, "set '%s': expert_replica without expert_shard", config->name);
    if (comms->sum_count && !comms->sums)
        return weft__fail(WEFT_E_INVALID, "set '%s': %zu sums, but no list", config->name, comms->sum_count);
    const weft_comm *const all[] = {comms->replica, comms->expert_shard, comms->expert_replica, comms->norm};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i] && weft_comm_world(all[i]) != weft_comm_world(comms->shard))
            return weft__fail(WEFT_E_INVALID, "set '%s': comm '%s' is of another world", config->name,
                              weft_comm_name(all[i]));
    return WEFT_OK;
}

static weft_result begin(weft_params *params, const weft_buckets_config *config, const weft_buckets_comms *comms,
                         weft_buckets **set_out)
{
    weft_buckets *set = weft__alloc(sizeof *set);
    char *name = set ? weft__copy_text(config->name) : NULL;
    if (!name) {
        free(set);
        return WEFT_E_NO_MEMORY;
    }
    set->name = name;
    set->params = params;
    weft__params_hold(params);
    set->world = weft_comm_world(comms->shard);
    set->rank = weft_world_rank(set->world);
    set->vector = weft__vector_host();
    set->flags = config->flags;
    set->reduction = config->reduction;
    weft__plan_lanes(set, comms);
    *set_out = set;
    return WEFT_OK;
}

static weft_result build(weft_buckets *set, const weft_buckets_config *config, const weft_buckets_comms *comms)
{
    WEFT_TRY(weft__sums_take(set, comms));
    WEFT_TRY(weft__plan_make(set, config));
    WEFT_TRY(weft__comms_plan(set));
    WEFT_TRY(weft__set_gpu_open(set, config->device));
    WEFT_TRY(weft__memory_make(set, config));
    if (set->flags & WEFT_BUCKETS_GUARD_UNACQUIRED)
        WEFT_TRY(weft__guard_make(set));
    return weft__owned_make(set);
}

/* What this rank can do alone; on failure *set_out may be half a set. */
static weft_result prepare(weft_params *params, const weft_buckets_config *given, const weft_buckets_comms *comms,
                           weft_buckets_config *config, weft_buckets **set_out)
{
    if (!params)
        return weft__fail(WEFT_E_INVALID, "buckets: no params");
    WEFT_TRY(weft__take_sized(config, sizeof *config, given, "weft_buckets_config"));
    if (!config->name)
        config->name = "buckets";
    WEFT_TRY(check_config(config));
    WEFT_TRY(check_comms(config, comms));
    WEFT_TRY(begin(params, config, comms, set_out));
    return build(*set_out, config, comms);
}

static weft_result fill_operations(weft_buckets *set)
{
    char text[WEFT_TRACE_LABEL_BYTES];
    WEFT_TRY(weft__reduce_make(set));
    WEFT_TRY(weft__set_gpu_attach(set));
    weft__gather_make(set);
    snprintf(text, sizeof text, "%s step", set->name);
    set->step_label = weft_trace_label(set->world, text);
    return WEFT_OK;
}

/* All ranks go through all of it, or leave together. */
static weft_result create(weft_params *params, const weft_buckets_config *given, const weft_buckets_comms *comms,
                          weft_buckets **set_out)
{
    weft_buckets_config config = WEFT_BUCKETS_CONFIG_INIT;
    WEFT_TRY(weft__agree(comms, prepare(params, given, comms, &config, set_out)));
    weft_buckets *set = *set_out;
    WEFT_TRY(weft__agree(comms, weft__compare(set, &config)));
    WEFT_TRY(weft__agree(comms, weft__comms_start(set)));
    WEFT_TRY(weft__agree(comms, weft__comms_finish(set)));
    return weft__agree(comms, fill_operations(set));
}

weft_result weft_buckets_create(weft_params *params, const weft_buckets_comms *comms, const weft_buckets_config *config,
                                weft_buckets **set_out)
{
    weft_buckets_comms m = WEFT_BUCKETS_COMMS_INIT;
    weft_buckets *set = NULL;
    if (!set_out || !comms)
        return weft__fail(WEFT_E_INVALID, "buckets: no comms or no place for the set");
    *set_out = NULL;
    WEFT_TRY(weft__take_sized(&m, sizeof m, comms, "weft_buckets_comms"));
    if (!m.shard)
        return weft__fail(WEFT_E_INVALID, "buckets: no comm of shard ranks");
    weft_result result = create(params, config, &m, &set);
    if (result == WEFT_OK)
        *set_out = set;
    else
        weft_buckets_destroy(set);
    return result;
}

void weft_buckets_destroy(weft_buckets *set)
{
    if (!set)
        return;
    weft__last_error said = weft__error_keep(); /* the caller may still want to tell it */
    weft__stop(set, said.text);
    weft__comms_release(set);
    weft__guard_release(set);
    weft__memory_release(set);
    weft__set_gpu_close(set);
    weft__sums_release(set);
    free(set->ops);
    free(set->owned);
    free(set->marks);
    free(set->buckets);
    free(set->norm_room);
    weft_layout_destroy(set->layout);
    weft__params_release(set->params);
    free(set->name);
    free(set);
    weft__error_restore(&said);
}

static const weft_layout_place *place_of(const weft_buckets *set, uint32_t param)
{
    const weft_layout_place *place = set ? weft_layout_param_at(set->layout, param) : NULL;
    return place && place->bucket != WEFT_LAYOUT_NONE ? place : NULL;
}

void *weft_buckets_param(const weft_buckets *set, uint32_t param)
{
    const weft_layout_place *place = place_of(set, param);
    if (!place)
        return NULL;
    const weft__bucket *bucket = &set->buckets[place->bucket];
    return bucket->view + weft__dtype_offset(place->start - bucket->place->start, bucket->dtype);
}

void *weft_buckets_grad(const weft_buckets *set, uint32_t param)
{
    const weft_layout_place *place = place_of(set, param);
    if (!place)
        return NULL;
    const weft__bucket *bucket = &set->buckets[place->bucket];
    return bucket->grads + weft__dtype_offset(place->start - bucket->place->start, bucket->grad_dtype);
}

const weft_layout *weft_buckets_layout(const weft_buckets *set)
{
    return set ? set->layout : NULL;
}

const weft_owned *weft_buckets_owned(const weft_buckets *set, size_t *count_out)
{
    if (count_out)
        *count_out = set ? set->owned_count : 0;
    return set ? set->owned : NULL;
}

weft_result weft_buckets_usage_get(const weft_buckets *set, weft_buckets_usage *usage_out)
{
    if (!set || !usage_out)
        return weft__fail(WEFT_E_INVALID, "buckets: no set or no place for its usage");
    return weft__give_sized(usage_out, &set->usage, sizeof set->usage, "weft_buckets_usage");
}
