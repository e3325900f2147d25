/* SPDX-License-Identifier: Apache-2.0 */
/* A rendezvous from inside: what its files share. gather.c is rank 0 until all are there, reach.c everybody else until
 * then, rounds.c what both say after that. */
#ifndef WEFT_BOOTSTRAP_RENDEZVOUS_H
#define WEFT_BOOTSTRAP_RENDEZVOUS_H
#include <stdbool.h>

#include "base/clock.h"
#include "bootstrap/address.h"
#include "bootstrap/endpoint.h"
#include "bootstrap/meeting.h"
#include "bootstrap/socket.h"
#include "bootstrap/tree.h"

#define WEFT__NAME_EVERY_NS   5000000000ull /* the missing are named this often */
#define WEFT__VERDICT_WAIT_NS 2000000000ull /* for the verdict of rank 0, past the deadline */

typedef struct weft__rendezvous {
    weft__meeting meeting;
    weft__address address;
    char text[WEFT__ADDRESS_MAX]; /* of the address, for messages */
    uint64_t key;
    int listener;
    int *links;              /* [rank]; rank 0: to all; the others: to it and their neighbours in the tree; -1 = none */
    weft__place place;       /* in the tree */
    unsigned char *apart;    /* rank 0's, [rank]: it could not reach its parent */
    weft__endpoint *doors;   /* rank 0's, [rank]: where children of it connect; NULL, as `apart`: all are of rank 0 */
    weft__segment *segments; /* of the other ranks, mapped; handed over by share() */
} weft__rendezvous;

/* So long from now, but not past the deadline of the meeting. */
static inline uint64_t weft__rendezvous_until(const weft__rendezvous *z, uint64_t span_ns)
{
    uint64_t until_ns = weft__now_ns() + span_ns;
    return until_ns < z->meeting.deadline_ns ? until_ns : z->meeting.deadline_ns;
}

/* Rank 0: listen, and wait for all. The others: connect to rank 0, however late it comes. All get the same verdict. */
weft_result weft__rendezvous_gather(weft__rendezvous *z);
weft_result weft__rendezvous_reach(weft__rendezvous *z);

/* One attempt to reach rank 0, and how it ended. */
typedef struct weft__attempt {
    weft__endpoint to, local; /* local: where it left this host, if it did */
    const char *why;          /* static text; NULL = error of errno */
    int error;
    bool answered; /* somebody listens there; but not rank 0: `why` */
} weft__attempt;

/* Knock at an endpoint. WEFT_OK: rank 0 of this job has let us in, *fd_out. WEFT_AGAIN: nobody is there, or somebody
 * else: a->why. E_MISMATCH, E_SYSTEM: no use to go on. */
weft_result weft__rendezvous_knock(const weft__rendezvous *z, const weft__endpoint *from, uint64_t until_ns,
                                   weft__attempt *a, int *fd_out);
/* Wait for the verdict of rank 0. */
weft_result weft__rendezvous_verdict(weft__rendezvous *z);
/* Rank 0: give it to all that are there. */
void weft__rendezvous_tell(weft__rendezvous *z, const weft__verdict *v);
/* branches.c: once all have come, connect the tree. All get the same verdict. */
weft_result weft__rendezvous_branch(weft__rendezvous *z);
/* Sleep, whatever signals come. */
void weft__rendezvous_sleep(uint64_t until_ns);

extern const weft__meeting_table weft__rendezvous_calls;

#endif
