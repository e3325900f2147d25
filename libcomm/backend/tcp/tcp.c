/* SPDX-License-Identifier: Apache-2.0 */
/* The backend over plain sockets: its table, and the life of its part of a world. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backend/registry.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "tcp.h"

#define EVENTS 16

bool weft__tcp_watch(weft__tcp *tcp, int fd, uint32_t events, int kind, int index)
{
    struct epoll_event event = {.events = events, .data.u64 = (uint64_t)kind << 32 | (uint32_t)index};
    return epoll_ctl(tcp->epoll_fd, EPOLL_CTL_MOD, fd, &event) == 0 ||
           (errno == ENOENT && epoll_ctl(tcp->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0);
}

void weft__tcp_close(weft__tcp *tcp, int fd)
{
    (void)epoll_ctl(tcp->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
    close(fd);
}

/* ------------------------------------------------------------------------------------------- moving, sleeping */

static void serve_way(weft__tcp_way *way, uint32_t events)
{
    const char *why;
    if (way->state != WEFT__TCP_OPEN) {
        weft__tcp_way_advance(way);
        return;
    }
    if (events & EPOLLOUT)
        weft__tcp_write(way);
    bool reads = events & ~(uint32_t)EPOLLOUT && way->state == WEFT__TCP_OPEN;
    weft_result result = reads ? weft__tcp_read(way, &why) : WEFT_OK;
    if (result != WEFT_OK)
        weft__tcp_way_lose(way, result, why);
}

static bool progress(void *state)
{
    weft__tcp *tcp = state;
    struct epoll_event events[EVENTS];
    int n = epoll_wait(tcp->epoll_fd, events, EVENTS, 0);
    for (int i = 0; i < n; i++) {
        switch (events[i].data.u64 >> 32) {
        case WEFT__TCP_WAY:
            serve_way(&tcp->ways[(uint32_t)events[i].data.u64], events[i].events);
            break;
        case WEFT__TCP_LISTENER:
            weft__tcp_listen(tcp);
            break;
        case WEFT__TCP_GUEST:
            weft__tcp_hear_guests(tcp);
            break;
        }
    }
    if (tcp->unsettled)
        weft__tcp_ways_tire(tcp);
    if (tcp->shut_ns)
        weft__tcp_listen_again(tcp);
    return n > 0;
}

static bool lingers(void *state)
{
    const weft__tcp *tcp = state;
    return tcp->unsettled || tcp->rests || tcp->shut_ns;
}

static int fd(void *state)
{
    return ((weft__tcp *)state)->epoll_fd;
}

/* Its descriptor can be read as long as there is something. */
static weft_result arm(void *state)
{
    (void)state;
    return WEFT_OK;
}

/* ------------------------------------------------------------------------------------------- opening, closing */

/* What was sent may still be on its way, and the kernel goes on with it. */
static void close_all(void *state)
{
    weft__tcp *tcp = state;
    int ranks = tcp->ways ? weft_world_size(tcp->net->world) : 0;
    for (int r = 0; r < ranks; r++) {
        if (tcp->ways[r].state == WEFT__TCP_OPEN) /* a child of this process may have it too */
            (void)shutdown(tcp->ways[r].fd, SHUT_WR);
        weft__tcp_let_go(&tcp->ways[r]);
        if (tcp->ways[r].fd >= 0)
            close(tcp->ways[r].fd);
    }
    if (tcp->listener >= 0)
        close(tcp->listener);
    weft__guests_close(&tcp->guests);
    if (tcp->epoll_fd >= 0)
        close(tcp->epoll_fd);
    free(tcp->ways);
    free(tcp->waste);
}

static weft_result open_all(void *state, weft__net *net)
{
    weft__tcp *tcp = state;
    tcp->net = net;
    tcp->epoll_fd = tcp->listener = -1;
    int ranks = weft_world_size(tcp->net->world);
    tcp->waste = weft__alloc(WEFT__TCP_RECORD_BYTES);
    tcp->ways = weft__alloc((size_t)ranks * sizeof *tcp->ways);
    if (!tcp->waste || !tcp->ways)
        return WEFT_E_NO_MEMORY;
    for (int r = 0; r < ranks; r++)
        tcp->ways[r] = (weft__tcp_way){.tcp = tcp, .rank = r, .fd = -1};
    tcp->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    return tcp->epoll_fd < 0 ? weft__fail_errno("tcp: cannot make an epoll descriptor") : WEFT_OK;
}

static const weft__carrier carrier = {
    .name = "tcp",
    .record_bytes = WEFT__TCP_RECORD_BYTES,
    .slot_bytes = WEFT__NET_HEAD_BYTES,
    .stage_bytes = 4 * WEFT__TCP_RECORD_BYTES,
    .state_bytes = sizeof(weft__tcp),
    .open = open_all,
    .close = close_all,
    .fd = fd,
    .arm = arm,
    .progress = progress,
    .lingers = lingers,
    .address = weft__tcp_address,
    .reach = weft__tcp_reach,
    .lost = weft__tcp_lost,
    .send = weft__tcp_send,
    .drop = weft__tcp_drop,
};

static weft_result open_world(weft_world *world, void **state_out)
{
    return weft__net_open(world, &carrier, state_out);
}

/* That of a socket as they are made; a route may have its own. */
static void tell(void *state, weft_backend_tell_line *line, void *cookie)
{
    char name[32] = "";
    socklen_t length = sizeof name - 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)state;
    if (fd < 0)
        return;
    bool is_set = weft__tcp_tune(fd) == WEFT_OK;
    if (getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &length) == 0)
        line(cookie, "TCP, congestion control", name,
             is_set ? "the machine's, unless WEFT_TCP_CONGESTION or a route says another" : weft_last_error());
    close(fd);
}

static weft_result query(const weft_backend_question *question, weft_backend_facts *facts)
{
    weft__net_facts(facts);
    facts->score = question->count > 1 ? WEFT__SCORE_SOCKETS : WEFT_SCORE_NONE;
    facts->why = "plain sockets, which cost less than ucx over TCP";
    return WEFT_OK;
}

const weft_backend weft__backend_tcp = {
    .abi_major = WEFT_BACKEND_ABI,
    .size = sizeof(weft_backend),
    .name = "tcp",
    .query = query,
    .open = open_world,
    .tell = tell,
    WEFT__NET_CALLS,
};
