/* SPDX-License-Identifier: Apache-2.0 */
/* Letters between machines: what ranks of one host read on each other's boards, rank 0 passes on to the others. Letters
 * are whole states, never changes: the last one counts, and nothing is answered. */
#include "control.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "bootstrap/link.h"
#include "bootstrap/socket.h"

#define STAY_NS  5000000000ull /* rank 0 for others that have not closed their worlds */
#define FLUSH_NS 2000000000ull /* for what is still to be sent, and for the other end to have heard it */

/* What may wait for a rank that reads nothing: the last word of all others on a few dozen comms. Past that it is
 * lost. */
#define BACKLOG_BYTES      ((size_t)2 << 20)
#define BACKLOG_BYTES_EACH ((size_t)64 << 10)

enum kind { CARD = 1, BOARD = 2, LOST = 3 }; /* LOST: its sender is, and rank 0 says so, and how: WEFT__LOST_* */
#define EVERYBODY (-1)                       /* in place of addressees, in letters to rank 0 */

typedef struct card_letter {
    uint32_t slot, incarnation, left, reserved;
    uint64_t name, ranks;
    weft__card_terms terms; /* cut behind what is used; who leaves has told them before */
} card_letter;

typedef struct board_letter {
    uint32_t state;
    weft__abort abort; /* the last */
} board_letter;

struct weft__control {
    weft__link *links; /* [size]; of rank 0 to each other rank, else the one at [0] */
    int count;
    int epoll_fd;
    uint64_t data;       /* of events */
    bool *waits_to_send; /* [count]: the engine looks for room */
    pthread_mutex_t lock;
    weft__board *copies; /* [size], of ranks on other machines */
    struct pollfd *ends; /* [count], for hanging up */
    bool meets;          /* it has its links */
    _Atomic bool deaf;   /* the link to rank 0 has ended */
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

/* What a letter is about, for the next on it to take its place while it waits. That a comm was left says nothing else:
 * it must not take the place of what the card said before. */
static uint32_t topic_of(enum kind kind, const void *content, size_t bytes)
{
    uint32_t slot;
    if (kind != CARD)
        return kind;
    memcpy(&slot, content, sizeof slot);
    return 1 + 2 * slot + (bytes == offsetof(card_letter, terms));
}

static weft__letter head_of(enum kind kind, int from, int to_count, const void *content, size_t bytes)
{
    return (weft__letter){.bytes = (uint32_t)(sizeof(weft__letter) + (size_t)to_count * sizeof(int) + bytes),
                          .kind = kind,
                          .from = from,
                          .addressees = to_count,
                          .topic = topic_of(kind, content, bytes)};
}

static void send_by(weft__control *c, int link, enum kind kind, int from, const int *to, int to_count,
                    const void *content, size_t bytes)
{
    weft__letter head = head_of(kind, from, to_count, content, bytes);
    pthread_mutex_lock(&c->lock);
    (void)weft__link_send(&c->links[link], &head, to, content);
    want_room(c, link, weft__link_is_behind(&c->links[link]));
    pthread_mutex_unlock(&c->lock);
}

/* For the engine to write, together with what comes meanwhile: when all ranks make a comm, rank 0 hears of a letter
 * from each to each. */
static void put_by(weft__control *c, int link, enum kind kind, int from, const void *content, size_t bytes)
{
    weft__letter head = head_of(kind, from, 0, content, bytes);
    pthread_mutex_lock(&c->lock);
    (void)weft__link_put(&c->links[link], &head, NULL, content);
    want_room(c, link, weft__link_is_behind(&c->links[link]));
    pthread_mutex_unlock(&c->lock);
}

static bool share_a_machine(const weft_world *world, int a, int b)
{
    return strcmp(world->identities[a].machine, world->identities[b].machine) == 0;
}

static bool is_for_all(const int *to, int to_count)
{
    return to_count == 1 && to[0] == EVERYBODY;
}

/* Rank 0: to each of them, as they are. Who shares a machine with the sender looks at its board itself. */
static void pass_on(weft_world *world, enum kind kind, int from, const int *to, int to_count, const void *content,
                    size_t bytes)
{
    bool all = is_for_all(to, to_count);
    for (int i = 0; i < (all ? world->size : to_count); i++) {
        int rank = all ? i : to[i];
        if (rank == 0 || rank == from || (kind != LOST && share_a_machine(world, from, rank)))
            continue;
        if (from == 0)
            send_by(world->control, rank, kind, from, NULL, 0, content, bytes);
        else
            put_by(world->control, rank, kind, from, content, bytes);
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
    uint32_t left = atomic_load(&card->left);
    card_letter letter = {.slot = (uint32_t)(card - world->boards[world->rank]->cards),
                          .incarnation = atomic_load(&card->incarnation),
                          .left = left,
                          .name = atomic_load(&card->name),
                          .ranks = atomic_load(&card->ranks),
                          .terms = *terms};
    size_t bytes = offsetof(card_letter, terms) + (left == WEFT__CARD_LEFT ? 0 : weft__card_terms_bytes(terms));
    bool all = !ranks || count == world->size;
    tell(world, CARD, all ? &(int){EVERYBODY} : ranks, all ? 1 : count, &letter, bytes);
}

static void tell_state(weft_world *world, uint32_t state)
{
    board_letter letter = {.state = state};
    (void)weft__board_aborted(&world->own->header->board, &letter.abort);
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

static bool hear_card(weft_world *world, int from, const void *content, size_t bytes)
{
    card_letter letter = {0};
    size_t head = offsetof(card_letter, terms);
    if (bytes < head || bytes > sizeof letter)
        return false;
    memcpy(&letter, content, bytes); /* it may lie at odd places */
    weft__card_terms *terms = bytes > head ? &letter.terms : NULL;
    bool why = letter.left == WEFT__CARD_GAVE_UP || letter.left == WEFT__CARD_FAILED;
    if (letter.slot >= WEFT__CARDS || letter.left > WEFT__CARD_FAILED || (!terms && letter.left != WEFT__CARD_LEFT) ||
        (terms && bytes != head + weft__card_terms_bytes(terms)) || (why && !weft__is_failure(terms->verdict)))
        return false;
    if (!is_far(world, from))
        return true;
    letter.terms.given_up_ns = weft__now_ns(); /* by this machine's clock */
    letter.terms.ranks[sizeof letter.terms.ranks - 1] = 0;
    letter.terms.backend[sizeof letter.terms.backend - 1] = 0;
    letter.terms.verdict_text[sizeof letter.terms.verdict_text - 1] = 0;
    weft__board_copy(&world->control->copies[from], letter.slot, (weft__card_key){letter.name, letter.ranks},
                     letter.incarnation, letter.left, terms);
    if (why)
        alarm_world(world);
    return true;
}

static bool hear_board(weft_world *world, int from, const void *content, size_t bytes)
{
    board_letter letter;
    if (bytes != sizeof letter)
        return false;
    memcpy(&letter, content, bytes);
    weft__abort *abort = &letter.abort;
    if (letter.state > WEFT__RANK_CLOSED || (abort->number && !weft__is_failure(abort->result)))
        return false;
    if (!is_far(world, from))
        return true;
    weft__board *board = &world->control->copies[from];
    abort->text[sizeof abort->text - 1] = 0;
    if (abort->number)
        weft__board_abort(board, abort->number, (weft_result)abort->result, abort->text);
    atomic_store(&board->state, letter.state);
    return true;
}

/* Its process has ended, and not closed its world before; or nothing is heard of it any more. */
static void note_lost(weft_world *world, int rank, uint32_t how)
{
    uint8_t was = 0;
    if (rank == world->rank || !atomic_compare_exchange_strong(&world->lost[rank], &was, (uint8_t)how))
        return;
    weft__log(WEFT_LOG_INFO,
              how == WEFT__LOST_ENDED ? "rank %d has ended without closing its world"
                                      : "nothing is heard of rank %d any more",
              rank);
    alarm_world(world);
}

/* Rank 0 alone finds that out. */
static bool hear_lost(weft_world *world, int from, const void *content, size_t bytes)
{
    uint32_t how;
    if (bytes != sizeof how || world->rank == 0)
        return false;
    memcpy(&how, content, sizeof how);
    if (how != WEFT__LOST_ENDED && how != WEFT__LOST_SILENT)
        return false;
    note_lost(world, from, how);
    return true;
}

static bool are_ranks(const weft_world *world, const weft__letter *letter)
{
    const int *to = weft__letter_addressees(letter);
    if (letter->addressees > world->size)
        return false;
    for (int i = 0; i < letter->addressees; i++)
        if (to[i] < 0 || to[i] >= world->size)
            return is_for_all(to, letter->addressees);
    return true;
}

/* Who may have sent it? The others hear from rank 0 only, which passes on what it has judged itself. */
static bool can_be_from(const weft_world *world, int from, int link)
{
    return from >= 0 && from < world->size && from != world->rank && (world->rank > 0 || from == link);
}

/* False: it is no letter of a rank of this world. */
static bool take_letter(weft_world *world, const weft__letter *letter, int link)
{
    const void *content = weft__letter_content(letter);
    size_t bytes = weft__letter_content_bytes(letter);
    if (!can_be_from(world, letter->from, link) || !are_ranks(world, letter))
        return false;
    switch (letter->kind) {
    case CARD: /* for this rank or not: it keeps copies of all that it hears of */
        return hear_card(world, letter->from, content, bytes);
    case BOARD:
        return hear_board(world, letter->from, content, bytes);
    case LOST:
        return hear_lost(world, letter->from, content, bytes);
    default:
        return false;
    }
}

/* False: what has come is not sound. */
static bool take_letters(weft_world *world, int link)
{
    const weft__letter *letter;
    bool sound;
    while ((letter = weft__link_next(&world->control->links[link], &sound))) {
        if (!take_letter(world, letter, link))
            return false;
        if (world->rank == 0)
            pass_on(world, (enum kind)letter->kind, letter->from, weft__letter_addressees(letter), letter->addressees,
                    weft__letter_content(letter), weft__letter_content_bytes(letter));
    }
    return sound;
}

static void end_link(weft_world *world, int link, bool sound)
{
    weft__control *c = world->control;
    pthread_mutex_lock(&c->lock);
    epoll_ctl(c->epoll_fd, EPOLL_CTL_DEL, c->links[link].fd, NULL);
    bool overrun = c->links[link].overrun;
    uint32_t how = weft__socket_is_silence(c->links[link].error) ? WEFT__LOST_SILENT : WEFT__LOST_ENDED;
    weft__link_close(&c->links[link]);
    pthread_mutex_unlock(&c->lock);
    if (overrun)
        weft__log(WEFT_LOG_ERROR, "rank %d reads nothing, and more than the %zu bytes wait for it that may: it is lost",
                  link, c->links[link].most);
    if (!sound)
        weft__log(WEFT_LOG_ERROR, "what comes from rank %d makes no sense: it is not heard any more", link);
    bool closed = atomic_load(&world->boards[link]->state) == WEFT__RANK_CLOSED;
    if (world->rank > 0) {
        atomic_store(&c->deaf, true);
        weft__log(closed ? WEFT_LOG_INFO : WEFT_LOG_WARN,
                  "rank 0 has %s; of ranks on other machines this one hears no more",
                  closed                     ? "closed its world"
                  : how == WEFT__LOST_SILENT ? "been silent for too long"
                                             : "ended");
    }
    if (closed)
        return;
    if (world->rank == 0)
        pass_on(world, LOST, link, &(int){EVERYBODY}, 1, &how, sizeof how);
    note_lost(world, link, how);
}

void weft__control_hear(weft_world *world, int link)
{
    weft__control *c = world->control;
    pthread_mutex_lock(&c->lock);
    bool ended = c->links[link].fd < 0;
    if (!ended)
        want_room(c, link, !weft__link_flush(&c->links[link]));
    pthread_mutex_unlock(&c->lock);
    if (ended)
        return;
    bool open = weft__link_receive(&c->links[link]);
    bool sound = take_letters(world, link);
    if (!sound || !open)
        end_link(world, link, sound);
}

bool weft__control_hears(const weft_world *world, int rank)
{
    return !world->control || !is_far(world, rank) || !atomic_load(&world->control->deaf);
}

/* ------------------------------------------------------------------------------------------- opening and closing */

weft_result weft__control_open(weft_world *world)
{
    size_t size = (size_t)world->size, count = world->rank == 0 ? size : 1;
    weft__control *c = weft__alloc(sizeof *c);
    if (!c)
        return WEFT_E_NO_MEMORY;
    world->control = c;
    pthread_mutex_init(&c->lock, NULL);
    c->links = weft__alloc(count * sizeof *c->links);
    c->waits_to_send = weft__alloc(count * sizeof *c->waits_to_send);
    c->ends = weft__alloc(count * sizeof *c->ends);
    c->copies = weft__map_pages(size * sizeof *c->copies);
    if (!c->links || !c->waits_to_send || !c->ends || !c->copies)
        return WEFT_E_NO_MEMORY;
    c->count = (int)count;
    for (int i = 0; i < c->count; i++)
        c->links[i].fd = -1;
    madvise(c->copies, size * sizeof *c->copies, MADV_NOHUGEPAGE); /* little of them is used */
    for (int r = 0; r < world->size; r++)
        if (is_far(world, r))
            world->boards[r] = &c->copies[r];
    return WEFT_OK;
}

void weft__control_watch(weft_world *world, int epoll_fd, uint64_t data)
{
    if (!world->control)
        return;
    world->control->epoll_fd = epoll_fd;
    world->control->data = data;
}

weft_result weft__control_meet(weft_world *world, int *links)
{
    weft__control *c = world->control;
    weft_result result = WEFT_OK;
    pthread_mutex_lock(&c->lock);
    c->meets = true;
    for (int i = 0; i < c->count; i++) {
        if (links[i] < 0)
            continue;
        weft__link_open(&c->links[i], links[i]);
        c->links[i].most = BACKLOG_BYTES + (size_t)world->size * BACKLOG_BYTES_EACH;
        struct epoll_event event = {.events = EPOLLIN, .data.u64 = c->data + (uint64_t)i};
        if (epoll_ctl(c->epoll_fd, EPOLL_CTL_ADD, links[i], &event) != 0)
            result = weft__fail_errno("cannot watch a link");
    }
    pthread_mutex_unlock(&c->lock);
    free(links);
    return result;
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
    if (!world->control || !world->control->meets)
        return;
    tell_state(world, WEFT__RANK_CLOSED); /* on its board it says so later, when it looks at nobody's memory any more */
    uint64_t until = weft__now_ns() + STAY_NS;
    while (world->rank == 0 && !all_have_closed(world) && weft__now_ns() < until)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* Send what waits, say that there is no more, and hear the other end out: closing a socket with unread bytes would take
 * back what was sent last. True: it has ended. */
static bool part(weft__link *link, struct pollfd *end)
{
    if (end->events & POLLOUT && weft__link_flush(link)) {
        shutdown(link->fd, SHUT_WR);
        end->events = POLLIN;
    }
    bool open = weft__link_receive(link);
    weft__link_forget(link);
    return !open;
}

static void hang_up(weft__control *c)
{
    uint64_t until = weft__now_ns() + FLUSH_NS;
    for (int i = 0; i < c->count; i++)
        c->ends[i] = (struct pollfd){.fd = c->links[i].fd, .events = POLLIN | POLLOUT};
    for (;;) {
        int open = 0;
        for (int i = 0; i < c->count; i++) {
            if (c->ends[i].fd >= 0 && part(&c->links[i], &c->ends[i]))
                c->ends[i].fd = -1;
            open += c->ends[i].fd >= 0;
        }
        if (open == 0 || weft__now_ns() >= until)
            break;
        (void)poll(c->ends, (nfds_t)c->count, 100);
    }
    for (int i = 0; i < c->count; i++)
        weft__link_close(&c->links[i]);
}

void weft__control_close(weft_world *world)
{
    weft__control *c = world->control;
    if (!c)
        return;
    hang_up(c);
    weft__unmap_pages(c->copies, (size_t)world->size * sizeof *c->copies);
    free(c->links);
    free(c->waits_to_send);
    free(c->ends);
    pthread_mutex_destroy(&c->lock);
    free(c);
    world->control = NULL;
}
