/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives that only move bytes: all-gather, broadcast, all-to-all, barrier. */
#include "backend/host/part.h"

/* Every machine hears from the others that they mean the same, or something else. */
static void greet(const weft__host_comm *hc, weft__cell *cell, int machine_to, int machine_from)
{
    weft__add_message(hc, cell, WEFT_SEND, weft__rank_on(hc, machine_to), WEFT__WAY_FIRST, NULL, 0, WEFT_UINT8);
    weft__add_message(hc, cell, WEFT_RECV, weft__rank_on(hc, machine_from), WEFT__WAY_FIRST, NULL, 0, WEFT_UINT8);
}

/* ------------------------------------------------------------------------------------------- all-gather */

weft_result weft__gather_first_far(weft__host_comm *hc, weft__cell *cell)
{
    const weft_op *op = cell->op;
    weft__open_messages(cell);
    for (int step = 1; step < hc->machines; step++) {
        int peer = weft__rank_on(hc, weft__machine_after(hc, step));
        weft__add_message(hc, cell, WEFT_SEND, peer, WEFT__WAY_FIRST, weft__send_at(op, cell->at), cell->count,
                          op->what.dtype);
        weft__add_message(hc, cell, WEFT_RECV, peer, WEFT__WAY_FIRST,
                          weft__recv_at(op, op->what.count * (size_t)peer + cell->at), cell->count, op->what.dtype);
    }
    return weft__far_start(hc, &cell->far);
}

weft_result weft__gather_second_near(weft__host_comm *hc, weft__cell *cell)
{
    const weft_op *op = cell->op;
    size_t part = op->what.count;
    for (int g = 0; g < hc->machines; g++) {
        weft_collective c = op->what;
        c.count = cell->count;
        c.send = g == hc->machine ? weft__send_at(op, cell->at)
                                  : weft__recv_at(op, part * (size_t)weft__rank_on(hc, g) + cell->at);
        c.recv = weft__recv_at(op, part * (size_t)(g * hc->per_machine) + cell->at);
        WEFT_TRY(weft__near_start(hc, cell, WEFT__NEAR_SECOND, c, weft__op_bytes(op, part)));
    }
    return WEFT_OK;
}

/* ------------------------------------------------------------------------------------------- broadcast */

/* Machines are a chain that begins with the root's; the ranks of its index carry. */
static int place_in_chain(const weft__host_comm *hc, const weft_op *op)
{
    return (hc->machine - weft__machine_of(hc, op->what.root) + hc->machines) % hc->machines;
}

static bool carries(const weft__host_comm *hc, const weft_op *op)
{
    return op->what.root % hc->per_machine == hc->index;
}

/* Ranks that mean different roots may all take themselves for one that only sends: so each greets its neighbours. */
weft_result weft__broadcast_first_far(weft__host_comm *hc, weft__cell *cell)
{
    const weft_op *op = cell->op;
    int before = weft__machine_after(hc, hc->machines - 1);
    weft__open_messages(cell);
    if (cell->first)
        greet(hc, cell, weft__machine_after(hc, 1), before);
    if (carries(hc, op) && place_in_chain(hc, op) > 0)
        weft__add_message(hc, cell, WEFT_RECV, weft__rank_on(hc, before), WEFT__WAY_ALONG, weft__recv_at(op, cell->at),
                          cell->count, op->what.dtype);
    return weft__far_start(hc, &cell->far);
}

weft_result weft__broadcast_second_far(weft__host_comm *hc, weft__cell *cell)
{
    const weft_op *op = cell->op;
    int place = place_in_chain(hc, op);
    weft__open_messages(cell);
    const void *from = place == 0 ? weft__send_at(op, cell->at) : weft__recv_at(op, cell->at);
    if (carries(hc, op) && place < hc->machines - 1)
        weft__add_message(hc, cell, WEFT_SEND, weft__rank_on(hc, weft__machine_after(hc, 1)), WEFT__WAY_ALONG, from,
                          cell->count, op->what.dtype);
    return weft__far_start(hc, &cell->far);
}

weft_result weft__broadcast_second_near(weft__host_comm *hc, weft__cell *cell)
{
    const weft_op *op = cell->op;
    weft_collective c = op->what;
    c.count = cell->count;
    c.root = op->what.root % hc->per_machine;
    c.recv = weft__recv_at(op, cell->at);
    c.send = hc->rank == op->what.root ? weft__send_at(op, cell->at) : c.recv;
    return weft__near_start(hc, cell, WEFT__NEAR_SECOND, c, 0);
}

/* ------------------------------------------------------------------------------------------- all-to-all */

/* In place, what goes is kept before what comes covers it. */
static bool is_kept(const weft_op *op)
{
    return op->what.send == op->what.recv;
}

static weft_result keep(const weft__host_comm *hc, weft__cell *cell)
{
    const weft_op *op = cell->op;
    size_t m = cell->count, all = m * (size_t)hc->count;
    while (cell->done < all) {
        size_t rank = cell->done / m, at = cell->done % m, n = weft__step(cell, all);
        n = n < m - at ? n : m - at;
        if (weft__machine_of(hc, (int)rank) != hc->machine)
            memcpy(cell->whole + weft__op_bytes(op, cell->done),
                   weft__send_at(op, op->what.count * rank + cell->at + at), weft__op_bytes(op, n));
        cell->done += n;
        if (weft__turn_over(hc) && cell->done < all)
            return WEFT_PENDING;
    }
    return WEFT_OK;
}

/* What stays on this machine is one operation of its own. */
weft_result weft__exchange_enter(weft__host_comm *hc, weft__cell *cell)
{
    const weft_op *op = cell->op;
    weft_result result = is_kept(op) ? keep(hc, cell) : WEFT_OK;
    if (result != WEFT_OK || !cell->first)
        return result;
    size_t own = op->what.count * (size_t)(hc->machine * hc->per_machine);
    weft_collective c = op->what;
    c.send = weft__send_at(op, own);
    c.recv = weft__recv_at(op, own);
    return weft__near_start(hc, cell, WEFT__NEAR_FIRST, c, 0);
}

weft_result weft__exchange_first_far(weft__host_comm *hc, weft__cell *cell)
{
    const weft_op *op = cell->op;
    size_t bytes = weft__op_bytes(op, cell->count);
    weft__open_messages(cell);
    for (int step = 1; step < hc->count; step++) {
        int peer = (hc->rank + step) % hc->count;
        if (weft__machine_of(hc, peer) == hc->machine)
            continue;
        size_t at = op->what.count * (size_t)peer + cell->at;
        const void *from = is_kept(op) ? cell->whole + (size_t)peer * bytes : weft__send_at(op, at);
        weft__add_message(hc, cell, WEFT_SEND, peer, WEFT__WAY_FIRST, from, cell->count, op->what.dtype);
        weft__add_message(hc, cell, WEFT_RECV, peer, WEFT__WAY_FIRST, weft__recv_at(op, at), cell->count,
                          op->what.dtype);
    }
    return weft__far_start(hc, &cell->far);
}

/* ------------------------------------------------------------------------------------------- barrier */

weft_result weft__barrier_enter(weft__host_comm *hc, weft__cell *cell)
{
    return weft__near_start(hc, cell, WEFT__NEAR_FIRST, cell->op->what, 0);
}

weft_result weft__barrier_first_far(weft__host_comm *hc, weft__cell *cell)
{
    weft__open_messages(cell);
    for (int step = 1; step < hc->machines; step++)
        greet(hc, cell, weft__machine_after(hc, step), weft__machine_after(hc, hc->machines - step));
    return weft__far_start(hc, &cell->far);
}
