/* SPDX-License-Identifier: Apache-2.0 */
/* Letters between machines: what ranks of one host read on each other's boards, the ranks of others are told along the
 * tree. Letters are whole states, never changes: the last one counts, and nothing is answered. */
#include <poll.h>
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
#include "bootstrap/socket.h"
#include "control_parts.h"

#define FLUSH_NS 2000000000ull /* for what is still to be sent, and for the other end to have heard it */

/* What may wait for a rank that reads nothing: the last word of all others on a few dozen comms. Past that it is
 * lost. */
#define BACKLOG_BYTES      ((size_t)2 << 20)
#define BACKLOG_BYTES_EACH ((size_t)64 << 10)

/* ------------------------------------------------------------------------------------------- hearing */

static void alarm_world(weft_world *world)
{
    weft__last_error said = weft__error_keep();
    weft__progress_alarm(world);
    weft__error_restore(&said);
}

static bool is_card(const weft__card_letter *card, size_t bytes)
{
    size_t head = offsetof(weft__card_letter, terms);
    bool why = card->left == WEFT__CARD_GAVE_UP || card->left == WEFT__CARD_FAILED;
    if (card->slot >= WEFT__CARDS || card->left > WEFT__CARD_FAILED)
        return false;
    if (card->left == WEFT__CARD_LEFT)
        return bytes <= head;
    return bytes > head && bytes <= head + weft__card_terms_bytes(&card->terms) &&
           (!why || weft__is_failure(card->terms.verdict));
}

static void keep_card(weft_world *world, int from, weft__card_letter *card)
{
    if (!weft__is_far(world, from))
        return;
    weft__card_terms *terms = card->left == WEFT__CARD_LEFT ? NULL : &card->terms;
    card->terms.given_up_ns = weft__now_ns(); /* by this machine's clock */
    card->terms.ranks[sizeof card->terms.ranks - 1] = 0;
    card->terms.backend[sizeof card->terms.backend - 1] = 0;
    card->terms.verdict_text[sizeof card->terms.verdict_text - 1] = 0;
    weft__board_copy(&world->control->copies[from], card->slot, (weft__card_key){card->name, card->ranks},
                     card->incarnation, card->left, card->version, terms);
    if (card->left == WEFT__CARD_GAVE_UP || card->left == WEFT__CARD_FAILED)
        alarm_world(world);
}

/* Letters that are sound, and worth passing on? */
typedef enum heard { NONSENSE, NO_NEWS, NEWS } heard;

static heard hear_card(weft_world *world, const weft__letter *head)
{
    weft__control *c = world->control;
    weft__card_letter card;
    size_t bytes;
    if (!weft__letters_unpack(head, &card, sizeof card, &bytes) || !is_card(&card, bytes))
        return NONSENSE;
    keep_card(world, head->from, &card);
    pthread_mutex_lock(&c->lock);
    bool news = weft__letters_is_news(c, &card);
    pthread_mutex_unlock(&c->lock);
    return news ? NEWS : NO_NEWS;
}

static heard hear_board(weft_world *world, const weft__letter *head)
{
    weft__board_letter letter;
    size_t bytes;
    if (!weft__letters_unpack(head, &letter, sizeof letter, &bytes))
        return NONSENSE;
    if (letter.state > WEFT__RANK_CLOSED || (letter.aborted != WEFT_OK && !weft__is_failure(letter.aborted)))
        return NONSENSE;
    if (!weft__is_far(world, head->from))
        return NEWS;
    weft__board *board = &world->control->copies[head->from];
    letter.text[sizeof letter.text - 1] = 0;
    if (letter.aborted != WEFT_OK && atomic_load(&board->aborted) == WEFT_OK)
        weft__board_abort(board, (weft_result)letter.aborted, letter.text);
    if (letter.state == WEFT__RANK_CLOSED) /* for good, whatever comes by another way */
        atomic_store(&board->state, letter.state);
    return NEWS;
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
static heard hear_lost(weft_world *world, const weft__letter *head, const weft__peer *by)
{
    uint32_t how;
    size_t bytes;
    if (!weft__letters_unpack(head, &how, sizeof how, &bytes) || !by->leads_up ||
        (how != WEFT__LOST_ENDED && how != WEFT__LOST_SILENT))
        return NONSENSE;
    note_lost(world, head->from, how);
    return NEWS;
}

static void make_branch(weft__control *c, weft__peer *peer)
{
    pthread_mutex_lock(&c->lock);
    if (!peer->is_branch)
        c->branches[c->branch_count++] = (int)(peer - c->peers);
    peer->is_branch = true;
    pthread_mutex_unlock(&c->lock);
}

static heard hear_adopt(weft_world *world, const weft__letter *head, weft__peer *by)
{
    if (world->rank > 0 || head->from != by->rank)
        return NONSENSE;
    make_branch(world->control, by);
    weft__letters_tell_all(world, by);
    return NO_NEWS;
}

/* Who passes on letters upwards is heard of the ranks behind it; what comes from above was judged there. That may be of
 * any rank, this one even, if some on the way have ended. */
static bool can_be_from(const weft_world *world, int from, const weft__peer *by)
{
    return from >= 0 && from < world->size && (by->leads_up || (from >= by->begin && from < by->end));
}

static bool are_ranks(const weft_world *world, const weft__letter *head)
{
    int ints = (int)(sizeof(weft__rank_run) / sizeof(int));
    return head->addressees % ints == 0 && weft__runs_are_sound((const weft__rank_run *)weft__letter_addressees(head),
                                                                head->addressees / ints, world->size);
}

static heard take_letter(weft_world *world, const weft__letter *head, weft__peer *by)
{
    if (!can_be_from(world, head->from, by) || !are_ranks(world, head))
        return NONSENSE;
    if (head->from == world->rank)
        return NO_NEWS;
    switch (head->kind) {
    case WEFT__LETTER_CARD: /* for this rank or not: it keeps copies of all that it hears of */
        return hear_card(world, head);
    case WEFT__LETTER_BOARD:
        return hear_board(world, head);
    case WEFT__LETTER_LOST:
        return hear_lost(world, head, by);
    case WEFT__LETTER_ADOPT:
        return hear_adopt(world, head, by);
    default:
        return NONSENSE;
    }
}

/* False: what has come is not sound. */
static bool take_letters(weft_world *world, weft__peer *by)
{
    const weft__letter *head;
    bool sound;
    while ((head = weft__link_next(&by->link, &sound))) {
        heard what = take_letter(world, head, by);
        if (what == NONSENSE)
            return false;
        if (what == NEWS)
            weft__letters_pass_on(world, head, (const weft__rank_run *)weft__letter_addressees(head),
                                  weft__letter_content(head), (int)(by - world->control->peers));
    }
    return sound;
}

/* ------------------------------------------------------------------------------------------- links that end */

static void cut_branch(weft__control *c, weft__peer *peer)
{
    for (int i = 0; peer->is_branch && i < c->branch_count; i++)
        if (c->branches[i] == peer - c->peers) {
            c->branches[i] = c->branches[--c->branch_count];
            peer->is_branch = false;
        }
}

/* Those that letters are passed on to by that link. */
static bool have_closed(const weft_world *world, const weft__peer *peer)
{
    for (int r = peer->begin; r < peer->end; r++)
        if (!atomic_load(&world->lost[r]) && atomic_load(&world->boards[r]->state) == WEFT__RANK_OPEN)
            return false;
    return true;
}

/* Nobody needs this rank any more, to be told what others say. */
static bool may_go(weft_world *world)
{
    weft__control *c = world->control;
    bool may = true;
    pthread_mutex_lock(&c->lock);
    for (int i = 0; may && i < c->count; i++)
        may = c->peers[i].leads_up || c->peers[i].link.fd < 0 || have_closed(world, &c->peers[i]);
    pthread_mutex_unlock(&c->lock);
    return may || atomic_load(&c->deaf);
}

/* Whom this rank had letters from has gone: rank 0 does that now. What was on its way is told again, both ways. */
static void ask_rank_0(weft_world *world)
{
    weft__control *c = world->control;
    weft__peer *root = &c->peers[0];
    if (atomic_load(&c->deaf) || root->is_branch || (atomic_load(&c->closes) && may_go(world)))
        return;
    weft__letter head = {.bytes = sizeof head, .kind = WEFT__LETTER_ADOPT, .from = world->rank};
    pthread_mutex_lock(&c->lock);
    (void)weft__link_send(&root->link, &head, NULL, NULL);
    pthread_mutex_unlock(&c->lock);
    make_branch(c, root);
    weft__letters_tell_all(world, root);
}

static void say_that_root_has_gone(weft_world *world, bool closed, uint32_t how)
{
    atomic_store(&world->control->deaf, true);
    weft__log(closed ? WEFT_LOG_INFO : WEFT_LOG_WARN,
              "rank 0 has %s; of ranks on other machines this one hears no more",
              closed                     ? "closed its world"
              : how == WEFT__LOST_SILENT ? "been silent for too long"
                                         : "ended");
}

/* That a rank has ended is for rank 0 to find, which has a link to each; the others have rank 0 do what it did. */
static void draw_conclusions(weft_world *world, const weft__peer *peer, uint32_t how)
{
    bool closed = atomic_load(&world->boards[peer->rank]->state) == WEFT__RANK_CLOSED;
    if (peer->rank == 0)
        say_that_root_has_gone(world, closed, how);
    else if (world->rank > 0 && peer->leads_up)
        ask_rank_0(world);
    if (closed || (world->rank > 0 && peer->rank > 0))
        return;
    if (world->rank == 0)
        weft__letters_tell_everybody(world, WEFT__LETTER_LOST, peer->rank, &how, sizeof how);
    note_lost(world, peer->rank, how);
}

static void end_link(weft_world *world, weft__peer *peer, bool sound)
{
    weft__control *c = world->control;
    pthread_mutex_lock(&c->lock);
    epoll_ctl(c->epoll_fd, EPOLL_CTL_DEL, peer->link.fd, NULL);
    bool overrun = peer->link.overrun;
    uint32_t how = weft__socket_is_silence(peer->link.error) ? WEFT__LOST_SILENT : WEFT__LOST_ENDED;
    weft__link_close(&peer->link);
    cut_branch(c, peer);
    pthread_mutex_unlock(&c->lock);
    if (overrun)
        weft__log(WEFT_LOG_ERROR, "rank %d reads nothing, and more than the %zu bytes wait for it that may: it is lost",
                  peer->rank, peer->link.most);
    if (!sound)
        weft__log(WEFT_LOG_ERROR, "what comes from rank %d makes no sense: it is not heard any more", peer->rank);
    draw_conclusions(world, peer, how);
}

void weft__control_hear(weft_world *world, int link)
{
    weft__control *c = world->control;
    weft__peer *peer = &c->peers[link];
    pthread_mutex_lock(&c->lock);
    bool ended = peer->link.fd < 0;
    if (!ended)
        weft__letters_want_room(c, peer, !weft__link_flush(&peer->link));
    pthread_mutex_unlock(&c->lock);
    if (ended)
        return;
    bool open = weft__link_receive(&peer->link);
    bool sound = take_letters(world, peer);
    if (!sound || !open)
        end_link(world, peer, sound);
}

bool weft__control_hears(const weft_world *world, int rank)
{
    return !world->control || !weft__is_far(world, rank) || !atomic_load(&world->control->deaf);
}

/* ------------------------------------------------------------------------------------------- opening and closing */

/* Links that a rank may have: rank 0 to all others, these to rank 0 and their neighbours in the tree. */
static void list_peers(weft__control *c, int size)
{
    const weft__place *place = &c->place;
    if (place->rank == 0) {
        for (int r = 1; r < size; r++)
            c->peers[c->count++] = (weft__peer){.rank = r, .begin = r, .end = weft__tree_place(r, size).end};
        return;
    }
    c->peers[c->count++] = (weft__peer){.rank = 0, .begin = place->rank, .end = place->end, .leads_up = true};
    if (place->parent > 0)
        c->peers[c->count++] =
            (weft__peer){.rank = place->parent, .begin = place->rank, .end = place->end, .leads_up = true};
    for (int i = 0; i < place->children; i++)
        c->peers[c->count++] = (weft__peer){.rank = weft__tree_child(place, i),
                                            .begin = weft__tree_child(place, i),
                                            .end = weft__tree_child(place, i + 1)};
}

weft_result weft__control_open(weft_world *world)
{
    size_t size = (size_t)world->size;
    weft__control *c = weft__alloc(sizeof *c);
    if (!c)
        return WEFT_E_NO_MEMORY;
    world->control = c;
    pthread_mutex_init(&c->lock, NULL);
    c->place = weft__tree_place(world->rank, world->size);
    size_t count = world->rank == 0 ? size : 2 + (size_t)c->place.children;
    c->peers = weft__alloc(count * sizeof *c->peers);
    c->branches = weft__alloc(count * sizeof *c->branches);
    c->ends = weft__alloc(count * sizeof *c->ends);
    c->copies = weft__map_pages(size * sizeof *c->copies);
    if (!c->peers || !c->branches || !c->ends || !c->copies)
        return WEFT_E_NO_MEMORY;
    list_peers(c, world->size);
    for (int i = 0; i < c->count; i++)
        c->peers[i].link.fd = -1;
    madvise(c->copies, size * sizeof *c->copies, MADV_NOHUGEPAGE); /* little of them is used */
    for (int r = 0; r < world->size; r++)
        if (weft__is_far(world, r))
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

/* Is it a neighbour in the tree? */
static bool is_neighbour(const weft__place *place, const weft__peer *peer)
{
    if (peer->leads_up)
        return peer->rank == place->parent;
    return place->rank > 0 || weft__tree_place(peer->rank, place->end).parent == 0;
}

weft_result weft__control_meet(weft_world *world, int *links)
{
    weft__control *c = world->control;
    weft_result result = WEFT_OK;
    pthread_mutex_lock(&c->lock);
    c->meets = true;
    for (int i = 0; i < c->count; i++) {
        weft__peer *peer = &c->peers[i];
        int fd = links[peer->rank];
        if (fd < 0)
            continue;
        weft__link_open(&peer->link, fd);
        peer->link.most = BACKLOG_BYTES + (size_t)world->size * BACKLOG_BYTES_EACH;
        peer->is_branch = is_neighbour(&c->place, peer);
        if (peer->is_branch)
            c->branches[c->branch_count++] = i;
    }
    /* All are there before the engine hears of one. */
    for (int i = 0; i < c->count; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.u64 = c->data + (uint64_t)i};
        if (c->peers[i].link.fd >= 0 && epoll_ctl(c->epoll_fd, EPOLL_CTL_ADD, c->peers[i].link.fd, &event) != 0)
            result = weft__fail_errno("cannot watch a link");
    }
    bool has_parent = c->place.parent <= 0 || links[c->place.parent] >= 0;
    pthread_mutex_unlock(&c->lock);
    free(links);
    if (!has_parent)
        ask_rank_0(world);
    return result;
}

void weft__control_say_closed(weft_world *world)
{
    if (!world->control || !world->control->meets)
        return;
    atomic_store(&world->control->closes, true);
    /* On its board it says that it has closed when it looks at nobody's memory any more. */
    atomic_store(&world->own->header->board.state, WEFT__RANK_CLOSING);
    weft__letters_tell_state(world, WEFT__RANK_CLOSED);
    uint64_t until = weft__now_ns() + (uint64_t)world->config.rendezvous_timeout_ms * 1000000u;
    while (!may_go(world) && weft__now_ns() < until)
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
        c->ends[i] = (struct pollfd){.fd = c->peers[i].link.fd, .events = POLLIN | POLLOUT};
    for (;;) {
        int open = 0;
        for (int i = 0; i < c->count; i++) {
            if (c->ends[i].fd >= 0 && part(&c->peers[i].link, &c->ends[i]))
                c->ends[i].fd = -1;
            open += c->ends[i].fd >= 0;
        }
        if (open == 0 || weft__now_ns() >= until)
            break;
        (void)poll(c->ends, (nfds_t)c->count, 100);
    }
    for (int i = 0; i < c->count; i++)
        weft__link_close(&c->peers[i].link);
}

void weft__control_close(weft_world *world)
{
    weft__control *c = world->control;
    if (!c)
        return;
    hang_up(c);
    weft__unmap_pages(c->copies, (size_t)world->size * sizeof *c->copies);
    free(c->peers);
    free(c->branches);
    free(c->ends);
    pthread_mutex_destroy(&c->lock);
    free(c);
    world->control = NULL;
}
