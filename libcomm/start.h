/* SPDX-License-Identifier: Apache-2.0 */
/* What starting a collective, a p2p batch and an exchange composed of messages share. */
#ifndef WEFT_LIBCOMM_START_H
#define WEFT_LIBCOMM_START_H
#include "comm.h"

/* A slot for an operation that may start now, after work @p before as well if that is not none: the comm is usable, the
 * stream is one it has, a work is free. The caller fills its op, and then starts or runs it. */
weft_result weft__start_prepare(weft_comm *comm, weft_stream after, weft_work before, weft__work **work_out);
/* Start it. */
weft_work weft__start(weft__work *work);
/* Start it and wait for it; how it ended. */
weft_result weft__run(weft__work *work);

/* Has what the work runs after ended? If it failed, so does the work's comm, and *verdict says how. */
bool weft__start_look_before(weft__work *work, weft_result *verdict);
/* It need not wait for that any more. */
void weft__start_forget_before(weft__work *work);
/* Hand it to the backend, messages to this rank itself carried out before. In the seat, or with a backend that is done
 * at once. */
weft_result weft__start_in_backend(weft__work *work);
/* The comm takes p2p messages. */
weft_result weft__p2p_usable(weft_comm *comm);
/* A slot for a batch, as from weft__start_prepare(); the caller writes the messages, which it has checked, and their
 * number to its op. There is room for WEFT_P2P_BATCH_MAX, and for a send and a receive with every member. */
weft_result weft__p2p_prepare(weft_comm *comm, weft_stream after, weft_work before, weft__work **work_out,
                              weft_p2p **messages_out);
/* Carry out the messages of a batch from this rank to itself. */
void weft__p2p_copy_own(const weft_op *op, int self);

#endif
