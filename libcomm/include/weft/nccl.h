/* SPDX-License-Identifier: Apache-2.0 */
/** @file  NCCL's communicators and weft's comms. Not part of weft.h: it includes NCCL's own header.
 *
 *  A comm of GPUs (weft_comm_config.device) that has the backend "nccl" runs its collectives on one communicator of
 *  NCCL, and its messages on another, each on a stream of weft's own. The one of the collectives can be the program's,
 *  or be lent to it. NCCL lets one thread at a time use a communicator, and runs what is queued on it in the order of
 *  the calls, which must be the same on all ranks. So whoever uses the communicator of a comm besides weft
 *  - does that from the thread that starts the comm's operations, or while that starts none,
 *  - at the same place among the comm's collectives on every rank,
 *  - and orders its streams itself: weft_work_finish() and a start's stream are about weft's operations alone. */
#ifndef WEFT_NCCL_H
#define WEFT_NCCL_H
#include <nccl.h>
#include <weft/backend.h>
WEFT_BEGIN_DECLS

/** Make a comm whose collectives run on @p communicator. Its members are those of the communicator, in that order; its
 *  messages, if it has channels, get a communicator of weft's own.
 *  @param ranks   copied, as of weft_comm_create(): the world rank of each rank of the communicator; NULL with a count
 *                 of 0: those of the world, in order.
 *  @param config  copied, NULL = defaults; its device, backend and native are set here.
 *  @param communicator  borrowed until the comm is destroyed, which leaves it as it is. If the comm fails it is taken:
 *                 weft aborts it, which is the only way to end what waits in it, and frees it.
 *  @param comm_out  given, release with weft_comm_destroy() before ncclCommDestroy().
 *  Threads: setup.  Blocks: peers.  Collective.
 *  Errors: those of weft_comm_create(); E_INVALID (no communicator, or this rank's number, how many ranks there are, or
 *  its GPU differ from what weft has), E_MISMATCH (a member gives none). */
WEFT_NODISCARD static inline weft_result weft_nccl_adopt(weft_world *world, const char *name, const int *ranks,
                                                         int count, const weft_comm_config *config,
                                                         ncclComm_t communicator, weft_comm **comm_out)
{
    weft_comm_config own = WEFT_COMM_CONFIG_INIT;
    weft_comm_config c = config ? *config : own;
    c.backend = "nccl";
    c.device = WEFT_DEVICE_CUDA;
    c.native = (void *)communicator;
    if (comm_out)
        *comm_out = NULL;
    if (!communicator)
        return weft_backend_error(WEFT_E_INVALID, "comm %s: there is no communicator to adopt", name ? name : "");
    return weft_comm_create(world, name, ranks, count, &c, comm_out);
}

/** The communicator that the collectives of @p comm run on, for what weft does not do.
 *  @param communicator_out  borrowed until the comm fails or is destroyed; not to be aborted, finalized or destroyed.
 *  Threads: one at a time for the comm.  Blocks: local.
 *  Errors: E_INVALID, E_STATE (it is not made yet), E_UNSUPPORTED (its backend is another), and how it failed. */
WEFT_NODISCARD static inline weft_result weft_nccl_native(weft_comm *comm, ncclComm_t *communicator_out)
{
    void *native = NULL;
    weft_result result = weft_comm_native(comm, communicator_out ? &native : NULL);
    if (result == WEFT_OK)
        *communicator_out = (ncclComm_t)native;
    return result;
}

WEFT_END_DECLS
#endif
