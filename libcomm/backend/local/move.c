/* SPDX-License-Identifier: Apache-2.0 */
/* Moving bytes as a plan says, a part at a time. Sums are made over the members in rank order, whatever comes first. */
#include <stdio.h>
#include <string.h>

#include "backend/local/local.h"
#include "base/clock.h"
#include "base/memory.h"

#define BLOCK ((size_t)16 << 10)  /* of a fused sum: stays in the first-level cache until all have it */
#define LONG  ((size_t)128 << 10) /* a slice of one */
#define TILE  ((size_t)8 << 10)   /* of a swap: two of them and a third between stay in the first-level cache */

static int divisor_of(const weft__local_comm *lc, const weft_op *op)
{
    return weft__reductions[op->what.reduction].divides ? lc->count : 1;
}

/* ------------------------------------------------------------------------------------------- storing */

static void copy(const weft__local_comm *lc, void *to, const void *from, size_t bytes)
{
    if (lc->plan.past)
        lc->local->vector->copy_past(to, from, bytes);
    else
        memcpy(to, from, bytes);
}

/* The sum of lc->sources. */
static void reduce(weft__local_comm *lc, const weft_op *op, void *to, size_t bytes)
{
    const weft_collective *c = &op->what;
    const weft__vector *vector = lc->local->vector;
    size_t count = bytes / weft__dtype_bytes(c->dtype);
    if (lc->plan.past)
        vector->reduce_past(&to, 1, lc->sources, lc->count, count, c->dtype, c->reduction, divisor_of(lc, op));
    else
        vector->reduce(to, lc->sources, lc->count, count, c->dtype, c->reduction, divisor_of(lc, op));
}

/* ------------------------------------------------------------------------------------------- meeting */

/* What a rank asks for. */
static void describe(const weft__request *r, char *text, size_t bytes)
{
    weft_asked asked = r->mark ? weft__collective_marked(r->mark) : r->asked;
    weft__asked_describe(&asked, text, bytes);
}

static bool same(const weft__request *a, const weft__request *b)
{
    return a->mark == b->mark && weft__asked_same(&a->asked, &b->asked);
}

bool weft__local_met(weft__local_comm *lc, weft_op *op, int member)
{
    if (lc->met[member] >= op->number || member == lc->rank)
        return true;
    if (!weft__page_has(lc->pages[member], op->number))
        return false;
    const weft__request *mine = &lc->request, *theirs = weft__page_request(lc->pages[member], op->number);
    if (!same(mine, theirs)) {
        const weft_op *whole = ((const weft__local_collective *)op->memory)->whole;
        char a[96], b[96];
        describe(theirs, a, sizeof a);
        describe(mine, b, sizeof b);
        weft_backend_fail(lc->comm, WEFT_E_MISMATCH, "comm %s, operation %llu: rank %d asks for %s, rank %d for %s",
                          lc->name, (unsigned long long)(whole ? whole : op)->number, lc->ranks[member], a,
                          lc->ranks[lc->rank], b);
        return false;
    }
    if (theirs->arrived_ticks >= op->last_arrival) {
        op->last_arrival = theirs->arrived_ticks;
        op->late_rank = lc->ranks[member];
    }
    lc->met[member] = op->number;
    return true;
}

/* The bytes of small operations move when the last rank arrives, which saves a look at the clock. */
static void mark_first(const weft__local_comm *lc, weft_op *op)
{
    if (lc->plan.in_slot)
        op->first = op->last_arrival;
    else
        weft__local_mark_first(lc->local, op);
}

/* ------------------------------------------------------------------------------------------- one source */

/* Where @p move's bytes of @p member lie, or NULL: they come through the pipe. */
static const unsigned char *direct(const weft__local_comm *lc, const weft_op *op, const weft__move *move, int member)
{
    if (lc->plan.in_slot)
        return weft__local_slot(lc, lc->pages[member], op->number) + move->at;
    if (member == lc->rank)
        return (const unsigned char *)op->what.send + move->at;
    const weft__request *theirs = weft__page_request(lc->pages[member], op->number);
    uint64_t offset = move->result ? theirs->recv : theirs->send;
    return offset == WEFT__NOWHERE ? NULL : lc->bases[member] + offset + move->at;
}

/* The next bytes of @p move from @p member: how many can be read now, at *from. */
static size_t next_bytes(weft__local_comm *lc, weft_op *op, const weft__move *move, int member,
                         const unsigned char **from)
{
    const unsigned char *base = direct(lc, op, move, member);
    if (!base)
        return weft__pipe_available(&lc->readers[member], from);
    if (move->result && atomic_load(&lc->pages[member]->produced) < op->number)
        return 0;
    *from = base + move->done;
    return move->bytes - move->done;
}

static void took(weft__local_comm *lc, weft_op *op, const weft__move *move, int member, size_t part)
{
    if (!direct(lc, op, move, member))
        weft__local_took(lc, member, &lc->readers[member], part, move->done + part == move->bytes);
}

bool weft__move_is_direct(const weft__local_comm *lc, const weft_op *op, const weft__move *move)
{
    for (int i = 0; i < lc->count; i++)
        if ((i == move->from || move->from < 0) && weft__page_request(lc->pages[i], op->number)->send == WEFT__NOWHERE)
            return false;
    return true;
}

/* Can some of it be moved, now that its sources are there? */
static bool is_open(weft__local_comm *lc, weft__move *move)
{
    return move->done < move->end || weft__share_claim(lc, move);
}

/* ------------------------------------------------------------------------------------------- moves and pushes */

static void swap(unsigned char *a, unsigned char *b, size_t bytes)
{
    unsigned char tile[TILE];
    for (size_t done = 0, part; done < bytes; done += part) {
        part = weft__least(bytes - done, TILE);
        memcpy(tile, a + done, part);
        memcpy(a + done, b + done, part);
        memcpy(b + done, tile, part);
    }
}

/* What this rank has for the member against what that has for this rank. Through pipes each byte would be copied twice:
 * that takes 6 times as long at 1 MiB, and 3.5 at 16 MiB. */
static size_t swap_part(weft__local_comm *lc, weft_op *op, weft__move *move)
{
    uint64_t theirs = weft__page_request(lc->pages[move->from], op->number)->recv;
    size_t part = weft__least(move->end - move->done, weft__local_part(lc->local));
    if (!weft__local_still_good(lc, move->from, op->number))
        return 0;
    mark_first(lc, op);
    swap(move->to + move->done, lc->bases[move->from] + theirs + move->at + move->done, part);
    move->done += part;
    return part;
}

static size_t copy_part(weft__local_comm *lc, weft_op *op, weft__move *move)
{
    const unsigned char *from;
    if (!weft__local_met(lc, op, move->from) || !is_open(lc, move))
        return 0;
    if (move->exchange == WEFT__UNDECIDED) {
        weft__plan_decide(lc, op, move);
        return 1; /* there may be nothing left, or something to push */
    }
    if (move->exchange == WEFT__BY_SWAP)
        return swap_part(lc, op, move);
    size_t part = weft__least(next_bytes(lc, op, move, move->from, &from),
                              weft__least(move->end - move->done, weft__local_part(lc->local)));
    if (move->exchange == WEFT__BY_PIPE)
        part = weft__least(part, lc->plan.push[move->from].done - move->done);
    if (!part)
        return 0;
    mark_first(lc, op);
    copy(lc, move->to + move->done, from, part);
    took(lc, op, move, move->from, part);
    move->done += part;
    return part;
}

static size_t reduce_part(weft__local_comm *lc, weft_op *op, weft__move *move)
{
    for (int i = 0; i < lc->count; i++)
        if (!weft__local_met(lc, op, i))
            return 0;
    if (!is_open(lc, move))
        return 0;
    size_t part = weft__least(move->end - move->done, weft__local_part(lc->local));
    for (int i = 0; i < lc->count; i++) {
        const unsigned char *from = NULL;
        part = weft__least(part, next_bytes(lc, op, move, i, &from));
        lc->sources[i] = from;
    }
    if (!part)
        return 0;
    mark_first(lc, op);
    reduce(lc, op, move->to + move->done, part);
    for (int i = 0; i < lc->count; i++)
        took(lc, op, move, i, part);
    move->done += part;
    return part;
}

static size_t push_part(weft__local_comm *lc, int member)
{
    weft__push *push = &lc->plan.push[member];
    if (push->done == push->bytes)
        return 0;
    size_t part = weft__pipe_write(&lc->writers[member], push->from + push->done, push->bytes - push->done);
    push->done += part;
    if (part)
        weft__local_wake(lc, member);
    return part;
}

/* This rank's own is not read where the others have taken it away to. */
static const unsigned char *small_input(const weft__local_comm *lc, const weft_op *op, int member)
{
    return member == lc->rank ? op->what.send : weft__local_slot(lc, lc->pages[member], op->number);
}

void weft__move_small(weft__local_comm *lc, weft_op *op)
{
    op->first = op->last_arrival; /* near enough, and saves a look at the clock */
    for (int m = 0; m < lc->plan.moves; m++) {
        const weft__move *move = &lc->plan.move[m];
        if (move->from >= 0) {
            memcpy(move->to, small_input(lc, op, move->from) + move->at, move->bytes);
            continue;
        }
        for (int i = 0; i < lc->count; i++)
            lc->sources[i] = small_input(lc, op, i) + move->at;
        lc->local->vector->reduce(move->to, lc->sources, lc->count, move->bytes / weft__dtype_bytes(op->what.dtype),
                                  op->what.dtype, op->what.reduction, divisor_of(lc, op));
    }
}

/* One part of everything that can move. */
static size_t move_round(weft__local_comm *lc, weft_op *op)
{
    size_t moved = 0;
    for (int i = 0; i < lc->count; i++)
        moved += push_part(lc, i);
    for (int i = 0; i < lc->plan.moves; i++) {
        weft__move *move = &lc->plan.move[i];
        if (weft__share_has_left(lc, move))
            moved += move->from < 0 ? reduce_part(lc, op, move) : copy_part(lc, op, move);
    }
    return moved;
}

static bool all_moved(const weft__local_comm *lc)
{
    for (int i = 0; i < lc->plan.moves; i++)
        if (weft__share_has_left(lc, &lc->plan.move[i]))
            return false;
    for (int i = 0; i < lc->count; i++)
        if (lc->plan.push[i].done < lc->plan.push[i].bytes)
            return false;
    return true;
}

unsigned weft__move_some(weft__local_comm *lc, weft_op *op, bool *done)
{
    unsigned answer = 0;
    while (!(*done = all_moved(lc)) && move_round(lc, op)) {
        answer = WEFT_PROGRESS_MOVED;
        if (!lc->plan.in_slot && weft__local_turn_over(lc->local))
            break;
    }
    return answer;
}

/* ------------------------------------------------------------------------------------------- fused */

static unsigned char *recv_at(const weft__local_comm *lc, const weft_op *op, int member, size_t at)
{
    return lc->bases[member] + weft__page_request(lc->pages[member], op->number)->recv + at;
}

/* Who receives, this rank first if it does: its own copy is the one that it makes the others from. */
static int find_targets(weft__local_comm *lc, const weft_op *op, size_t at)
{
    weft__whom receivers = weft__collectives[op->what.kind].receivers;
    int targets = 0;
    for (int step = 0; step < lc->count; step++) {
        int i = (lc->rank + step) % lc->count;
        if (weft__concerns(receivers, i, op->what.root))
            lc->targets[targets++] = recv_at(lc, op, i, at);
    }
    return targets;
}

/* Sums that are in the cache while they are copied to where else they are wanted. */
static void sum_by_blocks(weft__local_comm *lc, const weft_op *op, int targets, size_t bytes)
{
    const weft_collective *c = &op->what;
    for (size_t done = 0, part; done < bytes; done += part) {
        part = weft__least(bytes - done, BLOCK);
        unsigned char *first = (unsigned char *)lc->targets[0] + done;
        lc->local->vector->reduce(first, lc->sources, lc->count, part / weft__dtype_bytes(c->dtype), c->dtype,
                                  c->reduction, divisor_of(lc, op));
        for (int i = 1; i < targets; i++)
            memcpy((unsigned char *)lc->targets[i] + done, first, part);
        for (int i = 0; i < lc->count; i++)
            lc->sources[i] = (const unsigned char *)lc->sources[i] + part;
    }
}

/* Storing both results at once saves a pass where both lie in this core's cache. Where the other rank has looked at its
 * own since, each of those stores waits for the one before, and copying a block at a time is faster: for short slices,
 * since of long ones the caches do not hold all. */
static bool goes_to_both(const weft__local_comm *lc, const weft_op *op, const weft__move *move, int targets)
{
    const weft_collective *c = &op->what;
    return c->dtype == WEFT_FP32 && c->reduction == WEFT_SUM && lc->count == 2 && targets == 2 && move->bytes >= LONG;
}

/* The next part of a slice: summed, to all who want it. */
static size_t fused_part(weft__local_comm *lc, const weft_op *op, weft__move *move)
{
    const weft_collective *c = &op->what;
    size_t at = move->at + move->done, part = weft__least(move->end - move->done, weft__local_part(lc->local));
    int targets = find_targets(lc, op, at);
    for (int i = 0; i < lc->count; i++)
        lc->sources[i] = lc->bases[i] + weft__page_request(lc->pages[i], op->number)->send + at;
    if (lc->plan.past)
        lc->local->vector->reduce_past(lc->targets, targets, lc->sources, lc->count, part / weft__dtype_bytes(c->dtype),
                                       c->dtype, c->reduction, divisor_of(lc, op));
    else if (goes_to_both(lc, op, move, targets))
        lc->local->vector->sum_to_both(lc->targets[0], lc->targets[1], lc->sources[0], lc->sources[1],
                                       part / sizeof(float));
    else
        sum_by_blocks(lc, op, targets, part);
    move->done += part;
    return part;
}

/* All-reduce and reduce where every buffer can be reached: this rank sums its slice of all inputs, block by block, and
 * writes it where it is wanted while it is still in the cache: the least traffic there can be. A member that has failed
 * waits for one part at most before it gives its buffer away. */
unsigned weft__move_fused(weft__local_comm *lc, weft_op *op, bool *done)
{
    weft__local_mark_first(lc->local, op);
    while (!(*done = all_moved(lc))) {
        if (!weft__local_all_still_good(lc, op))
            return 0;
        if (is_open(lc, &lc->plan.move[0]))
            (void)fused_part(lc, op, &lc->plan.move[0]);
        if (weft__local_turn_over(lc->local))
            break;
    }
    return WEFT_PROGRESS_MOVED;
}

bool weft__move_helped(weft__local_comm *lc, weft_op *op, weft__move *move)
{
    size_t part = 1;
    while (part && move->done < move->end)
        part = lc->plan.fused   ? fused_part(lc, op, move)
               : move->from < 0 ? reduce_part(lc, op, move)
                                : copy_part(lc, op, move);
    return move->done == move->end;
}
