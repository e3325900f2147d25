/* SPDX-License-Identifier: Apache-2.0 */
/* From a checked operation to a work in flight. */
#include "start.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/error.h"

/* A GPU orders its own works; for others nobody would wait. */
static bool cannot_wait(const weft_comm *comm, weft__work *before)
{
    return comm->gpu && before->comm->instance != comm->instance && !weft__work_ended(before);
}

/* Hold the work to run after, so that it stays where it is until it has been looked at. */
static weft_result hold_before(const weft_comm *comm, weft_work before, weft__work **hold_out)
{
    *hold_out = NULL;
    if (!before.value)
        return WEFT_OK;
    weft__work *work = weft__work_hold(before);
    if (!work)
        return weft__fail(WEFT_E_TWICE, "comm %s: the work to run after was finished before", comm->name);
    if (work->slots->world != comm->world) {
        weft__work_release(work);
        return weft__fail(WEFT_E_INVALID, "comm %s: the work to run after belongs to another world", comm->name);
    }
    if (cannot_wait(comm, work)) {
        weft__work_release(work);
        return weft__fail(WEFT_E_UNSUPPORTED, "comm %s: the work to run after is not on its GPU, and has not ended",
                          comm->name);
    }
    *hold_out = work;
    return WEFT_OK;
}

/* The caller waits too late, or has forgotten to: tell which one comes first. */
static __attribute__((cold)) weft_result refuse_more(weft_comm *comm)
{
    char works[256];
    weft__progress_enter(comm->world);
    bool some = weft__work_describe_unfinished(comm->slots, works, sizeof works);
    weft__progress_leave(comm->world);
    if (!some)
        return weft__fail(WEFT_E_BUSY, "comm %s: all %u works are in flight", comm->name, comm->slots->count);
    return weft__fail(WEFT_E_BUSY, "%s: finish one first", works);
}

weft_result weft__start_prepare(weft_comm *comm, weft_stream after, weft_work before, weft__work **work_out)
{
    WEFT_TRY(weft__comm_has_stream(comm, after));
    weft__work *hold;
    WEFT_TRY(hold_before(comm, before, &hold));
    weft__work *work = weft__work_take(comm->slots);
    while (!work && weft__work_await_left(comm->slots)) /* the GPU is so far behind */
        work = weft__work_take(comm->slots);
    if (!work) {
        if (hold)
            weft__work_release(hold);
        return refuse_more(comm);
    }
    work->comm = comm;
    work->after = hold;
    work->op.start = 0;
    work->record = WEFT__NO_RECORD;
    atomic_store_explicit(&work->taken_up, false, memory_order_relaxed);
    weft_op *op = &work->op;
    op->memory = work->memory;
    op->after = after;
    op->behind = NULL;
    op->number = 0;
    op->first = op->last = op->last_arrival = 0;
    op->late_rank = -1;
    __atomic_store_n(&op->waited, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&op->result, WEFT_PENDING, __ATOMIC_RELAXED);
    *work_out = work;
    return WEFT_OK;
}

weft_result weft__start_in_backend(weft__work *work)
{
    weft_comm *comm = work->comm;
    /* What is run at once is taken up when it is ready. */
    work->op.start = work->record == WEFT__NO_RECORD ? work->ready : weft__ticks();
    if (work->op.is_p2p && !comm->gpu)
        weft__p2p_copy_own(&work->op, comm->rank);
    weft_result result = weft__wire_call(comm->instance)->start(comm->backend_comm, &work->op);
    if (__builtin_expect(result < 0, 0))
        weft_backend_fail(comm, result, "comm %s: backend %s did not take an operation", comm->name,
                          comm->backend->name);
    return result;
}

/* An operation that one of this comm was to run after has failed: so does the comm. The other's may be gone. */
static void fail_after(weft_comm *comm, const weft__work *before)
{
    weft_result result = (weft_result)before->op.result;
    char first[sizeof comm->verdict_text];
    weft__comms_tell_failure(comm->world, before->comm, result, first, sizeof first);
    weft_backend_fail(comm, result, "comm %s was to run after an operation that failed; what failed first: %s",
                      comm->name, *first ? first : "its comm was destroyed before it had ended");
}

void weft__start_forget_before(weft__work *work)
{
    if (work->after)
        weft__work_release(work->after);
    work->after = NULL;
}

bool weft__start_look_before(weft__work *work, weft_result *verdict)
{
    weft__work *before = work->after;
    if (!before)
        return true;
    if (!weft__work_ended(before))
        return false;
    weft_result result = (weft_result)before->op.result;
    if (result < 0 && *verdict == WEFT_OK) {
        fail_after(work->comm, before);
        *verdict = result;
    }
    weft__start_forget_before(work);
    work->ready = weft__ticks();
    return true;
}

/* Backends that are done at once need nobody's help, unless the work or an earlier one of its comm must wait for
 * another. */
static bool start_here(weft__work *work)
{
    weft_comm *comm = work->comm;
    weft_result result = WEFT_OK;
    if (!(comm->facts.caps & WEFT_CAP_IMMEDIATE))
        return false;
    if (atomic_load(&comm->queued) || !weft__start_look_before(work, &result)) {
        atomic_fetch_add(&comm->queued, 1);
        return false;
    }
    work->op.last = work->ready; /* good enough, unless the backend takes its time and says so */
    if (result == WEFT_OK)
        result = weft__start_in_backend(work);
    if (result != WEFT_OK)
        weft__progress_done(&work->op, result);
    return true;
}

/* An operation of a GPU is queued at once, in the order of the program, and behind the one it is to run after. */
static void launch(weft__work *work)
{
    weft_comm *comm = work->comm;
    weft__work *before = work->after;
    weft_result result = WEFT_OK;
    weft__trace_start(comm->world->trace, work);
    weft__progress_enter(comm->world);
    atomic_store_explicit(&work->taken_up, true, memory_order_relaxed);
    bool has_failed = before && __atomic_load_n(&before->op.result, __ATOMIC_ACQUIRE) < 0;
    if (before && before->comm->instance == comm->instance && !has_failed)
        work->op.behind = &before->op;
    else
        (void)weft__start_look_before(work, &result); /* it has ended */
    if (result == WEFT_OK)
        result = (weft_result)atomic_load_explicit(&comm->verdict, memory_order_acquire);
    if (result == WEFT_OK)
        result = weft__start_in_backend(work);
    work->op.behind = NULL;
    weft__start_forget_before(work);
    if (result != WEFT_OK)
        weft__progress_done(&work->op, result);
    weft__progress_leave(comm->world);
}

weft_work weft__start(weft__work *work)
{
    weft_work value = weft__work_value(work);
    work->ready = weft__ticks();
    if (work->comm->gpu) {
        launch(work);
    } else if (!start_here(work)) {
        weft__trace_start(work->comm->world->trace, work);
        weft__progress_start(work->comm->world, work);
    }
    return value;
}

weft_result weft__run(weft__work *work)
{
    if (work->comm->gpu)
        return weft_work_finish(weft__start(work), work->op.after);
    weft__work_claim_own(work);
    uint64_t came = work->ready = weft__ticks();
    bool at_once = start_here(work) || weft__progress_run(work->comm->world, work);
    return weft__work_end(work, came, at_once ? work->op.last : weft__ticks());
}
