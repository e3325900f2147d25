/* SPDX-License-Identifier: Apache-2.0 */
/* The list of params: names, shapes, types and flags, in the order in which the forward pass uses them. */
#include <weft/params.h>

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/sized.h"
#include "params.h"

#define ALL_FLAGS (WEFT_PARAM_FROZEN | WEFT_PARAM_TIED | WEFT_PARAM_EXPERT | WEFT_PARAM_NO_DECAY | WEFT_PARAM_COPY)

typedef struct entry {
    weft_param param; /* its name is ours */
    size_t elements;
    uint64_t name_hash;
} entry;

struct weft_params {
    entry *entries;
    uint32_t count, capacity;
    uint32_t *slots;          /* the names, hashed: index + 1 of an entry, 0 = free; 2 * capacity of them */
    _Atomic uint32_t holders; /* sets that use the list, perhaps of several thread ranks */
};

static uint64_t hash_text(const char *text)
{
    return weft__hash(WEFT__HASH_START, text, strlen(text));
}

weft_result weft_params_create(weft_params **params_out)
{
    if (!params_out)
        return weft__fail(WEFT_E_INVALID, "params: no place for the result");
    *params_out = weft__alloc(sizeof(weft_params));
    return *params_out ? WEFT_OK : WEFT_E_NO_MEMORY;
}

void weft_params_destroy(weft_params *params)
{
    if (!params)
        return;
    for (uint32_t i = 0; i < params->count; i++)
        free((char *)params->entries[i].param.name);
    free(params->slots);
    free(params->entries);
    free(params);
}

static weft_result check(const weft_param *param)
{
    const char *name = param->name;
    if (!name || !*name)
        return weft__fail(WEFT_E_INVALID, "params: a param needs a name");
    if (param->dims < 0 || param->dims > WEFT_PARAM_DIMS_MAX)
        return weft__fail(WEFT_E_INVALID, "param '%s': %d dimensions, not 0 to %d", name, param->dims,
                          WEFT_PARAM_DIMS_MAX);
    if (!weft_dtype_bytes(param->dtype) || !weft_dtype_bytes(param->grad_dtype))
        return weft__fail(WEFT_E_INVALID, "param '%s': dtype %d or grad_dtype %d is none", name, (int)param->dtype,
                          (int)param->grad_dtype);
    if (param->flags & ~(uint32_t)ALL_FLAGS)
        return weft__fail(WEFT_E_INVALID, "param '%s': unknown flags 0x%x", name, param->flags);
    if (param->reserved)
        return weft__fail(WEFT_E_INVALID, "param '%s': reserved is %u, not 0", name, param->reserved);
    if (!isfinite(param->lr_scale) || param->lr_scale < 0)
        return weft__fail(WEFT_E_INVALID, "param '%s': lr_scale is %g", name, (double)param->lr_scale);
    return WEFT_OK;
}

static weft_result count_elements(const weft_param *param, size_t *elements_out)
{
    size_t elements = 1;
    if (param->dims == 0 && param->shape[0] != 0)
        return weft__fail(WEFT_E_INVALID, "param '%s': a shape of %zu, but dims is 0", param->name, param->shape[0]);
    for (int i = 0; i < param->dims; i++) {
        if (param->shape[i] == 0)
            return weft__fail(WEFT_E_INVALID, "param '%s': dimension %d is 0", param->name, i);
        if (__builtin_mul_overflow(elements, param->shape[i], &elements))
            return weft__fail(WEFT_E_RANGE, "param '%s': more elements than can be counted", param->name);
    }
    *elements_out = elements;
    return WEFT_OK;
}

/* Where a name is, or belongs. There are more slots than entries, so that one is free. */
static uint32_t *slot_of(const weft_params *params, const char *name, uint64_t hash)
{
    uint32_t last = 2 * params->capacity - 1, at = (uint32_t)(hash ^ hash >> 32) & last;
    for (; params->slots[at]; at = (at + 1) & last) {
        const entry *e = &params->entries[params->slots[at] - 1];
        if (e->name_hash == hash && strcmp(e->param.name, name) == 0)
            break;
    }
    return &params->slots[at];
}

/* The capacity is a power of two. */
static weft_result reserve(weft_params *params)
{
    if (params->count < params->capacity)
        return WEFT_OK;
    uint32_t capacity = params->capacity ? 2 * params->capacity : 32;
    if (capacity > UINT32_MAX / 2)
        return weft__fail(WEFT_E_RANGE, "params: more than %u params", params->capacity);
    entry *entries = weft__alloc(capacity * sizeof *entries);
    uint32_t *slots = entries ? weft__alloc(2 * (size_t)capacity * sizeof *slots) : NULL;
    if (!slots) {
        free(entries);
        return WEFT_E_NO_MEMORY;
    }
    if (params->count)
        memcpy(entries, params->entries, params->count * sizeof *entries);
    free(params->entries);
    free(params->slots);
    params->entries = entries;
    params->slots = slots;
    params->capacity = capacity;
    for (uint32_t i = 0; i < params->count; i++)
        *slot_of(params, entries[i].param.name, entries[i].name_hash) = i + 1;
    return WEFT_OK;
}

static const entry *find(const weft_params *params, const char *name)
{
    uint32_t index = params->count ? *slot_of(params, name, hash_text(name)) : 0;
    return index ? &params->entries[index - 1] : NULL;
}

static weft_result check_unused(const weft_params *params, const char *name)
{
    if (atomic_load(&params->holders))
        return weft__fail(WEFT_E_STATE, "param '%s': the list is in use by a set of buckets and cannot change", name);
    return WEFT_OK;
}

weft_result weft_params_add(weft_params *params, const weft_param *param, uint32_t *index_out)
{
    if (!params || !param)
        return weft__fail(WEFT_E_INVALID, "params: no list or no param to add");
    entry new = {.param = WEFT_PARAM_INIT};
    WEFT_TRY(weft__take_sized(&new.param, sizeof new.param, param, "weft_param"));
    WEFT_TRY(check(&new.param));
    WEFT_TRY(count_elements(&new.param, &new.elements));
    WEFT_TRY(check_unused(params, new.param.name));
    if (find(params, new.param.name))
        return weft__fail(WEFT_E_TWICE, "param '%s': the name is taken", new.param.name);
    WEFT_TRY(reserve(params));
    new.name_hash = hash_text(new.param.name);
    new.param.name = weft__copy_text(new.param.name);
    if (!new.param.name)
        return WEFT_E_NO_MEMORY;
    if (new.param.contributions == 0)
        new.param.contributions = 1;
    if (new.param.lr_scale == 0)
        new.param.lr_scale = 1;
    *slot_of(params, new.param.name, new.name_hash) = params->count + 1;
    params->entries[params->count] = new;
    if (index_out)
        *index_out = params->count;
    params->count++;
    return WEFT_OK;
}

weft_result weft_params_freeze(weft_params *params, uint32_t index, int frozen)
{
    if (!params)
        return weft__fail(WEFT_E_INVALID, "params: no list");
    if (index >= params->count)
        return weft__fail(WEFT_E_RANGE, "params: no param %u, there are %u", index, params->count);
    weft_param *param = &params->entries[index].param;
    WEFT_TRY(check_unused(params, param->name));
    param->flags = frozen ? param->flags | WEFT_PARAM_FROZEN : param->flags & ~(uint32_t)WEFT_PARAM_FROZEN;
    return WEFT_OK;
}

uint32_t weft_params_count(const weft_params *params)
{
    return params ? params->count : 0;
}

const weft_param *weft_params_get(const weft_params *params, uint32_t index)
{
    return index < weft_params_count(params) ? &params->entries[index].param : NULL;
}

size_t weft_params_elements(const weft_params *params, uint32_t index)
{
    return index < weft_params_count(params) ? params->entries[index].elements : 0;
}

weft_result weft_params_find(const weft_params *params, const char *name, uint32_t *index_out)
{
    if (!params || !name || !index_out)
        return weft__fail(WEFT_E_INVALID, "params: no list, name or place for the result");
    const entry *found = find(params, name);
    if (!found)
        return weft__fail(WEFT_E_NOT_FOUND, "params: no param is called '%s'", name);
    *index_out = (uint32_t)(found - params->entries);
    return WEFT_OK;
}

void weft__params_hold(weft_params *params)
{
    atomic_fetch_add(&params->holders, 1);
}

void weft__params_release(weft_params *params)
{
    atomic_fetch_sub(&params->holders, 1);
}

uint64_t weft__params_hash(const weft_params *params, uint32_t index)
{
    const entry *e = &params->entries[index];
    uint64_t hash = weft__hash(e->name_hash, e->param.shape, (size_t)e->param.dims * sizeof *e->param.shape);
    hash = weft__hash(hash, &e->param.dtype, sizeof e->param.dtype);
    hash = weft__hash(hash, &e->param.grad_dtype, sizeof e->param.grad_dtype);
    hash = weft__hash(hash, &e->param.contributions, sizeof e->param.contributions);
    hash = weft__hash(hash, &e->param.lr_scale, sizeof e->param.lr_scale);
    return weft__hash(hash, &e->param.flags, sizeof e->param.flags);
}
