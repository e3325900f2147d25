/* SPDX-License-Identifier: Apache-2.0 */
/* AdamW on the owned shards: its state, and the step of one bucket. */
#include "adam.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/sized.h"
#include "device/gpu.h"

#define CHUNK 1024 /* elements of a 16-bit gradient that are widened at a time */

static weft_result fill_config(weft_adam *adam, const weft_adam_config *config)
{
    weft_adam_config c = WEFT_ADAM_CONFIG_INIT;
    WEFT_TRY(weft__take_sized(&c, sizeof c, config, "weft_adam_config"));
    adam->beta1 = c.beta1 != 0 ? c.beta1 : 0.9f;
    adam->beta2 = c.beta2 != 0 ? c.beta2 : 0.999f;
    adam->epsilon = c.epsilon != 0 ? c.epsilon : 1e-8f;
    const float betas[] = {adam->beta1, adam->beta2};
    for (int i = 0; i < 2; i++)
        if (!(betas[i] > 0 && betas[i] < 1))
            return weft__fail(WEFT_E_INVALID, "adam: beta%d is %g, which is not between 0 and 1", i + 1,
                              (double)betas[i]);
    if (!(adam->epsilon > 0 && isfinite(adam->epsilon)))
        return weft__fail(WEFT_E_INVALID, "adam: epsilon is %g, which is not above 0, or no number",
                          (double)adam->epsilon);
    return c.reserved ? weft__fail(WEFT_E_INVALID, "adam: reserved is %u, not 0", c.reserved) : WEFT_OK;
}

static size_t floats_of(const weft__bucket *bucket)
{
    return bucket->shard_elements * (bucket->dtype == WEFT_FP32 ? 2 : 3);
}

static size_t floats_of_set(const weft_buckets *set)
{
    size_t floats = 0;
    for (uint32_t b = 0; b < set->bucket_count; b++)
        floats += floats_of(&set->buckets[b]);
    return floats;
}

/* Cut @p memory up for the buckets of one set. Returns what is behind it. */
static float *divide(const weft_buckets *set, weft__adam_state *states, float *memory)
{
    for (uint32_t b = 0; b < set->bucket_count; b++) {
        size_t elements = set->buckets[b].shard_elements;
        states[b].m = memory;
        states[b].v = memory + elements;
        states[b].master = set->buckets[b].dtype == WEFT_FP32 ? NULL : memory + 2 * elements;
        memory += floats_of(&set->buckets[b]);
    }
    return memory;
}

static weft_result take_memory(weft_adam *adam)
{
    const weft__set_gpu *gpu = adam->sets[0]->gpu;
    size_t bytes = adam->memory_floats * sizeof *adam->memory;
    if (!gpu) {
        adam->memory = weft__alloc(bytes);
        return adam->memory ? WEFT_OK : WEFT_E_NO_MEMORY;
    }
    const weft__device_calls *calls = gpu->device->calls;
    WEFT_TRY(calls->alloc(gpu->device, bytes, (void **)&adam->memory));
    WEFT_TRY(calls->alloc(gpu->device, sizeof *adam->verdict, (void **)&adam->verdict));
    return calls->alloc_host(gpu->device, sizeof *adam->seen, (void **)&adam->seen);
}

static void give_memory(weft_adam *adam)
{
    const weft__set_gpu *gpu = adam->set_count ? adam->sets[0]->gpu : NULL;
    if (!gpu) {
        free(adam->memory);
        return;
    }
    weft_world *world = adam->sets[0]->world;
    (void)weft__gpu_synchronize(world, gpu->stream);
    weft__gpu_release(world, adam->memory);
    weft__gpu_release(world, adam->verdict);
    weft__gpu_release_host(world, adam->seen);
}

static weft_result make_states(weft_adam *adam)
{
    for (uint32_t i = 0; i < adam->set_count; i++)
        adam->memory_floats += floats_of_set(adam->sets[i]);
    adam->states = weft__alloc(adam->set_count * sizeof *adam->states);
    if (!adam->states)
        return WEFT_E_NO_MEMORY;
    WEFT_TRY(take_memory(adam));
    float *memory = adam->memory;
    for (uint32_t i = 0; i < adam->set_count; i++) {
        adam->states[i] = weft__alloc(adam->sets[i]->bucket_count * sizeof *adam->states[i]);
        if (!adam->states[i])
            return WEFT_E_NO_MEMORY;
        memory = divide(adam->sets[i], adam->states[i], memory);
    }
    return WEFT_OK;
}

/* The sets have no other optimizer and know of this one, as far as the list goes. */
static weft_result take_sets(weft_adam *adam, weft_buckets *const *sets, uint32_t count)
{
    adam->sets = weft__alloc(count * sizeof *adam->sets);
    if (!adam->sets)
        return WEFT_E_NO_MEMORY;
    for (; adam->set_count < count; adam->set_count++) {
        weft_buckets *set = sets[adam->set_count];
        for (uint32_t i = 0; i < adam->set_count; i++)
            if (sets[i] == set)
                return weft__fail(WEFT_E_TWICE, "rank %d, set '%s': the list has it twice, as %u and %u", set->rank,
                                  set->name, i, adam->set_count);
        if (set->has_optimizer)
            return weft__fail(WEFT_E_TWICE, "rank %d, set '%s': it has an optimizer already", set->rank, set->name);
        if (!set->gpu != !sets[0]->gpu)
            return weft__fail(WEFT_E_INVALID, "rank %d, set '%s': it is %s the GPU that set '%s' is %s", set->rank,
                              set->name, set->gpu ? "on" : "not on", sets[0]->name, set->gpu ? "not on" : "on");
        set->has_optimizer = true;
        set->usage.state_bytes = floats_of_set(set) * sizeof(float);
        adam->sets[adam->set_count] = set;
    }
    return WEFT_OK;
}

weft_result weft_adam_create(weft_buckets *const *sets, uint32_t count, const weft_adam_config *config,
                             weft_adam **adam_out)
{
    if (!adam_out)
        return weft__fail(WEFT_E_INVALID, "adam: no place for the result");
    *adam_out = NULL;
    WEFT_TRY(weft__check_sets(sets, count));
    weft_adam *adam = weft__alloc(sizeof *adam);
    if (!adam)
        return WEFT_E_NO_MEMORY;
    weft_result result = fill_config(adam, config);
    if (result == WEFT_OK)
        result = take_sets(adam, sets, count);
    if (result == WEFT_OK)
        result = make_states(adam);
    if (result != WEFT_OK) {
        weft_adam_destroy(adam);
        return result;
    }
    *adam_out = adam;
    return WEFT_OK;
}

void weft_adam_destroy(weft_adam *adam)
{
    if (!adam)
        return;
    give_memory(adam);
    for (uint32_t i = 0; i < adam->set_count; i++) {
        adam->sets[i]->has_optimizer = false;
        adam->sets[i]->usage.state_bytes = 0;
        if (adam->states)
            free(adam->states[i]);
    }
    free(adam->states);
    free(adam->sets);
    free(adam);
}

void weft_adam_reset(weft_adam *adam)
{
    if (!adam)
        return;
    adam->steps = 0;
    adam->skipping = false;
    const weft__set_gpu *gpu = adam->sets[0]->gpu;
    if (!gpu) {
        memset(adam->memory, 0, adam->memory_floats * sizeof *adam->memory);
        return;
    }
    size_t words = sizeof *adam->verdict / sizeof(float);
    (void)gpu->device->calls->fill(gpu->device, adam->memory, adam->memory_floats, sizeof(float), 0, gpu->stream);
    (void)gpu->device->calls->fill(gpu->device, adam->verdict, words, sizeof(float), 0, gpu->stream);
}

weft__adamw weft__adam_rates(const weft_adam *adam, const weft_step *how, float clip, uint64_t number)
{
    return (weft__adamw){
        .lr = how->lr,
        .beta1 = adam->beta1,
        .beta2 = adam->beta2,
        .epsilon = adam->epsilon,
        .weight_decay = how->weight_decay,
        .correction1 = (float)(1 - pow((double)adam->beta1, (double)number)),
        .correction2 = (float)(1 - pow((double)adam->beta2, (double)number)),
        .grad_scale = clip,
    };
}

/* One owned part. @p at is its first element in the shard. */
static void update_on_host(const weft_buckets *set, const weft__bucket *bucket, const weft__adam_state *state,
                           const weft_owned *owned, size_t at, const weft__adamw *rates)
{
    float *master = state->master ? state->master + at : owned->data;
    void *data = state->master ? owned->data : NULL;
    if (bucket->grad_dtype == WEFT_FP32) {
        set->vector->adamw(rates, owned->count, master, state->m + at, state->v + at, owned->grad, data, bucket->dtype);
        return;
    }
    for (size_t done = 0; done < owned->count; done += CHUNK) {
        float grad[CHUNK];
        size_t count = owned->count - done < CHUNK ? owned->count - done : CHUNK;
        const unsigned char *from = (unsigned char *)owned->grad + weft__dtype_offset(done, bucket->grad_dtype);
        void *to = data ? (unsigned char *)data + weft__dtype_offset(done, bucket->dtype) : NULL;
        set->vector->cast(grad, WEFT_FP32, from, bucket->grad_dtype, count);
        set->vector->adamw(rates, count, master + done, state->m + at + done, state->v + at + done, grad, to,
                           bucket->dtype);
    }
}

static weft_result update_part(const weft_adam *adam, const weft_buckets *set, const weft__bucket *bucket,
                               const weft__adam_state *state, const weft_owned *owned, size_t at,
                               const weft__adamw *rates)
{
    const weft__set_gpu *gpu = set->gpu;
    if (!gpu) {
        update_on_host(set, bucket, state, owned, at, rates);
        return WEFT_OK;
    }
    return gpu->device->calls->adamw(gpu->device, rates, adam->verdict, owned->count,
                                     state->master ? state->master + at : owned->data, state->m + at, state->v + at,
                                     owned->grad, bucket->grad_dtype, state->master ? owned->data : NULL, bucket->dtype,
                                     gpu->stream);
}

weft_result weft__adam_update(const weft_adam *adam, uint32_t set_index, uint32_t bucket_index,
                              const weft__adamw *rates)
{
    const weft_buckets *set = adam->sets[set_index];
    const weft__bucket *bucket = &set->buckets[bucket_index];
    const weft__adam_state *state = &adam->states[set_index][bucket_index];
    const unsigned char *shard = bucket->view + weft__dtype_offset(bucket->shard_start, bucket->dtype);
    if (adam->steps == 0 && state->master)
        WEFT_TRY(weft__set_cast(set, state->master, WEFT_FP32, shard, bucket->dtype, bucket->shard_elements));
    for (uint32_t i = 0; i < bucket->owned_count; i++) {
        const weft_owned *owned = &bucket->owned[i];
        const weft_param *param = weft_params_get(set->params, owned->param);
        weft__adamw own = *rates;
        own.lr *= param->lr_scale;
        if (param->flags & WEFT_PARAM_NO_DECAY)
            own.weight_decay = 0;
        size_t at = (size_t)((const unsigned char *)owned->data - shard) / weft_dtype_bytes(bucket->dtype);
        WEFT_TRY(update_part(adam, set, bucket, state, owned, at, &own));
    }
    return WEFT_OK;
}
