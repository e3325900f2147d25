/* SPDX-License-Identifier: Apache-2.0 */
/* Records that come, read to where they belong. */
#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#include "tcp.h"

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t left_of(const weft__tcp_way *way)
{
    return way->in_record ? way->head.bytes - way->come : 0;
}

/* Where the rest of the record goes, which is asked for anew each time: its comm may have failed meanwhile. */
static int room_of(weft__tcp_way *way, struct iovec room[2])
{
    size_t left = left_of(way);
    if (!left)
        return 0;
    if (way->head.what != WEFT__NET_DATA) {
        room[0] = (struct iovec){.iov_base = way->text + way->come, .iov_len = left};
        return 1;
    }
    int pieces = weft__net_room(way->tcp->net, &way->head, way->come, room);
    if (pieces)
        return pieces;
    room[0] = (struct iovec){.iov_base = way->tcp->waste, .iov_len = left};
    return 1;
}

static void end_if_whole(weft__tcp_way *way)
{
    if (!way->in_record || left_of(way))
        return;
    way->in_record = false;
    if (way->head.what == WEFT__NET_DATA)
        weft__net_end(way->tcp->net, &way->head);
    else
        weft__net_hear(way->tcp->net, &way->head, way->text);
}

/* A head lies ahead. False: it makes no sense. */
static bool begin(weft__tcp_way *way)
{
    memcpy(&way->head, way->ahead + way->ahead_from, sizeof way->head);
    way->ahead_from += sizeof way->head;
    bool is_data = way->head.what == WEFT__NET_DATA;
    if (!weft__net_may_come_from(way->tcp->net, &way->head, way->rank) ||
        way->head.bytes > (is_data ? weft__net_chunk_bytes(way->tcp->net) : sizeof way->text))
        return false;
    way->in_record = true;
    way->come = 0;
    if (is_data)
        weft__net_begin(way->tcp->net, &way->head);
    return true;
}

static void take_from_ahead(weft__tcp_way *way)
{
    struct iovec room[2];
    int pieces = room_of(way, room);
    for (int i = 0; i < pieces; i++) {
        size_t bytes = least(room[i].iov_len, way->ahead_to - way->ahead_from);
        memcpy(room[i].iov_base, way->ahead + way->ahead_from, bytes);
        way->ahead_from += bytes;
        way->come += bytes;
    }
    end_if_whole(way);
}

/* All records that lie ahead, and what there is of the last one. */
static bool look_ahead(weft__tcp_way *way)
{
    while (way->ahead_to - way->ahead_from >= sizeof way->head) {
        if (!begin(way))
            return false;
        take_from_ahead(way);
        if (way->in_record)
            break;
    }
    size_t left = way->ahead_to - way->ahead_from;
    memmove(way->ahead, way->ahead + way->ahead_from, left);
    way->ahead_from = 0;
    way->ahead_to = left;
    return true;
}

/* Bytes that were read: first of the record at hand, then ahead. */
static bool take(weft__tcp_way *way, size_t bytes)
{
    size_t part = least(bytes, left_of(way));
    way->come += part;
    way->ahead_to += bytes - part;
    end_if_whole(way);
    return way->in_record || look_ahead(way);
}

weft_result weft__tcp_read(weft__tcp_way *way, const char **why_out)
{
    for (;;) {
        struct iovec pieces[3];
        int count = room_of(way, pieces);
        pieces[count++] =
            (struct iovec){.iov_base = way->ahead + way->ahead_to, .iov_len = sizeof way->ahead - way->ahead_to};
        size_t wanted = 0;
        for (int i = 0; i < count; i++)
            wanted += pieces[i].iov_len;
        ssize_t n = readv(way->fd, pieces, count);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return WEFT_OK;
        int error = way->error ? way->error : n < 0 ? errno : 0;
        *why_out = error ? strerror(error) : "it has ended the connection";
        if (n <= 0)
            return weft__tcp_result_of(error);
        *why_out = "what came over the connection makes no sense";
        if (!take(way, (size_t)n))
            return WEFT_E_PEER_LOST;
        if ((size_t)n < wanted || weft__net_turn_over(way->tcp->net))
            return WEFT_OK;
    }
}
