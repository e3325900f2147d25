/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives: the head of a comm is compared if it is one of the first, then moved, a piece at a time. */
#include <string.h>

#include "backend/mpi/module.h"

enum { PIECE_LARGEST = 1 << 30 }; /* elements that MPI can count */

static bool is_sum(weft_collective_kind kind)
{
    return kind == WEFT_ALL_REDUCE || kind == WEFT_REDUCE_SCATTER || kind == WEFT_REDUCE;
}

/* ------------------------------------------------------------------------------------------- comparing */

static bool compare(weft__mpi_comm *mc)
{
    char theirs[96], mine[96];
    for (int m = 0; m < mc->count; m++) {
        if (memcmp(&mc->asked[m], &mc->own_asked, sizeof *mc->asked) == 0)
            continue;
        weft_backend_tell_asked(&mc->asked[m], theirs, sizeof theirs);
        weft_backend_tell_asked(&mc->own_asked, mine, sizeof mine);
        weft__mpi_fail(mc, WEFT_E_MISMATCH, "comm %s, operation %llu: rank %d asks for %s, rank %d for %s", mc->name,
                       (unsigned long long)mc->head->number, mc->ranks[m], theirs, mc->ranks[mc->rank], mine);
        return false;
    }
    return true;
}

/* ------------------------------------------------------------------------------------------- moving */

_Static_assert(WEFT_COLLECTIVE_KINDS == WEFT_BARRIER + 1, "each kind has a branch; the barrier is the last");

static void launch_move(weft__mpi_comm *mc, const weft_collective *c)
{
    size_t one = c->count * weft_dtype_bytes(c->dtype);
    bool in_place =
        c->kind == WEFT_ALL_GATHER ? c->send == (char *)c->recv + (size_t)mc->rank * one : c->send == c->recv;
    const void *send = in_place ? MPI_IN_PLACE : c->send;
    weft__mpi_bytes part = weft__mpi_bytes_of(one);
    MPI_Comm on = mc->handle;
    if (c->kind == WEFT_BROADCAST && mc->rank == c->root && c->recv != c->send && one)
        memcpy(c->recv, c->send, one);
    if (c->kind == WEFT_BROADCAST)
        weft__mpi_well(mc, MPI_Ibcast(c->recv, part.count, part.type, c->root, on, &mc->request), "MPI_Ibcast");
    else if (c->kind == WEFT_ALL_GATHER)
        weft__mpi_well(mc,
                       MPI_Iallgather(send, part.count, part.type, c->recv, part.count, part.type, on, &mc->request),
                       "MPI_Iallgather");
    else if (c->kind == WEFT_ALL_TO_ALL)
        weft__mpi_well(mc, MPI_Ialltoall(send, part.count, part.type, c->recv, part.count, part.type, on, &mc->request),
                       "MPI_Ialltoall");
    else
        weft__mpi_well(mc, MPI_Ibarrier(on, &mc->request), "MPI_Ibarrier");
    weft__mpi_bytes_free(&part);
    mc->piece = c->count;
    mc->is_direct = c->kind != WEFT_BARRIER && one;
}

/* ------------------------------------------------------------------------------------------- adding up */

/* Where the piece of part @p part begins. */
static char *piece_of(const weft__mpi_comm *mc, const weft_collective *c, const void *buffer, int part)
{
    size_t at = (size_t)part * c->count + mc->done;
    return buffer ? (char *)(uintptr_t)buffer + at * weft_dtype_bytes(c->dtype) : NULL;
}

static bool is_staged(const weft__mpi_comm *mc, const weft_collective *c, const weft__mpi_sum *sum)
{
    if (sum->is_wide)
        return true;
    return c->kind == WEFT_REDUCE_SCATTER &&
           (c->recv == piece_of(mc, c, c->send, mc->rank) || c->count > PIECE_LARGEST);
}

static int parts_of(const weft__mpi_comm *mc, const weft_collective *c)
{
    return c->kind == WEFT_REDUCE_SCATTER ? mc->count : 1;
}

/* The piece of every part of the input, side by side. */
static void pack(weft__mpi_comm *mc, const weft_collective *c, const weft__mpi_sum *sum)
{
    size_t element = sum->is_wide ? sizeof(float) : weft_dtype_bytes(c->dtype);
    for (int part = 0; part < parts_of(mc, c); part++) {
        unsigned char *to = mc->staging + (size_t)part * mc->piece * element;
        const char *from = piece_of(mc, c, c->send, part);
        if (sum->is_wide)
            weft__mpi_widen(from, c->dtype, (float *)(void *)to, mc->piece);
        else
            memcpy(to, from, mc->piece * element);
    }
}

static void launch_sum(weft__mpi_comm *mc, const weft_collective *c)
{
    weft__mpi_sum sum = weft__mpi_sum_of(c->dtype, c->reduction);
    size_t left = c->count - mc->done, most = PIECE_LARGEST;
    bool staged = mc->done ? !mc->is_direct : is_staged(mc, c, &sum);
    if (staged)
        most = WEFT__MPI_STAGED / (size_t)parts_of(mc, c) > 1024 ? WEFT__MPI_STAGED / (size_t)parts_of(mc, c) : 1024;
    mc->piece = left < most ? left : most;
    mc->is_direct = !staged;
    if (staged)
        pack(mc, c, &sum);
    bool root = c->kind != WEFT_REDUCE || mc->rank == c->root;
    void *to = staged ? mc->staging : (void *)piece_of(mc, c, c->recv, 0);
    const void *from = staged ? mc->staging : (void *)piece_of(mc, c, c->send, 0);
    const void *send = root && from == to ? MPI_IN_PLACE : from;
    int count = (int)mc->piece;
    if (c->kind == WEFT_ALL_REDUCE)
        weft__mpi_well(mc, MPI_Iallreduce(send, to, count, sum.type, sum.op, mc->handle, &mc->request),
                       "MPI_Iallreduce");
    else if (c->kind == WEFT_REDUCE_SCATTER)
        weft__mpi_well(mc, MPI_Ireduce_scatter_block(send, to, count, sum.type, sum.op, mc->handle, &mc->request),
                       "MPI_Ireduce_scatter_block");
    else
        weft__mpi_well(mc,
                       MPI_Ireduce(send, root ? to : NULL, count, sum.type, sum.op, c->root, mc->handle, &mc->request),
                       "MPI_Ireduce");
}

/* A piece has been added up. */
static void unpack(weft__mpi_comm *mc, const weft_collective *c)
{
    weft__mpi_sum sum = weft__mpi_sum_of(c->dtype, c->reduction);
    int divisor = c->reduction == WEFT_AVERAGE ? mc->count : 1;
    char *to = piece_of(mc, c, c->recv, 0);
    if ((c->kind == WEFT_REDUCE && mc->rank != c->root) || !mc->piece)
        return;
    if (sum.is_wide)
        weft__mpi_narrow((const float *)(const void *)mc->staging, (float)divisor, to, c->dtype, mc->piece);
    else if (!mc->is_direct)
        memcpy(to, mc->staging, mc->piece * weft_dtype_bytes(c->dtype));
    if (!sum.is_wide && divisor > 1)
        weft__mpi_divide(to, c->dtype, mc->piece, divisor);
}

/* ------------------------------------------------------------------------------------------- the head */

void weft__mpi_collective_end(weft__mpi_comm *mc, weft_result result)
{
    weft_op *op = mc->head;
    mc->head = op->next;
    if (!mc->head)
        mc->tail = &mc->head;
    mc->phase = WEFT__MPI_BEGIN;
    mc->last_number = op->number;
    mc->mpi->busy--;
    weft_backend_done(op, result);
}

static bool has_come(weft__mpi_comm *mc)
{
    int flag = 0;
    return weft__mpi_well(mc, MPI_Test(&mc->request, &flag, MPI_STATUS_IGNORE), "MPI_Test") && flag;
}

static void begin(weft__mpi_comm *mc)
{
    weft_op *op = mc->head;
    mc->done = 0;
    mc->is_direct = false;
    mc->phase = WEFT__MPI_PIECE;
    if (op->number > WEFT__MPI_COMPARED && !mc->check)
        return;
    mc->own_asked = weft_backend_asked(&op->what);
    weft__mpi_well(mc,
                   MPI_Iallgather(&mc->own_asked, (int)sizeof mc->own_asked, MPI_BYTE, mc->asked,
                                  (int)sizeof mc->own_asked, MPI_BYTE, mc->handle, &mc->request),
                   "MPI_Iallgather");
    mc->phase = WEFT__MPI_COMPARE;
}

static void launch(weft__mpi_comm *mc)
{
    const weft_collective *c = &mc->head->what;
    if (!mc->head->first)
        mc->head->first = weft_trace_now(mc->mpi->world);
    if (is_sum(c->kind))
        launch_sum(mc, c);
    else
        launch_move(mc, c);
    mc->phase = WEFT__MPI_MOVE;
}

static void go_on(weft__mpi_comm *mc)
{
    const weft_collective *c = &mc->head->what;
    if (is_sum(c->kind))
        unpack(mc, c);
    mc->done += mc->piece;
    mc->phase = WEFT__MPI_PIECE;
    if (mc->done == c->count)
        weft__mpi_collective_end(mc, WEFT_OK);
}

/* Take the head one phase on, if it can be. */
static bool advance(weft__mpi_comm *mc)
{
    switch (mc->phase) {
    case WEFT__MPI_BEGIN:
        begin(mc);
        return true;
    case WEFT__MPI_COMPARE:
        if (!has_come(mc) || !compare(mc))
            return false;
        mc->phase = WEFT__MPI_PIECE;
        return true;
    case WEFT__MPI_PIECE:
        launch(mc);
        return true;
    case WEFT__MPI_MOVE:
        if (!has_come(mc))
            return false;
        go_on(mc);
        return true;
    }
    return false;
}

unsigned weft__mpi_collectives(weft__mpi_comm *mc)
{
    enum { STEPS = 16 };
    unsigned answer = 0;
    for (int step = 0; step < STEPS && mc->head && !mc->failed && advance(mc); step++)
        answer = WEFT_PROGRESS_MOVED;
    return answer;
}

weft_result weft__mpi_collective_start(weft__mpi_comm *mc, weft_op *op)
{
    op->next = NULL;
    *mc->tail = op;
    mc->tail = &op->next;
    mc->mpi->busy++;
    return WEFT_OK;
}
