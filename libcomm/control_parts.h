/* SPDX-License-Identifier: Apache-2.0 */
/* The control channel from inside: what control.c and letters.c share. */
#ifndef WEFT_LIBCOMM_CONTROL_PARTS_H
#define WEFT_LIBCOMM_CONTROL_PARTS_H
#include "base/ranks.h"
#include "bootstrap/link.h"
#include "bootstrap/tree.h"
#include "control.h"

/* LOST: its sender is, and rank 0 says so, and how: WEFT__LOST_*. ADOPT, to rank 0: whom the sender had letters from
 * has gone; from now on its letters go to rank 0, and those of rank 0 to it. */
enum { WEFT__LETTER_CARD = 1, WEFT__LETTER_BOARD = 2, WEFT__LETTER_LOST = 3, WEFT__LETTER_ADOPT = 4 };

#define WEFT__LETTER_RUNS 32 /* of addressees: of more, also ranks between them are told */

typedef struct weft__card_letter {
    uint32_t slot, incarnation, left, version;
    uint64_t name, ranks;
    weft__card_terms terms; /* without them, if the owner has left: it has told them before */
} weft__card_letter;

typedef struct weft__board_letter {
    uint32_t state;
    int32_t aborted;
    char text[256];
} weft__board_letter;

/* Another rank that this one has a link to: rank 0, and its neighbours in the tree. */
typedef struct weft__peer {
    weft__link link;
    int rank;
    int begin, end; /* ranks that it passes letters on to; if it leads up, to all but these */
    bool leads_up;
    bool is_branch;     /* letters are passed on to it */
    bool waits_to_send; /* the engine looks for room */
} weft__peer;

#define WEFT__VERDICTS_KNOWN 64

struct weft__control {
    weft__place place;
    weft__peer *peers; /* of rank 0: all other ranks, in order; else [0] is rank 0 */
    int count;
    int *branches; /* indices of peers */
    int branch_count;
    int epoll_fd;
    uint64_t data;                           /* of events */
    pthread_mutex_t lock;                    /* of all that sends */
    weft__board *copies;                     /* [size], of ranks on other machines */
    struct pollfd *ends;                     /* [count], for hanging up */
    _Atomic bool closes;                     /* this rank is about to close its world */
    bool meets;                              /* it has its links */
    _Atomic bool deaf;                       /* the link to rank 0 has ended */
    uint64_t verdicts[WEFT__VERDICTS_KNOWN]; /* on comms, of which one was passed on: nobody needs another, */
    unsigned verdict_count;                  /* and how often one was */
    _Atomic uint64_t letters, bytes_out;     /* that were sent */
};

static inline bool weft__is_far(const weft_world *world, int rank)
{
    return !world->segments[rank];
}

/* letters.c */
/* Pass on a letter that came from peer number @p except, to all other branches that lead to one of these ranks. */
void weft__letters_pass_on(weft_world *world, const weft__letter *head, const weft__rank_run *to, const void *content,
                           int except);
/* The same of one that is written here, by this rank or, of a rank that was lost, by rank 0. */
void weft__letters_tell(weft_world *world, uint32_t kind, int from, const weft__rank_run *to, int runs,
                        const void *record, size_t bytes);
void weft__letters_tell_everybody(weft_world *world, uint32_t kind, int from, const void *record, size_t bytes);
/* How this rank stands to its world. */
void weft__letters_tell_state(weft_world *world, uint32_t state);
/* Send a peer all that this rank knows of the ranks that do not lie behind it. */
void weft__letters_tell_all(weft_world *world, weft__peer *peer);
/* Have the engine told when there is room, or no more. Locked. */
void weft__letters_want_room(weft__control *c, weft__peer *peer, bool wanted);
/* What was packed as the content of a letter. False: it is no such record. */
bool weft__letters_unpack(const weft__letter *letter, void *record, size_t bytes, size_t *used_out);
/* Is it the first verdict on that comm that is heard of? Locked. */
bool weft__letters_is_news(weft__control *c, const weft__card_letter *card);

#endif
