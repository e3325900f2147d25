/* SPDX-License-Identifier: Apache-2.0 */
/* The board: what a rank lets the others know. Whether it is there, and on a card for each comm what it asks for when
 * it makes it and how it leaves it. Ranks of one machine read the board itself, the others a copy: control.c keeps it.
 */
#ifndef WEFT_SHARED_BOARD_H
#define WEFT_SHARED_BOARD_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <weft/backend.h>
#include <weft/comm.h>

#include "base/memory.h"
#include "base/ranks.h"

#define WEFT__CARDS      256
#define WEFT__CARD_RANKS 96 /* bytes of text about the members */
#define WEFT__CARD_RUNS  10 /* of members; a card of more does not tell who they are */

/* What comm a card is for: hashes of its name and of its list of ranks. */
typedef struct weft__card_key {
    uint64_t name, ranks;
} weft__card_key;

/* The collective that is under way for too long: members that ask for different things may wait for each other. */
typedef struct weft__card_stuck {
    uint64_t number; /* 0 = none */
    uint64_t count;
    int32_t kind, dtype, reduction, root;
    uint64_t check; /* of all, against half of it being old */
} weft__card_stuck;

/* What must be equal on all members of a comm, and what the backend of each tells the others. */
typedef struct weft__card_terms {
    char ranks[WEFT__CARD_RANKS]; /* as text, cut */
    weft__rank_run members[WEFT__CARD_RUNS];
    uint32_t member_runs; /* 0: more */
    char backend[WEFT_BACKEND_NAME_MAX + 1];
    uint32_t weft_version, works, p2p_channels, timeout_ms, flags, least_ctas, most_ctas;
    uint32_t comes_to_connect; /* 1: it has met all the others; only of comms of a GPU */
    uint64_t given_up_ns;      /* when the owner gave up making the comm, as of CLOCK_MONOTONIC, and with what */
    int32_t verdict;
    char verdict_text[180];
    weft__card_stuck stuck;
    uint32_t backend_card_bytes;
    _Alignas(8) unsigned char backend_card[WEFT_BACKEND_CARD_BYTES]; /* the last, since most use little of it */
} weft__card_terms;

/* How the owner stands to the comm. */
enum {
    WEFT__CARD_STAYS = 0,
    WEFT__CARD_LEFT = 1,
    WEFT__CARD_GAVE_UP = 2, /* before the comm was made */
    WEFT__CARD_FAILED = 3   /* it was made, has failed, and was not left yet */
};

#define WEFT__CARD_WORDS (sizeof(weft__card_terms) / 8)

typedef struct weft__card {
    _Atomic uint64_t name, ranks; /* the key; name 0: not posted */
    _Atomic uint32_t incarnation; /* which comm of that key it is: how often its owner has come to make one, from 1 */
    _Atomic uint32_t left;        /* WEFT__CARD_*; who has left or given up looks at nothing of the others any more */
    _Atomic uint32_t version;     /* of what other machines are told of this card: they keep the last */
    enum { WEFT__CARD_FREE, WEFT__CARD_TAKEN, WEFT__CARD_SPENT } use; /* the owner's; spent: posted, and to be had */
    uint32_t index;                                                   /* the owner's: of it on the board */
    uint64_t spent;                                                   /* the owner's: since when */
    _Atomic uint64_t terms[WEFT__CARD_WORDS];
} weft__card;

/* Closing: it makes no more comms, but may still look at the memory of others; on other machines that is closed. */
enum { WEFT__RANK_OPEN = 0, WEFT__RANK_CLOSED = 1, WEFT__RANK_CLOSING = 2 };

typedef struct weft__board {
    _Alignas(WEFT__LINE) _Atomic uint32_t state;
    _Atomic int32_t aborted; /* the rank has aborted its world, with this result; */
    uint64_t aborted_ns;     /* when, as of this machine's CLOCK_MONOTONIC, and why: written before */
    char aborted_text[256];
    _Atomic uint32_t reasons; /* how often the owner has said on a card why it gave a comm up, or why one failed */
    _Alignas(WEFT__LINE) _Atomic uint32_t marks[WEFT__CARDS]; /* of the names on them: whoever looks reads few cards */
    _Alignas(WEFT__LINE) weft__card cards[WEFT__CARDS];
} weft__board;

/* The rank aborts its world. */
void weft__board_abort(weft__board *board, weft_result result, const char *text);

/* Bytes of terms that say something, a multiple of 8. */
size_t weft__card_terms_bytes(const weft__card_terms *terms);
/* Why their owner has given up the comm, or that it has failed. */
void weft__card_say_why(weft__card_terms *terms, weft_result result, const char *text);
void weft__card_name_members(weft__card_terms *terms, const int *ranks, int count);

/* The owner's calls. */

/* A card, not posted; NULL if all are in use. */
weft__card *weft__board_take(weft__board *board);
void weft__board_post(weft__card *card, weft__card_key key, uint32_t incarnation, const weft__card_terms *terms);
/* Say that the owner has left a comm that was made, */
void weft__board_leave(weft__card *card);
/* or has given up making it; @p terms say why. */
void weft__board_give_up(weft__card *card, const weft__card_terms *terms);
/* or that the comm has failed; @p terms say how. */
void weft__board_fail(weft__card *card, const weft__card_terms *terms);
/* Say what @p terms say anew. */
void weft__board_renew(weft__card *card, const weft__card_terms *terms);
/* Have the place of a card for others. That of a comm that was given up can be seen by those who come late until
 * then; the one with the lowest @p spent is had first. */
void weft__board_remove(weft__card *card, uint64_t spent);

/* Keep a copy of a card of another machine, which is number @p index there, unless it is older than the one that is
 * kept. @p terms may be NULL if they are those of that one. */
void weft__board_copy(weft__board *board, uint32_t index, weft__card_key key, uint32_t incarnation, uint32_t left,
                      uint32_t version, const weft__card_terms *terms);

/* The others'. */

/* What a card says at one moment. */
typedef struct weft__card_view {
    uint32_t incarnation, left;
    weft__card_terms terms;
} weft__card_view;

/* Does it say with what the comm was given up, or has failed? */
static inline bool weft__card_says_why(const weft__card_view *card)
{
    return card->left != WEFT__CARD_STAYS && card->terms.verdict != WEFT_OK; /* while it stays, it may change */
}
/* The card of that key and incarnation; if there is none the latest of that key. False: none, or it has become another
 * one meanwhile. */
bool weft__board_look(const weft__board *board, weft__card_key key, uint32_t incarnation, weft__card_view *view);
/* A card of that name for a comm of other ranks, @p rank among them, that its owner has not left, or has given up
 * making since. */
bool weft__board_find_rival(const weft__board *board, weft__card_key key, int rank, uint64_t since_ns,
                            weft__card_key *rival_out, weft__card_view *view);
/* Card number @p index, and its key and version. False: it is not posted, or changes. */
bool weft__board_read(const weft__board *board, uint32_t index, weft__card_key *key_out, uint32_t *version_out,
                      weft__card_view *view);
/* The highest incarnation of that key, 0 if there is none. */
uint32_t weft__board_latest(const weft__board *board, weft__card_key key);
/* Does the owner of this board look at nothing of that comm, and will not? True also if it has not come to make it:
 * once this rank has left, it will not. */
bool weft__board_has_left(const weft__board *board, weft__card_key key, uint32_t incarnation);

#endif
