/* SPDX-License-Identifier: Apache-2.0 */
/* The board: what a rank asks for when it makes a comm, on cards that the other ranks of the host can read. */
#ifndef WEFT_SHARED_BOARD_H
#define WEFT_SHARED_BOARD_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <weft/backend.h>
#include <weft/comm.h>

#define WEFT__CARDS      256
#define WEFT__CARD_RANKS 96 /* bytes of text about the members */

/* What must be equal on all members of a comm. */
typedef struct weft__card_terms {
    uint32_t weft_version;
    int32_t count; /* of members */
    uint64_t ranks_hash;
    char ranks[WEFT__CARD_RANKS]; /* as text, cut */
    char backend[WEFT_BACKEND_NAME_MAX + 1];
    uint32_t works, p2p_channels, timeout_ms, flags;
} weft__card_terms;

typedef struct weft__card {
    _Atomic uint64_t key; /* of name and incarnation; 0 = not posted. Others read on only if it is the one they want. */
    _Atomic uint32_t left; /* the owner has destroyed the comm: it looks at nothing of the others any more */
    uint64_t taken;        /* the owner's: the key it will be posted under; 0 = free */
    uint32_t incarnation;  /* how often this rank has used the name, from 1 */
    char name[WEFT_COMM_NAME_MAX + 1];
    weft__card_terms terms;
    unsigned char backend_card[WEFT_BACKEND_CARD_BYTES];
} weft__card;

/* A free card, filled with name and incarnation, not posted; NULL if all are in use. */
weft__card *weft__board_take(weft__card *board, const char *name, uint32_t incarnation);
void weft__board_post(weft__card *card);
/* The posted card of that name and incarnation, or NULL. */
const weft__card *weft__board_find(const weft__card *board, const char *name, uint32_t incarnation);
/* Say that the owner has left; NULL is fine. */
void weft__board_leave(weft__card *card);
/* Has the member that this board belongs to left the comm? Only of a comm that all members have met for: then a card
 * that is gone belonged to one who has left too. */
bool weft__board_has_left(const weft__card *board, const char *name, uint32_t incarnation);
/* Free the card; NULL is fine. */
void weft__board_remove(weft__card *card);

#endif
