/* SPDX-License-Identifier: Apache-2.0 */
/* Reduce-scatter. A cell takes a run of every rank's part: `local` sums what each machine's rank of this index gets,
 * and ranks of that index sum over machines. */
#include "backend/host/part.h"

/* The runs of all ranks as sums are kept, one behind the other. */
static weft_result lay(const weft__host_comm *hc, weft__cell *cell)
{
    const weft_op *op = cell->op;
    size_t m = cell->count, all = m * (size_t)hc->count;
    while (cell->done < all) {
        size_t rank = cell->done / m, at = cell->done % m, n = weft__step(cell, all);
        n = n < m - at ? n : m - at;
        hc->host->vector->cast(cell->whole + weft__sum_bytes(op, cell->done), WEFT_FP32,
                               weft__send_at(op, rank * op->what.count + cell->at + at), op->what.dtype, n);
        cell->done += n;
        if (weft__turn_over(hc) && cell->done < all)
            return WEFT_PENDING;
    }
    return WEFT_OK;
}

weft_result weft__scatter_enter(weft__host_comm *hc, weft__cell *cell)
{
    const weft_op *op = cell->op;
    bool laid = weft__is_widened(op);
    size_t apart = weft__sum_bytes(op, laid ? cell->count : op->what.count), piece = weft__sum_bytes(op, cell->count);
    weft_result result = laid ? lay(hc, cell) : WEFT_OK;
    if (result != WEFT_OK)
        return result;
    for (int step = 1; step <= hc->machines; step++) {
        size_t machine = (size_t)weft__machine_after(hc, step), first = machine * (size_t)hc->per_machine;
        weft_collective c = weft__inner_sum(op, WEFT_REDUCE_SCATTER, cell->count);
        c.send = laid ? cell->whole + first * apart : weft__send_at(op, first * op->what.count + cell->at);
        c.recv = cell->column + machine * piece;
        WEFT_TRY(weft__near_start(hc, cell, WEFT__NEAR_FIRST, c, apart));
    }
    return WEFT_OK;
}

weft_result weft__scatter_first_far(weft__host_comm *hc, weft__cell *cell)
{
    return weft__exchange_sums(hc, cell, cell->count, weft__sum_bytes(cell->op, cell->count));
}

weft_result weft__scatter_combine(weft__host_comm *hc, weft__cell *cell)
{
    const unsigned char *own = cell->column + (size_t)hc->machine * weft__sum_bytes(cell->op, cell->count);
    return weft__combine(hc, cell, weft__recv_at(cell->op, cell->at), own, cell->count);
}
