/* SPDX-License-Identifier: Apache-2.0 */
/* Processes of one host meet at a unix socket. Rank 0 listens, the others connect and say who they are; rank 0
 * checks, and answers everybody with the same verdict. Later rounds go over the same connections, each answer led by
 * a verdict, so that one rank's trouble is everybody's error and nobody waits for more than the deadline. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "bootstrap/meeting.h"
#include "bootstrap/socket.h"

#define HELLO_MAGIC   0x6f6c6c6568746677ull
#define PROTOCOL      2
#define STRANGERS     64            /* connections that have not said hello, besides the ranks */
#define NAME_EVERY_NS 5000000000ull /* the missing are named this often */
#define VERDICT_WAIT  2000000000ull /* for the verdict of rank 0, past the deadline */
#define SEGMENT_FDS   4

typedef struct hello {
    uint64_t magic, key;
    uint32_t protocol;
    int32_t rank, size, pid;
} hello;

typedef struct rendezvous {
    weft__meeting meeting;
    char address[128];
    uint64_t key;
    int listener;
    int *links;              /* rank 0: of every other rank; else links[0] = rank 0; -1 = none */
    weft__segment *segments; /* of the other ranks, mapped; handed over by share() */
} rendezvous;

/* ------------------------------------------------------------------------------------------- verdicts */

static weft__verdict verdict_of(weft_result result)
{
    weft__verdict v = {0};
    weft__verdict_add(&v, result);
    return v;
}

/* Rank 0: tell all that are there. */
static void send_verdict(rendezvous *z, const weft__verdict *v)
{
    for (int r = 1; r < z->meeting.size; r++)
        if (z->links[r] >= 0)
            (void)weft__socket_send(z->links[r], v, sizeof *v, z->meeting.deadline_ns + VERDICT_WAIT);
}

static weft_result receive_verdict(rendezvous *z)
{
    weft__verdict v;
    switch (weft__socket_receive(z->links[0], &v, sizeof v, z->meeting.deadline_ns + VERDICT_WAIT)) {
    case WEFT__IO_DONE:
        v.text[sizeof v.text - 1] = 0;
        return weft__verdict_result(&v);
    case WEFT__IO_CLOSED:
        return weft__fail(WEFT_E_PEER_LOST, "rank 0 ended while the ranks met");
    case WEFT__IO_LATE:
        return weft__fail(WEFT_E_TIMEOUT, "rank 0 does not answer");
    case WEFT__IO_FAILED:
        break;
    }
    return weft__fail_errno("cannot hear rank 0");
}

/* ------------------------------------------------------------------------------------------- saying hello */

/* "1, 5, 6" of the ranks that rank 0 has not seen. */
static int list_missing(const rendezvous *z, char *text, size_t bytes)
{
    int missing = 0;
    size_t used = 0;
    text[0] = 0;
    for (int r = 1; r < z->meeting.size; r++) {
        if (z->links[r] >= 0)
            continue;
        missing++;
        if (used < bytes - 16)
            used += (size_t)snprintf(text + used, bytes - used, "%s%d", used ? ", " : "", r);
    }
    if (used >= bytes - 16)
        snprintf(text + used, bytes - used, ", ...");
    return missing;
}

/* What a first message amounts to: WEFT_OK (a new rank), WEFT_AGAIN (a stranger: forget it), or the verdict for all. */
static weft_result judge_hello(const rendezvous *z, const hello *h)
{
    if (h->magic != HELLO_MAGIC || h->key != z->key)
        return WEFT_AGAIN;
    if (h->protocol != PROTOCOL)
        return weft__fail(WEFT_E_MISMATCH, "rank %d speaks protocol %u, rank 0 protocol %d: different versions of weft",
                          h->rank, h->protocol, PROTOCOL);
    if (h->size != z->meeting.size)
        return weft__fail(WEFT_E_MISMATCH, "rank %d was told of %d ranks, rank 0 of %d", h->rank, h->size,
                          z->meeting.size);
    if (h->rank <= 0 || h->rank >= z->meeting.size || z->links[h->rank] >= 0)
        return weft__fail(WEFT_E_MISMATCH, "two processes say that they are rank %d (one is pid %d)", h->rank, h->pid);
    return WEFT_OK;
}

typedef struct guests { /* connections that have not said hello */
    struct pollfd fds[STRANGERS + 1];
    hello said[STRANGERS + 1];
    size_t heard[STRANGERS + 1];
    int count; /* fds[0] is the listener */
} guests;

/* Let the next one in; users who are not ours are turned away before they take up room. */
static void accept_guest(const rendezvous *z, guests *g)
{
    int fd = weft__socket_accept(z->listener);
    if (fd < 0)
        return;
    if (!weft__socket_same_user(fd)) {
        close(fd);
        return;
    }
    g->fds[g->count] = (struct pollfd){.fd = fd, .events = POLLIN};
    g->heard[g->count++] = 0;
}

static void drop_guest(guests *g, int i)
{
    g->count--;
    g->fds[i] = g->fds[g->count];
    g->said[i] = g->said[g->count];
    g->heard[i] = g->heard[g->count];
}

/* Read on from guest @p i. WEFT_PENDING: not all said yet. */
static weft_result hear_guest(rendezvous *z, guests *g, int i)
{
    int fd = g->fds[i].fd;
    ssize_t n = read(fd, (char *)&g->said[i] + g->heard[i], sizeof(hello) - g->heard[i]);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return WEFT_PENDING;
    g->heard[i] += n > 0 ? (size_t)n : 0;
    if (n > 0 && g->heard[i] < sizeof(hello))
        return WEFT_PENDING;
    weft_result result = n > 0 ? judge_hello(z, &g->said[i]) : WEFT_AGAIN;
    if (result == WEFT_OK)
        z->links[g->said[i].rank] = fd;
    if (result < 0) {
        weft__verdict v = verdict_of(result);
        (void)weft__socket_send(fd, &v, sizeof v, z->meeting.deadline_ns);
    }
    if (result != WEFT_OK)
        close(fd);
    drop_guest(g, i);
    return result;
}

/* A rank that has said hello and ends before all are there. */
static weft_result look_for_lost(const rendezvous *z)
{
    for (int r = 1; r < z->meeting.size; r++) {
        struct pollfd p = {.fd = z->links[r], .events = POLLIN};
        char byte;
        if (z->links[r] >= 0 && poll(&p, 1, 0) > 0 && (p.revents & (POLLHUP | POLLERR)) && read(p.fd, &byte, 1) <= 0)
            return weft__fail(WEFT_E_PEER_LOST, "rank %d ended while the ranks met", r);
    }
    return WEFT_OK;
}

static weft_result gather_ranks(rendezvous *z)
{
    guests g = {.count = 1};
    g.fds[0] = (struct pollfd){.fd = z->listener, .events = POLLIN};
    uint64_t name_at = weft__now_ns() + NAME_EVERY_NS;
    char missing_text[128];
    weft_result result = WEFT_OK;
    int missing;
    while (result >= 0 && (missing = list_missing(z, missing_text, sizeof missing_text)) > 0) {
        uint64_t now = weft__now_ns();
        if (now >= z->meeting.deadline_ns) {
            result = weft__fail(WEFT_E_TIMEOUT, "%d of %d ranks came; missing: %s", z->meeting.size - missing,
                                z->meeting.size, missing_text);
            break;
        }
        if (now >= name_at) {
            weft__log(WEFT_LOG_WARN, "%d of %d ranks are here; waiting for %s", z->meeting.size - missing,
                      z->meeting.size, missing_text);
            name_at = now + NAME_EVERY_NS;
        }
        g.fds[0].events = g.count <= STRANGERS ? POLLIN : 0;
        if (poll(g.fds, (nfds_t)g.count, 50) > 0 && (g.fds[0].revents & POLLIN))
            accept_guest(z, &g);
        for (int i = g.count - 1; i > 0 && result >= 0; i--)
            result = hear_guest(z, &g, i);
        if (result >= 0)
            result = look_for_lost(z);
    }
    for (int i = 1; i < g.count; i++)
        close(g.fds[i].fd);
    return result < 0 ? result : WEFT_OK;
}

static weft_result host_meeting(rendezvous *z)
{
    WEFT_TRY(weft__socket_listen(z->address, &z->listener));
    weft_result result = gather_ranks(z);
    weft__verdict v = verdict_of(result);
    send_verdict(z, &v);
    return result;
}

/* Connect to rank 0, however late it comes. */
static weft_result reach_root(rendezvous *z)
{
    uint64_t name_at = weft__now_ns() + NAME_EVERY_NS;
    for (;;) {
        z->links[0] = weft__socket_connect(z->address);
        if (z->links[0] >= 0)
            break;
        if (errno != ENOENT && errno != ECONNREFUSED && errno != EAGAIN)
            return weft__fail_errno("cannot reach rank 0 at %s", z->address);
        uint64_t now = weft__now_ns();
        if (now >= z->meeting.deadline_ns)
            return weft__fail(WEFT_E_TIMEOUT, "rank 0 is missing: nobody listens at %s", z->address);
        if (now >= name_at) {
            weft__log(WEFT_LOG_WARN, "waiting for rank 0 at %s", z->address);
            name_at = now + NAME_EVERY_NS;
        }
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
    if (!weft__socket_same_user(z->links[0]))
        return weft__fail(WEFT_E_MISMATCH, "somebody else's process listens at %s", z->address);
    hello h = {.magic = HELLO_MAGIC,
               .key = z->key,
               .protocol = PROTOCOL,
               .rank = z->meeting.rank,
               .size = z->meeting.size,
               .pid = (int32_t)getpid()};
    if (weft__socket_send(z->links[0], &h, sizeof h, z->meeting.deadline_ns) == WEFT__IO_FAILED)
        return weft__fail_errno("cannot speak to rank 0");
    return receive_verdict(z);
}

/* ------------------------------------------------------------------------------------------- rounds */

static weft_result hear_rank(int r, weft__io io)
{
    if (io == WEFT__IO_CLOSED)
        return weft__fail(WEFT_E_PEER_LOST, "rank %d ended while the ranks met", r);
    if (io == WEFT__IO_LATE)
        return weft__fail(WEFT_E_TIMEOUT, "rank %d did not answer while the ranks met", r);
    if (io == WEFT__IO_FAILED)
        return weft__fail_errno("cannot hear rank %d", r);
    return WEFT_OK;
}

static weft_result exchange_as_root(rendezvous *z, const void *mine, size_t bytes, char *all)
{
    weft_result result = WEFT_OK;
    memcpy(all, mine, bytes);
    for (int r = 1; r < z->meeting.size && result == WEFT_OK; r++)
        result =
            hear_rank(r, weft__socket_receive(z->links[r], all + (size_t)r * bytes, bytes, z->meeting.deadline_ns));
    weft__verdict v = verdict_of(result);
    send_verdict(z, &v);
    for (int r = 1; r < z->meeting.size && result == WEFT_OK; r++) /* who has ended is missed in the next round */
        (void)weft__socket_send(z->links[r], all, bytes * (size_t)z->meeting.size, z->meeting.deadline_ns);
    return result;
}

static weft_result exchange(weft__meeting *meeting, const void *mine, size_t bytes, void *all)
{
    rendezvous *z = (rendezvous *)meeting;
    if (meeting->rank == 0)
        return exchange_as_root(z, mine, bytes, all);
    WEFT_TRY(hear_rank(0, weft__socket_send(z->links[0], mine, bytes, meeting->deadline_ns)));
    WEFT_TRY(receive_verdict(z));
    return hear_rank(0, weft__socket_receive(z->links[0], all, bytes * (size_t)meeting->size, meeting->deadline_ns));
}

/* Rank 0 hears everybody out, also after a failure, so that whatever comes next is heard in its place. */
static weft_result agree_as_root(rendezvous *z, weft__verdict *worst)
{
    for (int r = 1; r < z->meeting.size; r++) {
        weft__verdict theirs;
        weft_result heard =
            hear_rank(r, weft__socket_receive(z->links[r], &theirs, sizeof theirs, z->meeting.deadline_ns));
        if (heard != WEFT_OK)
            theirs = verdict_of(heard);
        theirs.text[sizeof theirs.text - 1] = 0;
        if (worst->result == WEFT_OK)
            *worst = theirs;
    }
    send_verdict(z, worst);
    return weft__verdict_result(worst);
}

static weft_result agree(weft__meeting *meeting, weft__verdict *verdict)
{
    rendezvous *z = (rendezvous *)meeting;
    if (meeting->rank == 0)
        return agree_as_root(z, verdict);
    WEFT_TRY(hear_rank(0, weft__socket_send(z->links[0], verdict, sizeof *verdict, meeting->deadline_ns)));
    return receive_verdict(z);
}

static void close_fds(const int *fds)
{
    for (int i = 0; i < SEGMENT_FDS; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

static void flatten(const weft__segment *segment, int *fds)
{
    fds[0] = segment->fds.memory;
    fds[1] = segment->fds.bells[0];
    fds[2] = segment->fds.bells[1];
    fds[3] = segment->fds.process;
}

static weft_result map_peer(rendezvous *z, int r, const int *fds, size_t reserve)
{
    weft__segment_fds taken = {.memory = fds[0], .bells = {fds[1], fds[2]}, .process = fds[3]};
    return weft__segment_map(taken, reserve, &z->segments[r]);
}

/* Take the segment of rank @p r out of the link to @p from; if all is lost @p already, only off the line. */
static weft_result take_segment(rendezvous *z, int from, int r, size_t reserve, bool already)
{
    int fds[SEGMENT_FDS];
    WEFT_TRY(hear_rank(from, weft__socket_receive_fds(z->links[from], fds, SEGMENT_FDS, z->meeting.deadline_ns)));
    if (!already)
        return map_peer(z, r, fds, reserve);
    close_fds(fds);
    return WEFT_OK;
}

static weft_result give_segments(rendezvous *z, const weft__segment *mine, int to)
{
    int fds[SEGMENT_FDS];
    for (int r = 0; r < z->meeting.size; r++) {
        if (r == to)
            continue;
        flatten(r ? &z->segments[r] : mine, fds);
        WEFT_TRY(hear_rank(to, weft__socket_send_fds(z->links[to], fds, SEGMENT_FDS, z->meeting.deadline_ns)));
    }
    return WEFT_OK;
}

/* Rank 0 collects the descriptors of all ranks, maps them itself, and hands each to each. */
static weft_result share_as_root(rendezvous *z, const weft__segment *mine, const size_t *reserves)
{
    weft__verdict v = {0};
    for (int r = 1; r < z->meeting.size; r++)
        weft__verdict_add(&v, take_segment(z, r, r, reserves[r], v.result < 0));
    send_verdict(z, &v);
    WEFT_TRY(weft__verdict_result(&v));
    for (int to = 1; to < z->meeting.size; to++)
        if (weft__verdict_add(&v, give_segments(z, mine, to)) < 0)
            shutdown(z->links[to], SHUT_RDWR); /* it waits for more than will come */
    return weft__verdict_result(&v);
}

static weft_result share_as_other(rendezvous *z, const weft__segment *mine, const size_t *reserves)
{
    int fds[SEGMENT_FDS];
    flatten(mine, fds);
    WEFT_TRY(hear_rank(0, weft__socket_send_fds(z->links[0], fds, SEGMENT_FDS, z->meeting.deadline_ns)));
    WEFT_TRY(receive_verdict(z));
    weft__verdict v = {0};
    for (int r = 0; r < z->meeting.size; r++)
        if (r != z->meeting.rank)
            weft__verdict_add(&v, take_segment(z, 0, r, reserves[r], v.result < 0));
    return weft__verdict_result(&v);
}

static weft_result share(weft__meeting *meeting, weft__segment *mine, const size_t *reserves, weft__segment **segments,
                         weft__segment **owned_out)
{
    rendezvous *z = (rendezvous *)meeting;
    z->segments = weft__alloc((size_t)meeting->size * sizeof *z->segments);
    weft_result result = z->segments ? WEFT_OK : WEFT_E_NO_MEMORY;
    result = weft__meeting_agree(meeting, result);
    if (result == WEFT_OK)
        result = meeting->rank == 0 ? share_as_root(z, mine, reserves) : share_as_other(z, mine, reserves);
    result = weft__meeting_agree(meeting, result);
    if (result != WEFT_OK)
        return result;
    for (int r = 0; r < meeting->size; r++)
        segments[r] = r == meeting->rank ? mine : &z->segments[r];
    *owned_out = z->segments;
    z->segments = NULL;
    return WEFT_OK;
}

static int *take_links(weft__meeting *meeting)
{
    rendezvous *z = (rendezvous *)meeting;
    int *links = z->links;
    z->links = NULL;
    return links;
}

static void end(weft__meeting *meeting)
{
    rendezvous *z = (rendezvous *)meeting;
    for (int r = 0; z->links && r < meeting->size; r++)
        if (z->links[r] >= 0)
            close(z->links[r]);
    if (z->listener >= 0) {
        close(z->listener);
        if (z->address[0] == '/')
            unlink(z->address);
    }
    for (int r = 0; z->segments && r < meeting->size; r++)
        if (r != meeting->rank)
            weft__segment_unmap(&z->segments[r]);
    free(z->segments);
    free(z->links);
    free(z);
}

static const weft__meeting_table calls = {exchange, agree, share, take_links, end};

weft_result weft__rendezvous_open(const char *address, uint64_t key, int rank, int size, uint32_t timeout_ms,
                                  weft__meeting **meeting_out)
{
    rendezvous *z = weft__alloc(sizeof *z);
    int *links = z ? weft__alloc((size_t)size * sizeof *links) : NULL;
    if (!links) {
        free(z);
        return WEFT_E_NO_MEMORY;
    }
    *z = (rendezvous){.meeting = {&calls, rank, size, weft__now_ns() + (uint64_t)timeout_ms * 1000000u},
                      .key = key,
                      .listener = -1,
                      .links = links};
    snprintf(z->address, sizeof z->address, "%s", address);
    for (int r = 0; r < size; r++)
        links[r] = -1;
    weft_result result = rank == 0 ? host_meeting(z) : reach_root(z);
    if (result != WEFT_OK) {
        end(&z->meeting);
        return result;
    }
    *meeting_out = &z->meeting;
    return WEFT_OK;
}
