/* SPDX-License-Identifier: Apache-2.0 */
/* What a member has to fetch, and to put into pipes, for each collective. Pure: it moves nothing. */
#include "backend/local/local.h"

static size_t bytes_of(const weft_op *op)
{
    return op->what.count * weft__dtype_bytes(op->what.dtype);
}

static void add_move(weft__plan *plan, weft__move move)
{
    move.end = move.bytes;
    if (move.bytes)
        plan->move[plan->moves++] = move;
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
static void push_all(const weft__local_comm *lc, const weft__side *side, weft__plan *plan, const unsigned char *from,
                     size_t bytes, size_t stride)
{
    for (int i = 0; i < lc->count; i++)
        if (i != side->rank)
            plan->push[i] = (weft__push){.from = from + stride * (size_t)i, .bytes = bytes};
}

static void plan_all_reduce(const weft__local_comm *lc, const weft_op *op, const weft__side *side, weft__plan *plan)
{
    plan->meet = plan->readers = WEFT__EVERYBODY;
    if (plan->in_slot) {
        add_move(plan, (weft__move){.to = side->recv, .bytes = bytes_of(op), .from = -1});
        return;
    }
    size_t begin, bytes;
    weft__plan_slice(lc, op, side->rank, &begin, &bytes);
    add_move(plan, (weft__move){.to = side->recv + begin, .bytes = bytes, .at = begin, .from = -1});
    for (int i = 0; i < lc->count; i++) {
        if (i == side->rank)
            continue;
        weft__plan_slice(lc, op, i, &begin, &bytes);
        plan->push[i] = (weft__push){.from = side->send + begin, .bytes = bytes};
    }
}

/* The second half of an all-reduce that is not fused: everybody fetches everybody's slice of the result. */
static void plan_all_reduce_second(const weft__local_comm *lc, const weft_op *op, const weft__side *side,
                                   weft__plan *plan)
{
    size_t begin, bytes;
    plan->moves = 0;
    for (int step = 1; step < lc->count; step++) {
        int i = (side->rank + step) % lc->count;
        weft__plan_slice(lc, op, i, &begin, &bytes);
        add_move(plan, (weft__move){.to = side->recv + begin, .bytes = bytes, .at = begin, .from = i, .result = true});
    }
    weft__plan_slice(lc, op, side->rank, &begin, &bytes);
    push_all(lc, side, plan, side->recv + begin, bytes, 0);
}

static void plan_reduce_scatter(const weft__local_comm *lc, const weft_op *op, const weft__side *side, weft__plan *plan)
{
    size_t one = bytes_of(op);
    plan->meet = plan->readers = WEFT__EVERYBODY;
    size_t stride = weft__local_stride(op);
    add_move(plan, (weft__move){.to = side->recv, .bytes = one, .at = stride * (size_t)side->rank, .from = -1});
    push_all(lc, side, plan, side->send, one, stride);
}

/* From every member, this rank first and then around, so that not all read from one. */
static void fetch_from_all(const weft__local_comm *lc, const weft_op *op, const weft__side *side, weft__plan *plan,
                           size_t at, bool own, weft__exchange exchange)
{
    size_t one = bytes_of(op);
    for (int step = own ? 0 : 1; step < lc->count; step++) {
        int i = (side->rank + step) % lc->count;
        add_move(plan, (weft__move){.to = side->recv + weft__local_stride(op) * (size_t)i,
                                    .bytes = one,
                                    .at = at,
                                    .from = i,
                                    .exchange = exchange});
    }
}

static void plan_all_gather(const weft__local_comm *lc, const weft_op *op, const weft__side *side, weft__plan *plan)
{
    size_t one = bytes_of(op);
    plan->meet = plan->readers = WEFT__EVERYBODY;
    fetch_from_all(lc, op, side, plan, 0, side->send != side->recv + weft__local_stride(op) * (size_t)side->rank,
                   WEFT__NO_EXCHANGE);
    push_all(lc, side, plan, side->send, one, 0);
}

static void plan_all_to_all(const weft__local_comm *lc, const weft_op *op, const weft__side *side, weft__plan *plan)
{
    size_t one = bytes_of(op);
    bool in_place = side->send == side->recv;
    weft__exchange exchange = WEFT__NO_EXCHANGE;
    if (in_place && !plan->in_slot)
        exchange = lc->request.recv == WEFT__NOWHERE ? WEFT__BY_PIPE : WEFT__UNDECIDED;
    plan->meet = plan->readers = WEFT__EVERYBODY;
    plan->swapped = exchange == WEFT__UNDECIDED;
    fetch_from_all(lc, op, side, plan, one * (size_t)side->rank, !in_place, exchange);
    if (!plan->swapped)
        push_all(lc, side, plan, side->send, one, one);
}

/* The lower rank of the two takes the first half. */
void weft__plan_decide(weft__local_comm *lc, const weft_op *op, weft__move *move)
{
    size_t half = weft__least(weft__round_up(move->bytes / 2, WEFT__LINE), move->bytes);
    if (weft__page_request(lc->pages[move->from], op->number)->recv == WEFT__NOWHERE) {
        move->exchange = WEFT__BY_PIPE;
        lc->plan.push[move->from] = (weft__push){.from = move->to, .bytes = move->bytes};
        return;
    }
    move->exchange = WEFT__BY_SWAP;
    if (lc->rank < move->from)
        move->end = half;
    else
        move->done = half;
}

static void plan_broadcast(const weft__local_comm *lc, const weft_op *op, const weft__side *side, weft__plan *plan)
{
    bool root = side->rank == op->what.root;
    plan->meet = root ? WEFT__EVERYBODY : WEFT__ROOT;
    plan->readers = root ? WEFT__EVERYBODY : WEFT__NOBODY;
    if (root && plan->in_slot)
        plan->meet = WEFT__NOBODY;
    if (!root || side->send != side->recv)
        add_move(plan, (weft__move){.to = side->recv, .bytes = bytes_of(op), .from = op->what.root});
    if (root)
        push_all(lc, side, plan, side->send, bytes_of(op), 0);
}

static void plan_reduce(const weft__local_comm *lc, const weft_op *op, const weft__side *side, weft__plan *plan)
{
    (void)lc;
    bool root = side->rank == op->what.root;
    plan->meet = root || !plan->in_slot ? WEFT__EVERYBODY : WEFT__NOBODY;
    plan->readers = root ? WEFT__NOBODY : WEFT__ROOT;
    if (root)
        add_move(plan, (weft__move){.to = side->recv, .bytes = bytes_of(op), .from = -1});
    else
        plan->push[op->what.root] = (weft__push){.from = side->send, .bytes = bytes_of(op)};
}

static void plan_barrier(const weft__local_comm *lc, const weft_op *op, const weft__side *side, weft__plan *plan)
{
    (void)lc, (void)op, (void)side;
    plan->meet = WEFT__EVERYBODY;
    plan->readers = WEFT__NOBODY;
}

const weft__local_kind weft__local_kinds[] = {
    [WEFT_ALL_REDUCE] = {plan_all_reduce, .plan_second = plan_all_reduce_second, .shared = true, .by_slices = true},
    [WEFT_REDUCE_SCATTER] = {plan_reduce_scatter, .shared = true},
    [WEFT_ALL_GATHER] = {plan_all_gather, .shared = true},
    [WEFT_BROADCAST] = {plan_broadcast},
    [WEFT_REDUCE] = {plan_reduce, .shared = true, .by_slices = true},
    [WEFT_ALL_TO_ALL] = {plan_all_to_all, .shared = true},
    [WEFT_BARRIER] = {plan_barrier},
};

_Static_assert(sizeof weft__local_kinds / sizeof *weft__local_kinds == WEFT_COLLECTIVE_KINDS,
               "each collective has a plan");

static void clear(const weft__local_comm *lc, weft__plan *plan)
{
    plan->moves = 0;
    plan->swapped = false;
    for (int i = 0; i < lc->count; i++)
        plan->push[i] = (weft__push){0};
}

weft__side weft__plan_own_side(const weft__local_comm *lc, const weft_op *op)
{
    return (weft__side){.rank = lc->rank, .send = op->what.send, .recv = op->what.recv};
}

void weft__plan_first(weft__local_comm *lc, const weft_op *op)
{
    weft__plan *plan = &lc->plan;
    weft__side own = weft__plan_own_side(lc, op);
    plan->fused = false;
    clear(lc, plan);
    weft__local_kinds[op->what.kind].plan(lc, op, &own, plan);
    if (!plan->in_slot)
        return;
    /* The slots hold everything: nobody touches a buffer, nothing goes through pipes. */
    plan->readers = WEFT__NOBODY;
    for (int i = 0; i < lc->count; i++)
        plan->push[i] = (weft__push){0};
}

void weft__plan_second(weft__local_comm *lc, const weft_op *op)
{
    weft__side own = weft__plan_own_side(lc, op);
    clear(lc, &lc->plan);
    weft__local_kinds[op->what.kind].plan_second(lc, op, &own, &lc->plan);
}

void weft__plan_of_member(const weft__local_comm *lc, const weft_op *op, const weft__side *side, bool fused,
                          weft__plan *plan)
{
    clear(lc, plan);
    plan->in_slot = false;
    plan->fused = fused;
    if (fused)
        weft__plan_fuse(lc, op, side->rank, plan);
    else
        weft__local_kinds[op->what.kind].plan(lc, op, side, plan);
}

void weft__plan_fuse(const weft__local_comm *lc, const weft_op *op, int member, weft__plan *plan)
{
    size_t begin, bytes;
    weft__plan_slice(lc, op, member, &begin, &bytes);
    clear(lc, plan);
    plan->fused = true;
    plan->readers = WEFT__EVERYBODY;
    add_move(plan, (weft__move){.bytes = bytes, .at = begin, .from = -1});
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
