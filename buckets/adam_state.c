/* SPDX-License-Identifier: Apache-2.0 */
/* What AdamW keeps, out to a checkpoint and back. */
#include <string.h>

#include "adam.h"
#include "base/error.h"
#include "base/sized.h"

/* Where the optimizer keeps what is asked for. */
typedef struct place {
    const weft_buckets *set;
    weft_dtype dtype;
    void *data;            /* the values of the param */
    float *master, *m, *v; /* no master: the values are it */
    size_t count;
} place;

static weft_result index_of(const weft_adam *adam, const weft_buckets *set, uint32_t *index_out)
{
    for (uint32_t i = 0; i < adam->set_count; i++)
        if (adam->sets[i] == set) {
            *index_out = i;
            return WEFT_OK;
        }
    return weft__fail(WEFT_E_INVALID, "rank %d, set '%s': this optimizer does not step it", set->rank, set->name);
}

/* The bucket of a param, in which this rank may own a part of it. */
static weft_result bucket_of(const weft_buckets *set, uint32_t param, uint32_t *bucket_out)
{
    const weft_param *p = weft_params_get(set->params, param);
    if (!p)
        return weft__fail(WEFT_E_RANGE, "rank %d, set '%s': no param %u, there are %u", set->rank, set->name, param,
                          weft_params_count(set->params));
    *bucket_out = set->marks[param].bucket;
    if (*bucket_out == WEFT_LAYOUT_NONE)
        return weft__fail(WEFT_E_RANGE, "rank %d, set '%s': param '%s' is frozen, no optimizer keeps anything of it",
                          set->rank, set->name, p->name);
    return WEFT_OK;
}

static bool holds(const weft_owned *owned, const weft_adam_values *values)
{
    return owned->param == values->param && values->start >= owned->start && values->count <= owned->count &&
           values->start - owned->start <= owned->count - values->count;
}

static const weft_owned *owned_of(const weft__bucket *bucket, const weft_adam_values *values)
{
    for (uint32_t i = 0; i < bucket->owned_count; i++)
        if (holds(&bucket->owned[i], values))
            return &bucket->owned[i];
    return NULL;
}

static weft_result find(const weft_adam *adam, const weft_buckets *set, const weft_adam_values *values, weft__call call,
                        place *out)
{
    uint32_t index = 0, b = 0;
    if (!adam || !set)
        return weft__fail(WEFT_E_INVALID, "adam: no optimizer or no set");
    WEFT_TRY(index_of(adam, set, &index));
    WEFT_TRY(bucket_of(set, values->param, &b));
    const weft__bucket *bucket = &set->buckets[b];
    const weft_owned *owned = owned_of(bucket, values);
    if (!owned)
        return weft__refuse(set, bucket, values->param, WEFT_E_RANGE,
                            "elements %zu and %zu behind it are not this rank's", values->start, values->count);
    WEFT_TRY(weft__phase_check(set, bucket, call, values->param));
    const weft__adam_state *state = &adam->states[index][b];
    unsigned char *data =
        (unsigned char *)owned->data + weft__dtype_offset(values->start - owned->start, bucket->dtype);
    size_t at = (size_t)(data - (bucket->view + weft__dtype_offset(bucket->shard_start, bucket->dtype))) /
                weft_dtype_bytes(bucket->dtype);
    *out = (place){.set = set,
                   .dtype = bucket->dtype,
                   .data = data,
                   .master = state->master ? state->master + at : NULL,
                   .m = state->m + at,
                   .v = state->v + at,
                   .count = values->count};
    return WEFT_OK;
}

static weft_result copy(const weft_buckets *set, void *to, const void *from, size_t bytes)
{
    if (set->gpu)
        return set->gpu->device->calls->copy(set->gpu->device, to, from, bytes, set->gpu->stream);
    memcpy(to, from, bytes);
    return WEFT_OK;
}

static weft_result settle(const weft_buckets *set)
{
    return set->gpu ? set->gpu->device->calls->synchronize(set->gpu->device, set->gpu->stream) : WEFT_OK;
}

static weft_result take_values(const weft_adam_values *values, weft_adam_values *own)
{
    if (!values)
        return weft__fail(WEFT_E_INVALID, "adam: no values");
    *own = (weft_adam_values)WEFT_ADAM_VALUES_INIT;
    WEFT_TRY(weft__take_sized(own, sizeof *own, values, "weft_adam_values"));
    if (own->reserved)
        return weft__fail(WEFT_E_INVALID, "adam: an unknown field of weft_adam_values is set");
    return WEFT_OK;
}

weft_result weft_adam_read(weft_adam *adam, weft_buckets *set, const weft_adam_values *values)
{
    weft_adam_values own;
    place p;
    WEFT_TRY(take_values(values, &own));
    WEFT_TRY(find(adam, set, &own, WEFT__CALL_READ, &p));
    size_t bytes = p.count * sizeof(float);
    if (own.master && p.master && adam->steps == 0) /* as the first step would */
        WEFT_TRY(weft__set_cast(set, p.master, WEFT_FP32, p.data, p.dtype, p.count));
    if (own.master)
        WEFT_TRY(copy(set, own.master, p.master ? p.master : p.data, bytes));
    if (own.m)
        WEFT_TRY(copy(set, own.m, p.m, bytes));
    if (own.v)
        WEFT_TRY(copy(set, own.v, p.v, bytes));
    return settle(set);
}

weft_result weft_adam_write(weft_adam *adam, weft_buckets *set, const weft_adam_values *values)
{
    weft_adam_values own;
    place p;
    WEFT_TRY(take_values(values, &own));
    WEFT_TRY(find(adam, set, &own, WEFT__CALL_WRITE, &p));
    size_t bytes = p.count * sizeof(float);
    if (own.master)
        WEFT_TRY(copy(set, p.master ? p.master : p.data, own.master, bytes));
    if (own.master && p.master)
        WEFT_TRY(weft__set_cast(set, p.data, p.dtype, p.master, WEFT_FP32, p.count));
    if (own.m)
        WEFT_TRY(copy(set, p.m, own.m, bytes));
    if (own.v)
        WEFT_TRY(copy(set, p.v, own.v, bytes));
    return settle(set);
}

weft_result weft_adam_steps(weft_adam *adam, uint64_t *steps_out)
{
    if (!adam || !steps_out)
        return weft__fail(WEFT_E_INVALID, "adam: no optimizer or no place for its steps");
    const weft_buckets *set = adam->sets[0];
    *steps_out = adam->steps;
    if (!set->gpu)
        return WEFT_OK;
    WEFT_TRY(copy(set, adam->seen, adam->verdict, sizeof *adam->seen));
    WEFT_TRY(settle(set));
    *steps_out = adam->seen->updates;
    return WEFT_OK;
}

weft_result weft_adam_set_steps(weft_adam *adam, uint64_t steps)
{
    if (!adam)
        return weft__fail(WEFT_E_INVALID, "adam: no optimizer");
    const weft_buckets *set = adam->sets[0];
    adam->steps = steps;
    adam->skipping = false;
    if (!set->gpu)
        return WEFT_OK;
    *adam->seen = (weft__step_verdict){.updates = steps};
    WEFT_TRY(copy(set, adam->verdict, adam->seen, sizeof *adam->seen));
    return settle(set);
}
