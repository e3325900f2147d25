/* SPDX-License-Identifier: Apache-2.0 */
/* Where this rank listens, and who comes in: other ranks of this world, which know its key from a card. Strangers, and
 * those who say nothing, are sent away as at the meeting of ranks. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/env.h"
#include "base/error.h"
#include "base/log.h"
#include "bootstrap/address.h"
#include "bootstrap/iface.h"
#include "bootstrap/socket.h"
#include "tcp.h"
#include "world.h"

#define SHUT_NS 20000000ull

/* ------------------------------------------------------------------------------------------- listening */

static void add_place(weft__tcp_card *card, const weft__endpoint *e)
{
    if (card->places == WEFT__TCP_PLACES)
        return;
    weft__tcp_place *place = &card->place[card->places++];
    place->is_ipv6 = e->where.ss_family == AF_INET6;
    if (place->is_ipv6) {
        const struct sockaddr_in6 *from = (const struct sockaddr_in6 *)(const void *)&e->where;
        memcpy(place->address, &from->sin6_addr, sizeof from->sin6_addr);
    } else {
        const struct sockaddr_in *from = (const struct sockaddr_in *)(const void *)&e->where;
        memcpy(place->address, &from->sin_addr, sizeof from->sin_addr);
    }
}

/* What the ranks meet through, they send through. */
static weft_result find_places(weft__tcp *tcp)
{
    const char *rendezvous = tcp->net->world->config.rendezvous;
    weft__address meeting = {0};
    weft__iface ifaces[WEFT__IFACES_MAX];
    weft__env env;
    int count;
    WEFT_TRY(weft__env_read(&env));
    if (rendezvous && *rendezvous && strncmp(rendezvous, "unix:", 5) != 0)
        WEFT_TRY(weft__address_parse("the place to meet", rendezvous, &meeting));
    WEFT_TRY(weft__iface_find(meeting.iface[0] ? meeting.iface : env.iface ? env.iface : "", ifaces, &count));
    for (int i = 0; i < count; i++)
        add_place(&tcp->card, &ifaces[i].address);
    return WEFT_OK;
}

weft_result weft__tcp_tune(int fd)
{
    weft__env env;
    WEFT_TRY(weft__env_read(&env));
    const char *name = env.tcp_congestion;
    if (!name || setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, (socklen_t)strlen(name)) == 0)
        return WEFT_OK;
    return weft__fail(WEFT_E_INVALID,
                      "WEFT_TCP_CONGESTION is '%s', which this rank cannot have: %s (see "
                      "/proc/sys/net/ipv4/tcp_allowed_congestion_control)",
                      name, strerror(errno));
}

static weft_result open_door(weft__tcp *tcp)
{
    weft__tcp_card *card = &tcp->card;
    *card = (weft__tcp_card){0};
    if (getrandom(&card->key, sizeof card->key, 0) != sizeof card->key)
        return weft__fail_errno("tcp: no random bytes");
    WEFT_TRY(find_places(tcp));
    if (!tcp->guests.all)
        WEFT_TRY(weft__guests_open(&tcp->guests, card->key, weft_world_size(tcp->net->world)));
    tcp->guests.key = card->key;
    tcp->guests.epoll_fd = tcp->epoll_fd;
    weft__endpoint any = weft__endpoint_any(true, 0), here = {.length = sizeof here.where};
    int fd = weft__endpoint_listen(&any);
    if (fd < 0) {
        any = weft__endpoint_any(false, 0);
        fd = weft__endpoint_listen(&any);
    }
    if (fd < 0)
        return weft__fail_errno("tcp: cannot listen");
    weft_result result = weft__tcp_tune(fd); /* those that are accepted are as the listener is */
    if (result == WEFT_OK && (getsockname(fd, (struct sockaddr *)&here.where, &here.length) != 0 ||
                              !weft__tcp_watch(tcp, fd, EPOLLIN, WEFT__TCP_LISTENER, 0)))
        result = weft__fail_errno("tcp: cannot listen");
    if (result != WEFT_OK) {
        close(fd);
        return result;
    }
    card->port = weft__endpoint_port(&here);
    tcp->listener = fd;
    return WEFT_OK;
}

weft_result weft__tcp_address(void *state, unsigned char *address, size_t room, size_t *bytes_out)
{
    weft__tcp *tcp = state;
    if (tcp->listener < 0)
        WEFT_TRY(open_door(tcp));
    if (sizeof tcp->card > room)
        return weft__fail(WEFT_E_BUG, "tcp: a card has %zu bytes, and room for %zu", sizeof tcp->card, room);
    memcpy(address, &tcp->card, sizeof tcp->card);
    *bytes_out = sizeof tcp->card;
    return WEFT_OK;
}

/* ------------------------------------------------------------------------------------------- guests */

/* A rank has come: those with a greater number connect, each once. */
static void let_in(weft__tcp *tcp, const weft__guest *guest)
{
    const weft_world *world = tcp->net->world;
    const weft__hello *hello = &guest->hello;
    bool is_expected = hello->protocol == WEFT__HELLO_PROTOCOL && hello->size == weft_world_size(world) &&
                       hello->rank > weft_world_rank(world) && hello->rank < weft_world_size(world) &&
                       tcp->ways[hello->rank].state <= WEFT__TCP_AWAITED;
    if (is_expected)
        weft__tcp_way_open(&tcp->ways[hello->rank], guest->fd);
    else
        weft__tcp_close(tcp, guest->fd);
}

void weft__tcp_hear_guests(weft__tcp *tcp)
{
    weft__guest in;
    for (int i = 0; i < tcp->guests.count;) {
        switch (weft__guests_hear(&tcp->guests, i, &in)) {
        case WEFT_OK:
            let_in(tcp, &in);
            break;
        case WEFT_PENDING:
            i++;
            break;
        default: /* gone */
            break;
        }
    }
    (void)weft__guests_tire(&tcp->guests, weft__now_ns());
}

/* Who waits at the door and cannot be let in waits on: nobody is kept busy by that. */
static void shut_door(weft__tcp *tcp, weft_result result)
{
    if (result != WEFT_OK && !tcp->told_at_door)
        weft__log(WEFT_LOG_WARN, "tcp: no descriptor is left to let other ranks in (ulimit -n)");
    tcp->told_at_door |= result != WEFT_OK;
    if (weft__tcp_watch(tcp, tcp->listener, 0, WEFT__TCP_LISTENER, 0))
        tcp->shut_ns = weft__now_ns() + SHUT_NS;
}

void weft__tcp_listen_again(weft__tcp *tcp)
{
    if (weft__now_ns() < tcp->shut_ns)
        return;
    tcp->shut_ns = 0;
    (void)weft__tcp_watch(tcp, tcp->listener, EPOLLIN, WEFT__TCP_LISTENER, 0);
}

void weft__tcp_listen(weft__tcp *tcp)
{
    unsigned before = tcp->guests.came;
    weft_result result = weft__guests_accept(&tcp->guests, tcp->listener);
    if (tcp->guests.came != before)
        tcp->told_at_door = false;
    else if (weft__socket_wait(tcp->listener, POLLIN, 0))
        shut_door(tcp, result);
    for (int i = 0; i < tcp->guests.count; i++)
        (void)weft__tcp_watch(tcp, tcp->guests.all[i].fd, EPOLLIN, WEFT__TCP_GUEST, 0);
    weft__tcp_hear_guests(tcp);
}
