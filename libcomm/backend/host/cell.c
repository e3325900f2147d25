/* SPDX-License-Identifier: Apache-2.0 */
/* Cells on their way: they are opened while one is free, and go on when what they began has ended and it is their turn.
 */
#include "backend/host/host.h"
#include "backend/local/local.h"
#include "base/clock.h"

/* ------------------------------------------------------------------------------------------- inner operations */

void weft__inner_prepare(weft__inner *inner, const weft_op *of, weft_collective what)
{
    inner->op = (weft_op){.what = what,
                          .label = of->label,
                          .memory = inner->memory,
                          .late_rank = -1,
                          .result = WEFT_PENDING,
                          .waited = WEFT__PART_OF_ANOTHER};
    inner->under_way = false;
}

weft_result weft__near_start(weft__host_comm *hc, weft__cell *cell, int which, weft_collective what, size_t stride)
{
    weft__inner *inner = &cell->nears[cell->near_count];
    weft__inner_prepare(inner, cell->op, what);
    inner->op.number = ++hc->near_numbers[which];
    weft_result result = weft__local_start_part(which == WEFT__NEAR_SECOND ? hc->near_second : hc->near_first,
                                                &inner->op, cell->op, stride);
    inner->under_way = result == WEFT_OK;
    cell->near_count++;
    return result;
}

weft_result weft__far_start(weft__host_comm *hc, weft__inner *inner)
{
    if (!inner->op.message_count)
        return WEFT_OK;
    weft_result result = weft__wire_call(hc->far)->start(hc->far_comm, &inner->op);
    inner->under_way = result == WEFT_OK;
    return result;
}

/* What the parts have seen of arrivals becomes what the whole has. */
static void take_stamps(weft__host_comm *hc, weft_op *op, const weft_op *part)
{
    hc->stuck |= part->result == WEFT_E_STUCK;
    if (part->first && !op->first)
        op->first = part->first;
    if (part->last_arrival > op->last_arrival) {
        op->last_arrival = part->last_arrival;
        op->late_rank = part->late_rank;
    }
}

/* Has all that the cell began here ended? */
static bool has_passed(weft__host_comm *hc, weft__cell *cell)
{
    if (!weft__inner_ended(&cell->far))
        return false;
    for (int i = 0; i < cell->near_count; i++)
        if (!weft__inner_ended(&cell->nears[i]))
            return false;
    for (int i = 0; i < cell->near_count; i++)
        take_stamps(hc, cell->op, &cell->nears[i].op);
    if (cell->far.under_way)
        take_stamps(hc, cell->op, &cell->far.op);
    cell->near_count = 0;
    cell->far.under_way = false;
    return true;
}

/* ------------------------------------------------------------------------------------------- stations */

static void leave(weft__host_comm *hc, weft__cell *cell)
{
    weft_op *op = cell->op;
    cell->op = NULL;
    hc->closed++;
    if (cell->last)
        weft_backend_done(op, WEFT_OK);
}

/* What there is to do before the cell is at its station. */
static weft_result begin(weft__host_comm *hc, weft__cell *cell)
{
    weft__host_begin *at = weft__host_kinds[cell->op->what.kind].at[cell->station];
    weft_result result = at ? at(hc, cell) : WEFT_OK;
    if (result < 0)
        weft_backend_fail(hc->comm, result, "comm %s: backend %s did not take a part of an operation", hc->comm->name,
                          hc->far->table->name);
    if (result == WEFT_OK) {
        cell->is_there = true;
        cell->done = 0;
        hc->turn[cell->station]++;
    }
    return result;
}

/* Take a cell on as far as it can. */
static bool advance(weft__host_comm *hc, weft__cell *cell)
{
    bool moved = false;
    while (cell->op && !weft__host_failed(hc)) {
        if (cell->is_there) {
            if (!has_passed(hc, cell))
                return moved;
            cell->is_there = false;
            cell->station++;
            moved = true;
        }
        if (cell->station == WEFT__STATIONS) {
            leave(hc, cell);
            return true;
        }
        if (hc->turn[cell->station] != cell->serial)
            return moved;
        weft_result result = begin(hc, cell);
        if (result == WEFT_AGAIN)
            return moved;
        moved = true;
        if (result == WEFT_PENDING && weft__ticks() >= hc->host->turn_end)
            return true;
    }
    return moved;
}

/* ------------------------------------------------------------------------------------------- cutting */

static void open_cell(weft__host_comm *hc)
{
    weft_op *op = hc->head;
    const weft__host_kind *kind = &weft__host_kinds[op->what.kind];
    weft__cell *cell = &hc->cells[hc->opened % WEFT__CELLS];
    size_t extent = kind->extent(hc, op), most = kind->most(hc, op), left = extent - hc->cut;
    cell->op = op;
    cell->serial = hc->opened++;
    cell->at = hc->cut;
    cell->count = left < most ? left : most;
    cell->first = hc->cut == 0;
    cell->last = cell->count == left;
    cell->station = WEFT__ENTER_HOST;
    cell->is_there = false;
    cell->done = 0;
    cell->near_count = 0;
    cell->far.under_way = false;
    hc->cut += cell->count;
    if (!cell->last)
        return;
    hc->cut = 0;
    hc->head = op->next;
    if (!hc->head)
        hc->tail = &hc->head;
}

/* Oldest first, until the turn is over; the next one comes soon. */
unsigned weft__cells_progress(weft__host_comm *hc)
{
    bool moved = false;
    for (uint64_t serial = hc->closed; serial < hc->opened; serial++) {
        moved |= advance(hc, &hc->cells[serial % WEFT__CELLS]);
        if (moved && weft__ticks() >= hc->host->turn_end)
            return WEFT_PROGRESS_MOVED;
    }
    while (hc->head && hc->opened - hc->closed < WEFT__CELLS && !weft__host_failed(hc)) {
        open_cell(hc);
        moved |= advance(hc, &hc->cells[(hc->opened - 1) % WEFT__CELLS]);
        if (weft__ticks() >= hc->host->turn_end)
            return WEFT_PROGRESS_MOVED;
    }
    return moved ? WEFT_PROGRESS_MOVED : 0;
}

/* ------------------------------------------------------------------------------------------- failure */

/* The backends below have been told, and give back what they hold. */
void weft__cells_give_back(weft__host_comm *hc)
{
    for (uint64_t serial = hc->closed; serial < hc->opened; serial++) {
        weft__cell *cell = &hc->cells[serial % WEFT__CELLS];
        if (cell->op && !has_passed(hc, cell))
            return;
    }
    weft_result verdict = hc->stuck ? WEFT_E_STUCK : (weft_result)atomic_load(&hc->comm->verdict);
    for (; hc->closed < hc->opened; hc->closed++) {
        weft__cell *cell = &hc->cells[hc->closed % WEFT__CELLS];
        if (cell->op && cell->last)
            weft_backend_done(cell->op, verdict);
        cell->op = NULL;
    }
    while (hc->head) {
        weft_op *op = hc->head;
        hc->head = op->next;
        weft_backend_done(op, verdict);
    }
    hc->tail = &hc->head;
    hc->cut = 0;
    for (int s = 0; s < WEFT__STATIONS; s++)
        hc->turn[s] = hc->opened;
}
