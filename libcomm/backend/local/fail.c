/* SPDX-License-Identifier: Apache-2.0 */
/* Failure: how it is told, how it is noticed, and when the buffers of failed operations may be given back. */
#include <stdio.h>
#include <string.h>

#include "backend/local/local.h"
#include "base/clock.h"
#include "base/verdict.h"

#define STUCK_NS 5000000000ull /* a member that does not stop writing is given up then */

void weft__local_abort(void *comm, weft_result result, const char *text)
{
    weft__local_comm *lc = comm;
    uint64_t patience_ns = lc->comm->timeout_ns < STUCK_NS ? lc->comm->timeout_ns : STUCK_NS;
    snprintf(lc->page->verdict_text, sizeof lc->page->verdict_text, "%s", text);
    lc->page->verdict_number = lc->head ? lc->head->number : lc->last_number + 1;
    atomic_store(&lc->page->verdict, (int32_t)result);
    lc->failed = true;
    lc->failed_ticks = weft__ticks();
    lc->stuck_ticks = lc->failed_ticks + (uint64_t)((double)patience_ns / lc->local->world->progress.ns_per_tick);
    weft__local_wake_all(lc);
}

/* The verdict of a member, if it concerns operation @p number, becomes this rank's. What ended well over there before
 * it failed is still good. */
static bool take_over_verdict(weft__local_comm *lc, int member, uint64_t number)
{
    const weft__page *page = lc->pages[member];
    int32_t verdict = atomic_load(&page->verdict);
    if (verdict == WEFT_OK || page->verdict_number > number)
        return false;
    char text[sizeof page->verdict_text + 32];
    weft_backend_fail(lc->comm, (weft_result)verdict, "%s",
                      weft__verdict_told(page->verdict_text, lc->ranks[member], text, sizeof text));
    return true;
}

bool weft__local_still_good(weft__local_comm *lc, int member, uint64_t number)
{
    return !take_over_verdict(lc, member, number);
}

bool weft__local_all_still_good(weft__local_comm *lc, const weft_op *op)
{
    for (int i = 0; i < lc->count; i++)
        if (i != lc->rank && !weft__local_still_good(lc, i, op->number))
            return false;
    return true;
}

/* Is the head waiting for this member, which has left? Its counters were its last word, so they are read after that. */
static bool misses(const weft__local_comm *lc, int member)
{
    if (!lc->head || lc->phase == WEFT__ENTER)
        return lc->head && atomic_load(&lc->pages[member]->released) + WEFT__AHEAD < lc->head->number;
    uint64_t n = lc->head->number;
    if (lc->phase == WEFT__LEAVE)
        return atomic_load(&lc->pages[member]->released) < n;
    return !weft__page_has(lc->pages[member], n) || atomic_load(&lc->pages[member]->released) < n;
}

static bool has_left(const weft__local_comm *lc, int member)
{
    return atomic_load(&lc->pages[member]->destroyed) ||
           atomic_load(&weft__local_segment(lc, member)->header->board.state) == WEFT__RANK_CLOSED;
}

void weft__local_look_for_failure(weft__local_comm *lc)
{
    uint64_t number = lc->head ? lc->head->number : WEFT__ANY_NUMBER;
    for (int i = 0; i < lc->count; i++) {
        bool left = has_left(lc, i); /* its verdict came before */
        if (i == lc->rank || take_over_verdict(lc, i, number))
            continue;
        if (left && (misses(lc, i) || weft__lanes_miss(lc, i)))
            weft_backend_fail(lc->comm, WEFT_E_PEER_LOST, "rank %d has destroyed comm %s, which others still use",
                              lc->ranks[i], lc->name);
    }
}

/* Do members that have arrived write into the buffer of the head? */
static bool is_written_by_others(weft__local_comm *lc)
{
    const weft_op *op = lc->head;
    if (!op || (lc->phase == WEFT__ENTER && !lc->plan.swapped) ||
        !weft__concerns(weft__collectives[op->what.kind].receivers, lc->rank, op->what.root))
        return false;
    if (weft__share_is_written(lc) || lc->plan.swapped)
        return true;
    if (lc->phase != WEFT__MOVE || lc->plan.fused)
        return lc->plan.fused;
    for (int i = 0; i < lc->count; i++)
        if (!weft__page_has(lc->pages[i], op->number))
            return false;
    return weft__plan_can_fuse(lc, op);
}

/* A member that may still write there, -1 if none does: it has arrived, and has not said that it has seen a failure,
 * let go, or gone. One that arrives now sees our verdict first. */
static int writer_left(weft__local_comm *lc)
{
    if (!is_written_by_others(lc))
        return -1;
    for (int i = 0; i < lc->count; i++) {
        const weft__page *page = lc->pages[i];
        bool stopped = i == lc->rank || !weft__page_has(page, lc->head->number) ||
                       atomic_load(&page->verdict) != WEFT_OK || has_left(lc, i) ||
                       atomic_load(&lc->local->world->lost[lc->ranks[i]]) ||
                       atomic_load(&page->released) >= lc->head->number;
        if (!stopped)
            return i;
    }
    return -1;
}

static void end_head(weft__local_comm *lc, weft_result result)
{
    weft_op *op = lc->head;
    lc->head = op->next;
    weft_backend_done(op, result);
}

static void give_up_writer(weft__local_comm *lc, int writer)
{
    weft_backend_fail(lc->comm, WEFT_E_STUCK,
                      "comm %s, operation %llu: rank %d may still write into the buffer of rank %d: it has not shown "
                      "for %.1f s that it knows of the failure",
                      lc->name, (unsigned long long)lc->head->number, lc->ranks[writer], lc->ranks[lc->rank],
                      (double)(weft__ticks() - lc->failed_ticks) * lc->local->world->progress.ns_per_tick * 1e-9);
    end_head(lc, WEFT_E_STUCK);
}

unsigned weft__local_give_back(weft__local_comm *lc)
{
    if (!lc->failed)
        return 0;
    int writer = writer_left(lc);
    if (writer >= 0 && weft__ticks() < lc->stuck_ticks)
        return 0;
    if (writer >= 0)
        give_up_writer(lc, writer);
    while (lc->head)
        end_head(lc, (weft_result)atomic_load(&lc->comm->verdict));
    lc->tail = &lc->head;
    lc->phase = WEFT__ENTER;
    lc->plan.swapped = false; /* nothing of the next one has been said */
    weft__lanes_give_back(lc);
    return writer >= 0 ? 0 : WEFT_PROGRESS_MOVED; /* that time passes is nothing one is woken for */
}

/* ------------------------------------------------------------------------------------------- explaining */

/* ", all_gather, 1.0 s ago": of the operation that a member has arrived at last, unless it goes on meanwhile. */
static void tell_arrival(const weft__local_comm *lc, int member, uint64_t arrived, char *text, size_t bytes)
{
    const weft__descriptor *d = weft__page_descriptor(lc->pages[member], arrived);
    text[0] = 0;
    if (atomic_load(&d->number) != arrived)
        return;
    double ago = (double)(weft__ticks() - d->request.arrived_ticks) * lc->local->world->progress.ns_per_tick * 1e-9;
    weft_collective_kind kind = (weft_collective_kind)d->request.asked.kind;
    if (atomic_load(&lc->pages[member]->arrived) == arrived) /* its place is not used anew before that has changed */
        snprintf(text, bytes, ", %s, %.1f s ago", weft_collective_string(kind), ago);
}

/* "3 (last seen in operation 41, all_gather, 1.0 s ago)" */
static size_t name_absent(const weft__local_comm *lc, int member, uint64_t arrived, char *text, size_t bytes)
{
    char more[64];
    if (!arrived)
        return (size_t)snprintf(text, bytes, "%d (never seen in this comm)", lc->ranks[member]);
    tell_arrival(lc, member, arrived, more, sizeof more);
    return (size_t)snprintf(text, bytes, "%d (last seen in operation %llu%s)", lc->ranks[member],
                            (unsigned long long)arrived, more);
}

void weft__local_explain(void *comm, const weft_op *op, char *text, size_t bytes)
{
    weft__local_comm *lc = comm;
    text[0] = 0;
    if (op->is_p2p) {
        weft__lanes_explain(lc, op, text, bytes);
        return;
    }
    if (op != lc->head) {
        snprintf(text, bytes, "it waits for operation %llu of this comm", (unsigned long long)lc->head->number);
        return;
    }
    size_t used = 0;
    for (int i = 0; i < lc->count && used < bytes; i++) {
        uint64_t arrived = atomic_load(&lc->pages[i]->arrived);
        if (i == lc->rank || arrived >= op->number)
            continue;
        used += (size_t)snprintf(text + used, bytes - used, "%s", used ? ", " : "not arrived: ");
        if (used < bytes)
            used += name_absent(lc, i, arrived, text + used, bytes - used);
    }
    for (int i = 0; i < lc->count && !used; i++)
        if (i != lc->rank && atomic_load(&lc->pages[i]->released) < op->number)
            used += (size_t)snprintf(text, bytes, "rank %d has arrived and does not go on", lc->ranks[i]);
}
