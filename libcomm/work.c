/* SPDX-License-Identifier: Apache-2.0 */
/* What is in flight: test, order, finish. */
#include "work.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/futex.h"
#include "comm.h"
#include "world.h"

/* ------------------------------------------------------------------------------------------- slots */

static uint64_t value_of(const weft__work *work)
{
    return ((uint64_t)(uintptr_t)work / WEFT__LINE) << 23 | work->generation << 1;
}

static weft_result map_slots(weft__work_slots *slots)
{
    slots->free = weft__alloc(slots->count / 64 * sizeof *slots->free);
    slots->pages = slots->free ? weft__map_pages(slots->bytes) : NULL;
    if (!slots->pages)
        return WEFT_E_NO_MEMORY;
    if ((uint64_t)(uintptr_t)(slots->pages + slots->bytes) >> 48)
        return weft__fail(WEFT_E_UNSUPPORTED, "addresses of more than 48 bits");
    return WEFT_OK;
}

weft_result weft__work_pool_take(weft__work_pool *pool, uint32_t count, size_t memory_bytes,
                                 weft__work_slots **slots_out)
{
    count = (uint32_t)weft__round_up(count, 64);
    size_t stride = weft__round_up(sizeof(weft__work) + memory_bytes, WEFT__LINE);
    weft__work_slots *slots = pool->first;
    while (slots && (slots->in_use || slots->count != count || slots->stride != stride))
        slots = slots->next;
    if (!slots) {
        slots = weft__alloc(sizeof *slots);
        if (!slots)
            return WEFT_E_NO_MEMORY;
        *slots = (weft__work_slots){.stride = stride, .count = count, .bytes = stride * count};
        weft_result result = map_slots(slots);
        if (result != WEFT_OK) {
            weft__unmap_pages(slots->pages, slots->bytes);
            free(slots->free);
            free(slots);
            return result;
        }
        slots->next = pool->first;
        pool->first = slots;
    }
    slots->in_use = true;
    for (uint32_t i = 0; i < count / 64; i++)
        atomic_store(&slots->free[i], UINT64_MAX);
    *slots_out = slots;
    return WEFT_OK;
}

void weft__work_pool_give(weft__work_slots *slots)
{
    /* A work that was never finished is stale from here on. */
    for (uint32_t i = 0; i < slots->count; i++)
        if (!(atomic_load(&slots->free[i / 64]) >> (i % 64) & 1))
            atomic_store(&weft__work_at(slots, i)->value, 0);
    slots->in_use = false;
}

void weft__work_pool_close(weft__work_pool *pool)
{
    for (weft__work_slots *s = pool->first, *next; s; s = next) {
        next = s->next;
        weft__unmap_pages(s->pages, s->bytes);
        free(s->free);
        free(s);
    }
    pool->first = NULL;
}

weft__work *weft__work_take(weft__work_slots *slots)
{
    for (uint32_t word = 0; word < slots->count / 64; word++) {
        uint64_t set = atomic_load_explicit(&slots->free[word], memory_order_acquire);
        if (!set)
            continue;
        uint32_t bit = (uint32_t)__builtin_ctzll(set);
        atomic_fetch_and_explicit(&slots->free[word], ~((uint64_t)1 << bit), memory_order_relaxed);
        weft__work *work = weft__work_at(slots, word * 64 + bit);
        work->index = word * 64 + bit;
        work->generation = work->generation % (WEFT__WORK_GENERATIONS - 1) + 1;
        atomic_store_explicit(&work->holds, 1, memory_order_relaxed);
        atomic_store_explicit(&work->value, value_of(work), memory_order_release);
        return work;
    }
    return NULL;
}

void weft__work_release(weft__work *work)
{
    /* The last one need not count down: nobody can take a new hold of a work that is being finished. */
    if (atomic_load_explicit(&work->holds, memory_order_acquire) != 1 &&
        atomic_fetch_sub_explicit(&work->holds, 1, memory_order_acq_rel) != 1)
        return;
    weft__work_slots *slots = work->comm->slots;
    atomic_store_explicit(&work->value, 0, memory_order_relaxed);
    atomic_fetch_or_explicit(&slots->free[work->index / 64], (uint64_t)1 << (work->index % 64), memory_order_release);
}

weft__work *weft__work_find(weft_work work)
{
    if (!work.value || work.value & WEFT__WORK_CLAIMED)
        return NULL;
    weft__work *slot = (weft__work *)(uintptr_t)((work.value >> 23) * WEFT__LINE);
    return atomic_load_explicit(&slot->value, memory_order_acquire) == work.value ? slot : NULL;
}

/* ------------------------------------------------------------------------------------------- calls */

static weft_result stale(void)
{
    return weft__fail(WEFT_E_TWICE, "this work was finished before, or its comm is gone");
}

static weft_result check_stream(const weft__work *work, weft_stream stream)
{
    if (stream.kind == 0)
        return WEFT_OK;
    return weft__fail(WEFT_E_UNSUPPORTED, "comm %s has no device streams", work->comm->name);
}

weft_result weft_work_test(weft_work work)
{
    weft__work *w = weft__work_find(work);
    if (!w)
        return work.value ? stale() : weft__fail(WEFT_E_INVALID, "no work");
    WEFT_TRY(weft__world_alive(w->comm->world));
    if (!weft__work_ended(w))
        weft__progress_try(w->comm->world);
    return weft__work_ended(w) ? WEFT_OK : WEFT_PENDING;
}

weft_result weft_work_order(weft_work work, weft_stream stream)
{
    weft__work *w = weft__work_find(work);
    if (!w)
        return work.value ? stale() : weft__fail(WEFT_E_INVALID, "no work");
    WEFT_TRY(weft__world_alive(w->comm->world));
    WEFT_TRY(check_stream(w, stream));
    if (!weft__work_ended(w))
        weft__progress_wait(w->comm->world, w);
    return WEFT_OK;
}

static weft_result how_it_ended(weft__work *w)
{
    weft_result result = (weft_result)w->op.result;
    if (result < 0) {
        char text[256];
        if (weft_comm_error(w->comm, text, sizeof text) != result)
            snprintf(text, sizeof text, "comm %s: backend %s failed an operation", w->comm->name,
                     w->comm->backend->name);
        (void)weft__fail_quietly(result, text);
    }
    return result;
}

weft_result weft__work_end(weft__work *work, uint64_t came)
{
    weft__trace_finish(work->comm->world->trace, work, came);
    weft_result result = how_it_ended(work);
    weft__work_release(work);
    return result;
}

weft_result weft_work_finish(weft_work work, weft_stream before)
{
    weft__work *w = weft__work_find(work);
    if (!w)
        return work.value ? stale() : weft__fail(WEFT_E_INVALID, "no work");
    weft_world *world = w->comm->world;
    WEFT_TRY(weft__world_alive(world));
    WEFT_TRY(check_stream(w, before));
    uint64_t expected = work.value;
    if (!atomic_compare_exchange_strong_explicit(&w->value, &expected, work.value | WEFT__WORK_CLAIMED,
                                                 memory_order_acq_rel, memory_order_relaxed))
        return stale();
    /* What was done before its start returned was never waited for, and needs no look at the clock. */
    uint64_t came = w->comm->facts.caps & WEFT_CAP_IMMEDIATE && weft__work_ended(w) ? w->op.last : weft__ticks();
    if (!weft__work_ended(w))
        weft__progress_wait(world, w);
    return weft__work_end(w, came);
}

void weft_backend_done(weft_op *op, weft_result result)
{
    weft__progress_done(op, result);
}
