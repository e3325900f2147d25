/* SPDX-License-Identifier: Apache-2.0 */
/* What a cell of each collective does at each station. Staging of a cell, n ranks, m elements in a piece:
 *   input    what `local` reads, where the caller's buffer will not do: 16-bit types as fp32, ends padded with zeros
 *   partial  sums over this machine          heard   those of the other machines, one behind the other
 *   result   of this rank's index, rounded   output  of all, where the caller's buffer is too short */
#include <string.h>

#include "backend/host/host.h"
#include "base/error.h"

#define ALIGN_ELEMENTS 16

/* ------------------------------------------------------------------------------------------- sizes */

/* Sums are kept in this type. */
static weft_dtype sum_type(const weft_op *op)
{
    return weft__dtype_bytes(op->what.dtype) == 2 ? WEFT_FP32 : op->what.dtype;
}

static size_t sum_bytes(const weft_op *op)
{
    return weft__dtype_bytes(sum_type(op));
}

static size_t bytes_of(const weft_op *op, size_t elements)
{
    return elements * weft__dtype_bytes(op->what.dtype);
}

/* Elements of a message. */
static size_t piece(const weft__host_comm *hc, const weft_op *op)
{
    return hc->piece_bytes / sum_bytes(op);
}

static size_t up(size_t elements, size_t to)
{
    return (elements + to - 1) / to * to;
}

/* A cell of a whole buffer is split over the ranks: by index, then by machine. */
static size_t share_of_one(const weft__host_comm *hc, const weft__cell *cell)
{
    return up((cell->count + (size_t)hc->count - 1) / (size_t)hc->count, ALIGN_ELEMENTS);
}

static size_t share_of_index(const weft__host_comm *hc, const weft__cell *cell)
{
    return share_of_one(hc, cell) * (size_t)hc->machines;
}

/* The shares of a cell add up to it. */
static bool is_even(const weft__host_comm *hc, const weft__cell *cell)
{
    return share_of_index(hc, cell) * (size_t)hc->per_machine == cell->count;
}

static size_t extent_part(const weft__host_comm *hc, const weft_op *op)
{
    (void)hc;
    return op->what.count;
}

static size_t extent_nothing(const weft__host_comm *hc, const weft_op *op)
{
    (void)hc, (void)op;
    return 0;
}

static size_t most_piece(const weft__host_comm *hc, const weft_op *op)
{
    return piece(hc, op);
}

static size_t most_of_all(const weft__host_comm *hc, const weft_op *op)
{
    return piece(hc, op) * (size_t)hc->count;
}

size_t weft__host_staging_bytes(const weft__host_comm *hc)
{
    size_t all = hc->piece_bytes * (size_t)hc->count, column = hc->piece_bytes * (size_t)hc->machines;
    return 2 * all + 3 * column;
}

void weft__host_lay_out(const weft__host_comm *hc, weft__cell *cell, unsigned char *staging)
{
    size_t all = hc->piece_bytes * (size_t)hc->count, column = hc->piece_bytes * (size_t)hc->machines;
    cell->input = staging;
    cell->output = cell->input + all;
    cell->partial = cell->output + all;
    cell->heard = cell->partial + column;
    cell->result = cell->heard + column;
}

/* ------------------------------------------------------------------------------------------- small things */

static const unsigned char *send_at(const weft_op *op, size_t element)
{
    return op->what.send ? (const unsigned char *)op->what.send + bytes_of(op, element) : NULL;
}

static unsigned char *recv_at(const weft_op *op, size_t element)
{
    return op->what.recv ? (unsigned char *)op->what.recv + bytes_of(op, element) : NULL;
}

static int rank_on(const weft__host_comm *hc, int machine)
{
    return machine * hc->per_machine + hc->index;
}

/* The others in turn, this rank's machine last. */
static int machine_after(const weft__host_comm *hc, int step)
{
    return (hc->machine + step) % hc->machines;
}

/* What the sums of this machine are made of: no average yet. */
static weft_collective inner_sum(const weft_op *op, weft_collective_kind kind, size_t count)
{
    weft_collective c = op->what;
    c.kind = kind;
    c.count = count;
    c.dtype = sum_type(op);
    c.reduction = c.reduction == WEFT_AVERAGE ? WEFT_SUM : c.reduction;
    return c;
}

/* Members must mean the same: machines compare it by the tags of their messages. */
static uint64_t tag_of(const weft_op *op)
{
    const weft_collective *c = &op->what;
    uint64_t tag = op->number * 0x9e3779b97f4a7c15ull;
    tag ^= ((uint64_t)c->count << 24) ^ ((uint64_t)c->kind << 20) ^ ((uint64_t)c->dtype << 16) ^
           ((uint64_t)c->reduction << 12) ^ (uint64_t)(uint32_t)c->root;
    return tag ? tag : 1;
}

static void add_message(weft__cell *cell, weft_p2p_kind kind, int peer, uint32_t channel, const void *buffer,
                        size_t count, weft_dtype dtype)
{
    cell->messages[cell->far.op.message_count++] = (weft_p2p){.kind = kind,
                                                              .peer = peer,
                                                              .channel = channel,
                                                              .dtype = dtype,
                                                              .buffer = (void *)(uintptr_t)buffer,
                                                              .count = count,
                                                              .tag = tag_of(cell->op)};
}

static void open_messages(weft__cell *cell)
{
    weft__inner_prepare(&cell->far, cell->op, (weft_collective){.kind = 0});
    cell->far.op.is_p2p = 1;
    cell->far.op.messages = cell->messages;
    cell->far.op.message_count = 0;
}

/* ------------------------------------------------------------------------------------------- inputs of sums */

/* @p count elements from @p at of the caller's, as sums are kept, with zeros behind up to @p room. */
static void lay_input(const weft__host_comm *hc, const weft_op *op, unsigned char *to, size_t at, size_t count,
                      size_t room)
{
    size_t bytes = sum_bytes(op);
    if (bytes == weft__dtype_bytes(op->what.dtype))
        memcpy(to, send_at(op, at), count * bytes);
    else
        hc->host->vector->cast(to, WEFT_FP32, send_at(op, at), op->what.dtype, count);
    memset(to + count * bytes, 0, (room - count) * bytes);
}

static bool is_widened(const weft_op *op)
{
    return sum_type(op) != op->what.dtype;
}

/* ------------------------------------------------------------------------------------------- reduce-scatter */

static weft_result scatter_enter(weft__host_comm *hc, weft__cell *cell)
{
    const weft_op *op = cell->op;
    size_t m = cell->count, part = op->what.count, bytes = m * sum_bytes(op);
    for (int r = 0; is_widened(op) && m && r < hc->count; r++)
        lay_input(hc, op, cell->input + (size_t)r * bytes, part * (size_t)r + cell->at, m, m);
    for (int step = 1; step <= hc->machines; step++) {
        size_t machine = (size_t)machine_after(hc, step), first = machine * (size_t)hc->per_machine;
        weft_collective c = inner_sum(op, WEFT_REDUCE_SCATTER, m);
        c.send = is_widened(op) ? cell->input + first * bytes : send_at(op, first * part + cell->at);
        c.recv = cell->partial + machine * bytes;
        WEFT_TRY(weft__near_start(hc, cell, 0, c, is_widened(op) ? bytes : part * sum_bytes(op)));
    }
    return WEFT_OK;
}

static weft_result scatter_first_far(weft__host_comm *hc, weft__cell *cell)
{
    size_t m = cell->count, bytes = m * sum_bytes(cell->op);
    open_messages(cell);
    for (int step = 1; step < hc->machines; step++) {
        int machine = machine_after(hc, step);
        size_t at = (size_t)machine * bytes;
        add_message(cell, WEFT_SEND, rank_on(hc, machine), hc->channels, cell->partial + at, m, sum_type(cell->op));
        add_message(cell, WEFT_RECV, rank_on(hc, machine), hc->channels, cell->heard + at, m, sum_type(cell->op));
    }
    return weft__far_start(hc, &cell->far);
}

/* The sum over the machines, of @p count elements that lie @p bytes apart, this machine's in its partial sums. */
static void combine(weft__host_comm *hc, const weft__cell *cell, unsigned char *to, unsigned char *wide, size_t count,
                    size_t bytes)
{
    const weft_op *op = cell->op;
    for (int g = 0; g < hc->machines; g++)
        hc->sources[g] = (g == hc->machine ? cell->partial : cell->heard) + (size_t)g * bytes;
    unsigned char *sum = is_widened(op) ? wide : to;
    hc->host->vector->reduce(sum, hc->sources, hc->machines, count, sum_type(op), op->what.reduction, hc->count);
    if (is_widened(op))
        hc->host->vector->cast(to, op->what.dtype, sum, WEFT_FP32, count);
}

static weft_result scatter_combine(weft__host_comm *hc, weft__cell *cell)
{
    if (cell->count)
        combine(hc, cell, recv_at(cell->op, cell->at), cell->result, cell->count, cell->count * sum_bytes(cell->op));
    return WEFT_OK;
}

/* ------------------------------------------------------------------------------------------- all-reduce, reduce */

static weft_result reduce_enter(weft__host_comm *hc, weft__cell *cell)
{
    const weft_op *op = cell->op;
    size_t share = share_of_index(hc, cell);
    bool laid = cell->count && (is_widened(op) || !is_even(hc, cell));
    if (laid)
        lay_input(hc, op, cell->input, cell->at, cell->count, share * (size_t)hc->per_machine);
    weft_collective c = inner_sum(op, WEFT_REDUCE_SCATTER, share);
    c.send = laid ? cell->input : send_at(op, cell->at);
    c.recv = cell->partial;
    return weft__near_start(hc, cell, 0, c, 0);
}

static weft_result reduce_first_far(weft__host_comm *hc, weft__cell *cell)
{
    size_t m = share_of_one(hc, cell), bytes = m * sum_bytes(cell->op);
    open_messages(cell);
    for (int step = 1; step < hc->machines; step++) {
        int machine = machine_after(hc, step);
        size_t at = (size_t)machine * bytes;
        add_message(cell, WEFT_SEND, rank_on(hc, machine), hc->channels, cell->partial + at, m, sum_type(cell->op));
        add_message(cell, WEFT_RECV, rank_on(hc, machine), hc->channels, cell->heard + at, m, sum_type(cell->op));
    }
    return weft__far_start(hc, &cell->far);
}

static weft_result reduce_combine(weft__host_comm *hc, weft__cell *cell)
{
    size_t m = share_of_one(hc, cell), bytes = m * sum_bytes(cell->op);
    unsigned char *to = cell->result + bytes_of(cell->op, m) * (size_t)hc->machine;
    if (m)
        combine(hc, cell, to, cell->partial + (size_t)hc->machine * bytes, m, bytes);
    return WEFT_OK;
}

/* Each share of this index to those machines that want it. */
static weft_result share_results(weft__host_comm *hc, weft__cell *cell, weft__whom receivers)
{
    const weft_op *op = cell->op;
    size_t m = share_of_one(hc, cell), bytes = bytes_of(op, m);
    int root_machine = op->what.root / hc->per_machine;
    open_messages(cell);
    for (int step = 1; step < hc->machines; step++) {
        int machine = machine_after(hc, step), peer = rank_on(hc, machine);
        if (weft__concerns(receivers, machine, root_machine))
            add_message(cell, WEFT_SEND, peer, hc->channels + 1, cell->result + (size_t)hc->machine * bytes, m,
                        op->what.dtype);
        if (weft__concerns(receivers, hc->machine, root_machine))
            add_message(cell, WEFT_RECV, peer, hc->channels + 1, cell->result + (size_t)machine * bytes, m,
                        op->what.dtype);
    }
    return weft__far_start(hc, &cell->far);
}

static weft_result reduce_second_far(weft__host_comm *hc, weft__cell *cell)
{
    return share_results(hc, cell, weft__collectives[cell->op->what.kind].receivers);
}

static bool receives(const weft__host_comm *hc, const weft_op *op)
{
    return weft__concerns(weft__collectives[op->what.kind].receivers, hc->rank, op->what.root);
}

static weft_result reduce_second_near(weft__host_comm *hc, weft__cell *cell)
{
    const weft_op *op = cell->op;
    bool straight = receives(hc, op) && is_even(hc, cell);
    weft__whom receivers = weft__collectives[op->what.kind].receivers;
    if (!weft__concerns(receivers, hc->machine, op->what.root / hc->per_machine))
        return WEFT_OK;
    weft_collective c = op->what;
    c.kind = WEFT_ALL_GATHER;
    c.count = share_of_index(hc, cell);
    c.send = cell->result;
    c.recv = straight ? recv_at(op, cell->at) : cell->output;
    return weft__near_start(hc, cell, 1, c, 0);
}

static weft_result reduce_leave(weft__host_comm *hc, weft__cell *cell)
{
    if (cell->count && receives(hc, cell->op) && !is_even(hc, cell))
        memcpy(recv_at(cell->op, cell->at), cell->output, bytes_of(cell->op, cell->count));
    return WEFT_OK;
}

/* ------------------------------------------------------------------------------------------- all-gather */

static weft_result gather_first_far(weft__host_comm *hc, weft__cell *cell)
{
    const weft_op *op = cell->op;
    open_messages(cell);
    for (int step = 1; step < hc->machines; step++) {
        int peer = rank_on(hc, machine_after(hc, step));
        add_message(cell, WEFT_SEND, peer, hc->channels, send_at(op, cell->at), cell->count, op->what.dtype);
        add_message(cell, WEFT_RECV, peer, hc->channels, recv_at(op, op->what.count * (size_t)peer + cell->at),
                    cell->count, op->what.dtype);
    }
    return weft__far_start(hc, &cell->far);
}

static weft_result gather_second_near(weft__host_comm *hc, weft__cell *cell)
{
    const weft_op *op = cell->op;
    for (int g = 0; g < hc->machines; g++) {
        size_t first = op->what.count * (size_t)(g * hc->per_machine) + cell->at;
        weft_collective c = op->what;
        c.count = cell->count;
        c.send =
            g == hc->machine ? send_at(op, cell->at) : recv_at(op, op->what.count * (size_t)rank_on(hc, g) + cell->at);
        c.recv = recv_at(op, first);
        WEFT_TRY(weft__near_start(hc, cell, 1, c, bytes_of(op, op->what.count)));
    }
    return WEFT_OK;
}

/* ------------------------------------------------------------------------------------------- broadcast */

/* Machines are a chain that begins with the root's; the ranks of its index carry. */
static int place_in_chain(const weft__host_comm *hc, const weft_op *op)
{
    return (hc->machine - op->what.root / hc->per_machine + hc->machines) % hc->machines;
}

static bool carries(const weft__host_comm *hc, const weft_op *op)
{
    return op->what.root % hc->per_machine == hc->index;
}

static weft_result broadcast_first_far(weft__host_comm *hc, weft__cell *cell)
{
    const weft_op *op = cell->op;
    if (!carries(hc, op) || place_in_chain(hc, op) == 0)
        return WEFT_OK;
    open_messages(cell);
    int before = machine_after(hc, hc->machines - 1);
    add_message(cell, WEFT_RECV, rank_on(hc, before), hc->channels, recv_at(op, cell->at), cell->count, op->what.dtype);
    return weft__far_start(hc, &cell->far);
}

static weft_result broadcast_second_far(weft__host_comm *hc, weft__cell *cell)
{
    const weft_op *op = cell->op;
    int place = place_in_chain(hc, op);
    if (!carries(hc, op) || place == hc->machines - 1)
        return WEFT_OK;
    open_messages(cell);
    const void *from = place == 0 ? send_at(op, cell->at) : recv_at(op, cell->at);
    add_message(cell, WEFT_SEND, rank_on(hc, machine_after(hc, 1)), hc->channels, from, cell->count, op->what.dtype);
    return weft__far_start(hc, &cell->far);
}

static weft_result broadcast_second_near(weft__host_comm *hc, weft__cell *cell)
{
    const weft_op *op = cell->op;
    weft_collective c = op->what;
    c.count = cell->count;
    c.root = op->what.root % hc->per_machine;
    c.recv = recv_at(op, cell->at);
    c.send = hc->rank == op->what.root ? send_at(op, cell->at) : c.recv;
    return weft__near_start(hc, cell, 1, c, 0);
}

/* ------------------------------------------------------------------------------------------- all-to-all, barrier */

/* What stays on this machine is one operation of its own. In place, what goes is kept before what comes covers it. */
static weft_result exchange_enter(weft__host_comm *hc, weft__cell *cell)
{
    const weft_op *op = cell->op;
    size_t bytes = bytes_of(op, cell->count), part = op->what.count;
    for (int r = 0; op->what.send == op->what.recv && bytes && r < hc->count; r++)
        if (r / hc->per_machine != hc->machine)
            memcpy(cell->output + (size_t)r * bytes, send_at(op, part * (size_t)r + cell->at), bytes);
    if (!cell->first)
        return WEFT_OK;
    size_t own = part * (size_t)(hc->machine * hc->per_machine);
    weft_collective c = op->what;
    c.send = send_at(op, own);
    c.recv = recv_at(op, own);
    return weft__near_start(hc, cell, 0, c, 0);
}

static weft_result exchange_first_far(weft__host_comm *hc, weft__cell *cell)
{
    const weft_op *op = cell->op;
    size_t part = op->what.count, bytes = bytes_of(op, cell->count);
    bool kept = op->what.send == op->what.recv;
    open_messages(cell);
    for (int step = 1; step < hc->count; step++) {
        int peer = (hc->rank + step) % hc->count;
        if (peer / hc->per_machine == hc->machine)
            continue;
        size_t at = part * (size_t)peer + cell->at;
        const void *from = kept ? cell->output + (size_t)peer * bytes : send_at(op, at);
        add_message(cell, WEFT_SEND, peer, hc->channels, from, cell->count, op->what.dtype);
        add_message(cell, WEFT_RECV, peer, hc->channels, recv_at(op, at), cell->count, op->what.dtype);
    }
    return weft__far_start(hc, &cell->far);
}

static weft_result barrier_enter(weft__host_comm *hc, weft__cell *cell)
{
    return weft__near_start(hc, cell, 0, cell->op->what, 0);
}

static weft_result barrier_first_far(weft__host_comm *hc, weft__cell *cell)
{
    open_messages(cell);
    for (int step = 1; step < hc->machines; step++) {
        int peer = rank_on(hc, machine_after(hc, step));
        add_message(cell, WEFT_SEND, peer, hc->channels, NULL, 0, WEFT_UINT8);
        add_message(cell, WEFT_RECV, peer, hc->channels, NULL, 0, WEFT_UINT8);
    }
    return weft__far_start(hc, &cell->far);
}

/* ------------------------------------------------------------------------------------------- the table */

#define SUMS                                                                                                \
    {                                                                                                       \
        reduce_enter, reduce_first_far, reduce_combine, reduce_second_far, reduce_second_near, reduce_leave \
    }

const weft__host_kind weft__host_kinds[] = {
    [WEFT_ALL_REDUCE] = {extent_part, most_of_all, SUMS},
    [WEFT_REDUCE] = {extent_part, most_of_all, SUMS},
    [WEFT_REDUCE_SCATTER] = {extent_part, most_piece, {scatter_enter, scatter_first_far, scatter_combine}},
    [WEFT_ALL_GATHER] = {extent_part,
                         most_piece,
                         {[WEFT__FIRST_FAR] = gather_first_far, [WEFT__SECOND_NEAR] = gather_second_near}},
    [WEFT_BROADCAST] = {extent_part,
                        most_of_all,
                        {[WEFT__FIRST_FAR] = broadcast_first_far,
                         [WEFT__SECOND_FAR] = broadcast_second_far,
                         [WEFT__SECOND_NEAR] = broadcast_second_near}},
    [WEFT_ALL_TO_ALL] = {extent_part, most_piece, {exchange_enter, exchange_first_far}},
    [WEFT_BARRIER] = {extent_nothing, most_piece, {barrier_enter, barrier_first_far}},
};

_Static_assert(sizeof weft__host_kinds / sizeof *weft__host_kinds == WEFT_COLLECTIVE_KINDS,
               "each collective goes through the stations");
