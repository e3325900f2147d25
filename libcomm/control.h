/* SPDX-License-Identifier: Apache-2.0 */
/* The control channel of a world that spans machines: keeps copies of the boards of ranks whose memory cannot be seen,
 * and tells when a rank has ended. Letters are passed on along a tree of ranks (bootstrap/tree.h), so that none of them
 * writes to many. All ranks have a link to rank 0 as well, which finds out who ends, and takes the place of those in
 * the tree that do; if it ends itself, ranks on other machines are heard of no more. */
#ifndef WEFT_LIBCOMM_CONTROL_H
#define WEFT_LIBCOMM_CONTROL_H
#include "comm.h"

/* Copies take the place of the boards of ranks on other machines. */
weft_result weft__control_open(weft_world *world);
/* The engine's @p epoll_fd is going to tell of what comes: events with `data + link`, for weft__control_hear(). */
void weft__control_watch(weft_world *world, int epoll_fd, uint64_t data);
/* The end of the meeting, once all is agreed on: takes its connected sockets ([rank]; -1 = none) and the array. From
 * now on letters are heard. */
weft_result weft__control_meet(weft_world *world, int *links);
/* The engine: take up what has come by that link, and send what waits. */
void weft__control_hear(weft_world *world, int link);

/* This rank is about to close its world, and says so. It stays for those it passes letters on to, up to the timeout of
 * meeting. */
void weft__control_say_closed(weft_world *world);
/* Once the engine has stopped. */
void weft__control_close(weft_world *world);

/* Can it still be heard what @p rank has to say? */
bool weft__control_hears(const weft_world *world, int rank);
/* A card of this rank has changed: those of @p ranks (NULL = all) that are on other machines get it. Without a control
 * channel nothing is done, as in the next one. Takes no memory unless the network is slow. Any thread. */
void weft__control_tell_card(weft_world *world, weft__card *card, const weft__card_terms *terms, const int *ranks,
                             int count);
/* This rank's board says that it aborts the world. */
void weft__control_tell_abort(weft_world *world);

#endif
