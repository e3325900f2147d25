/* SPDX-License-Identifier: Apache-2.0 */
/* What the plans of collectives share: sizes and places of a cell's parts, and its messages. Staging of a cell, n
 * ranks, m elements in a piece, sums of 16-bit types being fp32:
 *   whole   [n][m]         at first what `local` reads, where the caller's buffer will not do: 16-bit types as fp32,
 *                          ends padded with zeros; at last what it writes, where the caller's buffer is too short
 *   column  [machines][m]  sums over this machine, for each machine; then the results of this rank's index, rounded
 *   heard   [machines][m]  the other machines' sums */
#ifndef WEFT_HOST_PART_H
#define WEFT_HOST_PART_H
#include <string.h>

#include "backend/host/host.h"
#include "base/clock.h"
#include "base/error.h"

#define WEFT__ALIGN_ELEMENTS 16
#define WEFT__STEP_BYTES     ((size_t)32 << 10) /* of work between two looks at the clock */

/* ------------------------------------------------------------------------------------------- sizes */

/* Sums are kept in this type. */
static inline weft_dtype weft__sum_type(const weft_op *op)
{
    return weft__dtype_bytes(op->what.dtype) == 2 ? WEFT_FP32 : op->what.dtype;
}

static inline bool weft__is_widened(const weft_op *op)
{
    return weft__sum_type(op) != op->what.dtype;
}

static inline size_t weft__sum_bytes(const weft_op *op, size_t elements)
{
    return elements * weft__dtype_bytes(weft__sum_type(op));
}

static inline size_t weft__op_bytes(const weft_op *op, size_t elements)
{
    return elements * weft__dtype_bytes(op->what.dtype);
}

static inline const unsigned char *weft__send_at(const weft_op *op, size_t element)
{
    return op->what.send ? (const unsigned char *)op->what.send + weft__op_bytes(op, element) : NULL;
}

static inline unsigned char *weft__recv_at(const weft_op *op, size_t element)
{
    return op->what.recv ? (unsigned char *)op->what.recv + weft__op_bytes(op, element) : NULL;
}

/* ------------------------------------------------------------------------------------------- ranks */

static inline int weft__rank_on(const weft__host_comm *hc, int machine)
{
    return machine * hc->per_machine + hc->index;
}

static inline int weft__machine_of(const weft__host_comm *hc, int rank)
{
    return rank / hc->per_machine;
}

/* The others in turn, this rank's machine last. */
static inline int weft__machine_after(const weft__host_comm *hc, int step)
{
    return (hc->machine + step) % hc->machines;
}

static inline bool weft__receives(const weft__host_comm *hc, const weft_op *op)
{
    return weft__concerns(weft__collectives[op->what.kind].receivers, hc->rank, op->what.root);
}

/* ------------------------------------------------------------------------------------------- work in parts */

static inline bool weft__turn_over(const weft__host_comm *hc)
{
    return weft__ticks() >= hc->host->turn_end;
}

/* Elements of the next step of a cell's work, out of @p all. */
static inline size_t weft__step(const weft__cell *cell, size_t all)
{
    size_t most = WEFT__STEP_BYTES / weft__dtype_bytes(weft__sum_type(cell->op)), left = all - cell->done;
    return left < most ? left : most;
}

/* ------------------------------------------------------------------------------------------- messages */

static inline void weft__open_messages(weft__cell *cell)
{
    weft__inner_prepare(&cell->far, cell->op, (weft_collective){.kind = 0});
    cell->far.op.is_p2p = 1;
    cell->far.op.messages = cell->messages;
    cell->far.op.message_count = 0;
}

/* Members must mean the same: machines compare it by the tags. */
static inline void weft__add_message(const weft__host_comm *hc, weft__cell *cell, weft_p2p_kind kind, int peer,
                                     weft__way way, const void *buffer, size_t count, weft_dtype dtype)
{
    cell->messages[cell->far.op.message_count++] =
        (weft_p2p){.kind = kind,
                   .peer = peer,
                   .channel = hc->channels + (uint32_t)way,
                   .dtype = dtype,
                   .buffer = (void *)(uintptr_t)buffer,
                   .count = count,
                   .tag = weft__collective_mark(&cell->op->what, cell->op->number)};
}

/* sum.c, for reduce-scatter too */

/* What the sums of this machine are made of: no average yet. */
weft_collective weft__inner_sum(const weft_op *op, weft_collective_kind kind, size_t count);
/* Send piece @p g of the column to each machine g, and hear this one's from it; @p apart: bytes between pieces that
 * go. */
weft_result weft__exchange_sums(weft__host_comm *hc, weft__cell *cell, size_t count, size_t apart);
/* The sum over the machines of @p count elements goes to @p to, in parts; @p own: this machine's. */
weft_result weft__combine(weft__host_comm *hc, weft__cell *cell, unsigned char *to, const unsigned char *own,
                          size_t count);

#endif
