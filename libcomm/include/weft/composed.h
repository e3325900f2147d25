/* SPDX-License-Identifier: Apache-2.0 */
/** @file  Exchanges composed of messages: gather, scatter and all_to_allv. Each is one p2p batch, so what holds for
 *         messages holds here.
 *
 *  With n ranks; counts and offsets are elements:
 *
 *      operation     send holds                  recv holds                  in place when
 *      gather        count                       n * count (root)            send == recv + root * count (on the root)
 *      scatter       n * count (root)            count                       recv == send + root * count (on the root)
 *      all_to_allv   a part for each rank        a part from each rank       never
 *
 *  Other overlaps of send and recv are E_INVALID. A pointer that is not read or written on this rank may be NULL, and
 *  any pointer may be NULL if no element of it is. Of all_to_allv the lengths from the lowest to the highest element of
 *  either buffer count as used, gaps between the parts included; they are left alone all the same.
 *
 *  The messages travel on channel 0, in the order in which they are started among other messages of the same two ranks;
 *  collectives neither wait for them nor hold them up. So a rank that sends ends when its part is taken, whether or not
 *  others have come, and parts of zero elements are messages too. A part whose size differs from what its receiver
 *  expects, and one that meets another exchange or a message with a tag, fail the comm with E_MISMATCH, naming both;
 *  ranks that differ in the root wait for each other until the deadline. */
#ifndef WEFT_COMPOSED_H
#define WEFT_COMPOSED_H
#include <weft/comm.h>
#include <weft/dtype.h>
#include <weft/work.h>
WEFT_BEGIN_DECLS

/** recv[r * count + i] = send[i] of rank r, on the root; recv is written there only.
 *  @param work_out  given, release with weft_work_finish(); the buffers are borrowed until then. WEFT_WORK_NONE on
 *                   failure.
 *  Threads: one at a time for the comm.  Blocks: never.  Hot.  Collective.
 *  Errors: E_INVALID, E_RANGE, E_UNSUPPORTED (no p2p on this comm), E_BUSY, and the error of a comm that has failed. */
WEFT_API WEFT_NODISCARD weft_result weft_gather_start(weft_comm *comm, const void *send, void *recv, size_t count,
                                                      weft_dtype dtype, int root, weft_stream after,
                                                      weft_work *work_out);
/** recv[i] = send[rank * count + i] of the root; send is read there only. Contract as weft_gather_start(). */
WEFT_API WEFT_NODISCARD weft_result weft_scatter_start(weft_comm *comm, const void *send, void *recv, size_t count,
                                                       weft_dtype dtype, int root, weft_stream after,
                                                       weft_work *work_out);
/** recv[recv_offsets[r] + i] = send[send_offsets[rank] + i] of rank r, for i < recv_counts[r] = send_counts[rank] of
 *  rank r. Parts that are received must be apart; parts that are sent need not.
 *  @param send_counts, recv_counts    borrowed until return: elements for, or from, each rank.
 *  @param send_offsets, recv_offsets  borrowed until return: where the parts begin; NULL = side by side, in rank order.
 *  Contract as weft_gather_start(). */
WEFT_API WEFT_NODISCARD weft_result weft_all_to_allv_start(weft_comm *comm, const void *send, const size_t *send_counts,
                                                           const size_t *send_offsets, void *recv,
                                                           const size_t *recv_counts, const size_t *recv_offsets,
                                                           weft_dtype dtype, weft_stream after, weft_work *work_out);

/** weft_gather_start(), finished, on one stream.
 *  Threads: one at a time for the comm.  Blocks: peers on the host stream, else never.  Hot.  Collective.
 *  Errors: those of the start and of weft_work_finish(). */
WEFT_API WEFT_NODISCARD weft_result weft_gather_run(weft_comm *comm, const void *send, void *recv, size_t count,
                                                    weft_dtype dtype, int root, weft_stream stream);
/** weft_scatter_start(), finished. Contract as weft_gather_run(). */
WEFT_API WEFT_NODISCARD weft_result weft_scatter_run(weft_comm *comm, const void *send, void *recv, size_t count,
                                                     weft_dtype dtype, int root, weft_stream stream);
/** weft_all_to_allv_start(), finished. Contract as weft_gather_run(). */
WEFT_API WEFT_NODISCARD weft_result weft_all_to_allv_run(weft_comm *comm, const void *send, const size_t *send_counts,
                                                         const size_t *send_offsets, void *recv,
                                                         const size_t *recv_counts, const size_t *recv_offsets,
                                                         weft_dtype dtype, weft_stream stream);

WEFT_END_DECLS
#endif
