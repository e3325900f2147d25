/* SPDX-License-Identifier: Apache-2.0 */
/* Rank 0 until all are there: it listens, hears who comes, and tells everybody the same verdict. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/ranks.h"
#include "bootstrap/folder.h"
#include "bootstrap/guests.h"
#include "bootstrap/iface.h"
#include "bootstrap/rendezvous.h"
#include "bootstrap/resolve.h"

#define LINGER_NS 2000000000ull  /* to tell those who come after it that all is lost */
#define TAKEN_NS  10000000000ull /* as long as a process of another job may hold on to the address */
#define KNOCK_NS  1000000000ull

/* ------------------------------------------------------------------------------------------- listening */

/* Is somebody who also says to be rank 0 of this job listening there? Then hear its verdict: it names both. */
static weft_result ask_who_listens(weft__rendezvous *z, const weft__endpoint *where)
{
    weft__attempt a = {.to = *where};
    weft_result result = weft__rendezvous_knock(z, NULL, weft__rendezvous_until(z, KNOCK_NS), &a, &z->links[0]);
    if (result != WEFT_OK)
        return result == WEFT_E_MISMATCH ? result : WEFT_OK;
    result = weft__rendezvous_verdict(z);
    return result < 0 ? result : weft__fail(WEFT_E_BUG, "two processes are rank 0, and neither minds");
}

/* Try one place. *fd_out -1 with errno: it is taken, or not of this host. */
static weft_result listen_at(weft__rendezvous *z, const weft__endpoint *where, int *fd_out)
{
    *fd_out = weft__endpoint_listen(where);
    if (*fd_out >= 0 || errno != EADDRINUSE)
        return WEFT_OK;
    WEFT_TRY(ask_who_listens(z, where));
    errno = EADDRINUSE;
    return WEFT_OK;
}

/* The ports of the address at one host, in turn. */
static weft_result listen_at_ports(weft__rendezvous *z, weft__endpoint where, int *fd_out)
{
    int ports = z->address.kind == WEFT__ADDRESS_TCP ? z->address.ports : 1;
    for (int i = 0; i < ports; i++) {
        if (z->address.kind != WEFT__ADDRESS_UNIX)
            weft__endpoint_set_port(&where, z->address.kind == WEFT__ADDRESS_TCP ? z->address.port[i] : 0);
        WEFT_TRY(listen_at(z, &where, fd_out));
        if (*fd_out >= 0 || errno != EADDRINUSE)
            return WEFT_OK;
    }
    return WEFT_OK;
}

static weft_result listen_anywhere(weft__rendezvous *z, int *fd_out)
{
    WEFT_TRY(listen_at_ports(z, weft__endpoint_any(true, 0), fd_out));
    if (*fd_out < 0 && (errno == EAFNOSUPPORT || errno == EADDRNOTAVAIL))
        WEFT_TRY(listen_at_ports(z, weft__endpoint_any(false, 0), fd_out));
    return WEFT_OK;
}

/* The address of this host that the address names outright; a name may lead elsewhere here than for the others
 * (Debian gives a host's own name 127.0.1.1), and several are a guess. */
static bool names_one(const weft__rendezvous *z, weft__endpoint *where)
{
    const char *why, *host = z->address.host[0];
    if (z->address.kind != WEFT__ADDRESS_TCP || z->address.hosts != 1)
        return false;
    if (strcmp(host, "localhost") == 0)
        return weft__resolve(host, z->meeting.deadline_ns, where, 1, &why) == 1;
    return weft__endpoint_numeric(host, 0, where);
}

/* Once, wherever the address and WEFT_IFACE want it. */
static weft_result try_to_listen(weft__rendezvous *z, int *fd_out)
{
    weft__endpoint where;
    weft__iface ifaces[WEFT__IFACES_MAX];
    int count;
    if (z->address.kind == WEFT__ADDRESS_UNIX) {
        WEFT_TRY(weft__endpoint_unix(z->address.path, &where));
        return listen_at_ports(z, where, fd_out);
    }
    if (z->address.iface[0]) {
        WEFT_TRY(weft__iface_find(z->address.iface, ifaces, &count));
        bool one = names_one(z, &where);
        for (int i = 1; one && i < count && ifaces[0].address.where.ss_family != where.where.ss_family; i++)
            ifaces[0] = ifaces[i];
        return listen_at_ports(z, ifaces[0].address, fd_out);
    }
    if (!names_one(z, &where))
        return listen_anywhere(z, fd_out);
    WEFT_TRY(listen_at_ports(z, where, fd_out));
    if (*fd_out >= 0 || errno != EADDRNOTAVAIL)
        return WEFT_OK;
    weft__log(WEFT_LOG_WARN, "rank 0 runs on a host without the address %s, where the others look for it", z->text);
    return listen_anywhere(z, fd_out);
}

static weft_result listen_for_ranks(weft__rendezvous *z)
{
    uint64_t end_ns = weft__rendezvous_until(z, TAKEN_NS);
    for (bool told = false;; told = true) {
        WEFT_TRY(try_to_listen(z, &z->listener));
        if (z->listener >= 0)
            return WEFT_OK;
        if (errno == ENOTSOCK)
            return weft__fail(WEFT_E_SYSTEM, "rank 0 cannot listen at %s: there is something, which is no socket",
                              z->text);
        uint64_t now = weft__now_ns();
        if (errno != EADDRINUSE || now >= end_ns)
            return weft__fail_errno("rank 0 cannot listen at %s", z->text);
        if (!told)
            weft__log(WEFT_LOG_WARN, "rank 0 cannot listen at %s yet: another process does", z->text);
        weft__rendezvous_sleep(now + 100000000u);
    }
}

/* Tell the others in the shared folder. */
static weft_result publish(weft__rendezvous *z)
{
    weft__endpoint own = {.length = sizeof own.where}, found[WEFT__FOLDER_ENDPOINTS];
    weft__iface ifaces[WEFT__IFACES_MAX];
    int count, used = 0;
    if (z->address.kind != WEFT__ADDRESS_FOLDER)
        return WEFT_OK;
    if (getsockname(z->listener, (struct sockaddr *)&own.where, &own.length) != 0)
        return weft__fail_errno("rank 0 does not know where it listens");
    WEFT_TRY(weft__iface_find(z->address.iface, ifaces, &count));
    if (z->address.iface[0]) /* it listens at the first one alone */
        count = 1;
    for (int i = 0; i < count && used < WEFT__FOLDER_ENDPOINTS; i++) {
        if (own.where.ss_family == AF_INET && ifaces[i].address.where.ss_family != AF_INET)
            continue;
        found[used] = ifaces[i].address;
        weft__endpoint_set_port(&found[used++], weft__endpoint_port(&own));
    }
    return weft__folder_publish(z->address.path, z->key, found, used);
}

/* ------------------------------------------------------------------------------------------- who comes */

typedef struct gathering {
    weft__rendezvous *z;
    weft__guests guests;
    struct pollfd *fds; /* the listener, the links, the guests */
    int here;           /* ranks, with this one */
    bool *answered;     /* [rank]: who has come in, or came to hear that it cannot */
    int answers;
    weft__verdict verdict;
    uint64_t end_ns, name_at_ns;
} gathering;

/* "1, 5, 6" of the ranks that rank 0 has not seen. */
static void list_missing(const weft__rendezvous *z, char *text, size_t bytes)
{
    text[0] = 0;
    for (int r = 1; r < z->meeting.size; r++)
        if (z->links[r] < 0)
            weft__ranks_add(text, bytes, weft__meeting_name(&z->meeting, r));
}

static const char *peer_text(int fd, char text[WEFT__ENDPOINT_TEXT + 4])
{
    weft__endpoint peer = {.length = sizeof peer.where};
    char host[WEFT__ENDPOINT_TEXT];
    text[0] = 0;
    if (getpeername(fd, (struct sockaddr *)&peer.where, &peer.length) == 0 && peer.where.ss_family != AF_UNIX)
        snprintf(text, WEFT__ENDPOINT_TEXT + 4, " at %s", weft__endpoint_text(&peer, host));
    return text;
}

static weft_result judge(const weft__rendezvous *z, const weft__guest *g)
{
    const weft__hello *h = &g->hello;
    char peer[WEFT__ENDPOINT_TEXT + 4];
    int name = weft__meeting_name(&z->meeting, h->rank);
    if (h->protocol != WEFT__HELLO_PROTOCOL)
        return weft__fail(WEFT_E_MISMATCH, "rank %d speaks protocol %u, rank 0 protocol %d: different versions of weft",
                          name, h->protocol, WEFT__HELLO_PROTOCOL);
    if (h->size != z->meeting.size)
        return weft__fail(WEFT_E_MISMATCH, "rank %d was told of %d ranks, rank 0 of %d", name, h->size,
                          z->meeting.size);
    if (h->rank < 0 || h->rank >= z->meeting.size)
        return weft__fail(WEFT_E_MISMATCH, "a process says that it is rank %d of %d (pid %d%s)", h->rank, h->size,
                          h->pid, peer_text(g->fd, peer));
    if (h->rank == 0 || z->links[h->rank] >= 0)
        return weft__fail(WEFT_E_MISMATCH, "two processes say that they are rank %d (one is pid %d%s)", name, h->pid,
                          peer_text(g->fd, peer));
    return WEFT_OK;
}

/* The first failure is the verdict; those who are there hear it now, and their links make room for those who come soon
 * and hear it then. */
static void settle(gathering *g, weft_result result)
{
    if (result >= 0 || g->verdict.result < 0)
        return;
    weft__verdict_add(&g->verdict, result);
    weft__rendezvous_tell(g->z, &g->verdict);
    for (int r = 1; r < g->z->meeting.size; r++) {
        if (g->z->links[r] >= 0)
            close(g->z->links[r]);
        g->z->links[r] = -1;
    }
    uint64_t end_ns = weft__now_ns() + LINGER_NS;
    if (end_ns < g->end_ns)
        g->end_ns = end_ns;
}

static void count_answer(gathering *g, int rank)
{
    if (rank < 1 || rank >= g->z->meeting.size || g->answered[rank])
        return;
    g->answered[rank] = true;
    g->answers++;
}

static void let_in(gathering *g, const weft__guest *guest)
{
    weft__rendezvous *z = g->z;
    settle(g, judge(z, guest));
    count_answer(g, guest->hello.rank);
    if (g->verdict.result < 0) {
        (void)weft__socket_send(guest->fd, &g->verdict, sizeof g->verdict, g->end_ns);
        close(guest->fd);
        return;
    }
    z->links[guest->hello.rank] = guest->fd;
    g->here++;
}

/* From the last to the first: who leaves gives his place to the last, who was heard. */
static void hear_guests(gathering *g)
{
    weft__guest guest;
    for (int i = g->guests.count - 1; i >= 0; i--)
        if (weft__guests_hear(&g->guests, i, &guest) == WEFT_OK)
            let_in(g, &guest);
}

/* A rank that has come in says nothing before it hears the verdict. */
static weft_result look_for_lost(const gathering *g)
{
    char byte;
    for (int r = 1; r < g->z->meeting.size; r++) {
        ssize_t n = g->fds[r].revents ? recv(g->fds[r].fd, &byte, 1, MSG_PEEK) : -1;
        if (n > 0)
            return weft__fail(WEFT_E_MISMATCH, "rank %d speaks out of turn", weft__meeting_name(&g->z->meeting, r));
        if (g->fds[r].revents && (n == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)))
            return weft__fail(WEFT_E_PEER_LOST, "rank %d ended while the ranks met",
                              weft__meeting_name(&g->z->meeting, r));
    }
    return WEFT_OK;
}

static void wait_for_news(gathering *g, uint64_t now)
{
    const weft__rendezvous *z = g->z;
    int n = z->meeting.size;
    g->fds[0] = (struct pollfd){.fd = z->listener, .events = POLLIN};
    for (int r = 1; r < n; r++)
        g->fds[r] = (struct pollfd){.fd = z->links[r], .events = POLLIN};
    for (int i = 0; i < g->guests.count; i++)
        g->fds[n + i] = (struct pollfd){.fd = g->guests.all[i].fd, .events = POLLIN};
    uint64_t tired = weft__guests_tire(&g->guests, now), until = UINT64_MAX;
    const uint64_t ends[] = {g->end_ns, g->name_at_ns, tired};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (ends[i] && ends[i] < until)
            until = ends[i];
    if (poll(g->fds, (nfds_t)(n + g->guests.count), weft__poll_ms(now, until)) <= 0)
        for (int i = 0; i < n; i++)
            g->fds[i].revents = 0;
}

static weft_result fail_missing(const gathering *g)
{
    char missing[128], others[80] = "";
    list_missing(g->z, missing, sizeof missing);
    if (g->guests.others)
        snprintf(others, sizeof others, " (processes of other jobs were turned away %d times)", g->guests.others);
    return weft__fail(WEFT_E_TIMEOUT, "%d of %d ranks came; missing: %s%s", g->here, g->z->meeting.size, missing,
                      others);
}

static void name_missing(gathering *g, uint64_t now)
{
    char missing[128];
    list_missing(g->z, missing, sizeof missing);
    weft__log(WEFT_LOG_WARN, "%d of %d ranks are here; waiting for %s", g->here, g->z->meeting.size, missing);
    g->name_at_ns = now + WEFT__NAME_EVERY_NS;
}

/* Until all ranks have come in, or know that they cannot, or the end is there. */
static void gather(gathering *g)
{
    while (g->answers < g->z->meeting.size - 1) {
        uint64_t now = weft__now_ns();
        if (now >= g->end_ns) {
            settle(g, g->verdict.result < 0 ? WEFT_OK : fail_missing(g));
            return;
        }
        if (now >= g->name_at_ns && g->verdict.result == WEFT_OK)
            name_missing(g, now);
        wait_for_news(g, now);
        hear_guests(g);
        if (g->verdict.result == WEFT_OK)
            settle(g, look_for_lost(g));
        if (g->fds[0].revents)
            settle(g, weft__guests_accept(&g->guests, g->z->listener));
    }
}

weft_result weft__rendezvous_gather(weft__rendezvous *z)
{
    uint64_t now = weft__now_ns();
    gathering g = {.z = z, .here = 1, .end_ns = z->meeting.deadline_ns, .name_at_ns = now + WEFT__NAME_EVERY_NS};
    WEFT_TRY(weft__guests_open(&g.guests, z->key, z->meeting.size));
    g.fds = weft__alloc((size_t)(z->meeting.size + g.guests.room) * sizeof *g.fds);
    g.answered = weft__alloc((size_t)z->meeting.size * sizeof *g.answered);
    weft_result result = g.fds && g.answered ? listen_for_ranks(z) : WEFT_E_NO_MEMORY;
    if (result == WEFT_OK)
        result = publish(z);
    if (result == WEFT_OK) {
        gather(&g);
        if (g.verdict.result == WEFT_OK)
            weft__rendezvous_tell(z, &g.verdict);
        result = weft__verdict_result(&g.verdict);
    }
    weft__guests_close(&g.guests);
    free(g.fds);
    free(g.answered);
    return result;
}
