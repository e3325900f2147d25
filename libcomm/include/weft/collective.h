/* SPDX-License-Identifier: Apache-2.0 */
/** @file  Collectives: operations in which all ranks of a comm take part. `start` returns at once, and
 *         weft_work_finish() ends what was started; `run` is both in one call.
 *
 *  Counts are elements, as in NCCL. With n ranks and @p count elements:
 *
 *      operation        send holds      recv holds      in place when
 *      all_reduce       count           count           send == recv
 *      reduce_scatter   n * count       count           recv == send + rank * count
 *      all_gather       count           n * count       send == recv + rank * count
 *      broadcast        count (root)    count           send == recv
 *      reduce           count           count (root)    send == recv
 *      all_to_all       n * count       n * count       send == recv
 *
 *  Other overlaps of send and recv are E_INVALID. A pointer that is not read or written on this rank may be NULL, and
 *  any pointer may be NULL if count is 0. An operation of zero elements is a full one: it keeps its place in the
 *  order and is compared between ranks.
 *
 *  Before a byte is used the ranks compare what they ask for: operation, count, type, reduction, root. If they differ
 *  the comm fails with E_MISMATCH on every rank that waits, naming two ranks and what each asked. Backends that pay for
 *  that with messages (`mpi`, `nccl`) compare the first 32 operations of a comm, and all if WEFT_CHECK is set on one of
 *  its ranks; later ones when they have not ended after a second, which finds those that can never end. A rank that
 *  needs nothing from another, as the root of a small broadcast, may be done before it is told; then its next operation
 *  is.
 *
 *  The same inputs on the same ranks give the same bits on backends that say so (`local` does): sums are made in rank
 *  order, in fp32 for 16-bit types, whatever the size, the timing or the memory. */
#ifndef WEFT_COLLECTIVE_H
#define WEFT_COLLECTIVE_H
#include <weft/comm.h>
#include <weft/dtype.h>
#include <weft/work.h>
WEFT_BEGIN_DECLS

typedef enum weft_collective_kind {
    WEFT_ALL_REDUCE = 0,
    WEFT_REDUCE_SCATTER = 1,
    WEFT_ALL_GATHER = 2,
    WEFT_BROADCAST = 3,
    WEFT_REDUCE = 4,
    WEFT_ALL_TO_ALL = 5,
    WEFT_BARRIER = 6
} weft_collective_kind;
#define WEFT_COLLECTIVE_KINDS 7 /**< How many there are. */

/** "all_reduce", "reduce_scatter", ...; "?" for what is none. Static text. Threads: any. Blocks: never. */
WEFT_API const char *weft_collective_string(weft_collective_kind kind);

/** One collective, in full. The functions below fill this for the common cases. */
typedef struct weft_collective {
    size_t size; /**< Set by WEFT_COLLECTIVE_INIT. */
    weft_collective_kind kind;
    weft_dtype dtype;
    weft_reduction reduction; /**< all_reduce, reduce_scatter, reduce. */
    int root;                 /**< broadcast, reduce: rank in the comm. */
    const void *send;         /**< Borrowed until finish. */
    void *recv;               /**< Borrowed until finish. */
    size_t count;
    weft_work after; /**< Run after this work too, of any comm of this world; if it failed (on a GPU: before this
                          start), so does this. */
    uint32_t label;  /**< A name for traces and messages, from weft_trace_label(); 0 = none. */
    uint32_t flags;  /**< 0. */
} weft_collective;
#define WEFT_COLLECTIVE_INIT WEFT_SIZED_INIT(weft_collective)

/** Start @p what after everything queued on @p after (on the host: now). The buffers are weft's until the work is
 *  finished.
 *  @param what  copied.   @param work_out  given, release with weft_work_finish(); WEFT_WORK_NONE on failure.
 *  Threads: one at a time for the comm.  Blocks: never.  Hot.  Collective.
 *  Errors: E_INVALID, E_RANGE, E_UNSUPPORTED, E_TWICE (what->after is stale), E_BUSY (as many works in flight as the
 *  comm has: finish one first), and the error of a comm that has failed. */
WEFT_API WEFT_NODISCARD weft_result weft_collective_start(weft_comm *comm, const weft_collective *what,
                                                          weft_stream after, weft_work *work_out);
/** Start and finish in one call, on one stream: the fast path for what is waited for at once.
 *  Threads: one at a time for the comm.  Blocks: peers on the host stream, else never.  Hot.  Collective.
 *  Errors: those of weft_collective_start() and weft_work_finish(). */
WEFT_API WEFT_NODISCARD weft_result weft_collective_run(weft_comm *comm, const weft_collective *what,
                                                        weft_stream stream);

/* The common cases; shapes as in the table. */

/** recv[i] = reduction over ranks of send[i], on every rank. Contract as weft_collective_start(). */
WEFT_API WEFT_NODISCARD weft_result weft_all_reduce_start(weft_comm *comm, const void *send, void *recv, size_t count,
                                                          weft_dtype dtype, weft_reduction reduction, weft_stream after,
                                                          weft_work *work_out);
/** recv[i] = reduction over ranks of send[rank * count + i]. Contract as weft_collective_start(). */
WEFT_API WEFT_NODISCARD weft_result weft_reduce_scatter_start(weft_comm *comm, const void *send, void *recv,
                                                              size_t count, weft_dtype dtype, weft_reduction reduction,
                                                              weft_stream after, weft_work *work_out);
/** recv[r * count + i] = send[i] of rank r. Contract as weft_collective_start(). */
WEFT_API WEFT_NODISCARD weft_result weft_all_gather_start(weft_comm *comm, const void *send, void *recv, size_t count,
                                                          weft_dtype dtype, weft_stream after, weft_work *work_out);
/** recv[i] = send[i] of the root; send is read on the root only. Contract as weft_collective_start(). */
WEFT_API WEFT_NODISCARD weft_result weft_broadcast_start(weft_comm *comm, const void *send, void *recv, size_t count,
                                                         weft_dtype dtype, int root, weft_stream after,
                                                         weft_work *work_out);
/** recv[i] = reduction over ranks of send[i], on the root; recv is written there only.
 *  Contract as weft_collective_start(). */
WEFT_API WEFT_NODISCARD weft_result weft_reduce_start(weft_comm *comm, const void *send, void *recv, size_t count,
                                                      weft_dtype dtype, weft_reduction reduction, int root,
                                                      weft_stream after, weft_work *work_out);
/** recv[r * count + i] = send[rank * count + i] of rank r. Contract as weft_collective_start(). */
WEFT_API WEFT_NODISCARD weft_result weft_all_to_all_start(weft_comm *comm, const void *send, void *recv, size_t count,
                                                          weft_dtype dtype, weft_stream after, weft_work *work_out);
/** Ends on no rank before it has been started on all. Contract as weft_collective_start(). */
WEFT_API WEFT_NODISCARD weft_result weft_barrier_start(weft_comm *comm, weft_stream after, weft_work *work_out);

/** weft_all_reduce_start(), finished. Contract as weft_collective_run(). */
WEFT_API WEFT_NODISCARD weft_result weft_all_reduce_run(weft_comm *comm, const void *send, void *recv, size_t count,
                                                        weft_dtype dtype, weft_reduction reduction, weft_stream stream);
/** weft_reduce_scatter_start(), finished. Contract as weft_collective_run(). */
WEFT_API WEFT_NODISCARD weft_result weft_reduce_scatter_run(weft_comm *comm, const void *send, void *recv, size_t count,
                                                            weft_dtype dtype, weft_reduction reduction,
                                                            weft_stream stream);
/** weft_all_gather_start(), finished. Contract as weft_collective_run(). */
WEFT_API WEFT_NODISCARD weft_result weft_all_gather_run(weft_comm *comm, const void *send, void *recv, size_t count,
                                                        weft_dtype dtype, weft_stream stream);
/** weft_broadcast_start(), finished. Contract as weft_collective_run(). */
WEFT_API WEFT_NODISCARD weft_result weft_broadcast_run(weft_comm *comm, const void *send, void *recv, size_t count,
                                                       weft_dtype dtype, int root, weft_stream stream);
/** weft_reduce_start(), finished. Contract as weft_collective_run(). */
WEFT_API WEFT_NODISCARD weft_result weft_reduce_run(weft_comm *comm, const void *send, void *recv, size_t count,
                                                    weft_dtype dtype, weft_reduction reduction, int root,
                                                    weft_stream stream);
/** weft_all_to_all_start(), finished. Contract as weft_collective_run(). */
WEFT_API WEFT_NODISCARD weft_result weft_all_to_all_run(weft_comm *comm, const void *send, void *recv, size_t count,
                                                        weft_dtype dtype, weft_stream stream);
/** weft_barrier_start(), finished. Contract as weft_collective_run(). */
WEFT_API WEFT_NODISCARD weft_result weft_barrier_run(weft_comm *comm, weft_stream stream);

WEFT_END_DECLS
#endif
