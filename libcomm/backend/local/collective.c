/* SPDX-License-Identifier: Apache-2.0 */
/* The collective at the head of a comm goes through its phases: enter, move, (move again, or help,) release, leave.
 * Each phase ends when it can, and a slice of time ends all. */
#include <string.h>

#include "backend/local/local.h"
#include "base/clock.h"

#define STEPS 64 /* phases of small operations in one turn */
#define POLLS 16 /* of who is missing, in one look: a tenth of a microsecond */

/* Bytes that a rank puts into its slot if the operation is small; the same on all ranks. */
static size_t slot_payload(const weft__local_comm *lc, const weft_op *op)
{
    const weft_collective *c = &op->what;
    return c->count * weft__dtype_bytes(c->dtype) * weft__parts(weft__collectives[c->kind].send, lc->count);
}

/* Bytes from the first to the last that are read of what a rank sends. */
static size_t span(const weft__local_comm *lc, const weft_op *op)
{
    size_t payload = slot_payload(lc, op), parts = weft__parts(weft__collectives[op->what.kind].send, lc->count);
    return parts > 1 ? (parts - 1) * weft__local_stride(op) + payload / parts : payload;
}

static bool sends(const weft__local_comm *lc, const weft_op *op)
{
    return weft__concerns(weft__collectives[op->what.kind].senders, lc->rank, op->what.root);
}

/* A small operation of all moves when all have arrived: it is not worth looking at before. */
static bool moves_together(const weft__local_comm *lc)
{
    return lc->plan.in_slot && lc->plan.meet == WEFT__EVERYBODY;
}

/* Everybody must have released what lies in the slot that operation @p number will use. */
static bool slot_is_free(weft__local_comm *lc, uint64_t number)
{
    if (number <= WEFT__AHEAD || lc->released_by_all >= number - WEFT__AHEAD)
        return true;
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < lc->count; i++) {
        uint64_t released = i == lc->rank ? number - 1 : atomic_load(&lc->pages[i]->released);
        least = released < least ? released : least;
    }
    lc->released_by_all = least;
    return least >= number - WEFT__AHEAD;
}

/* The others read our memory where it lies. */
static void drop_pushes(weft__local_comm *lc)
{
    for (int i = 0; i < lc->count; i++)
        lc->plan.push[i] = (weft__push){0};
}

/* Where the others can reach the buffers of a large operation. */
static void locate_buffers(weft__local_comm *lc, const weft_op *op, size_t payload)
{
    const weft_collective *c = &op->what;
    const weft__collective_row *row = &weft__collectives[c->kind];
    bool in_place_exchange = row->send == WEFT__PART_PER_RANK && row->recv == row->send && c->send == c->recv;
    weft__request *mine = &lc->request;
    mine->send = mine->recv = WEFT__NOWHERE;
    if (in_place_exchange)
        mine->recv = weft__local_offset(lc, c->recv, span(lc, op));
    else if (sends(lc, op))
        mine->send = weft__local_offset(lc, c->send, span(lc, op));
    if (weft__local_kinds[c->kind].by_slices)
        mine->recv = weft__local_offset(lc, c->recv, payload);
}

/* Say what is asked for, and put a small input, where the others see it: this rank has arrived. */
static void arrive(weft__local_comm *lc, weft_op *op, size_t payload, uint64_t now)
{
    const weft_op *whole = ((const weft__local_collective *)op->memory)->whole;
    weft__request *mine = &lc->request;
    weft__descriptor *d = weft__page_descriptor(lc->page, op->number);
    mine->asked = weft__collective_asked(&op->what);
    mine->mark = whole ? weft__collective_mark(&whole->what, whole->number) : 0;
    mine->arrived_ticks = op->last_arrival = now ? now : weft__ticks();
    op->late_rank = lc->ranks[lc->rank];
    if (!lc->plan.in_slot)
        locate_buffers(lc, op, payload);
    else if (sends(lc, op) && payload)
        memcpy(lc->plan.in_line ? mine->input : weft__page_slot(&lc->layout, lc->page, op->number), op->what.send,
               payload);
    atomic_store_explicit(&lc->page->arrived, op->number, memory_order_relaxed);
    d->request = *mine;
    atomic_store(&d->number, op->number);
    weft__fetch_to_write(weft__page_descriptor(lc->page, op->number + 1)); /* while the others are waited for */
}

/* Can a member that has arrived be waiting for this rank? Of a small operation with a root, one side only waits. */
static bool waits_for_arrival(const weft__local_comm *lc, const weft_op *op, int member)
{
    const weft__collective_row *row = &weft__collectives[op->what.kind];
    if (!lc->plan.in_slot || row->senders == WEFT__NOBODY)
        return true;
    return sends(lc, op) && weft__concerns(row->receivers, member, op->what.root);
}

/* This rank has arrived. Compare with those who are there, and wake whom that helps: anyone who can fetch from this
 * rank alone, or all that wait if it is the last one. */
static void greet(weft__local_comm *lc, weft_op *op)
{
    bool all = true;
    for (int i = 0; i < lc->count; i++)
        all &= weft__local_met(lc, op, i);
    bool alone = sends(lc, op) && !weft__collectives[op->what.kind].reduces && !moves_together(lc);
    for (int i = 0; i < lc->count; i++)
        if (i != lc->rank && waits_for_arrival(lc, op, i) && (all || (alone && lc->met[i] >= op->number)))
            weft__local_wake(lc, i);
}

/* Sums over their own inputs, and exchanges in place, find what they overwrite in the cache: they have just read it.
 * Of an all-gather in place this rank's own part is not moved. */
static bool is_cold(weft__local_comm *lc, const weft_op *op)
{
    const weft_collective *c = &op->what;
    const weft__collective_row *row = &weft__collectives[c->kind];
    const unsigned char *send = c->send, *recv = c->recv;
    size_t part = c->count * weft__dtype_bytes(c->dtype), sent = part * weft__parts(row->send, lc->count);
    bool gathers = row->send == WEFT__ONE_PART && row->recv == WEFT__PART_PER_RANK;
    size_t lies_there = gathers && send == recv + weft__local_stride(op) * (size_t)lc->rank ? part : 0;
    size_t written = part * weft__parts(row->recv, lc->count) - lies_there;
    size_t read = part * weft__most_parts(row, lc->count) - lies_there;
    bool over_input = row->reduces || (row->send == WEFT__PART_PER_RANK && row->recv == row->send);
    bool in_place = over_input && send && recv >= send && recv < send + sent;
    if (!weft__concerns(row->receivers, lc->rank, c->root) || !recv)
        return false;
    return weft__local_is_cold(lc->local, recv, written, read + written) && !in_place;
}

/* @p now: ticks, 0 = look at the clock. */
static bool enter(weft__local_comm *lc, weft_op *op, uint64_t now)
{
    if (!slot_is_free(lc, op->number))
        return false;
    size_t payload = slot_payload(lc, op);
    lc->plan.in_slot = payload <= lc->slot_bytes && span(lc, op) == payload;
    lc->plan.in_line = lc->plan.in_slot && payload <= WEFT__IN_LINE;
    if (!lc->plan.in_slot)
        weft__share_offer(lc, op);
    arrive(lc, op, payload, now);
    lc->plan.past = !lc->plan.in_slot && is_cold(lc, op);
    weft__plan_first(lc, op);
    weft__share_cut(lc, op);
    if (lc->plan.in_slot)
        ;
    else if (lc->request.send != WEFT__NOWHERE)
        drop_pushes(lc);
    else if (lc->request.recv == WEFT__NOWHERE)
        lc->plan.readers = WEFT__NOBODY;
    greet(lc, op);
    return true;
}

/* Have all that @p whom says arrived, asking for the same? */
static bool have_met(weft__local_comm *lc, weft_op *op, weft__whom whom)
{
    if (whom == WEFT__NOBODY)
        return true;
    if (whom == WEFT__ROOT)
        return weft__local_met(lc, op, op->what.root);
    for (int i = 0; i < lc->count; i++)
        if (!weft__local_met(lc, op, i))
            return false;
    return true;
}

/* Looking again here is faster than coming back. */
static bool meet_soon(weft__local_comm *lc, weft_op *op)
{
    for (int i = 0; i < POLLS; i++)
        if (have_met(lc, op, WEFT__EVERYBODY))
            return true;
    return false;
}

static unsigned move(weft__local_comm *lc, weft_op *op, bool *done)
{
    bool by_slices = !lc->plan.in_slot && weft__local_kinds[op->what.kind].by_slices;
    if (by_slices && !lc->plan.fused) {
        if (!have_met(lc, op, WEFT__EVERYBODY))
            return 0;
        if (weft__plan_can_fuse(lc, op))
            weft__plan_fuse(lc, op, lc->rank, &lc->plan);
        weft__share_cut(lc, op);
    }
    weft__share_attend(lc, true);
    unsigned answer = lc->plan.fused ? weft__move_fused(lc, op, done) : weft__move_some(lc, op, done);
    weft__share_attend(lc, false);
    *done = *done && have_met(lc, op, lc->plan.meet);
    return answer;
}

/* This rank's part of the result is there, for those who fetch results already. */
static void produce(weft__local_comm *lc, const weft_op *op)
{
    atomic_store(&lc->page->produced, op->number);
    for (int i = 0; i < lc->count; i++)
        if (i != lc->rank && weft__local_sleeps(lc, i) && atomic_load(&lc->pages[i]->produced) >= op->number)
            weft__local_wake(lc, i);
}

static weft__phase after_move(weft__local_comm *lc, weft_op *op)
{
    const weft__local_kind *kind = &weft__local_kinds[op->what.kind];
    if (!kind->plan_second || lc->plan.in_slot || lc->plan.fused) {
        weft__share_tell(lc, op);
        return lc->plan.in_slot ? WEFT__RELEASE : WEFT__HELP;
    }
    produce(lc, op);
    weft__plan_second(lc, op);
    if (lc->request.recv != WEFT__NOWHERE)
        drop_pushes(lc);
    return WEFT__SECOND_MOVE;
}

/* Does the member touch nobody's memory any more? It may not know yet that others have done all of its work. */
static bool has_released(const weft__local_comm *lc, const weft_op *op, int member)
{
    return atomic_load(&lc->pages[member]->released) >= op->number || weft__share_is_done(lc, member);
}

/* Have those that read this rank's memory, or write into it, let go? */
static bool is_released(const weft__local_comm *lc, const weft_op *op)
{
    weft__whom readers = lc->plan.readers;
    for (int i = 0; i < lc->count; i++) {
        bool reads = readers == WEFT__EVERYBODY || (readers == WEFT__ROOT && i == op->what.root);
        if (reads && i != lc->rank && !has_released(lc, op, i))
            return false;
    }
    return true;
}

/* Can the member be waiting until all have let go: of its memory, or of the slot that its next operation needs? */
static bool waits_for_release(const weft__local_comm *lc, const weft_op *op, int member)
{
    uint64_t arrived = atomic_load(&lc->pages[member]->arrived);
    return arrived == op->number ? !lc->plan.in_slot : arrived + 1 >= op->number + WEFT__AHEAD;
}

static bool all_have_released(const weft__local_comm *lc, const weft_op *op)
{
    for (int i = 0; i < lc->count; i++)
        if (!has_released(lc, op, i))
            return false;
    return true;
}

/* Let go of the others' memory. Those that wait for it can go on when the last one has, or the root where only that
 * one reads. */
static void release(weft__local_comm *lc, const weft_op *op)
{
    atomic_store(&lc->page->released, op->number);
    bool alone = weft__collectives[op->what.kind].receivers == WEFT__ROOT && op->what.root == lc->rank;
    for (int i = 0; i < lc->count; i++)
        if (i != lc->rank && weft__local_sleeps(lc, i) && waits_for_release(lc, op, i) &&
            (alone || all_have_released(lc, op)))
            weft__local_wake(lc, i);
}

static void end(weft__local_comm *lc, weft_op *op)
{
    lc->head = op->next;
    if (!lc->head)
        lc->tail = &lc->head;
    lc->phase = WEFT__ENTER;
    lc->plan.swapped = false; /* nothing of the next one has been said */
    lc->last_number = op->number;
    weft_backend_done(op, WEFT_OK);
}

/* All the rest of a small operation, for which all have arrived: nobody waits for anybody any more. */
static unsigned finish_small(weft__local_comm *lc, weft_op *op)
{
    lc->released_by_all = op->number - 1; /* or they had not arrived here */
    weft__move_small(lc, op);
    if (!weft__local_all_still_good(lc, op))
        return 0;
    release(lc, op);
    end(lc, op);
    return WEFT_PROGRESS_MOVED;
}

/* Take the head one phase on, if it can be. */
static unsigned advance(weft__local_comm *lc, weft_op *op)
{
    unsigned answer = 0;
    bool done = false;
    switch (lc->phase) {
    case WEFT__ENTER:
        if (!enter(lc, op, 0))
            return 0;
        lc->phase = WEFT__MOVE;
        return WEFT_PROGRESS_MOVED;
    case WEFT__MOVE:
        if (moves_together(lc))
            return meet_soon(lc, op) ? finish_small(lc, op) : 0;
        answer = move(lc, op, &done);
        if (done && weft__local_all_still_good(lc, op)) {
            lc->phase = after_move(lc, op);
            answer = WEFT_PROGRESS_MOVED;
        }
        return answer;
    case WEFT__SECOND_MOVE:
        answer = weft__move_some(lc, op, &done);
        if (done && weft__local_all_still_good(lc, op)) {
            lc->phase = WEFT__RELEASE;
            answer = WEFT_PROGRESS_MOVED;
        }
        return answer;
    case WEFT__HELP:
        answer = weft__share_help(lc, op, &done);
        if (done) {
            lc->phase = WEFT__RELEASE;
            answer = WEFT_PROGRESS_MOVED;
        }
        return answer;
    case WEFT__RELEASE:
        release(lc, op);
        lc->phase = WEFT__LEAVE;
        return WEFT_PROGRESS_MOVED;
    case WEFT__LEAVE:
        if (!is_released(lc, op))
            return 0;
        end(lc, op);
        return WEFT_PROGRESS_MOVED;
    }
    return 0;
}

unsigned weft__local_collectives(weft__local_comm *lc)
{
    unsigned answer = 0;
    int steps = 0;
    while (lc->head && !weft__local_has_verdict(lc)) {
        if (!advance(lc, lc->head))
            break;
        answer = WEFT_PROGRESS_MOVED;
        if (lc->local->turn_over || ++steps == STEPS)
            break;
    }
    return answer;
}

void weft__local_collective_start(weft__local_comm *lc, weft_op *op)
{
    op->next = NULL;
    *lc->tail = op;
    lc->tail = &op->next;
    if (lc->head == op && !weft__local_has_verdict(lc) && enter(lc, op, op->start))
        lc->phase = WEFT__MOVE;
}

/* Of a small operation, whose bytes are moved in less than a look at the clock takes, the last look for the others is
 * near enough to its end. */
void weft__local_collective_hasten(weft__local_comm *lc, weft_op *op)
{
    if (lc->head != op || lc->phase != WEFT__MOVE || !moves_together(lc))
        return;
    uint64_t now = op->start, until = now + lc->local->hasten_ticks;
    while (!have_met(lc, op, WEFT__EVERYBODY)) {
        now = weft__ticks();
        if (now >= until || weft__local_has_verdict(lc))
            return;
    }
    if (lc->plan.in_line)
        op->last = now > op->last_arrival ? now : op->last_arrival;
    (void)finish_small(lc, op);
}
