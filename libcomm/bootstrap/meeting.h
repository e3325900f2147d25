/* SPDX-License-Identifier: Apache-2.0 */
/* A meeting: how the ranks of a world find each other, once, when it is opened. Processes meet over a socket
 * (rendezvous.c), threads of a team in their common memory (team.c). Every call is made by all ranks in the same
 * order, and one deadline covers the whole meeting. */
#ifndef WEFT_BOOTSTRAP_MEETING_H
#define WEFT_BOOTSTRAP_MEETING_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <weft/world.h>

#include "base/verdict.h"
#include "shared/segment.h"

typedef struct weft__meeting weft__meeting;

typedef struct weft__meeting_table {
    /* Everybody gives @p bytes, a multiple of 4; everybody gets those of all ranks, in rank order. Of what is the same
     * as with the rank before nothing travels. */
    weft_result (*exchange)(weft__meeting *meeting, const void *mine, size_t bytes, void *all);
    /* Everybody gives its verdict, signed; everybody gets that of the lowest rank that has failed, or WEFT_OK. Takes no
     * memory. */
    weft_result (*agree)(weft__meeting *meeting, weft__verdict *verdict);
    /* Everybody gives its segment; segments[r] is that of rank r in this process, mapped (@p mine for itself).
     * E_UNSUPPORTED on all ranks if the meeting cannot.
     * *owned_out holds those that were mapped for this call: unmap and free them in the end; NULL if they are
     * somebody else's. */
    weft_result (*share)(weft__meeting *meeting, weft__segment *mine, const size_t *reserves, weft__segment **segments,
                         weft__segment **owned_out);
    /* Hand over what connects the ranks, after the last round: [r] is the socket to rank r, -1 if there is none. Rank 0
     * has one to each, the others to rank 0 and, unless one could not be reached, to their neighbours in the tree
     * (tree.h). Sockets are non-blocking and close-on-exec; those of TCP send at once and notice a dead host. All
     * are the caller's then, and the array too: free(). NULL: threads of a team. */
    int *(*take_links)(weft__meeting *meeting);
    void (*end)(weft__meeting *meeting);
} weft__meeting_table;

struct weft__meeting {
    const weft__meeting_table *calls;
    int rank, size;
    const int *names; /* how messages call the ranks; NULL = by their numbers */
    bool can_share;   /* memory: they meet on one machine */
    uint64_t deadline_ns;
};

/* Meet at @p address (address.h): rank 0 listens there. @p key keeps strangers out. @p world_ranks: what messages call
 * the ranks, if these are not all of the world; borrowed until the end; NULL = by their numbers. */
weft_result weft__rendezvous_open(const char *address, uint64_t key, int rank, int size, const int *world_ranks,
                                  uint32_t timeout_ms, weft__meeting **meeting_out);
/* Meet the other threads of @p team. */
weft__meeting *weft__team_meet(weft_team *team, int rank, uint32_t timeout_ms);

static inline int weft__meeting_name(const weft__meeting *meeting, int rank)
{
    return meeting->names && rank >= 0 && rank < meeting->size ? meeting->names[rank] : rank;
}

/* All ranks learn whether all are well; else all get the result of the lowest rank that is not, with its message. */
static inline weft_result weft__meeting_agree(weft__meeting *meeting, weft_result mine)
{
    weft__verdict verdict = {0};
    if (weft__verdict_add(&verdict, mine) < 0)
        weft__verdict_sign(&verdict, weft__meeting_name(meeting, meeting->rank));
    return meeting->calls->agree(meeting, &verdict);
}

#endif
