/* SPDX-License-Identifier: Apache-2.0 */
/** @file  P2p: batches of sends and receives between pairs of ranks.
 *
 *  Messages from one rank to another on one channel arrive in the order in which they were started; channels, peers and
 *  collectives do not hold each other up, so nothing deadlocks because of the order inside a batch. How ranks group
 *  their messages into batches does not matter. A batch may send to its own rank if it holds the receive as well.
 *  A message whose size or tag differs from that of its receive fails the comm with E_MISMATCH, naming both; one to the
 *  rank itself is E_INVALID before anything starts. */
#ifndef WEFT_P2P_H
#define WEFT_P2P_H
#include <weft/comm.h>
#include <weft/dtype.h>
#include <weft/work.h>
WEFT_BEGIN_DECLS

typedef enum weft_p2p_kind { WEFT_SEND = 0, WEFT_RECV = 1 } weft_p2p_kind;

/** What a backend lets go on independently. Messages in one queue run strictly in the order in which a stage starts
 *  them; those of one batch run together. What can be proved for one of these holds for all before it. */
typedef enum weft_queues {
    WEFT_QUEUES_DIRECTION = 0, /**< One queue for each peer, channel and direction. */
    WEFT_QUEUES_PEER = 1,      /**< One for each peer and channel. */
    WEFT_QUEUES_CHANNEL = 2,   /**< One for each channel. */
    WEFT_QUEUES_ONE = 3        /**< A single one. */
} weft_queues;

/** How the backend of this comm queues messages. Threads: any. Blocks: never. */
WEFT_API weft_queues weft_comm_queues(const weft_comm *comm);

/** One message of a batch. */
typedef struct weft_p2p {
    weft_p2p_kind kind;
    int peer;         /**< Rank in the comm. */
    uint32_t channel; /**< Less than the comm's p2p_channels. */
    weft_dtype dtype;
    void *buffer; /**< Borrowed until finish; read only for a send. */
    size_t count; /**< Elements; 0 is a message too. */
    uint64_t tag; /**< Compared, not matched: a message that meets a receive with another tag is E_MISMATCH. 0 = any. */
    uint64_t reserved; /**< 0. */
} weft_p2p;

#define WEFT_P2P_BATCH_MAX 64 /**< Most messages of one batch. */

/** Messages that are started together, as one work. */
typedef struct weft_p2p_batch {
    size_t size;              /**< Set by WEFT_P2P_BATCH_INIT. */
    const weft_p2p *messages; /**< Copied. */
    size_t count;             /**< Of messages, at most WEFT_P2P_BATCH_MAX. */
    weft_work after;          /**< Runs after this work of any comm of the world, too; WEFT_WORK_NONE = at once. */
    uint32_t label;           /**< A name for traces and messages, from weft_trace_label(); 0 = none. */
    uint32_t reserved;        /**< 0. */
} weft_p2p_batch;
#define WEFT_P2P_BATCH_INIT WEFT_SIZED_INIT(weft_p2p_batch)

/** Start a batch. Receives and sends go on together, whatever their order in it.
 *  @param batch  copied.   @param work_out  given, release with weft_work_finish(); WEFT_WORK_NONE on failure.
 *  Threads: one at a time for the comm.  Blocks: never.  Hot.
 *  Errors: E_INVALID (also: a send to this rank without its receive), E_RANGE, E_TWICE (batch->after was finished
 *  before), E_UNSUPPORTED (no p2p on this comm), E_BUSY, and the error of a comm that has failed. */
WEFT_API WEFT_NODISCARD weft_result weft_p2p_start(weft_comm *comm, const weft_p2p_batch *batch, weft_stream after,
                                                   weft_work *work_out);
/** Start and finish in one call.
 *  Threads: one at a time for the comm.  Blocks: peers on the host stream, else never.  Hot.
 *  Errors: those of weft_p2p_start() and weft_work_finish(). */
WEFT_API WEFT_NODISCARD weft_result weft_p2p_run(weft_comm *comm, const weft_p2p_batch *batch, weft_stream stream);

/** A batch of one send on channel 0. Contract as weft_p2p_start(). */
WEFT_API WEFT_NODISCARD weft_result weft_isend(weft_comm *comm, const void *buffer, size_t count, weft_dtype dtype,
                                               int peer, weft_stream after, weft_work *work_out);
/** A batch of one receive on channel 0. Contract as weft_p2p_start(). */
WEFT_API WEFT_NODISCARD weft_result weft_irecv(weft_comm *comm, void *buffer, size_t count, weft_dtype dtype, int peer,
                                               weft_stream after, weft_work *work_out);

WEFT_END_DECLS
#endif
