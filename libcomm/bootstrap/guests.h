/* SPDX-License-Identifier: Apache-2.0 */
/* Those who have connected to rank 0 and have not come in yet. Strangers cannot fill the table, slow ones hold nobody
 * up: they have a few seconds, and the oldest makes room for the next. */
#ifndef WEFT_BOOTSTRAP_GUESTS_H
#define WEFT_BOOTSTRAP_GUESTS_H
#include <stdbool.h>
#include <weft/result.h>

#include "bootstrap/hello.h"

typedef struct weft__guest {
    int fd;
    uint64_t since_ns;
    size_t heard;
    weft__hello hello;
    bool known; /* has said hello with the key of this job, and was welcomed */
} weft__guest;

typedef struct weft__guests {
    weft__guest *all;
    int count, room;
    uint64_t key;
    unsigned came; /* how many have ever had a seat, */
    int others;    /* and how many of other jobs were turned away */
    int epoll_fd;  /* who is sent away is taken from it; -1 = from none */
} weft__guests;

/* With room for @p known guests of this job, and some strangers. */
weft_result weft__guests_open(weft__guests *guests, uint64_t key, int known);
void weft__guests_close(weft__guests *guests);
/* Let in who waits at @p listener. E_SYSTEM: no descriptors are left, strangers or not. */
weft_result weft__guests_accept(weft__guests *guests, int listener);
/* Read on from guest @p index: WEFT_PENDING: not all said yet. WEFT_OK: comes in; its descriptor and hello are
 * the caller's: *in_out. WEFT_AGAIN: gone. Whoever is gone or in has left the table; the last guest has its place. */
weft_result weft__guests_hear(weft__guests *guests, int index, weft__guest *in_out);
/* Send those away who take too long. Returns when the next one will have, 0 = none. */
uint64_t weft__guests_tire(weft__guests *guests, uint64_t now_ns);

#endif
