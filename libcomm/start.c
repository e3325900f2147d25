/* SPDX-License-Identifier: Apache-2.0 */
/* From a checked operation to a work in flight. */
#include "start.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/error.h"

weft_result weft__start_prepare(weft_comm *comm, weft_stream after, weft__work **work_out)
{
    if (after.kind != 0)
        return weft__fail(WEFT_E_UNSUPPORTED, "comm %s has no device streams", comm->name);
    weft__work *work = weft__work_take(comm->slots);
    if (!work)
        return weft__fail(WEFT_E_BUSY, "comm %s: all %u works are in flight; finish one first", comm->name,
                          comm->slots->count);
    work->comm = comm;
    work->after = NULL;
    work->start = 0;
    atomic_store_explicit(&work->taken_up, false, memory_order_relaxed);
    weft_op *op = &work->op;
    op->memory = work->memory;
    op->number = 0;
    op->first = op->last = op->last_arrival = 0;
    op->late_rank = -1;
    __atomic_store_n(&op->waited, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&op->result, WEFT_PENDING, __ATOMIC_RELAXED);
    *work_out = work;
    return WEFT_OK;
}

static weft_result run_after(weft__work *work, weft_work after)
{
    if (!after.value)
        return WEFT_OK;
    weft__work *before = weft__work_find(after);
    if (!before)
        return weft__fail(WEFT_E_TWICE, "comm %s: the work to run after was finished before", work->comm->name);
    if (before->comm->world != work->comm->world)
        return weft__fail(WEFT_E_INVALID, "comm %s: the work to run after belongs to another world", work->comm->name);
    atomic_fetch_add_explicit(&before->holds, 1, memory_order_relaxed);
    work->after = before;
    return WEFT_OK;
}

weft_result weft__start_in_backend(weft__work *work)
{
    weft_comm *comm = work->comm;
    if (work->op.is_p2p)
        weft__p2p_copy_own(&work->op, comm->rank);
    work->start = weft__ticks();
    return comm->backend->start(comm->backend_comm, &work->op);
}

void weft__start_fail(weft_comm *comm, weft_result before)
{
    weft_world *world = comm->world;
    char first[sizeof world->first_error_text];
    pthread_mutex_lock(&world->error_lock);
    snprintf(first, sizeof first, "%s", world->first_error_text);
    pthread_mutex_unlock(&world->error_lock);
    weft_backend_fail(comm, before, "comm %s was to run after an operation that failed; what failed first: %s",
                      comm->name, first);
}

/* Backends that are done at once need nobody's help, unless the work must wait for another. */
static weft_result start_here(weft__work *work)
{
    weft_comm *comm = work->comm;
    weft_op *op = &work->op;
    if (work->after) {
        weft_result before = (weft_result)work->after->op.result;
        weft__work_release(work->after);
        work->after = NULL;
        if (before < 0) {
            weft__start_fail(comm, before);
            weft__progress_done(op, before);
            return WEFT_OK;
        }
    }
    return weft__start_in_backend(work);
}

weft_result weft__start(weft__work *work, weft_work after, weft_work *work_out)
{
    weft_comm *comm = work->comm;
    weft_world *world = comm->world;
    weft_work value = {atomic_load_explicit(&work->value, memory_order_relaxed)};
    weft_result result = run_after(work, after);
    if (result == WEFT_OK) {
        work->ready = weft__ticks();
        weft__trace_start(world->trace, work);
        bool immediate = comm->facts.caps & WEFT_CAP_IMMEDIATE && (!work->after || weft__work_ended(work->after));
        if (immediate)
            result = start_here(work);
        else
            weft__progress_start(world, work);
    }
    if (result != WEFT_OK) {
        weft__work_release(work);
        return result;
    }
    *work_out = value;
    return WEFT_OK;
}
