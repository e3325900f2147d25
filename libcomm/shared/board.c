/* SPDX-License-Identifier: Apache-2.0 */
/* A board is written by its owner only, one card at a time; the others look for names. */
#include "shared/board.h"

#include <stdio.h>
#include <string.h>

#include "base/hash.h"

static uint64_t key_of(const char *name, uint32_t incarnation)
{
    uint64_t key = weft__hash(weft__hash(WEFT__HASH_START, name, strlen(name)), &incarnation, sizeof incarnation);
    return key ? key : 1;
}

weft__card *weft__board_take(weft__card *board, const char *name, uint32_t incarnation)
{
    for (int i = 0; i < WEFT__CARDS; i++) {
        weft__card *card = &board[i];
        if (card->taken)
            continue;
        snprintf(card->name, sizeof card->name, "%s", name);
        card->incarnation = incarnation;
        card->refused = WEFT_OK;
        card->taken = key_of(name, incarnation);
        atomic_store(&card->left, 0);
        return card;
    }
    return NULL;
}

void weft__board_post(weft__card *card)
{
    atomic_store(&card->key, card->taken);
}

const weft__card *weft__board_find(const weft__card *board, const char *name, uint32_t incarnation)
{
    uint64_t key = key_of(name, incarnation);
    for (int i = 0; i < WEFT__CARDS; i++)
        if (atomic_load(&board[i].key) == key)
            return &board[i];
    return NULL;
}

void weft__board_leave(weft__card *card)
{
    if (card)
        atomic_store(&card->left, 1);
}

void weft__board_remove(weft__card *card)
{
    if (!card)
        return;
    atomic_store(&card->key, 0);
    card->taken = 0;
}
