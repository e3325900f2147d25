/* SPDX-License-Identifier: Apache-2.0 */
/* All-reduce and reduce. A cell is split over the ranks, by index and then by machine: `local` sums the share of an
 * index, ranks of that index sum the shares of machines, and results go back the same way. What is small is not worth
 * that: every rank gets all sums of all machines. */
#include "backend/host/part.h"

#define SMALL_BYTES 2048 /* every rank of a machine sends as much */

/* Elements of the cell for one rank, and for those of one index. */
static size_t share_of_one(const weft__host_comm *hc, const weft__cell *cell)
{
    size_t n = (size_t)hc->count * WEFT__ALIGN_ELEMENTS;
    return (cell->count + n - 1) / n * WEFT__ALIGN_ELEMENTS;
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

static bool is_small(const weft__cell *cell)
{
    return cell->first && cell->last && weft__sum_bytes(cell->op, cell->count) <= SMALL_BYTES;
}

/* ------------------------------------------------------------------------------------------- on this machine */

weft_collective weft__inner_sum(const weft_op *op, weft_collective_kind kind, size_t count)
{
    weft_collective c = op->what;
    c.kind = kind;
    c.count = count;
    c.dtype = weft__sum_type(op);
    c.reduction = c.reduction == WEFT_AVERAGE ? WEFT_SUM : c.reduction;
    return c;
}

/* The cell's elements as sums are kept, with zeros behind up to @p room. */
static weft_result lay(const weft__host_comm *hc, weft__cell *cell, size_t room)
{
    const weft_op *op = cell->op;
    while (cell->done < cell->count) {
        size_t n = weft__step(cell, cell->count);
        unsigned char *to = cell->whole + weft__sum_bytes(op, cell->done);
        const unsigned char *from = weft__send_at(op, cell->at + cell->done);
        if (weft__is_widened(op))
            hc->host->vector->cast(to, WEFT_FP32, from, op->what.dtype, n);
        else
            memcpy(to, from, weft__op_bytes(op, n));
        cell->done += n;
        if (weft__turn_over(hc) && cell->done < cell->count)
            return WEFT_PENDING;
    }
    memset(cell->whole + weft__sum_bytes(op, cell->count), 0, weft__sum_bytes(op, room - cell->count));
    return WEFT_OK;
}

weft_result weft__sum_enter(weft__host_comm *hc, weft__cell *cell)
{
    const weft_op *op = cell->op;
    bool small = is_small(cell);
    size_t share = small ? cell->count : share_of_index(hc, cell);
    size_t room = small ? cell->count : share * (size_t)hc->per_machine;
    bool laid = cell->count && (weft__is_widened(op) || (!small && !is_even(hc, cell)));
    weft_result result = laid ? lay(hc, cell, room) : WEFT_OK;
    if (result != WEFT_OK)
        return result;
    weft_collective c = weft__inner_sum(op, small ? WEFT_ALL_REDUCE : WEFT_REDUCE_SCATTER, share);
    c.send = laid ? cell->whole : weft__send_at(op, cell->at);
    c.recv = cell->column;
    return weft__near_start(hc, cell, WEFT__NEAR_FIRST, c, 0);
}

weft_result weft__sum_second_near(weft__host_comm *hc, weft__cell *cell)
{
    const weft_op *op = cell->op;
    weft__whom receivers = weft__collectives[op->what.kind].receivers;
    if (is_small(cell) || !weft__concerns(receivers, hc->machine, weft__machine_of(hc, op->what.root)))
        return WEFT_OK;
    weft_collective c = op->what;
    c.kind = WEFT_ALL_GATHER;
    c.count = share_of_index(hc, cell);
    c.send = cell->column;
    c.recv = weft__receives(hc, op) && is_even(hc, cell) ? weft__recv_at(op, cell->at) : cell->whole;
    return weft__near_start(hc, cell, WEFT__NEAR_SECOND, c, 0);
}

weft_result weft__sum_leave(weft__host_comm *hc, weft__cell *cell)
{
    const weft_op *op = cell->op;
    if (is_small(cell) || !weft__receives(hc, op) || is_even(hc, cell))
        return WEFT_OK;
    while (cell->done < cell->count) {
        size_t n = weft__step(cell, cell->count);
        memcpy(weft__recv_at(op, cell->at + cell->done), cell->whole + weft__op_bytes(op, cell->done),
               weft__op_bytes(op, n));
        cell->done += n;
        if (weft__turn_over(hc) && cell->done < cell->count)
            return WEFT_PENDING;
    }
    return WEFT_OK;
}

/* ------------------------------------------------------------------------------------------- between machines */

weft_result weft__exchange_sums(weft__host_comm *hc, weft__cell *cell, size_t count, size_t apart)
{
    size_t bytes = weft__sum_bytes(cell->op, count);
    weft_dtype dtype = weft__sum_type(cell->op);
    weft__open_messages(cell);
    for (int step = 1; step < hc->machines; step++) {
        size_t machine = (size_t)weft__machine_after(hc, step);
        int peer = weft__rank_on(hc, (int)machine);
        weft__add_message(hc, cell, WEFT_SEND, peer, WEFT__WAY_FIRST, cell->column + machine * apart, count, dtype);
        weft__add_message(hc, cell, WEFT_RECV, peer, WEFT__WAY_FIRST, cell->heard + machine * bytes, count, dtype);
    }
    return weft__far_start(hc, &cell->far);
}

weft_result weft__sum_first_far(weft__host_comm *hc, weft__cell *cell)
{
    if (is_small(cell))
        return weft__exchange_sums(hc, cell, cell->count, 0);
    size_t m = share_of_one(hc, cell);
    return weft__exchange_sums(hc, cell, m, weft__sum_bytes(cell->op, m));
}

/* 16-bit types are summed where another machine's sums lie, which nobody needs any more. */
weft_result weft__combine(weft__host_comm *hc, weft__cell *cell, unsigned char *to, const unsigned char *own,
                          size_t count)
{
    const weft_op *op = cell->op;
    size_t piece = weft__sum_bytes(op, count);
    unsigned char *wide = cell->heard + (size_t)weft__machine_after(hc, 1) * piece;
    while (cell->done < count) {
        size_t n = weft__step(cell, count), at = weft__sum_bytes(op, cell->done);
        for (int g = 0; g < hc->machines; g++)
            hc->sources[g] = (g == hc->machine ? own : cell->heard + (size_t)g * piece) + at;
        unsigned char *dst = to + weft__op_bytes(op, cell->done);
        unsigned char *sum = weft__is_widened(op) ? wide + at : dst;
        hc->host->vector->reduce(sum, hc->sources, hc->machines, n, weft__sum_type(op), op->what.reduction, hc->count);
        if (weft__is_widened(op))
            hc->host->vector->cast(dst, op->what.dtype, sum, WEFT_FP32, n);
        cell->done += n;
        if (weft__turn_over(hc) && cell->done < count)
            return WEFT_PENDING;
    }
    return WEFT_OK;
}

/* Results are laid over the sums that they come from: as large, or half as large and behind what is still to be read.
 */
weft_result weft__sum_combine(weft__host_comm *hc, weft__cell *cell)
{
    const weft_op *op = cell->op;
    if (is_small(cell))
        return weft__receives(hc, op) ? weft__combine(hc, cell, weft__recv_at(op, 0), cell->column, cell->count)
                                      : WEFT_OK;
    size_t m = share_of_one(hc, cell), machine = (size_t)hc->machine;
    return weft__combine(hc, cell, cell->column + machine * weft__op_bytes(op, m),
                         cell->column + machine * weft__sum_bytes(op, m), m);
}

/* Each share of this index to those machines that want it. */
weft_result weft__sum_second_far(weft__host_comm *hc, weft__cell *cell)
{
    const weft_op *op = cell->op;
    size_t m = share_of_one(hc, cell), bytes = weft__op_bytes(op, m);
    weft__whom receivers = weft__collectives[op->what.kind].receivers;
    int root_machine = weft__machine_of(hc, op->what.root);
    if (is_small(cell))
        return WEFT_OK;
    weft__open_messages(cell);
    for (int step = 1; step < hc->machines; step++) {
        int machine = weft__machine_after(hc, step), peer = weft__rank_on(hc, machine);
        if (weft__concerns(receivers, machine, root_machine))
            weft__add_message(hc, cell, WEFT_SEND, peer, WEFT__WAY_SECOND, cell->column + (size_t)hc->machine * bytes,
                              m, op->what.dtype);
        if (weft__concerns(receivers, hc->machine, root_machine))
            weft__add_message(hc, cell, WEFT_RECV, peer, WEFT__WAY_SECOND, cell->column + (size_t)machine * bytes, m,
                              op->what.dtype);
    }
    return weft__far_start(hc, &cell->far);
}
