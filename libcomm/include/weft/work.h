/* SPDX-License-Identifier: Apache-2.0 */
/** @file  Works: operations that have been started. Each is started once and finished once; in between its buffers
 *         belong to weft, and the caller computes. */
#ifndef WEFT_WORK_H
#define WEFT_WORK_H
#include <weft/result.h>
#include <weft/stream.h>
WEFT_BEGIN_DECLS

/** One started operation. A value, not a pointer: copying it copies the name, not the operation. Zero is no work.
 *  A work that was finished, or whose comm is gone, is stale: using it is E_TWICE and touches nothing, as long as the
 *  world it came from is open. A start that fails leaves WEFT_WORK_NONE, whatever was there: to use that is
 *  E_INVALID. */
typedef struct weft_work {
    uint64_t value;
} weft_work;

#ifdef __cplusplus
#define WEFT_WORK_NONE (weft_work{0})
#else
#define WEFT_WORK_NONE ((weft_work){0})
#endif

/** Has @p work ended? Moves it along if nobody else does. WEFT_PENDING while it runs, WEFT_OK once it has ended,
 *  whether well or not; it must still be finished. With more ranks than cores, others may run before it answers
 *  WEFT_PENDING.
 *  Threads: any.  Blocks: never.  Hot.  Errors: E_INVALID, E_TWICE. */
WEFT_API WEFT_NODISCARD weft_result weft_work_test(weft_work work);

/** Make what is queued next on @p stream run after @p work; may be called any number of times before the one finish. On
 *  the host stream it blocks until the work has ended, and does not say how: that is told by weft_work_finish().
 *  Threads: any.  Blocks: peers on the host stream, else never.  Hot.
 *  Errors: E_INVALID, E_TWICE, E_UNSUPPORTED (no such stream on this comm). */
WEFT_API WEFT_NODISCARD weft_result weft_work_order(weft_work work, weft_stream stream);

/** Make what is queued next on @p before run after @p work, and give the work up. On the host stream it blocks until
 *  the work has ended, moving it along meanwhile, and returns how it ended; on a device stream it returns at once and
 *  late failures are seen by weft_world_check(). From here the buffers are the caller's again. If the work failed
 *  they hold undefined bytes, and its comm has failed with it; after E_STUCK a rank may still write into them.
 *  Threads: any, one finish per work.  Blocks: peers on the host stream, else never.  Hot.
 *  Errors: E_INVALID, E_TWICE, E_UNSUPPORTED, and what the operation ended with: E_PEER_LOST, E_MISMATCH, E_TIMEOUT,
 *  E_ABORTED, E_STUCK, E_NO_MEMORY, E_SYSTEM (details: weft_last_error(), weft_comm_error()). */
WEFT_API WEFT_NODISCARD weft_result weft_work_finish(weft_work work, weft_stream before);

WEFT_END_DECLS
#endif
