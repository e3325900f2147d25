/* SPDX-License-Identifier: Apache-2.0 */
/* Posting and finding what ranks tell each other about the comms that they make, in shared memory: a board is written
 * by its owner only, a card for each comm at a time; the others look for keys. */
#include "shared/board.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"

_Static_assert(sizeof(weft__card_terms) % 8 == 0, "copied word by word");

/* Words of terms that say something; @p bytes of a card may be anything while it changes. */
static size_t words_with(uint32_t bytes)
{
    size_t most = sizeof((weft__card_terms *)NULL)->backend_card;
    return (offsetof(weft__card_terms, backend_card) + (bytes < most ? bytes : most) + 7) / 8;
}

size_t weft__card_terms_bytes(const weft__card_terms *terms)
{
    return words_with(terms->backend_card_bytes) * 8;
}

void weft__card_say_why(weft__card_terms *terms, weft_result result, const char *text)
{
    terms->given_up_ns = weft__now_ns();
    terms->verdict = (int32_t)result;
    snprintf(terms->verdict_text, sizeof terms->verdict_text, "%.*s", (int)sizeof terms->verdict_text - 1, text);
}

void weft__card_name_members(weft__card_terms *terms, const int *ranks, int count)
{
    weft__ranks_name(ranks, count, terms->ranks, sizeof terms->ranks);
    terms->member_runs = (uint32_t)weft__runs_of(ranks, count, terms->members, WEFT__CARD_RUNS);
}

static bool has_member(const weft__card_terms *terms, int rank)
{
    bool known = terms->member_runs <= WEFT__CARD_RUNS && /* it may change while it is read */
                 weft__runs_are_sound(terms->members, (int)terms->member_runs, INT32_MAX / 2);
    return known && weft__runs_meet(terms->members, (int)terms->member_runs, rank, rank + 1);
}

static uint64_t name_of(weft__card_key key)
{
    return key.name ? key.name : 1;
}

/* Of a key that nobody has: 0. Another name may have the same one. */
static uint32_t mark_of(weft__card_key key)
{
    return (uint32_t)(name_of(key) >> 32 ^ name_of(key)) | 1;
}

static weft__board *board_of(weft__card *card)
{
    return (weft__board *)((char *)(card - card->index) - offsetof(weft__board, cards));
}

static bool has_key(const weft__card *card, weft__card_key key)
{
    return atomic_load(&card->name) == name_of(key) && atomic_load(&card->ranks) == key.ranks;
}

/* ---- the owner ---- */

/* A free card, or the one that was spent first. */
static weft__card *to_be_had(weft__board *board)
{
    weft__card *first = NULL;
    for (int i = 0; i < WEFT__CARDS; i++) {
        weft__card *card = &board->cards[i];
        if (card->use == WEFT__CARD_FREE)
            return card;
        if (card->use == WEFT__CARD_SPENT && (!first || card->spent < first->spent))
            first = card;
    }
    return first;
}

static void clear_key(weft__card *card)
{
    atomic_store(&board_of(card)->marks[card->index], 0);
    atomic_store(&card->name, 0);
}

weft__card *weft__board_take(weft__board *board)
{
    weft__card *card = to_be_had(board);
    if (!card)
        return NULL;
    card->index = (uint32_t)(card - board->cards);
    clear_key(card);
    atomic_store(&card->left, WEFT__CARD_STAYS);
    card->use = WEFT__CARD_TAKEN;
    return card;
}

static void write_terms(weft__card *card, const weft__card_terms *terms)
{
    for (size_t i = 0; i < words_with(terms->backend_card_bytes); i++) {
        uint64_t word;
        memcpy(&word, (const char *)terms + i * sizeof word, sizeof word);
        atomic_store_explicit(&card->terms[i], word, memory_order_release); /* not before the key was cleared */
    }
}

/* The last that is written: from now on the card can be found. */
static void put_key(weft__card *card, weft__card_key key, uint32_t incarnation)
{
    atomic_store(&card->incarnation, incarnation);
    atomic_store(&card->ranks, key.ranks);
    atomic_store(&card->name, name_of(key));
    atomic_store(&board_of(card)->marks[card->index], mark_of(key));
}

/* Behind what the card says: who sees the count sees it. */
static void count_reason(weft__card *card)
{
    atomic_fetch_add(&board_of(card)->reasons, 1);
}

void weft__board_post(weft__card *card, weft__card_key key, uint32_t incarnation, const weft__card_terms *terms)
{
    write_terms(card, terms);
    put_key(card, key, incarnation);
}

void weft__board_leave(weft__card *card)
{
    atomic_store(&card->left, WEFT__CARD_LEFT);
}

void weft__board_give_up(weft__card *card, const weft__card_terms *terms)
{
    write_terms(card, terms);
    atomic_store(&card->left, WEFT__CARD_GAVE_UP);
    count_reason(card);
}

void weft__board_renew(weft__card *card, const weft__card_terms *terms)
{
    write_terms(card, terms);
}

void weft__board_fail(weft__card *card, const weft__card_terms *terms)
{
    write_terms(card, terms);
    atomic_store(&card->left, WEFT__CARD_FAILED);
    count_reason(card);
}

void weft__board_abort(weft__board *board, weft_result result, const char *text)
{
    snprintf(board->aborted_text, sizeof board->aborted_text, "%s", text);
    board->aborted_ns = weft__now_ns();
    atomic_store(&board->aborted, (int32_t)result);
}

void weft__board_remove(weft__card *card, uint64_t spent)
{
    bool met = atomic_load(&card->left) == WEFT__CARD_LEFT;
    if (met)
        clear_key(card);
    card->spent = spent;
    card->use = met ? WEFT__CARD_FREE : WEFT__CARD_SPENT;
}

static bool is_of(const weft__card *card, weft__card_key key, uint32_t incarnation)
{
    return has_key(card, key) && atomic_load(&card->incarnation) == incarnation;
}

void weft__board_copy(weft__board *board, uint32_t index, weft__card_key key, uint32_t incarnation, uint32_t left,
                      uint32_t version, const weft__card_terms *terms)
{
    weft__card *card = &board->cards[index];
    card->index = index;
    bool same = is_of(card, key, incarnation), older = (int32_t)(version - atomic_load(&card->version)) <= 0;
    if (older || (!same && !terms)) /* without terms: what was there before it was not heard of */
        return;
    atomic_store(&card->version, version);
    if (!same)
        clear_key(card);
    if (terms)
        write_terms(card, terms);
    atomic_store(&card->left, left);
    if (!same)
        put_key(card, key, incarnation);
    if (left == WEFT__CARD_GAVE_UP || left == WEFT__CARD_FAILED)
        count_reason(card);
}

/* ---- the others ---- */

static const weft__card *find(const weft__board *board, weft__card_key key, uint32_t incarnation)
{
    const weft__card *latest = NULL;
    uint32_t mark = mark_of(key);
    for (int i = 0; i < WEFT__CARDS; i++) {
        const weft__card *card = &board->cards[i];
        if (atomic_load(&board->marks[i]) != mark || !has_key(card, key))
            continue;
        if (atomic_load(&card->incarnation) == incarnation)
            return card;
        if (!latest || atomic_load(&card->incarnation) > atomic_load(&latest->incarnation))
            latest = card;
    }
    return latest;
}

/* A card may become another one at any time, of the same key even; then its number is another. */
static bool look_at(const weft__card *card, weft__card_key key, weft__card_view *view)
{
    view->incarnation = atomic_load(&card->incarnation);
    view->left = atomic_load(&card->left); /* before the terms, which say why */
    size_t words = words_with(0);
    for (size_t i = 0; i < words; i++) {
        uint64_t word = atomic_load_explicit(&card->terms[i], memory_order_acquire);
        memcpy((char *)&view->terms + i * sizeof word, &word, sizeof word);
        if (i + 1 == words_with(0))
            words = words_with(view->terms.backend_card_bytes);
    }
    return is_of(card, key, view->incarnation);
}

bool weft__board_look(const weft__board *board, weft__card_key key, uint32_t incarnation, weft__card_view *view)
{
    for (int looks = 0; looks < 2; looks++) {
        const weft__card *card = find(board, key, incarnation);
        if (!card || !look_at(card, key, view))
            return false;
        if (view->incarnation <= incarnation)
            return true;
        /* A later one: what is asked for may have been posted before it, where this look had been already; or this card
         * was an earlier one when it was found. The second look finds what is there. */
    }
    return true;
}

bool weft__board_find_rival(const weft__board *board, weft__card_key key, int rank, uint64_t since_ns,
                            weft__card_key *rival_out, weft__card_view *view)
{
    uint32_t mark = mark_of(key);
    for (int i = 0; i < WEFT__CARDS; i++) {
        const weft__card *card = &board->cards[i];
        if (atomic_load(&board->marks[i]) != mark)
            continue;
        weft__card_key other = {key.name, atomic_load(&card->ranks)};
        if (other.ranks == key.ranks || !has_key(card, other) || !look_at(card, other, view))
            continue;
        if (view->left == WEFT__CARD_LEFT || (view->left == WEFT__CARD_GAVE_UP && view->terms.given_up_ns < since_ns))
            continue;
        *rival_out = other;
        if (has_member(&view->terms, rank))
            return true;
    }
    return false;
}

bool weft__board_read(const weft__board *board, uint32_t index, weft__card_key *key_out, uint32_t *version_out,
                      weft__card_view *view)
{
    const weft__card *card = &board->cards[index];
    if (!atomic_load(&board->marks[index]))
        return false;
    *version_out = atomic_load(&card->version); /* before what it is of: that may be newer, not older */
    *key_out = (weft__card_key){atomic_load(&card->name), atomic_load(&card->ranks)};
    return key_out->name && look_at(card, *key_out, view);
}

uint32_t weft__board_latest(const weft__board *board, weft__card_key key)
{
    const weft__card *latest = find(board, key, UINT32_MAX);
    return latest ? atomic_load(&latest->incarnation) : 0;
}

bool weft__board_has_left(const weft__board *board, weft__card_key key, uint32_t incarnation)
{
    const weft__card *card = find(board, key, incarnation);
    if (!card || atomic_load(&card->incarnation) != incarnation)
        return true; /* while its owner is there, it is found */
    uint32_t left = atomic_load(&card->left);
    return (left == WEFT__CARD_LEFT || left == WEFT__CARD_GAVE_UP) && is_of(card, key, incarnation);
}
