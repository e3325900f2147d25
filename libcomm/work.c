/* SPDX-License-Identifier: Apache-2.0 */
/* What is in flight: test, order, finish. */
#include "work.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/futex.h"
#include "comm.h"
#include "world.h"

#define FEW 8 /* slots that are looked at each time */

/* ------------------------------------------------------------------------------------------- slots */

static weft_result map_slots(weft__work_slots *slots)
{
    slots->pages = weft__map_pages(slots->bytes);
    if (!slots->pages)
        return WEFT_E_NO_MEMORY;
    if (!weft__work_fits((uintptr_t)slots->pages + slots->bytes))
        return weft__fail(WEFT_E_UNSUPPORTED, "works at %p: addresses of more than %d bits", (void *)slots->pages,
                          WEFT__WORK_ADDRESS_BITS);
    for (uint32_t i = 0; i < slots->count; i++) {
        weft__work_at(slots, i)->slots = slots;
        weft__work_at(slots, i)->index = i;
    }
    return WEFT_OK;
}

static void free_slots(weft__work_slots *slots)
{
    weft__unmap_pages(slots->pages, slots->bytes);
    free(slots);
}

weft_result weft__work_pool_take(weft_world *world, uint32_t count, size_t memory_bytes, weft__work_slots **slots_out)
{
    weft__work_pool *pool = &world->works;
    count = (uint32_t)weft__round_up(count, 64);
    size_t stride = weft__round_up(sizeof(weft__work) + memory_bytes, WEFT__WORK_ALIGN);
    weft__work_slots *slots = pool->first;
    while (slots && (slots->in_use || slots->count != count || slots->stride != stride))
        slots = slots->next;
    if (!slots) {
        slots = weft__alloc(sizeof *slots);
        if (!slots)
            return WEFT_E_NO_MEMORY;
        *slots = (weft__work_slots){.world = world, .stride = stride, .count = count, .bytes = stride * count};
        weft_result result = map_slots(slots);
        if (result != WEFT_OK) {
            free_slots(slots);
            return result;
        }
        slots->next = pool->first;
        pool->first = slots;
    }
    slots->in_use = true;
    slots->next_of_many = FEW;
    *slots_out = slots;
    return WEFT_OK;
}

/* A work that was never finished is stale from here on. What others hold of it keeps its slot. */
static void forsake(weft__work *work)
{
    uint64_t state = atomic_load(&work->state);
    do {
        if (!(state & WEFT__WORK_HOLDS) || state & WEFT__WORK_CLAIMED)
            return;
    } while (!atomic_compare_exchange_weak(&work->state, &state, state | WEFT__WORK_CLAIMED));
    weft__work_release(work);
}

void weft__work_pool_give(weft__work_slots *slots)
{
    for (uint32_t i = 0; i < slots->count; i++)
        forsake(weft__work_at(slots, i));
    slots->in_use = false;
}

void weft__work_pool_close(weft__work_pool *pool)
{
    for (weft__work_slots *s = pool->first, *next; s; s = next) {
        next = s->next;
        free_slots(s);
    }
    pool->first = NULL;
}

static weft__work *free_among(const weft__work_slots *slots, uint32_t first, uint32_t end)
{
    for (uint32_t i = first; i < end; i++)
        if (weft__work_is_free(weft__work_at(slots, i)))
            return weft__work_at(slots, i);
    return NULL;
}

/* One of the first few, which are in the cache; where many are in flight, the next one round. */
weft__work *weft__work_take(weft__work_slots *slots)
{
    weft__work *work = free_among(slots, 0, FEW);
    if (!work) {
        work = free_among(slots, slots->next_of_many, slots->count);
        if (!work)
            work = free_among(slots, FEW, slots->next_of_many);
        if (!work)
            return NULL;
        slots->next_of_many = work->index + 1;
    }
    uint64_t last = atomic_load_explicit(&work->state, memory_order_relaxed) >> WEFT__WORK_STATE_SHIFT;
    uint64_t generation = last % (((uint64_t)1 << WEFT__WORK_GENERATION_BITS) - 1) + 1; /* never 0 */
    atomic_store_explicit(&work->state, generation << WEFT__WORK_STATE_SHIFT | 1, memory_order_release);
    return work;
}

void weft__work_describe(const weft__work *work, char *text, size_t bytes)
{
    const weft_comm *comm = work->comm;
    const char *label = weft_trace_label_text(comm->world, work->op.label);
    char number[24] = "";
    if (!work->op.is_p2p)
        snprintf(number, sizeof number, " %llu", (unsigned long long)work->op.number);
    snprintf(text, bytes, "%s%s%s%s%s on comm %s",
             work->op.is_p2p ? "p2p batch" : weft_collective_string(work->op.what.kind), number, *label ? " (" : "",
             label, *label ? ")" : "", comm->name);
}

bool weft__work_describe_unfinished(const weft__work_slots *slots, char *text, size_t bytes)
{
    const weft__work *oldest = NULL;
    uint32_t count = 0;
    for (uint32_t i = 0; i < slots->count; i++) {
        weft__work *work = weft__work_at(slots, i);
        if (!weft__work_is_unfinished(work))
            continue;
        oldest = oldest && oldest->ready <= work->ready ? oldest : work;
        count++;
    }
    if (!oldest)
        return false;
    char what[160];
    weft__work_describe(oldest, what, sizeof what);
    snprintf(text, bytes, "%u work%s started and not finished, %s%s", count, count == 1 ? " was" : "s were",
             count == 1 ? "" : "the oldest ", what);
    return true;
}

/* ------------------------------------------------------------------------------------------- values and holds */

static weft__work *slot_of(weft_work work)
{
    return (weft__work *)(uintptr_t)weft__work_address(work);
}

/* Does a slot in that state hold the work, with its finish still to come? */
static bool is_live(uint64_t state, weft_work work)
{
    return state >> WEFT__WORK_STATE_SHIFT == weft__work_generation(work) && !(state & WEFT__WORK_CLAIMED) &&
           state & WEFT__WORK_HOLDS;
}

weft_work weft__work_value(const weft__work *work)
{
    uint64_t state = atomic_load_explicit(&work->state, memory_order_relaxed);
    return weft__work_pack((uintptr_t)work, state >> WEFT__WORK_STATE_SHIFT);
}

weft__work *weft__work_find(weft_work work)
{
    weft__work *slot = slot_of(work);
    return work.value && is_live(atomic_load_explicit(&slot->state, memory_order_acquire), work) ? slot : NULL;
}

/* Change the state of a live work by @p plus. */
static weft__work *change(weft_work work, uint64_t plus)
{
    if (!work.value)
        return NULL;
    weft__work *slot = slot_of(work);
    uint64_t state = atomic_load_explicit(&slot->state, memory_order_acquire);
    do {
        if (!is_live(state, work))
            return NULL;
    } while (!atomic_compare_exchange_weak_explicit(&slot->state, &state, state + plus, memory_order_acq_rel,
                                                    memory_order_acquire));
    return slot;
}

weft__work *weft__work_hold(weft_work work)
{
    return change(work, 1);
}

weft__work *weft__work_claim(weft_work work)
{
    return change(work, WEFT__WORK_CLAIMED);
}

void weft__work_claim_own(weft__work *work)
{
    uint64_t state = atomic_load_explicit(&work->state, memory_order_relaxed);
    atomic_store_explicit(&work->state, state | WEFT__WORK_CLAIMED, memory_order_relaxed);
}

void weft__work_release(weft__work *work)
{
    /* The last one of a claimed work need not count down: nobody can take a hold any more. */
    uint64_t state = atomic_load_explicit(&work->state, memory_order_acquire);
    if ((state & (WEFT__WORK_CLAIMED | WEFT__WORK_HOLDS)) != (WEFT__WORK_CLAIMED | 1)) {
        state = atomic_fetch_sub_explicit(&work->state, 1, memory_order_acq_rel);
        if ((state & WEFT__WORK_HOLDS) != 1)
            return;
    }
    atomic_store_explicit(&work->state, state >> WEFT__WORK_STATE_SHIFT << WEFT__WORK_STATE_SHIFT,
                          memory_order_release);
}

/* ------------------------------------------------------------------------------------------- calls */

static weft_result stale(void)
{
    return weft__fail(WEFT_E_TWICE, "this work was finished before, or its comm is gone");
}

static weft_result check_stream(const weft__work *work, weft_stream stream)
{
    return weft__comm_has_stream(work->comm, stream);
}

static weft_result order(weft__work *work, weft_stream stream)
{
    weft_comm *comm = work->comm;
    return comm->backend->order(comm->backend_comm, &work->op, stream);
}

weft_result weft_work_test(weft_work work)
{
    weft__work *w = weft__work_find(work);
    if (!w)
        return work.value ? stale() : weft__fail(WEFT_E_INVALID, "no work");
    weft_world *world = w->slots->world;
    WEFT_TRY(weft__world_alive(world));
    if (!weft__work_ended(w))
        weft__progress_try(world);
    if (weft__work_ended(w))
        return WEFT_OK;
    if (world->progress.crowded) /* who asks again and again must not keep the core from those it waits for */
        sched_yield();
    return WEFT_PENDING;
}

weft_result weft_work_order(weft_work work, weft_stream stream)
{
    weft__work *w = weft__work_find(work);
    if (!w)
        return work.value ? stale() : weft__fail(WEFT_E_INVALID, "no work");
    weft_world *world = w->slots->world;
    WEFT_TRY(weft__world_alive(world));
    WEFT_TRY(check_stream(w, stream));
    if (stream.kind != WEFT_DEVICE_HOST)
        return order(w, stream);
    if (!weft__work_ended(w))
        weft__progress_wait(world, w);
    return WEFT_OK;
}

static weft_result how_it_ended(weft__work *w)
{
    weft_result result = (weft_result)w->op.result;
    if (result < 0) {
        char text[256];
        snprintf(text, sizeof text, "%s", weft__comm_failure(w->comm, result));
        if (!*text)
            snprintf(text, sizeof text, "comm %s: backend %s failed an operation", w->comm->name,
                     w->comm->backend->name);
        (void)weft__fail_quietly(result, text);
    }
    return result;
}

weft_result weft__work_end(weft__work *work, uint64_t came, uint64_t went)
{
    weft__trace_finish(work->slots->world->trace, work, came, went);
    weft_result result = how_it_ended(work);
    weft__work_release(work);
    return result;
}

void weft__work_end_left(weft__work *work, uint64_t life)
{
    if (atomic_compare_exchange_strong(&work->left, &life, 0))
        (void)weft__work_end(work, work->op.last, work->op.last);
}

bool weft__work_await_left(weft__work_slots *slots)
{
    for (uint32_t i = 0; i < slots->count; i++) {
        weft__work *work = weft__work_at(slots, i);
        uint64_t life = atomic_load(&work->left);
        if (!life)
            continue;
        if (!weft__work_ended(work))
            weft__progress_wait(slots->world, work);
        weft__work_end_left(work, life);
        return true;
    }
    return false;
}

/* Of a claimed work: the stream goes on behind it, and the host at once. */
static weft_result leave(weft__work *work, weft_stream stream)
{
    weft_comm *comm = work->comm;
    weft_result result = order(work, stream);
    if (weft__work_ended(work)) {
        weft_result ended = weft__work_end(work, work->op.last, work->op.last);
        return result == WEFT_OK ? ended : result;
    }
    if (result != WEFT_OK)
        weft_backend_fail(comm, result, "comm %s: %s", comm->name, weft_last_error());
    uint64_t life = weft__work_life(work);
    atomic_store(&work->left, life);
    if (weft__work_ended(work))
        weft__work_end_left(work, life);
    return result;
}

weft_result weft_work_finish(weft_work work, weft_stream before)
{
    weft__work *w = weft__work_find(work);
    if (!w)
        return work.value ? stale() : weft__fail(WEFT_E_INVALID, "no work");
    weft_world *world = w->slots->world;
    WEFT_TRY(weft__world_alive(world));
    WEFT_TRY(check_stream(w, before));
    if (!weft__work_claim(work))
        return stale();
    if (before.kind != WEFT_DEVICE_HOST)
        return leave(w, before);
    /* What was done before its start returned was never waited for, and needs no look at the clock. */
    uint64_t came = w->comm->facts.caps & WEFT_CAP_IMMEDIATE && weft__work_ended(w) ? w->op.last : weft__ticks();
    if (!weft__work_ended(w))
        weft__progress_wait(world, w);
    if (w->comm->gpu && w->op.result == WEFT_OK)
        (void)order(w, before); /* this thread has waited too */
    return weft__work_end(w, came, w->op.last > came ? weft__ticks() : came);
}

void weft_backend_done(weft_op *op, weft_result result)
{
    weft__progress_done(op, result);
}
