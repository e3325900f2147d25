/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives: check what is asked, then hand it over. */
#include <weft/collective.h>

#include "base/collectives.h"
#include "base/dtype.h"
#include "base/error.h"
#include "base/sized.h"
#include "start.h"

#define COUNT_SMALL UINT32_MAX /* elements whose bytes on all ranks of any comm can be counted: no need to divide */

/* Bytes of the two buffers on this rank. */
typedef struct extents {
    size_t send, recv;
    bool reads, writes;        /* whether this rank's are used */
    const void *in_place_send; /* where send is if the operation is in place; NULL = no such way */
} extents;

static extents extents_of(const weft_comm *comm, const weft_collective *c)
{
    const weft__collective_row *row = &weft__collectives[c->kind];
    size_t one = c->count * weft__dtype_bytes(c->dtype), mine = (size_t)comm->rank * one;
    const char *recv = c->recv, *send = c->send, *in_place_send = recv;
    if (row->send == WEFT__PART_PER_RANK && row->recv == WEFT__ONE_PART)
        in_place_send = send && recv == send + mine ? send : NULL;
    if (row->send == WEFT__ONE_PART && row->recv == WEFT__PART_PER_RANK)
        in_place_send = recv ? recv + mine : NULL;
    return (extents){.send = one * weft__parts(row->send, comm->size),
                     .recv = one * weft__parts(row->recv, comm->size),
                     .reads = weft__concerns(row->senders, comm->rank, c->root),
                     .writes = weft__concerns(row->receivers, comm->rank, c->root),
                     .in_place_send = in_place_send};
}

static bool overlap(const char *a, size_t a_bytes, const char *b, size_t b_bytes)
{
    return a < b + b_bytes && b < a + a_bytes;
}

static weft_result check_numbers(const weft_comm *comm, const weft_collective *c)
{
    const char *name = comm->name;
    if (!weft__is_collective(c->kind))
        return weft__fail(WEFT_E_INVALID, "comm %s: there is no collective %d", name, (int)c->kind);
    const weft__collective_row *row = &weft__collectives[c->kind];
    const char *what = row->name;
    if (!weft__is_dtype(c->dtype))
        return weft__fail(WEFT_E_INVALID, "comm %s: %s of dtype %d", name, what, (int)c->dtype);
    if (c->flags)
        return weft__fail(WEFT_E_INVALID, "comm %s: %s with unknown flags %#x", name, what, c->flags);
    if (row->reduces && !weft__is_reduction(c->reduction))
        return weft__fail(WEFT_E_INVALID, "comm %s: %s with reduction %d", name, what, (int)c->reduction);
    if (row->reduces && !weft__can_reduce(c->dtype, c->reduction))
        return weft__fail(WEFT_E_INVALID, "comm %s: %s: there is no %s of %s", name, what,
                          weft_reduction_string(c->reduction), weft_dtype_string(c->dtype));
    if (weft__is_rooted(row) && (unsigned)c->root >= (unsigned)comm->size)
        return weft__fail(WEFT_E_RANGE, "comm %s: %s with root %d of %d", name, what, c->root, comm->size);
    if (c->count > COUNT_SMALL && c->count > SIZE_MAX / 16 / (size_t)comm->size / weft__dtype_bytes(c->dtype))
        return weft__fail(WEFT_E_RANGE, "comm %s: %s of %zu elements on %d ranks", name, what, c->count, comm->size);
    return WEFT_OK;
}

static weft_result check_buffers(const weft_comm *comm, const weft_collective *c)
{
    extents e = extents_of(comm, c);
    const char *name = comm->name, *what = weft__collectives[c->kind].name;
    if (c->count == 0)
        return WEFT_OK;
    if (e.reads && e.send && !c->send)
        return weft__fail(WEFT_E_INVALID, "comm %s: %s of %zu elements without a send buffer", name, what, c->count);
    if (e.writes && e.recv && !c->recv)
        return weft__fail(WEFT_E_INVALID, "comm %s: %s of %zu elements without a recv buffer", name, what, c->count);
    size_t element = weft__dtype_bytes(c->dtype);
    uintptr_t off = element - 1; /* sizes are powers of two */
    if ((e.reads && (uintptr_t)c->send & off) || (e.writes && (uintptr_t)c->recv & off))
        return weft__fail(WEFT_E_INVALID, "comm %s: %s: a buffer is not aligned to %s", name, what,
                          weft_dtype_string(c->dtype));
    if (e.reads && e.writes && c->send != e.in_place_send && overlap(c->send, e.send, c->recv, e.recv))
        return weft__fail(WEFT_E_INVALID, "comm %s: %s: the buffers overlap, but not as in place", name, what);
    return WEFT_OK;
}

/* Check, and fill a work. */
static weft_result prepare(weft_comm *comm, const weft_collective *what, weft_stream after, weft__work **work_out)
{
    weft_collective own;
    WEFT_TRY(weft__comm_usable(comm, WEFT_CAP_COLLECTIVE));
    if (!what)
        return weft__fail(WEFT_E_INVALID, "comm %s: no collective", comm->name);
    if (__builtin_expect(what->size != sizeof *what, 0)) { /* a caller of another version */
        own = (weft_collective){0};
        WEFT_TRY(weft__take_sized(&own, sizeof own, what, "weft_collective"));
        what = &own;
    }
    WEFT_TRY(check_numbers(comm, what));
    WEFT_TRY(check_buffers(comm, what));
    if (comm->gpu)
        WEFT_TRY(comm->backend->admit(comm->backend_comm, what));
    WEFT_TRY(weft__start_prepare(comm, after, what->after, work_out));
    weft_op *op = &(*work_out)->op;
    op->is_p2p = 0;
    op->what = *what;
    op->message_count = 0;
    op->label = what->label;
    op->number = ++comm->collectives;
    return WEFT_OK;
}

weft_result weft_collective_start(weft_comm *comm, const weft_collective *what, weft_stream after, weft_work *work_out)
{
    weft__work *work;
    if (!work_out)
        return weft__fail(WEFT_E_INVALID, "a collective is started without a place for its work");
    weft_result result = prepare(comm, what, after, &work);
    *work_out = result == WEFT_OK ? weft__start(work) : WEFT_WORK_NONE;
    return result;
}

weft_result weft_collective_run(weft_comm *comm, const weft_collective *what, weft_stream stream)
{
    weft__work *work;
    WEFT_TRY(prepare(comm, what, stream, &work));
    return weft__run(work);
}

/* ------------------------------------------------------------------------------------------- the common cases */

static weft_collective fill(weft_collective_kind kind, const void *send, void *recv, size_t count, weft_dtype dtype,
                            weft_reduction reduction, int root)
{
    return (weft_collective){.size = sizeof(weft_collective),
                             .kind = kind,
                             .dtype = dtype,
                             .reduction = reduction,
                             .root = root,
                             .send = send,
                             .recv = recv,
                             .count = count};
}

weft_result weft_all_reduce_start(weft_comm *comm, const void *send, void *recv, size_t count, weft_dtype dtype,
                                  weft_reduction reduction, weft_stream after, weft_work *work_out)
{
    weft_collective c = fill(WEFT_ALL_REDUCE, send, recv, count, dtype, reduction, 0);
    return weft_collective_start(comm, &c, after, work_out);
}

weft_result weft_reduce_scatter_start(weft_comm *comm, const void *send, void *recv, size_t count, weft_dtype dtype,
                                      weft_reduction reduction, weft_stream after, weft_work *work_out)
{
    weft_collective c = fill(WEFT_REDUCE_SCATTER, send, recv, count, dtype, reduction, 0);
    return weft_collective_start(comm, &c, after, work_out);
}

weft_result weft_all_gather_start(weft_comm *comm, const void *send, void *recv, size_t count, weft_dtype dtype,
                                  weft_stream after, weft_work *work_out)
{
    weft_collective c = fill(WEFT_ALL_GATHER, send, recv, count, dtype, WEFT_SUM, 0);
    return weft_collective_start(comm, &c, after, work_out);
}

weft_result weft_broadcast_start(weft_comm *comm, const void *send, void *recv, size_t count, weft_dtype dtype,
                                 int root, weft_stream after, weft_work *work_out)
{
    weft_collective c = fill(WEFT_BROADCAST, send, recv, count, dtype, WEFT_SUM, root);
    return weft_collective_start(comm, &c, after, work_out);
}

weft_result weft_reduce_start(weft_comm *comm, const void *send, void *recv, size_t count, weft_dtype dtype,
                              weft_reduction reduction, int root, weft_stream after, weft_work *work_out)
{
    weft_collective c = fill(WEFT_REDUCE, send, recv, count, dtype, reduction, root);
    return weft_collective_start(comm, &c, after, work_out);
}

weft_result weft_all_to_all_start(weft_comm *comm, const void *send, void *recv, size_t count, weft_dtype dtype,
                                  weft_stream after, weft_work *work_out)
{
    weft_collective c = fill(WEFT_ALL_TO_ALL, send, recv, count, dtype, WEFT_SUM, 0);
    return weft_collective_start(comm, &c, after, work_out);
}

weft_result weft_barrier_start(weft_comm *comm, weft_stream after, weft_work *work_out)
{
    weft_collective c = fill(WEFT_BARRIER, NULL, NULL, 0, WEFT_FP32, WEFT_SUM, 0);
    return weft_collective_start(comm, &c, after, work_out);
}

weft_result weft_all_reduce_run(weft_comm *comm, const void *send, void *recv, size_t count, weft_dtype dtype,
                                weft_reduction reduction, weft_stream stream)
{
    weft_collective c = fill(WEFT_ALL_REDUCE, send, recv, count, dtype, reduction, 0);
    return weft_collective_run(comm, &c, stream);
}

weft_result weft_reduce_scatter_run(weft_comm *comm, const void *send, void *recv, size_t count, weft_dtype dtype,
                                    weft_reduction reduction, weft_stream stream)
{
    weft_collective c = fill(WEFT_REDUCE_SCATTER, send, recv, count, dtype, reduction, 0);
    return weft_collective_run(comm, &c, stream);
}

weft_result weft_all_gather_run(weft_comm *comm, const void *send, void *recv, size_t count, weft_dtype dtype,
                                weft_stream stream)
{
    weft_collective c = fill(WEFT_ALL_GATHER, send, recv, count, dtype, WEFT_SUM, 0);
    return weft_collective_run(comm, &c, stream);
}

weft_result weft_broadcast_run(weft_comm *comm, const void *send, void *recv, size_t count, weft_dtype dtype, int root,
                               weft_stream stream)
{
    weft_collective c = fill(WEFT_BROADCAST, send, recv, count, dtype, WEFT_SUM, root);
    return weft_collective_run(comm, &c, stream);
}

weft_result weft_reduce_run(weft_comm *comm, const void *send, void *recv, size_t count, weft_dtype dtype,
                            weft_reduction reduction, int root, weft_stream stream)
{
    weft_collective c = fill(WEFT_REDUCE, send, recv, count, dtype, reduction, root);
    return weft_collective_run(comm, &c, stream);
}

weft_result weft_all_to_all_run(weft_comm *comm, const void *send, void *recv, size_t count, weft_dtype dtype,
                                weft_stream stream)
{
    weft_collective c = fill(WEFT_ALL_TO_ALL, send, recv, count, dtype, WEFT_SUM, 0);
    return weft_collective_run(comm, &c, stream);
}

weft_result weft_barrier_run(weft_comm *comm, weft_stream stream)
{
    weft_collective c = fill(WEFT_BARRIER, NULL, NULL, 0, WEFT_FP32, WEFT_SUM, 0);
    return weft_collective_run(comm, &c, stream);
}
