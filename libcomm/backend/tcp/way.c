/* SPDX-License-Identifier: Apache-2.0 */
/* The ways to other ranks: made in the background when the first comm with a rank is, by whoever of the two has the
 * greater number, at one place after the other; and kept until the world is closed, or the other has gone. */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "base/log.h"
#include "bootstrap/hello.h"
#include "bootstrap/socket.h"
#include "tcp.h"
#include "world.h"

#define ROUNDS      3             /* through all places, and more while one is silent, */
#define PATIENCE_NS 1000000000ull /* each with twice as long a wait, up to so many times */
#define WANT_NS     20000000ull   /* between two tries without descriptors or memory */
#define LOOK_NS     5000000ull    /* between two looks at who takes too long */

static void settle(weft__tcp_way *way, weft__tcp_state state)
{
    bool was = way->state > WEFT__TCP_UNKNOWN && way->state < WEFT__TCP_OPEN;
    bool is = state > WEFT__TCP_UNKNOWN && state < WEFT__TCP_OPEN;
    way->tcp->unsettled += is - was;
    way->state = state;
}

static void hang_up(weft__tcp_way *way)
{
    if (way->fd >= 0) {
        (void)shutdown(way->fd, SHUT_RDWR); /* a child of this process may have it too */
        weft__tcp_close(way->tcp, way->fd);
    }
    way->fd = -1;
    way->wants_room = false;
}

/* ------------------------------------------------------------------------------------------- losing one */

void weft__tcp_way_lose(weft__tcp_way *way, weft_result result, const char *why)
{
    if (way->state == WEFT__TCP_LOST)
        return;
    way->result = result;
    snprintf(way->why, sizeof way->why, "%s", why);
    settle(way, WEFT__TCP_LOST);
    hang_up(way);
    weft__tcp_let_go(way);
    weft__net_rank_lost(way->tcp->net, way->rank, result, way->why);
}

weft_result weft__tcp_lost(void *state, int rank, const char **why_out)
{
    const weft__tcp_way *way = &((weft__tcp *)state)->ways[rank];
    if (way->state != WEFT__TCP_LOST)
        return WEFT_OK;
    *why_out = way->why;
    return way->result;
}

weft_result weft__tcp_result_of(int error)
{
    return weft__socket_is_silence(error) ? WEFT_E_TIMEOUT : WEFT_E_PEER_LOST;
}

/* ------------------------------------------------------------------------------------------- connecting */

static weft__endpoint place_of(const weft__tcp_card *card, int index)
{
    const weft__tcp_place *place = &card->place[index];
    weft__endpoint e = {.length = place->is_ipv6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in)};
    if (place->is_ipv6) {
        struct sockaddr_in6 *to = (struct sockaddr_in6 *)&e.where;
        to->sin6_family = AF_INET6;
        to->sin6_scope_id = place->scope;
        memcpy(&to->sin6_addr, place->address, sizeof to->sin6_addr);
    } else {
        struct sockaddr_in *to = (struct sockaddr_in *)&e.where;
        to->sin_family = AF_INET;
        memcpy(&to->sin_addr, place->address, sizeof to->sin_addr);
    }
    weft__endpoint_set_port(&e, card->port);
    return e;
}

/* Try the place at hand; false: it cannot even be begun, with errno. */
static bool connect_to(weft__tcp_way *way, const weft__endpoint *to)
{
    int fd = socket(to->where.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return false;
    way->fd = fd;
    (void)weft__tcp_tune(fd); /* what the listener could have */
    bool begun =
        connect(fd, (const struct sockaddr *)&to->where, to->length) == 0 || errno == EINPROGRESS || errno == EINTR;
    return begun && weft__tcp_watch(way->tcp, fd, EPOLLOUT, WEFT__TCP_WAY, way->rank);
}

/* Nothing is wrong with the place: this process has no descriptor left, or the machine no memory. */
static bool is_want(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM || error == ENOSPC;
}

/* Why the place at hand is none. The best one comes first, and what is wrong there tells most. */
static void note_failure(weft__tcp_way *way, const char *why, bool silent)
{
    hang_up(way);
    if ((way->attempt - 1) % way->card.places == 0)
        snprintf(way->why, sizeof way->why, "%s", why);
    way->silent |= silent;
}

static void explain(const weft__tcp_way *way, char why[WEFT__TCP_WHY])
{
    char text[WEFT__ENDPOINT_TEXT];
    weft__endpoint first = place_of(&way->card, 0);
    snprintf(why, WEFT__TCP_WHY, "it cannot be reached at %s%s: %.80s", weft__endpoint_text(&first, text),
             way->card.places > 1 ? ", nor elsewhere" : "", way->why);
}

/* All places were tried. False: the next round has to wait. */
static bool next_round(weft__tcp_way *way, uint64_t now)
{
    char why[WEFT__TCP_WHY];
    if (way->silent && now < way->round_ns) {
        way->until_ns = way->round_ns;
        settle(way, WEFT__TCP_CONNECTING);
        return false;
    }
    if (way->attempt == ROUNDS * way->card.places) {
        explain(way, why);
        weft__log(WEFT_LOG_WARN, "tcp: no way to rank %d yet, %s; it is tried for %.0f s more", way->rank, why,
                  (double)(way->give_up_ns - now) * 1e-9);
    }
    way->silent = false;
    way->round_ns = now + PATIENCE_NS;
    return true;
}

/* All was tried often enough. Only who hears nothing waits for more. */
static bool is_hopeless(const weft__tcp_way *way, uint64_t now)
{
    bool at_end = way->attempt % way->card.places == 0;
    return way->attempt >= ROUNDS * way->card.places && ((at_end && !way->silent) || now >= way->give_up_ns);
}

/* The place at hand is tried again when there may be what is wanted, as long as there is time at all. */
static void wait_for_better(weft__tcp_way *way, int error, uint64_t now)
{
    char why[WEFT__TCP_WHY];
    hang_up(way);
    way->attempt--;
    way->wants = true;
    way->until_ns = now + WANT_NS;
    snprintf(why, sizeof why, "this rank cannot open a connection: %s%s", strerror(error),
             error == EMFILE ? " (ulimit -n)" : "");
    if (now >= way->give_up_ns)
        weft__tcp_way_lose(way, WEFT_E_SYSTEM, why);
    else if (!way->tcp->told_on_ways)
        weft__log(WEFT_LOG_WARN, "tcp: no way to rank %d yet: %s; it is tried for %.0f s more", way->rank, why,
                  (double)(way->give_up_ns - now) * 1e-9);
    way->tcp->told_on_ways = true;
}

/* Go on to the next place, until one can be tried. */
static void try_next(weft__tcp_way *way)
{
    for (;;) {
        int round = way->attempt / way->card.places, index = way->attempt % way->card.places;
        uint64_t now = weft__now_ns();
        bool again = way->wants; /* in the same round: nobody was asked */
        way->wants = false;
        if (!again && is_hopeless(way, now)) {
            char why[WEFT__TCP_WHY];
            explain(way, why);
            weft__tcp_way_lose(way, now >= way->give_up_ns ? WEFT_E_TIMEOUT : WEFT_E_PEER_LOST, why);
            return;
        }
        if (index == 0 && !again && !next_round(way, now))
            return;
        weft__endpoint to = place_of(&way->card, index);
        way->attempt++;
        way->until_ns = now + (PATIENCE_NS << (round < ROUNDS ? round : ROUNDS));
        if (round >= ROUNDS && way->until_ns > way->give_up_ns)
            way->until_ns = way->give_up_ns;
        settle(way, WEFT__TCP_CONNECTING);
        if (connect_to(way, &to))
            return;
        if (is_want(errno)) {
            wait_for_better(way, errno, now);
            return;
        }
        note_failure(way, strerror(errno), weft__socket_is_silence(errno));
    }
}

static void fail(weft__tcp_way *way, const char *why, bool silent)
{
    note_failure(way, why, silent);
    try_next(way);
}

static void say_hello(weft__tcp_way *way)
{
    int error = 0;
    socklen_t length = sizeof error;
    const weft__hello hello =
        weft__hello_make(way->card.key, weft_world_rank(way->tcp->net->world), weft_world_size(way->tcp->net->world));
    if (getsockopt(way->fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0 || error)
        fail(way, strerror(error ? error : errno), weft__socket_is_silence(error));
    else if (send(way->fd, &hello, sizeof hello, MSG_NOSIGNAL) != sizeof hello) /* a fresh socket takes that much */
        fail(way, "whoever listens there has hung up", false);
    else if (!weft__tcp_watch(way->tcp, way->fd, EPOLLIN, WEFT__TCP_WAY, way->rank))
        fail(way, strerror(errno), false);
    else {
        way->heard = 0;
        settle(way, WEFT__TCP_GREETING);
    }
}

static void hear_welcome(weft__tcp_way *way)
{
    const unsigned char coming = WEFT__HELLO_COMING;
    ssize_t n = recv(way->fd, (char *)&way->welcome + way->heard, sizeof way->welcome - way->heard, 0);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return;
    way->heard += n > 0 ? (size_t)n : 0;
    weft__heard heard = weft__welcome_judge(&way->welcome, way->heard, way->card.key);
    if (n <= 0 || (heard != WEFT__HEARD_PART && heard != WEFT__HEARD_ALL))
        fail(way, "whoever listens there does not know this job", false);
    else if (heard == WEFT__HEARD_ALL && send(way->fd, &coming, 1, MSG_NOSIGNAL) != 1)
        fail(way, "whoever listens there has hung up", false);
    else if (heard == WEFT__HEARD_ALL)
        weft__tcp_way_open(way, way->fd);
}

void weft__tcp_way_advance(weft__tcp_way *way)
{
    if (way->state == WEFT__TCP_CONNECTING)
        say_hello(way);
    else if (way->state == WEFT__TCP_GREETING)
        hear_welcome(way);
}

void weft__tcp_ways_tire(weft__tcp *tcp)
{
    uint64_t now = weft__now_ns();
    if (now < tcp->look_ns)
        return;
    tcp->look_ns = now + LOOK_NS; /* ranks may be many, and this comes in every turn */
    bool any_wants = false;
    for (int r = 0; r < weft_world_size(tcp->net->world); r++) {
        weft__tcp_way *way = &tcp->ways[r];
        bool tries = way->state == WEFT__TCP_CONNECTING || way->state == WEFT__TCP_GREETING;
        bool is_late = tries && now >= way->until_ns;
        if (is_late && way->fd < 0)
            try_next(way);
        else if (is_late)
            fail(way, "whoever is there does not answer", true);
        any_wants |= way->wants && way->state == WEFT__TCP_CONNECTING;
    }
    tcp->told_on_ways &= any_wants;
}

/* ------------------------------------------------------------------------------------------- having one */

void weft__tcp_way_open(weft__tcp_way *way, int fd)
{
    way->fd = fd;
    weft__endpoint_tune(fd);
    settle(way, WEFT__TCP_OPEN);
    if (weft__tcp_watch(way->tcp, fd, EPOLLIN, WEFT__TCP_WAY, way->rank))
        weft__tcp_write(way);
    else
        weft__tcp_way_lose(way, WEFT_E_SYSTEM, strerror(errno));
}

weft_result weft__tcp_reach(void *state, int rank, const unsigned char *address, size_t bytes)
{
    weft__tcp *tcp = state;
    weft__tcp_way *way = &tcp->ways[rank];
    if (way->state != WEFT__TCP_UNKNOWN)
        return WEFT_OK;
    if (rank > weft_world_rank(tcp->net->world)) {
        settle(way, WEFT__TCP_AWAITED);
        return WEFT_OK;
    }
    if (bytes != sizeof way->card)
        return weft_backend_error(WEFT_E_BUG, "tcp: the card of rank %d has %zu bytes, not %zu", rank, bytes,
                                  sizeof way->card);
    memcpy(&way->card, address, bytes);
    if (way->card.places < 1 || way->card.places > WEFT__TCP_PLACES)
        return weft_backend_error(WEFT_E_BUG, "tcp: the card of rank %d names %u places", rank, way->card.places);
    way->give_up_ns = weft__now_ns() + (uint64_t)tcp->net->world->config.rendezvous_timeout_ms * 1000000;
    try_next(way);
    return WEFT_OK;
}
