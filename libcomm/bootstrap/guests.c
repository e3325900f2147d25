/* SPDX-License-Identifier: Apache-2.0 */
/* The door of rank 0. */
#include "bootstrap/guests.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "bootstrap/endpoint.h"
#include "bootstrap/socket.h"

#define STRANGERS 64
#define PATIENCE  5000000000ull /* for a hello */
#define AT_ONCE   256           /* accepted before those who are there are heard again */

weft_result weft__guests_open(weft__guests *guests, uint64_t key, int known)
{
    *guests = (weft__guests){.room = STRANGERS + known, .key = key, .epoll_fd = -1};
    guests->all = weft__alloc((size_t)guests->room * sizeof *guests->all);
    return guests->all ? WEFT_OK : WEFT_E_NO_MEMORY;
}

void weft__guests_close(weft__guests *guests)
{
    for (int i = 0; i < guests->count; i++)
        close(guests->all[i].fd);
    free(guests->all);
    *guests = (weft__guests){0};
}

static void forget(weft__guests *guests, int index)
{
    guests->all[index] = guests->all[--guests->count];
}

/* A child of this process may still have its descriptor: closing it is not enough for epoll to forget it. */
static weft_result send_away(weft__guests *guests, int index)
{
    if (guests->epoll_fd >= 0)
        (void)epoll_ctl(guests->epoll_fd, EPOLL_CTL_DEL, guests->all[index].fd, NULL);
    close(guests->all[index].fd);
    forget(guests, index);
    return WEFT_AGAIN;
}

/* Those who know the key stay: they may have come in by their lights already. */
static int oldest_stranger(const weft__guests *guests)
{
    int oldest = -1;
    for (int i = 0; i < guests->count; i++)
        if (!guests->all[i].known && (oldest < 0 || guests->all[i].since_ns < guests->all[oldest].since_ns))
            oldest = i;
    return oldest;
}

static bool make_room(weft__guests *guests)
{
    int oldest = oldest_stranger(guests);
    if (oldest >= 0)
        (void)send_away(guests, oldest);
    return oldest >= 0;
}

static void let_sit(weft__guests *guests, int fd)
{
    if (weft__endpoint_is_unix(fd) && !weft__endpoint_same_user(fd)) {
        close(fd);
        return;
    }
    weft__endpoint_tune(fd);
    guests->came++;
    guests->all[guests->count++] = (weft__guest){.fd = fd, .since_ns = weft__now_ns()};
}

/* Nobody is sent away before he was heard once, nor if nobody waits: want of descriptors is told in any case. */
weft_result weft__guests_accept(weft__guests *guests, int listener)
{
    bool heard = true;
    for (int n = 0; n < AT_ONCE && weft__socket_wait(listener, POLLIN, 0); n++) {
        bool full = guests->count == guests->room;
        int fd = full ? -1 : weft__endpoint_accept(listener);
        if (fd >= 0) {
            let_sit(guests, fd);
            heard = false;
            continue;
        }
        bool want = !full && (errno == EMFILE || errno == ENFILE);
        if ((!full && !want) || !heard)
            return WEFT_OK;
        if (make_room(guests))
            continue;
        return want ? weft__fail_errno("rank 0 cannot take a link to every rank (ulimit -n)") : WEFT_OK;
    }
    return WEFT_OK;
}

/* More of what a guest says: WEFT_PENDING, WEFT_AGAIN: it has ended, WEFT_OK: all @p bytes are there. */
static weft_result read_on(int fd, void *text, size_t bytes, size_t *heard)
{
    ssize_t n = recv(fd, (char *)text + *heard, bytes - *heard, 0);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return WEFT_PENDING;
    if (n <= 0)
        return WEFT_AGAIN;
    *heard += (size_t)n;
    return WEFT_OK;
}

static weft_result hear_hello(weft__guests *guests, int index)
{
    weft__guest *g = &guests->all[index];
    weft_result result = read_on(g->fd, &g->hello, sizeof g->hello, &g->heard);
    if (result == WEFT_PENDING)
        return WEFT_PENDING;
    weft__heard heard = weft__hello_judge(&g->hello, g->heard, guests->key);
    guests->others += heard == WEFT__HEARD_OTHER;
    if (result != WEFT_OK || heard == WEFT__HEARD_OTHER || heard == WEFT__HEARD_STRANGER)
        return send_away(guests, index);
    if (heard == WEFT__HEARD_PART)
        return WEFT_PENDING;
    const weft__welcome welcome = weft__welcome_make(guests->key); /* a fresh socket takes that much */
    if (send(g->fd, &welcome, sizeof welcome, MSG_NOSIGNAL) != sizeof welcome)
        return send_away(guests, index);
    g->known = true;
    return WEFT_OK;
}

weft_result weft__guests_hear(weft__guests *guests, int index, weft__guest *in_out)
{
    weft__guest *g = &guests->all[index];
    unsigned char word;
    size_t heard = 0;
    if (!g->known) {
        weft_result result = hear_hello(guests, index);
        if (result != WEFT_OK)
            return result;
    }
    bool foreign = g->hello.protocol != WEFT__HELLO_PROTOCOL; /* who knows what it says next */
    weft_result result = foreign ? WEFT_OK : read_on(g->fd, &word, 1, &heard);
    if (result == WEFT_PENDING)
        return WEFT_PENDING;
    if (result != WEFT_OK || (!foreign && word != WEFT__HELLO_COMING))
        return send_away(guests, index);
    *in_out = *g;
    forget(guests, index);
    return WEFT_OK;
}

uint64_t weft__guests_tire(weft__guests *guests, uint64_t now_ns)
{
    for (int oldest; (oldest = oldest_stranger(guests)) >= 0;) {
        uint64_t end_ns = guests->all[oldest].since_ns + PATIENCE;
        if (now_ns < end_ns)
            return end_ns;
        (void)send_away(guests, oldest);
    }
    return 0;
}
