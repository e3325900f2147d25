/* SPDX-License-Identifier: Apache-2.0 */
/* Records on their way out, written from where they lie. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "tcp.h"

#define AT_ONCE 8 /* records in one call, but for those behind as many bytes as the longest has */

/* ------------------------------------------------------------------------------------------- the queue */

bool weft__tcp_has_to_send(const weft__tcp_way *way)
{
    return way->rest || way->first;
}

static void drop_rest(weft__tcp_way *way)
{
    if (!way->rest)
        return;
    free(way->rest);
    way->rest = NULL;
    way->tcp->rests--;
}

static weft__net_slot *pop(weft__tcp_way *way)
{
    weft__net_slot *slot = way->first;
    way->first = slot->next;
    if (!way->first)
        way->last = NULL;
    way->written = 0;
    return slot;
}

static size_t bytes_of(const weft__net_slot *slot)
{
    return WEFT__NET_HEAD_BYTES + slot->bytes;
}

void weft__tcp_let_go(weft__tcp_way *way)
{
    drop_rest(way);
    while (way->first)
        weft__net_let_go(pop(way));
}

/* ------------------------------------------------------------------------------------------- writing */

/* Two pieces, without the first @p skip bytes. */
static int pieces_of(const weft__net_slot *slot, size_t skip, struct iovec piece[2])
{
    int pieces = 0;
    if (skip < WEFT__NET_HEAD_BYTES) {
        piece[pieces++] = (struct iovec){.iov_base = slot->record + skip, .iov_len = WEFT__NET_HEAD_BYTES - skip};
        skip = WEFT__NET_HEAD_BYTES;
    }
    size_t done = skip - WEFT__NET_HEAD_BYTES;
    if (done < slot->bytes) /* it is only read */
        piece[pieces++] =
            (struct iovec){.iov_base = (unsigned char *)(uintptr_t)slot->payload + done, .iov_len = slot->bytes - done};
    return pieces;
}

static int all_pieces(const weft__tcp_way *way, struct iovec *pieces, size_t *bytes_out)
{
    int count = 0;
    size_t skip = way->written, bytes = way->rest ? way->rest_bytes - way->rest_written : 0;
    if (way->rest)
        pieces[count++] = (struct iovec){.iov_base = way->rest + way->rest_written, .iov_len = bytes};
    for (const weft__net_slot *slot = way->first; slot && count <= 2 * (AT_ONCE - 1) && bytes < WEFT__TCP_RECORD_BYTES;
         slot = slot->next, skip = 0) {
        count += pieces_of(slot, skip, pieces + count);
        bytes += bytes_of(slot) - skip;
    }
    *bytes_out = bytes;
    return count;
}

static void note_written(weft__tcp_way *way, size_t bytes)
{
    if (way->rest) {
        size_t left = way->rest_bytes - way->rest_written, part = bytes < left ? bytes : left;
        way->rest_written += part;
        bytes -= part;
        if (way->rest_written == way->rest_bytes)
            drop_rest(way);
    }
    way->written += bytes;
    while (way->first && way->written >= bytes_of(way->first)) {
        size_t more = way->written - bytes_of(way->first);
        weft__net_slot *slot = pop(way);
        way->written = more;
        weft__net_sent(slot);
        weft__net_let_go(slot);
    }
}

static void want_room(weft__tcp_way *way, bool wanted)
{
    if (way->wants_room == wanted)
        return;
    way->wants_room = wanted;
    (void)weft__tcp_watch(way->tcp, way->fd, EPOLLIN | (wanted ? EPOLLOUT : 0), WEFT__TCP_WAY, way->rank);
}

/* Who reads hears of it, behind what was said before, and loses the way: whoever writes may be in the middle of what
 * would be let go. */
static void give_up(weft__tcp_way *way, int error)
{
    if (error != EPIPE && !way->error)
        way->error = error;
    (void)shutdown(way->fd, SHUT_RDWR);
    want_room(way, false);
}

/* What is left when the turn is over goes on when there is room: at once, in the next one. */
void weft__tcp_write(weft__tcp_way *way)
{
    while (weft__tcp_has_to_send(way)) {
        struct iovec pieces[2 * AT_ONCE + 1];
        size_t bytes;
        struct msghdr message = {.msg_iov = pieces, .msg_iovlen = (size_t)all_pieces(way, pieces, &bytes)};
        ssize_t n = sendmsg(way->fd, &message, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != ENOBUFS && errno != ENOMEM) {
            give_up(way, errno);
            return;
        }
        if (n > 0)
            note_written(way, (size_t)n);
        if (n < 0 || (size_t)n < bytes || weft__net_turn_over(way->tcp->net))
            break;
    }
    want_room(way, weft__tcp_has_to_send(way));
}

void weft__tcp_send(void *state, int rank, weft__net_slot *slot)
{
    weft__tcp_way *way = &((weft__tcp *)state)->ways[rank];
    bool waits = weft__tcp_has_to_send(way);
    slot->next = NULL;
    if (way->last)
        way->last->next = slot;
    else
        way->first = slot;
    way->last = slot;
    if (way->state == WEFT__TCP_OPEN && !waits)
        weft__tcp_write(way);
}

/* ------------------------------------------------------------------------------------------- taking back */

/* The other end counts on all of a record that was begun: what is left of it is kept. */
static bool keep_rest(weft__tcp_way *way)
{
    weft__net_slot *slot = way->first;
    struct iovec pieces[2];
    size_t at = 0;
    int count = pieces_of(slot, way->written, pieces);
    way->rest = malloc(bytes_of(slot) - way->written);
    if (!way->rest)
        return false;
    way->tcp->rests++;
    for (int i = 0; i < count; at += pieces[i++].iov_len)
        memcpy(way->rest + at, pieces[i].iov_base, pieces[i].iov_len);
    way->rest_bytes = at;
    way->rest_written = 0;
    weft__net_let_go(pop(way));
    return true;
}

static bool is_part(const weft__net_slot *slot, const weft__net_comm *nc)
{
    return slot->lane && slot->nc == nc;
}

static void drop_from(weft__tcp_way *way, const weft__net_comm *nc)
{
    if (way->first && way->written && is_part(way->first, nc) && !keep_rest(way)) {
        weft__tcp_way_lose(way, WEFT_E_NO_MEMORY, "no memory to send what was begun");
        return;
    }
    weft__net_slot **link = &way->first;
    way->last = NULL;
    while (*link) {
        weft__net_slot *slot = *link;
        if (is_part(slot, nc)) {
            *link = slot->next;
            weft__net_let_go(slot);
            continue;
        }
        way->last = slot;
        link = &slot->next;
    }
}

void weft__tcp_drop(void *state, weft__net_comm *nc)
{
    weft__tcp *tcp = state;
    for (int i = 0; i < nc->count; i++)
        if (i != nc->rank)
            drop_from(&tcp->ways[nc->ranks[i]], nc);
}
