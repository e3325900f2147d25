/* SPDX-License-Identifier: Apache-2.0 */
/* What a rank has to fetch, and to put into pipes, for each collective. Pure: it moves nothing. */
#include "backend/local/local.h"

static size_t bytes_of(const weft_op *op)
{
    return op->what.count * weft__dtype_bytes(op->what.dtype);
}

static void add_move(weft__plan *plan, weft__move move)
{
    if (move.bytes)
        plan->move[plan->moves++] = move;
}

static const unsigned char *send_of(const weft_op *op)
{
    return op->what.send;
}

static unsigned char *recv_of(const weft_op *op)
{
    return op->what.recv;
}

/* Slices begin on cache lines, so that no two ranks write into one. */
void weft__plan_slice(const weft__local_comm *lc, const weft_op *op, int member, size_t *begin, size_t *bytes)
{
    size_t total = bytes_of(op), n = (size_t)lc->count;
    size_t even = weft__round_up((total + n - 1) / n, 64);
    size_t from = even * (size_t)member;
    *begin = from < total ? from : total;
    *bytes = total - *begin < even ? total - *begin : even;
}

/* Put the same bytes, or a part for each, into the pipes to the others. */
static void push_all(weft__local_comm *lc, const unsigned char *from, size_t bytes, size_t stride)
{
    for (int i = 0; i < lc->count; i++)
        if (i != lc->rank)
            lc->plan.push[i] = (weft__push){.from = from + stride * (size_t)i, .bytes = bytes};
}

static void plan_all_reduce(weft__local_comm *lc, const weft_op *op)
{
    weft__plan *plan = &lc->plan;
    plan->meet = plan->readers = WEFT__EVERYBODY;
    if (plan->in_slot) {
        add_move(plan, (weft__move){.to = recv_of(op), .bytes = bytes_of(op), .from = -1});
        return;
    }
    size_t begin, bytes;
    weft__plan_slice(lc, op, lc->rank, &begin, &bytes);
    add_move(plan, (weft__move){.to = recv_of(op) + begin, .bytes = bytes, .at = begin, .from = -1});
    for (int i = 0; i < lc->count; i++) {
        if (i == lc->rank)
            continue;
        weft__plan_slice(lc, op, i, &begin, &bytes);
        plan->push[i] = (weft__push){.from = send_of(op) + begin, .bytes = bytes};
    }
}

/* The second half of an all-reduce that is not fused: everybody fetches everybody's slice of the result. */
static void plan_all_reduce_second(weft__local_comm *lc, const weft_op *op)
{
    weft__plan *plan = &lc->plan;
    size_t begin, bytes;
    plan->moves = 0;
    for (int step = 1; step < lc->count; step++) {
        int i = (lc->rank + step) % lc->count;
        weft__plan_slice(lc, op, i, &begin, &bytes);
        add_move(plan, (weft__move){.to = recv_of(op) + begin, .bytes = bytes, .at = begin, .from = i, .result = true});
    }
    weft__plan_slice(lc, op, lc->rank, &begin, &bytes);
    push_all(lc, recv_of(op) + begin, bytes, 0);
}

static void plan_reduce_scatter(weft__local_comm *lc, const weft_op *op)
{
    size_t one = bytes_of(op);
    lc->plan.meet = lc->plan.readers = WEFT__EVERYBODY;
    size_t stride = weft__local_stride(op);
    add_move(&lc->plan, (weft__move){.to = recv_of(op), .bytes = one, .at = stride * (size_t)lc->rank, .from = -1});
    push_all(lc, send_of(op), one, stride);
}

/* From every member, this rank first and then around, so that not all read from one. */
static void fetch_from_all(weft__local_comm *lc, const weft_op *op, size_t at, bool own, bool exchange)
{
    size_t one = bytes_of(op);
    for (int step = own ? 0 : 1; step < lc->count; step++) {
        int i = (lc->rank + step) % lc->count;
        add_move(&lc->plan, (weft__move){.to = recv_of(op) + weft__local_stride(op) * (size_t)i,
                                         .bytes = one,
                                         .at = at,
                                         .from = i,
                                         .exchange = exchange});
    }
}

static void plan_all_gather(weft__local_comm *lc, const weft_op *op)
{
    size_t one = bytes_of(op);
    lc->plan.meet = lc->plan.readers = WEFT__EVERYBODY;
    fetch_from_all(lc, op, 0, send_of(op) != recv_of(op) + weft__local_stride(op) * (size_t)lc->rank, false);
    push_all(lc, send_of(op), one, 0);
}

static void plan_all_to_all(weft__local_comm *lc, const weft_op *op)
{
    size_t one = bytes_of(op);
    bool in_place = send_of(op) == recv_of(op);
    lc->plan.meet = lc->plan.readers = WEFT__EVERYBODY;
    fetch_from_all(lc, op, one * (size_t)lc->rank, !in_place, in_place && !lc->plan.in_slot);
    push_all(lc, send_of(op), one, one);
}

static void plan_broadcast(weft__local_comm *lc, const weft_op *op)
{
    bool root = lc->rank == op->what.root;
    lc->plan.meet = root ? WEFT__EVERYBODY : WEFT__ROOT;
    lc->plan.readers = root ? WEFT__EVERYBODY : WEFT__NOBODY;
    if (root && lc->plan.in_slot)
        lc->plan.meet = WEFT__NOBODY;
    if (!root || send_of(op) != recv_of(op))
        add_move(&lc->plan, (weft__move){.to = recv_of(op), .bytes = bytes_of(op), .from = op->what.root});
    if (root)
        push_all(lc, send_of(op), bytes_of(op), 0);
}

static void plan_reduce(weft__local_comm *lc, const weft_op *op)
{
    bool root = lc->rank == op->what.root;
    lc->plan.meet = root || !lc->plan.in_slot ? WEFT__EVERYBODY : WEFT__NOBODY;
    lc->plan.readers = root ? WEFT__NOBODY : WEFT__ROOT;
    if (root)
        add_move(&lc->plan, (weft__move){.to = recv_of(op), .bytes = bytes_of(op), .from = -1});
    else
        lc->plan.push[op->what.root] = (weft__push){.from = send_of(op), .bytes = bytes_of(op)};
}

static void plan_barrier(weft__local_comm *lc, const weft_op *op)
{
    (void)op;
    lc->plan.meet = WEFT__EVERYBODY;
    lc->plan.readers = WEFT__NOBODY;
}

const weft__local_kind weft__local_kinds[] = {
    [WEFT_ALL_REDUCE] = {plan_all_reduce, .plan_second = plan_all_reduce_second, .by_slices = true},
    [WEFT_REDUCE_SCATTER] = {plan_reduce_scatter},
    [WEFT_ALL_GATHER] = {plan_all_gather},
    [WEFT_BROADCAST] = {plan_broadcast},
    [WEFT_REDUCE] = {plan_reduce, .by_slices = true},
    [WEFT_ALL_TO_ALL] = {plan_all_to_all},
    [WEFT_BARRIER] = {plan_barrier},
};

_Static_assert(sizeof weft__local_kinds / sizeof *weft__local_kinds == WEFT_COLLECTIVE_KINDS,
               "each collective has a plan");

void weft__plan_first(weft__local_comm *lc, const weft_op *op)
{
    weft__plan *plan = &lc->plan;
    plan->moves = 0;
    plan->fused = false;
    plan->fused_done = 0;
    for (int i = 0; i < lc->count; i++)
        plan->push[i] = (weft__push){0};
    weft__local_kinds[op->what.kind].plan(lc, op);
    if (!plan->in_slot)
        return;
    /* The slots hold everything: nobody touches a buffer, nothing goes through pipes. */
    plan->readers = WEFT__NOBODY;
    for (int i = 0; i < lc->count; i++)
        plan->push[i] = (weft__push){0};
}

/* All that sum must reach all that is summed and all that receives. */
bool weft__plan_can_fuse(const weft__local_comm *lc, const weft_op *op)
{
    if (lc->plan.in_slot || !weft__local_kinds[op->what.kind].by_slices)
        return false;
    weft__whom receivers = weft__collectives[op->what.kind].receivers;
    for (int i = 0; i < lc->count; i++) {
        const weft__request *r = weft__page_request(lc->pages[i], op->number);
        if (r->send == WEFT__NOWHERE || (r->recv == WEFT__NOWHERE && weft__concerns(receivers, i, op->what.root)))
            return false;
    }
    return true;
}
