/* SPDX-License-Identifier: Apache-2.0 */
/* How the tree of a meeting is connected: ranks that have children listen, rank 0 tells each child where, and they
 * come. A rank that cannot reach its parent stays with rank 0, to which all have a link. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "bootstrap/guests.h"
#include "bootstrap/rendezvous.h"

#define REACH_NS 10000000000ull /* for a rank to be let in by its parent */
#define AGAIN_NS 5000000ull

static const unsigned char let_in_word = 0x22; /* of a parent to its child */

/* ------------------------------------------------------------------------------------------- listening */

static bool is_inner(const weft__place *place)
{
    return place->parent >= 0 && place->children > 0;
}

/* Where rank 0 was reached from, the others can come to; beside it on its machine, from anywhere. */
static int listen_beside_link(const weft__rendezvous *z, weft__endpoint *door)
{
    *door = (weft__endpoint){.length = sizeof door->where};
    if (z->address.kind == WEFT__ADDRESS_UNIX) {
        char name[sizeof z->address.path + 16];
        snprintf(name, sizeof name, "%s-%d", z->address.path, z->meeting.rank);
        return weft__endpoint_unix(name, door) == WEFT_OK ? weft__endpoint_listen(door) : -1;
    }
    if (getsockname(z->links[0], (struct sockaddr *)&door->where, &door->length) != 0)
        return -1;
    if (weft__endpoint_loopback(door))
        *door = weft__endpoint_any(door->where.ss_family == AF_INET6, 0);
    weft__endpoint_set_port(door, 0);
    int fd = weft__endpoint_listen(door);
    door->length = sizeof door->where;
    if (fd >= 0 && getsockname(fd, (struct sockaddr *)&door->where, &door->length) != 0)
        door->length = 0;
    return fd;
}

/* What has no length is no door. */
static int open_door(const weft__rendezvous *z, weft__endpoint *door)
{
    weft__last_error said = weft__error_keep();
    int fd = listen_beside_link(z, door);
    if (fd < 0)
        door->length = 0;
    weft__error_restore(&said);
    return fd;
}

static void close_door(const weft__endpoint *door, int fd)
{
    char path[WEFT__ENDPOINT_TEXT];
    if (fd < 0)
        return;
    close(fd);
    if (door->where.ss_family == AF_UNIX && weft__endpoint_text(door, path)[0] == '/')
        unlink(path);
}

/* ------------------------------------------------------------------------------------------- children come */

static void let_in(weft__rendezvous *z, const weft__guest *guest)
{
    const weft__hello *h = &guest->hello;
    bool is_child = h->protocol == WEFT__HELLO_PROTOCOL && h->size == z->meeting.size && h->rank > z->meeting.rank &&
                    h->rank < z->place.end && z->links[h->rank] < 0 &&
                    weft__tree_place(h->rank, h->size).parent == z->meeting.rank;
    if (is_child && weft__socket_send(guest->fd, &let_in_word, 1, z->meeting.deadline_ns) == WEFT__IO_DONE)
        z->links[h->rank] = guest->fd;
    else
        close(guest->fd);
}

/* Until rank 0 has its verdict, and all that come have come. */
static void hear_children(weft__rendezvous *z, weft__guests *guests, struct pollfd *fds, int listener)
{
    weft__guest in;
    for (;;) {
        fds[0] = (struct pollfd){.fd = z->links[0], .events = POLLIN};
        fds[1] = (struct pollfd){.fd = listener, .events = POLLIN};
        for (int i = 0; i < guests->count; i++)
            fds[2 + i] = (struct pollfd){.fd = guests->all[i].fd, .events = POLLIN};
        uint64_t now = weft__now_ns(), tired = weft__guests_tire(guests, now);
        uint64_t until = tired && tired < z->meeting.deadline_ns ? tired : z->meeting.deadline_ns;
        int n = poll(fds, 2 + (nfds_t)guests->count, weft__poll_ms(now, until));
        if ((n > 0 && fds[0].revents) || (n == 0 && now >= z->meeting.deadline_ns))
            return;
        for (int i = guests->count - 1; i >= 0; i--)
            if (weft__guests_hear(guests, i, &in) == WEFT_OK)
                let_in(z, &in);
        if (weft__guests_accept(guests, listener) != WEFT_OK)
            return;
    }
}

static void await_children(weft__rendezvous *z, int listener)
{
    weft__guests guests;
    weft_result result = listener < 0 ? WEFT_AGAIN : weft__guests_open(&guests, z->key, z->place.children);
    if (result != WEFT_OK)
        return;
    struct pollfd *fds = weft__alloc((size_t)(2 + guests.room) * sizeof *fds);
    if (fds)
        hear_children(z, &guests, fds, listener);
    free(fds);
    weft__guests_close(&guests);
}

/* ------------------------------------------------------------------------------------------- going to the parent */

/* A door at an address that means this machine is on rank 0's: reached as rank 0 was. */
static void make_reachable(const weft__rendezvous *z, weft__endpoint *door)
{
    weft__endpoint root = {.length = sizeof root.where};
    if (z->address.kind == WEFT__ADDRESS_UNIX || !weft__endpoint_loopback(door) ||
        getpeername(z->links[0], (struct sockaddr *)&root.where, &root.length) != 0)
        return;
    weft__endpoint_set_port(&root, weft__endpoint_port(door));
    *door = root;
}

static weft_result knock_at(weft__rendezvous *z, weft__attempt *a, int *fd_out)
{
    uint64_t until = weft__rendezvous_until(z, REACH_NS);
    weft_result result;
    while ((result = weft__rendezvous_knock(z, NULL, until, a, fd_out)) == WEFT_AGAIN) {
        if (weft__now_ns() + AGAIN_NS >= until)
            return WEFT_AGAIN;
        weft__rendezvous_sleep(weft__now_ns() + AGAIN_NS);
    }
    unsigned char word = 0;
    if (result == WEFT_OK && weft__socket_receive(*fd_out, &word, 1, until) == WEFT__IO_DONE && word == let_in_word)
        return WEFT_OK;
    if (result == WEFT_OK)
        close(*fd_out);
    a->why = "it did not let this rank in";
    return WEFT_AGAIN;
}

static bool reach_parent(weft__rendezvous *z, const weft__endpoint *door)
{
    weft__attempt a = {.to = *door};
    char text[WEFT__ENDPOINT_TEXT];
    int fd = -1, parent = z->place.parent;
    weft__last_error said = weft__error_keep();
    if (door->length)
        make_reachable(z, &a.to);
    bool reached = door->length && knock_at(z, &a, &fd) == WEFT_OK;
    weft__error_restore(&said);
    if (reached)
        z->links[parent] = fd;
    else
        weft__log(WEFT_LOG_WARN, "rank %d cannot reach rank %d at %s (%s), and has rank 0 pass on what others say",
                  weft__meeting_name(&z->meeting, z->meeting.rank), weft__meeting_name(&z->meeting, parent),
                  door->length ? weft__endpoint_text(&a.to, text) : "any address",
                  !door->length ? "it does not listen"
                  : a.why       ? a.why
                                : strerror(a.error));
    return reached;
}

/* ------------------------------------------------------------------------------------------- all of it */

static weft_result lost(const weft__rendezvous *z, int r)
{
    return weft__fail(WEFT_E_PEER_LOST, "rank %d ended while the ranks met, or did not answer",
                      weft__meeting_name(&z->meeting, r));
}

/* The door of a rank, as the others see it: at the address by which rank 0 knows it. */
static weft_result hear_door(weft__rendezvous *z, int r)
{
    weft__endpoint *door = &z->doors[r], peer = {.length = sizeof peer.where};
    if (weft__socket_receive(z->links[r], door, sizeof *door, z->meeting.deadline_ns) != WEFT__IO_DONE) {
        door->length = 0;
        return lost(z, r);
    }
    if (z->address.kind == WEFT__ADDRESS_UNIX || !door->length)
        return WEFT_OK;
    if (getpeername(z->links[r], (struct sockaddr *)&peer.where, &peer.length) != 0)
        peer.length = 0;
    else
        weft__endpoint_set_port(&peer, weft__endpoint_port(door));
    *door = peer;
    return WEFT_OK;
}

static weft_result branch_as_root(weft__rendezvous *z)
{
    weft__verdict v = {0};
    int size = z->meeting.size;
    unsigned char reached;
    for (int r = 1; r < size; r++)
        if (weft__tree_place(r, size).children > 0)
            weft__verdict_add(&v, hear_door(z, r));
    for (int r = 1; r < size; r++) {
        int parent = weft__tree_place(r, size).parent;
        if (parent > 0)
            (void)weft__socket_send(z->links[r], &z->doors[parent], sizeof *z->doors, z->meeting.deadline_ns);
    }
    for (int r = 1; r < size; r++) {
        if (weft__tree_place(r, size).parent == 0)
            continue;
        if (weft__socket_receive(z->links[r], &reached, 1, z->meeting.deadline_ns) == WEFT__IO_DONE)
            z->apart[r] = !reached;
        else
            weft__verdict_add(&v, lost(z, r));
    }
    weft__rendezvous_tell(z, &v);
    return weft__verdict_result(&v);
}

static weft_result talk_as_other(weft__rendezvous *z, const weft__endpoint *own, int listener)
{
    uint64_t deadline = z->meeting.deadline_ns;
    weft__endpoint door;
    if (is_inner(&z->place) && weft__socket_send(z->links[0], own, sizeof *own, deadline) != WEFT__IO_DONE)
        return lost(z, 0);
    if (z->place.parent > 0) {
        if (weft__socket_receive(z->links[0], &door, sizeof door, deadline) != WEFT__IO_DONE)
            return lost(z, 0);
        unsigned char reached = reach_parent(z, &door);
        if (weft__socket_send(z->links[0], &reached, 1, deadline) != WEFT__IO_DONE)
            return lost(z, 0);
    }
    if (is_inner(&z->place))
        await_children(z, listener);
    return weft__rendezvous_verdict(z);
}

weft_result weft__rendezvous_branch(weft__rendezvous *z)
{
    if (z->meeting.rank == 0)
        return branch_as_root(z);
    weft__endpoint own = {0};
    int listener = is_inner(&z->place) ? open_door(z, &own) : -1;
    weft_result result = talk_as_other(z, &own, listener);
    close_door(&own, listener);
    return result;
}
