/* SPDX-License-Identifier: Apache-2.0 */
/* Letters between machines, and which way they go: along the tree of ranks, to all sides on which there is somebody who
 * is to have them. They are packed: of a card most bytes are zero. */
#include <string.h>
#include <sys/epoll.h>

#include "base/hash.h"
#include "base/pack.h"
#include "control_parts.h"

#define WORDS (sizeof(weft__card_letter) / sizeof(uint32_t)) /* of the longest record */

_Static_assert(sizeof(weft__card_letter) % 4 == 0 && sizeof(weft__board_letter) % 4 == 0, "packed word by word");
_Static_assert(sizeof(weft__rank_run) % sizeof(int) == 0, "travels in place of addressees");

/* ------------------------------------------------------------------------------------------- packing */

/* Zeros at the end are left out. Returns bytes. */
static size_t pack(const void *record, size_t bytes, uint32_t *packed)
{
    size_t words = bytes / sizeof(uint32_t);
    const char *at = record;
    while (words && memcmp(at + (words - 1) * sizeof(uint32_t), &(uint32_t){0}, sizeof(uint32_t)) == 0)
        words--;
    packed[0] = (uint32_t)words;
    return (1 + weft__pack(record, NULL, words, packed + 1)) * sizeof *packed;
}

bool weft__letters_unpack(const weft__letter *letter, void *record, size_t bytes, size_t *used_out)
{
    const uint32_t *packed = weft__letter_content(letter);
    size_t count = weft__letter_content_bytes(letter) / sizeof *packed;
    memset(record, 0, bytes);
    if (count == 0 || packed[0] == 0 || packed[0] > bytes / sizeof *packed)
        return false;
    *used_out = packed[0] * sizeof *packed;
    return weft__unpack(packed + 1, count - 1, NULL, packed[0], record) == count - 1;
}

/* ------------------------------------------------------------------------------------------- whom to send to */

static bool leads_to(const weft_world *world, const weft__peer *peer, const weft__rank_run *to, int runs)
{
    if (!peer->leads_up)
        return weft__runs_meet(to, runs, peer->begin, peer->end);
    return weft__runs_meet(to, runs, 0, peer->begin) || weft__runs_meet(to, runs, peer->end, world->size);
}

/* Who shares a machine with the sender looks at its board itself. */
static bool sees_itself(const weft_world *world, const weft__peer *peer, int from)
{
    return !peer->leads_up && peer->end == peer->begin + 1 && world->machine_of[from] == world->machine_of[peer->rank];
}

void weft__letters_want_room(weft__control *c, weft__peer *peer, bool wanted)
{
    if (peer->waits_to_send == wanted || c->epoll_fd < 0 || peer->link.fd < 0)
        return;
    peer->waits_to_send = wanted;
    struct epoll_event event = {.events = wanted ? EPOLLIN | EPOLLOUT : EPOLLIN,
                                .data.u64 = c->data + (uint64_t)(peer - c->peers)};
    epoll_ctl(c->epoll_fd, EPOLL_CTL_MOD, peer->link.fd, &event);
}

/* What is passed on is written by the engine together with what comes meanwhile: when all ranks make a comm, each hears
 * of all. Locked. */
static void send_by(weft__control *c, weft__peer *peer, const weft__letter *head, const void *to, const void *content,
                    bool at_once)
{
    if (at_once)
        (void)weft__link_send(&peer->link, head, to, content);
    else
        (void)weft__link_put(&peer->link, head, to, content);
    atomic_fetch_add(&c->letters, 1);
    atomic_fetch_add(&c->bytes_out, head->bytes);
    weft__letters_want_room(c, peer, weft__link_is_behind(&peer->link));
}

static void send_to_branches(weft_world *world, const weft__letter *head, const weft__rank_run *to, const void *content,
                             int except)
{
    weft__control *c = world->control;
    int runs = head->addressees * (int)sizeof(int) / (int)sizeof *to;
    for (int i = 0; i < c->branch_count; i++) {
        weft__peer *peer = &c->peers[c->branches[i]];
        if (c->branches[i] == except || !leads_to(world, peer, to, runs) ||
            (head->kind != WEFT__LETTER_LOST && sees_itself(world, peer, head->from)))
            continue;
        send_by(c, peer, head, to, content, except < 0);
    }
}

void weft__letters_pass_on(weft_world *world, const weft__letter *head, const weft__rank_run *to, const void *content,
                           int except)
{
    pthread_mutex_lock(&world->control->lock);
    send_to_branches(world, head, to, content, except);
    pthread_mutex_unlock(&world->control->lock);
}

/* ------------------------------------------------------------------------------------------- writing */

bool weft__letters_is_news(weft__control *c, const weft__card_letter *card)
{
    if (card->left != WEFT__CARD_FAILED)
        return true;
    const uint64_t comm[] = {card->name, card->ranks, card->incarnation};
    uint64_t hash = weft__hash(WEFT__HASH_START, comm, sizeof comm);
    for (unsigned i = 0; i < WEFT__VERDICTS_KNOWN && i < c->verdict_count; i++)
        if (c->verdicts[i] == hash)
            return false;
    c->verdicts[c->verdict_count++ % WEFT__VERDICTS_KNOWN] = hash;
    return true;
}

/* What a letter is about, for the next on it to take its place while it waits. That a comm was left says nothing else:
 * it must not take the place of what the card said before. */
static uint32_t topic_of(uint32_t kind, const void *record)
{
    const weft__card_letter *card = record;
    return kind == WEFT__LETTER_CARD ? 1 + 2 * card->slot + (card->left == WEFT__CARD_LEFT) : kind;
}

static weft__letter write_letter(uint32_t kind, int from, int runs, const void *record, size_t bytes, uint32_t *packed)
{
    size_t to = (size_t)runs * sizeof(weft__rank_run);
    size_t content = bytes ? pack(record, bytes, packed) : 0;
    return (weft__letter){.bytes = (uint32_t)(sizeof(weft__letter) + to + content),
                          .kind = kind,
                          .from = from,
                          .addressees = (int32_t)(to / sizeof(int)),
                          .topic = bytes ? topic_of(kind, record) : 0};
}

void weft__letters_tell(weft_world *world, uint32_t kind, int from, const weft__rank_run *to, int runs,
                        const void *record, size_t bytes)
{
    weft__control *c = world->control;
    uint32_t packed[1 + WORDS + (WORDS + 31) / 32];
    weft__letter head = write_letter(kind, from, runs, record, bytes, packed);
    pthread_mutex_lock(&c->lock);
    if (kind != WEFT__LETTER_CARD || weft__letters_is_news(c, record))
        send_to_branches(world, &head, to, packed, -1);
    pthread_mutex_unlock(&c->lock);
}

/* ------------------------------------------------------------------------------------------- what ranks tell */

static bool any_far(const weft_world *world, const int *ranks, int count)
{
    for (int i = 0; i < (ranks ? count : world->size); i++)
        if (weft__is_far(world, ranks ? ranks[i] : i))
            return true;
    return false;
}

void weft__control_tell_card(weft_world *world, weft__card *card, const weft__card_terms *terms, const int *ranks,
                             int count)
{
    if (!world->control || !any_far(world, ranks, count))
        return;
    weft__card_letter letter = {.slot = (uint32_t)(card - world->boards[world->rank]->cards),
                                .version = atomic_fetch_add(&card->version, 1) + 1, /* before what it is of */
                                .incarnation = atomic_load(&card->incarnation),
                                .left = atomic_load(&card->left),
                                .name = atomic_load(&card->name),
                                .ranks = atomic_load(&card->ranks)};
    size_t bytes = offsetof(weft__card_letter, terms);
    if (letter.left != WEFT__CARD_LEFT) {
        memcpy(&letter.terms, terms, weft__card_terms_bytes(terms));
        bytes += weft__card_terms_bytes(terms);
    }
    weft__rank_run to[WEFT__LETTER_RUNS] = {{0, 1, world->size}};
    int runs = ranks ? weft__runs_of(ranks, count, to, WEFT__LETTER_RUNS) : 1;
    if (runs == 0) {
        to[0] = weft__runs_around(ranks, count);
        runs = 1;
    }
    weft__letters_tell(world, WEFT__LETTER_CARD, world->rank, to, runs, &letter, bytes);
}

void weft__letters_tell_everybody(weft_world *world, uint32_t kind, int from, const void *record, size_t bytes)
{
    weft__letters_tell(world, kind, from, &(weft__rank_run){0, 1, world->size}, 1, record, bytes);
}

void weft__letters_tell_state(weft_world *world, uint32_t state)
{
    const weft__board *board = &world->own->header->board;
    weft__board_letter letter = {.state = state, .aborted = atomic_load(&board->aborted)};
    memcpy(letter.text, board->aborted_text, sizeof letter.text);
    weft__letters_tell_everybody(world, WEFT__LETTER_BOARD, world->rank, &letter, sizeof letter);
}

void weft__control_tell_abort(weft_world *world)
{
    if (world->control)
        weft__letters_tell_state(world, WEFT__RANK_OPEN);
}

/* ------------------------------------------------------------------------------------------- all that is known */

/* Locked. */
static void tell_one(weft_world *world, weft__peer *peer, uint32_t kind, int from, const void *record, size_t bytes)
{
    const weft__rank_run all = {0, 1, world->size};
    uint32_t packed[1 + WORDS + (WORDS + 31) / 32];
    weft__letter head = write_letter(kind, from, 1, record, bytes, packed);
    send_by(world->control, peer, &head, &all, packed, false);
}

static void tell_cards(weft_world *world, weft__peer *peer, int rank)
{
    for (uint32_t i = 0; i < WEFT__CARDS; i++) {
        weft__card_view view = {0};
        weft__card_key key;
        weft__card_letter letter = {.slot = i};
        if (!weft__board_read(world->boards[rank], i, &key, &letter.version, &view))
            continue;
        letter.incarnation = view.incarnation;
        letter.name = key.name;
        letter.ranks = key.ranks;
        letter.terms = view.terms;
        size_t head = offsetof(weft__card_letter, terms), terms = weft__card_terms_bytes(&view.terms);
        bool has_left = view.left == WEFT__CARD_LEFT; /* first that it was there */
        letter.left = has_left ? WEFT__CARD_STAYS : view.left;
        letter.version -= has_left;
        tell_one(world, peer, WEFT__LETTER_CARD, rank, &letter, head + terms);
        letter.left = view.left;
        letter.version += has_left;
        if (has_left)
            tell_one(world, peer, WEFT__LETTER_CARD, rank, &letter, head);
    }
}

static void tell_board(weft_world *world, weft__peer *peer, int rank)
{
    const weft__board *board = world->boards[rank];
    bool open = atomic_load(&board->state) == WEFT__RANK_OPEN;
    weft__board_letter letter = {.state = open ? WEFT__RANK_OPEN : WEFT__RANK_CLOSED,
                                 .aborted = atomic_load(&board->aborted)};
    memcpy(letter.text, board->aborted_text, sizeof letter.text);
    if (letter.state != WEFT__RANK_OPEN || letter.aborted != WEFT_OK)
        tell_one(world, peer, WEFT__LETTER_BOARD, rank, &letter, sizeof letter);
}

static void tell_loss(weft_world *world, weft__peer *peer, int rank)
{
    uint32_t how = atomic_load(&world->lost[rank]);
    if (how && world->rank == 0)
        tell_one(world, peer, WEFT__LETTER_LOST, rank, &how, sizeof how);
}

void weft__letters_tell_all(weft_world *world, weft__peer *peer)
{
    pthread_mutex_lock(&world->control->lock);
    for (int r = 0; r < world->size; r++) {
        tell_loss(world, peer, r);
        if (leads_to(world, peer, &(weft__rank_run){r, 1, 1}, 1))
            continue; /* it knows better */
        if (!sees_itself(world, peer, r))
            tell_cards(world, peer, r);
        tell_board(world, peer, r);
    }
    pthread_mutex_unlock(&world->control->lock);
}
