/* SPDX-License-Identifier: Apache-2.0 */
/* What a rank sends, receives, sums and copies for each collective. Pure: it moves nothing.
 *
 * Large reductions are direct exchanges: each rank gets its slice from all, sums it in rank order as chunks come, and
 * passes the result on: as many bytes as in a ring, in two steps. Gathers are direct too. A large broadcast goes in
 * slices to the other ranks, each of which relays its own to the rest, so that the root sends everything once. */
#include "net.h"

#define SMALL_BYTES ((size_t)64 << 10) /* a rank sends so much for the sake of one step less */

static size_t bytes_of(const weft_op *op)
{
    return op->what.count * weft_dtype_bytes(op->what.dtype);
}

static unsigned char *send_of(const weft_op *op)
{
    return (unsigned char *)(uintptr_t)op->what.send; /* parcels to send are only read */
}

static unsigned char *recv_of(const weft_op *op)
{
    return op->what.recv;
}

/* A stretch of memory of which so much is ready from the beginning. */
static weft__net_parcel whole(unsigned char *at, size_t bytes)
{
    return (weft__net_parcel){.at = at, .bytes = bytes, .ready = bytes};
}

static weft__net_parcel later(unsigned char *at, size_t bytes)
{
    return (weft__net_parcel){.at = at, .bytes = bytes};
}

static weft__net_parcel staged(const weft__net_comm *nc, int ring, size_t bytes, bool filled)
{
    size_t ready = filled ? bytes < nc->stage_bytes ? bytes : nc->stage_bytes : 0;
    return (weft__net_parcel){
        .at = nc->stage + (size_t)ring * nc->stage_bytes, .bytes = bytes, .ready = ready, .ring = nc->stage_bytes};
}

static void add(weft__net_comm *nc, weft_op *op, weft__net_parcel *place, weft__net_parcel parcel)
{
    parcel.request = nc->last;
    parcel.op = op;
    *place = parcel;
    nc->plan.left++;
}

static void take(weft__net_comm *nc, weft_op *op, int step, int member, weft__net_parcel parcel)
{
    add(nc, op, &nc->plan.in[step * nc->count + member], parcel);
}

static void give(weft__net_comm *nc, weft_op *op, int step, int member, weft__net_parcel parcel)
{
    add(nc, op, &nc->plan.out[step * nc->count + member], parcel);
}

static void sum(weft__net_comm *nc, const unsigned char *own, unsigned char *to, size_t bytes)
{
    nc->plan.own = own;
    nc->plan.sum = to;
    nc->plan.sum_bytes = bytes;
    nc->plan.sums = true;
}

static void copy_own(weft__net_comm *nc, const unsigned char *from, unsigned char *to, size_t bytes)
{
    if (from == to)
        return;
    nc->plan.copy_from = from;
    nc->plan.copy_to = to;
    nc->plan.copy_bytes = bytes;
}

/* The @p k-th of @p parts slices of @p total bytes: they begin on cache lines. */
static size_t slice(size_t total, int parts, int k, size_t *begin)
{
    size_t even = (total + (size_t)parts - 1) / (size_t)parts;
    even = (even + 63) / 64 * 64;
    size_t from = even * (size_t)k;
    *begin = from < total ? from : total;
    return total - *begin < even ? total - *begin : even;
}

static bool is_small(const weft__net_comm *nc, size_t bytes)
{
    return bytes <= SMALL_BYTES / (size_t)(nc->count - 1);
}

/* ------------------------------------------------------------------------------------------- reductions */

/* Everybody's slices to be summed: this rank's comes from all. */
static void exchange_slices(weft__net_comm *nc, weft_op *op)
{
    size_t begin, mine = slice(bytes_of(op), nc->count, nc->rank, &begin);
    for (int i = 0; i < nc->count; i++) {
        if (i == nc->rank)
            continue;
        take(nc, op, 0, i, staged(nc, i, mine, true));
        size_t bytes = slice(bytes_of(op), nc->count, i, &begin);
        give(nc, op, 0, i, whole(send_of(op) + begin, bytes));
    }
}

static void plan_small_all_reduce(weft__net_comm *nc, weft_op *op)
{
    size_t bytes = bytes_of(op);
    for (int i = 0; i < nc->count; i++) {
        if (i == nc->rank)
            continue;
        take(nc, op, 0, i, staged(nc, i, bytes, true));
        give(nc, op, 0, i, whole(send_of(op), bytes));
    }
    sum(nc, send_of(op), recv_of(op), bytes);
    nc->plan.sum_after_out = true;
}

static void plan_all_reduce(weft__net_comm *nc, weft_op *op)
{
    if (is_small(nc, bytes_of(op))) {
        plan_small_all_reduce(nc, op);
        return;
    }
    size_t own_begin, own = slice(bytes_of(op), nc->count, nc->rank, &own_begin);
    exchange_slices(nc, op);
    sum(nc, send_of(op) + own_begin, recv_of(op) + own_begin, own);
    for (int i = 0; i < nc->count; i++) {
        if (i == nc->rank)
            continue;
        size_t begin, bytes = slice(bytes_of(op), nc->count, i, &begin);
        take(nc, op, 1, i, whole(recv_of(op) + begin, bytes));
        give(nc, op, 1, i, later(recv_of(op) + own_begin, own));
    }
}

static void plan_reduce_scatter(weft__net_comm *nc, weft_op *op)
{
    size_t one = bytes_of(op);
    for (int i = 0; i < nc->count; i++) {
        if (i == nc->rank)
            continue;
        take(nc, op, 0, i, staged(nc, i, one, true));
        give(nc, op, 0, i, whole(send_of(op) + one * (size_t)i, one));
    }
    sum(nc, send_of(op) + one * (size_t)nc->rank, recv_of(op), one);
}

static void plan_small_reduce(weft__net_comm *nc, weft_op *op)
{
    size_t bytes = bytes_of(op);
    int root = op->what.root;
    if (nc->rank != root) {
        give(nc, op, 0, root, whole(send_of(op), bytes));
        return;
    }
    for (int i = 0; i < nc->count; i++)
        if (i != root)
            take(nc, op, 0, i, staged(nc, i, bytes, true));
    sum(nc, send_of(op), recv_of(op), bytes);
}

/* A rank that is not the root has no place for its part of the result but a ring. */
static void plan_reduce(weft__net_comm *nc, weft_op *op)
{
    int root = op->what.root;
    if (is_small(nc, bytes_of(op))) {
        plan_small_reduce(nc, op);
        return;
    }
    size_t begin, own = slice(bytes_of(op), nc->count, nc->rank, &begin);
    exchange_slices(nc, op);
    if (nc->rank != root) {
        weft__net_parcel result = staged(nc, nc->count, own, false);
        sum(nc, send_of(op) + begin, result.at, own);
        nc->plan.sum_ring = result.ring;
        give(nc, op, 1, root, result);
        return;
    }
    sum(nc, send_of(op) + begin, recv_of(op) + begin, own);
    for (int i = 0; i < nc->count; i++) {
        if (i == root)
            continue;
        size_t bytes = slice(bytes_of(op), nc->count, i, &begin);
        take(nc, op, 1, i, whole(recv_of(op) + begin, bytes));
    }
}

/* ------------------------------------------------------------------------------------------- gathers */

static void plan_all_gather(weft__net_comm *nc, weft_op *op)
{
    size_t one = bytes_of(op);
    for (int i = 0; i < nc->count; i++) {
        if (i == nc->rank)
            continue;
        take(nc, op, 0, i, whole(recv_of(op) + one * (size_t)i, one));
        give(nc, op, 0, i, whole(send_of(op), one));
    }
    copy_own(nc, send_of(op), recv_of(op) + one * (size_t)nc->rank, one);
}

static void plan_all_to_all(weft__net_comm *nc, weft_op *op)
{
    size_t one = bytes_of(op), mine = one * (size_t)nc->rank;
    bool in_place = send_of(op) == recv_of(op);
    for (int i = 0; i < nc->count; i++) {
        if (i == nc->rank)
            continue;
        unsigned char *to = recv_of(op) + one * (size_t)i;
        take(nc, op, 0, i, in_place ? later(to, one) : whole(to, one));
        give(nc, op, 0, i, whole(send_of(op) + one * (size_t)i, one));
    }
    nc->plan.exchange = in_place;
    copy_own(nc, send_of(op) + mine, recv_of(op) + mine, one);
}

/* Slice of member @p i, which is not the root. */
static size_t relayed_slice(const weft__net_comm *nc, const weft_op *op, int i, size_t *begin)
{
    return slice(bytes_of(op), nc->count - 1, (i - op->what.root + nc->count - 1) % nc->count, begin);
}

static void plan_broadcast_root(weft__net_comm *nc, weft_op *op, bool in_slices)
{
    for (int i = 0; i < nc->count; i++) {
        if (i == nc->rank)
            continue;
        size_t begin = 0, bytes = in_slices ? relayed_slice(nc, op, i, &begin) : bytes_of(op);
        give(nc, op, 0, i, whole(send_of(op) + begin, bytes));
    }
    copy_own(nc, send_of(op), recv_of(op), bytes_of(op));
}

static void plan_broadcast(weft__net_comm *nc, weft_op *op)
{
    int root = op->what.root;
    bool in_slices = nc->count > 2 && !is_small(nc, bytes_of(op));
    if (nc->rank == root) {
        plan_broadcast_root(nc, op, in_slices);
        return;
    }
    if (!in_slices) {
        take(nc, op, 0, root, whole(recv_of(op), bytes_of(op)));
        return;
    }
    size_t own_begin, own = relayed_slice(nc, op, nc->rank, &own_begin);
    take(nc, op, 0, root, whole(recv_of(op) + own_begin, own));
    nc->plan.relay = root;
    for (int i = 0; i < nc->count; i++) {
        if (i == nc->rank || i == root)
            continue;
        size_t begin, bytes = relayed_slice(nc, op, i, &begin);
        take(nc, op, 1, i, whole(recv_of(op) + begin, bytes));
        give(nc, op, 1, i, later(recv_of(op) + own_begin, own));
    }
}

static void plan_barrier(weft__net_comm *nc, weft_op *op)
{
    for (int i = 0; i < nc->count; i++) {
        if (i == nc->rank)
            continue;
        take(nc, op, 0, i, whole(NULL, 0));
        give(nc, op, 0, i, whole(NULL, 0));
    }
}

/* ------------------------------------------------------------------------------------------- the table */

static void (*const plans[])(weft__net_comm *nc, weft_op *op) = {
    [WEFT_ALL_REDUCE] = plan_all_reduce, [WEFT_REDUCE_SCATTER] = plan_reduce_scatter,
    [WEFT_ALL_GATHER] = plan_all_gather, [WEFT_BROADCAST] = plan_broadcast,
    [WEFT_REDUCE] = plan_reduce,         [WEFT_ALL_TO_ALL] = plan_all_to_all,
    [WEFT_BARRIER] = plan_barrier,
};

_Static_assert(sizeof plans / sizeof *plans == WEFT_COLLECTIVE_KINDS, "each collective has a plan");

void weft__net_plan_make(weft__net_comm *nc, weft_op *op)
{
    weft__net_plan *plan = &nc->plan;
    *plan = (weft__net_plan){.in = plan->in, .out = plan->out, .relay = -1};
    for (int i = 0; i < 2 * nc->count; i++)
        plan->in[i].op = plan->out[i].op = NULL; /* not in use */
    plans[op->what.kind](nc, op);
}
