/* SPDX-License-Identifier: Apache-2.0 */
/* Letters are whole states, never changes: the last one counts, and nothing is answered. */
#include "control.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "bootstrap/link.h"

#define STAY_NS  5000000000ull /* rank 0 for others that have not closed their worlds */
#define FLUSH_NS 2000000000ull /* for what is still to be sent, and for the other end to have heard it */

enum kind { CARD = 1, BOARD = 2, LOST = 3 };
#define EVERYBODY (-1) /* in place of addressees, in letters to rank 0 */

typedef struct card_letter {
    uint32_t slot, incarnation, left, terms_bytes;
    uint64_t name, ranks;
    weft__card_terms terms; /* cut behind what is used */
} card_letter;

typedef struct board_letter {
    uint32_t state;
    int32_t aborted;
    char text[256];
} board_letter;

typedef struct lost_letter {
    int32_t rank;
} lost_letter;

struct weft__control {
    weft__link *links; /* [size]; of rank 0 to each other rank, else the one at [0] */
    int count;
    int epoll_fd;
    uint64_t data;       /* of events */
    bool *waits_to_send; /* [count]: the engine looks for room */
    pthread_mutex_t lock;
    weft__board *copies; /* [size], of ranks on other machines */
};

static bool is_far(const weft_world *world, int rank)
{
    return !world->segments[rank];
}

/* ------------------------------------------------------------------------------------------- sending */

/* Have the engine told when there is room, or no more. Locked. */
static void want_room(weft__control *c, int link, bool wanted)
{
    if (c->waits_to_send[link] == wanted || c->epoll_fd < 0 || c->links[link].fd < 0)
        return;
    c->waits_to_send[link] = wanted;
    struct epoll_event event = {.events = wanted ? EPOLLIN | EPOLLOUT : EPOLLIN, .data.u64 = c->data + (uint64_t)link};
    epoll_ctl(c->epoll_fd, EPOLL_CTL_MOD, c->links[link].fd, &event);
}

static void send_by(weft__control *c, int link, enum kind kind, int from, const int *to, int to_count,
                    const void *content, size_t bytes)
{
    weft__letter head = {.kind = kind, .from = from, .addressees = to_count};
    head.bytes = (uint32_t)(sizeof head + (size_t)to_count * sizeof *to + bytes);
    pthread_mutex_lock(&c->lock);
    (void)weft__link_send(&c->links[link], &head, to, content);
    want_room(c, link, c->links[link].out.end > 0);
    pthread_mutex_unlock(&c->lock);
}

/* Rank 0: to each of them, as they are; the sender knows already. */
static void pass_on(weft_world *world, enum kind kind, int from, const int *to, int to_count, const void *content,
                    size_t bytes)
{
    bool all = to_count == 1 && to[0] == EVERYBODY;
    for (int i = 0; i < (all ? world->size : to_count); i++) {
        int rank = all ? i : to[i];
        if (rank > 0 && rank < world->size && rank != from)
            send_by(world->control, rank, kind, from, NULL, 0, content, bytes);
    }
}

static void tell(weft_world *world, enum kind kind, const int *to, int to_count, const void *content, size_t bytes)
{
    if (world->rank == 0)
        pass_on(world, kind, 0, to, to_count, content, bytes);
    else
        send_by(world->control, 0, kind, world->rank, to, to_count, content, bytes);
}

static bool any_far(const weft_world *world, const int *ranks, int count)
{
    for (int i = 0; i < (ranks ? count : world->size); i++)
        if (is_far(world, ranks ? ranks[i] : i))
            return true;
    return false;
}

void weft__control_tell_card(weft_world *world, const weft__card *card, const weft__card_terms *terms, const int *ranks,
                             int count)
{
    if (!world->control || !any_far(world, ranks, count))
        return;
    card_letter letter = {.slot = (uint32_t)(card - world->boards[world->rank]->cards),
                          .incarnation = atomic_load(&card->incarnation),
                          .left = atomic_load(&card->left),
                          .name = atomic_load(&card->name),
                          .ranks = atomic_load(&card->ranks),
                          .terms_bytes = (uint32_t)weft__card_terms_bytes(terms),
                          .terms = *terms};
    /* Members of this machine read the card itself, and ignore the letter. */
    tell(world, CARD, ranks ? ranks : &(int){EVERYBODY}, ranks ? count : 1, &letter,
         offsetof(card_letter, terms) + letter.terms_bytes);
}

static void tell_state(weft_world *world, uint32_t state)
{
    const weft__board *board = world->boards[world->rank];
    board_letter letter = {.state = state, .aborted = atomic_load(&board->aborted)};
    memcpy(letter.text, board->aborted_text, sizeof letter.text);
    tell(world, BOARD, &(int){EVERYBODY}, 1, &letter, sizeof letter);
}

void weft__control_tell_abort(weft_world *world)
{
    if (world->control)
        tell_state(world, WEFT__RANK_OPEN);
}

/* ------------------------------------------------------------------------------------------- hearing */

static void alarm_world(weft_world *world)
{
    weft__last_error said = weft__error_keep();
    weft__progress_alarm(world);
    weft__error_restore(&said);
}

static void hear_card(weft_world *world, int from, const void *content, size_t bytes)
{
    card_letter letter = {0};
    memcpy(&letter, content, bytes < sizeof letter ? bytes : sizeof letter); /* it may lie at odd places */
    if (letter.slot >= WEFT__CARDS || letter.terms_bytes > sizeof letter.terms ||
        bytes != offsetof(card_letter, terms) + letter.terms_bytes)
        return;
    letter.terms.given_up_ns = weft__now_ns(); /* by this machine's clock */
    letter.terms.ranks[sizeof letter.terms.ranks - 1] = 0;
    letter.terms.backend[sizeof letter.terms.backend - 1] = 0;
    letter.terms.verdict_text[sizeof letter.terms.verdict_text - 1] = 0;
    weft__card *card = &world->control->copies[from].cards[letter.slot];
    weft__board_copy(card, (weft__card_key){letter.name, letter.ranks}, letter.incarnation, letter.left, &letter.terms);
    if (letter.left == WEFT__CARD_FAILED)
        alarm_world(world);
}

static void hear_board(weft_world *world, int from, const board_letter *letter, size_t bytes)
{
    weft__board *board = &world->control->copies[from];
    if (bytes != sizeof *letter)
        return;
    if (letter->aborted != WEFT_OK && atomic_load(&board->aborted) == WEFT_OK) {
        char text[sizeof letter->text];
        snprintf(text, sizeof text, "%.*s", (int)sizeof text - 1, letter->text);
        weft__board_abort(board, (weft_result)letter->aborted, text);
    }
    atomic_store(&board->state, letter->state);
}

/* Its process has ended, and not closed its world before. */
static void hear_lost(weft_world *world, int rank)
{
    if (rank < 0 || rank >= world->size || rank == world->rank || atomic_exchange(&world->lost[rank], 1))
        return;
    weft__log(WEFT_LOG_INFO, "rank %d has ended without closing its world", rank);
    alarm_world(world);
}

static void take_letter(weft_world *world, const weft__letter *letter)
{
    const void *content = weft__letter_content(letter);
    size_t bytes = weft__letter_content_bytes(letter);
    int from = letter->from;
    if (letter->kind == LOST && bytes == sizeof(lost_letter))
        hear_lost(world, ((const lost_letter *)content)->rank);
    else if (letter->kind == CARD && is_far(world, from))
        hear_card(world, from, content, bytes);
    else if (letter->kind == BOARD && is_far(world, from))
        hear_board(world, from, content, bytes);
}

/* Rank 0 is an addressee like the others. */
static bool is_for_this_rank(const weft_world *world, const weft__letter *letter)
{
    const int *to = weft__letter_addressees(letter);
    for (int i = 0; i < letter->addressees; i++)
        if (to[i] == EVERYBODY || to[i] == world->rank)
            return true;
    return world->rank != 0; /* it was passed on to nobody else */
}

/* False: somebody else writes there, or a broken rank. */
static bool take_letters(weft_world *world, int link)
{
    weft__control *c = world->control;
    const weft__letter *letter;
    bool sound;
    while ((letter = weft__link_next(&c->links[link], &sound))) {
        int from = letter->from;
        if (from < 0 || from >= world->size || from == world->rank || (world->rank == 0 && from != link))
            return false;
        if (is_for_this_rank(world, letter))
            take_letter(world, letter);
        if (world->rank == 0)
            pass_on(world, (enum kind)letter->kind, from, weft__letter_addressees(letter), letter->addressees,
                    weft__letter_content(letter), weft__letter_content_bytes(letter));
    }
    return sound;
}

static void end_link(weft_world *world, int link)
{
    weft__control *c = world->control;
    epoll_ctl(c->epoll_fd, EPOLL_CTL_DEL, c->links[link].fd, NULL);
    pthread_mutex_lock(&c->lock);
    weft__link_close(&c->links[link]);
    pthread_mutex_unlock(&c->lock);
    bool closed = atomic_load(&world->boards[link]->state) == WEFT__RANK_CLOSED;
    if (world->rank > 0)
        weft__log(closed ? WEFT_LOG_INFO : WEFT_LOG_WARN,
                  "rank 0 has %s; of ranks on other machines this one hears no more",
                  closed ? "closed its world" : "ended");
    if (closed)
        return;
    if (world->rank == 0)
        pass_on(world, LOST, link, &(int){EVERYBODY}, 1, &(lost_letter){link}, sizeof(lost_letter));
    hear_lost(world, link);
}

void weft__control_hear(weft_world *world, int link)
{
    weft__control *c = world->control;
    if (c->links[link].fd < 0)
        return;
    pthread_mutex_lock(&c->lock);
    want_room(c, link, !weft__link_flush(&c->links[link]));
    pthread_mutex_unlock(&c->lock);
    bool open = weft__link_receive(&c->links[link]);
    if (!take_letters(world, link) || !open)
        end_link(world, link);
}

/* ------------------------------------------------------------------------------------------- opening and closing */

weft_result weft__control_watch(weft_world *world, int epoll_fd, uint64_t data)
{
    weft__control *c = world->control;
    if (!c)
        return WEFT_OK;
    pthread_mutex_lock(&c->lock);
    c->epoll_fd = epoll_fd;
    c->data = data;
    weft_result result = WEFT_OK;
    for (int i = 0; i < c->count && result == WEFT_OK; i++) {
        struct epoll_event event = {.events = EPOLLIN | EPOLLOUT, .data.u64 = data + (uint64_t)i};
        c->waits_to_send[i] = true;
        if (c->links[i].fd >= 0 && epoll_ctl(epoll_fd, EPOLL_CTL_ADD, c->links[i].fd, &event) != 0)
            result = weft__fail_errno("cannot watch a link");
    }
    pthread_mutex_unlock(&c->lock);
    return result;
}

weft_result weft__control_open(weft_world *world, int *links)
{
    size_t size = (size_t)world->size;
    weft__control *c = weft__alloc(sizeof *c);
    if (c) {
        c->epoll_fd = -1;
        c->count = world->rank == 0 ? world->size : 1;
        c->links = weft__alloc(size * sizeof *c->links);
        c->waits_to_send = weft__alloc(size * sizeof *c->waits_to_send);
        c->copies = weft__map_pages(size * sizeof *c->copies);
        pthread_mutex_init(&c->lock, NULL);
        world->control = c;
    }
    bool made = c && c->links && c->waits_to_send && c->copies;
    for (int r = 0; r < world->size; r++) {
        if (made)
            c->links[r].fd = -1;
        if (made && links[r] >= 0)
            weft__link_open(&c->links[r], links[r]);
        else if (links[r] >= 0)
            close(links[r]);
        if (made && is_far(world, r))
            world->boards[r] = &c->copies[r];
    }
    free(links);
    return made ? WEFT_OK : WEFT_E_NO_MEMORY;
}

static bool all_have_closed(const weft_world *world)
{
    for (int r = 1; r < world->size; r++)
        if (!atomic_load(&world->lost[r]) && atomic_load(&world->boards[r]->state) != WEFT__RANK_CLOSED)
            return false;
    return true;
}

void weft__control_say_closed(weft_world *world)
{
    if (!world->control)
        return;
    tell_state(world, WEFT__RANK_CLOSED); /* on its board it says so later, when it looks at nobody's memory any more */
    uint64_t until = weft__now_ns() + STAY_NS;
    while (world->rank == 0 && world->progress.has_engine && !all_have_closed(world) && weft__now_ns() < until)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* Closing a socket with unread bytes would take back what was sent last: hear it out. */
static void hang_up(weft__link *link, uint64_t until_ns)
{
    struct pollfd p = {.fd = link->fd, .events = POLLIN | POLLOUT};
    bool said = false;
    while (link->fd >= 0 && weft__now_ns() < until_ns) {
        if (!said && weft__link_flush(link)) {
            shutdown(link->fd, SHUT_WR);
            said = true;
            p.events = POLLIN;
        }
        if (poll(&p, 1, 100) > 0 && p.revents & (POLLIN | POLLHUP | POLLERR) && !weft__link_receive(link))
            break;
        link->in.begin = link->in.end = 0;
    }
}

void weft__control_close(weft_world *world)
{
    weft__control *c = world->control;
    if (!c)
        return;
    uint64_t until = weft__now_ns() + FLUSH_NS;
    for (int i = 0; c->links && i < c->count; i++) {
        hang_up(&c->links[i], until);
        weft__link_close(&c->links[i]);
    }
    weft__unmap_pages(c->copies, (size_t)world->size * sizeof *c->copies);
    free(c->links);
    free(c->waits_to_send);
    pthread_mutex_destroy(&c->lock);
    free(c);
    world->control = NULL;
}
