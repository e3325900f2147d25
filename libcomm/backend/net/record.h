/* SPDX-License-Identifier: Apache-2.0 */
/* What goes over the wire: records, each a head and the bytes behind it. Little-endian, as weft is. */
#ifndef WEFT_NET_RECORD_H
#define WEFT_NET_RECORD_H
#include <stddef.h>
#include <stdint.h>
#include <weft/backend.h>

#define WEFT__NET_VERSION 2

typedef enum weft__net_what {
    WEFT__NET_HELLO,    /* opens the way */
    WEFT__NET_DATA,     /* a part of a message, in the order of its stream */
    WEFT__NET_CREDIT,   /* nothing but the limit */
    WEFT__NET_LEAVE,    /* the sender has destroyed the comm */
    WEFT__NET_VERDICT,  /* the comm has failed: result in `number`, text behind the head */
    WEFT__NET_FAREWELL, /* between worlds: the sender is going to close, and asks if all it sent was read, */
    WEFT__NET_ANSWER,   /* and this says so; `member` is the rank in the world */
    WEFT__NET_WHATS
} weft__net_what;

/* What a message is, for its receiver to compare before a byte is used. */
typedef struct weft__net_request {
    uint64_t number;  /* collective: its number on the comm; p2p: the tag */
    weft_asked asked; /* p2p: nothing but its count, of bytes */
} weft__net_request;

typedef struct weft__net_head {
    uint32_t comm;   /* the receiver's number for it */
    uint32_t member; /* who sends */
    uint8_t what;    /* weft__net_what */
    uint8_t stream;  /* 0 = collectives, 1 + channel = p2p */
    uint8_t reserved[2];
    uint32_t bytes;    /* behind the head */
    uint64_t position; /* in its stream, where the head begins */
    uint64_t limit;    /* of the same stream back to us: the receiver may send as far as this */
    uint64_t offset;   /* in the message */
    weft__net_request request;
} weft__net_head;

_Static_assert(sizeof(weft__net_head) == 64, "heads have no gaps");

#define WEFT__NET_HEAD_BYTES sizeof(weft__net_head)
/* What members of a comm tell each other when it is made. */
typedef struct weft__net_card {
    uint32_t version;
    uint32_t comm; /* this rank's number for it */
    uint32_t address_bytes;
    uint32_t stash_bytes;    /* of each stream: so much may come that was not asked for */
    unsigned char address[]; /* by which the carrier of others finds this rank */
} weft__net_card;

/* Of a message of @p bytes in its stream: at least one head. @p chunk: bytes behind the heads of all but its last. */
static inline uint64_t weft__net_stream_bytes(size_t bytes, size_t chunk)
{
    size_t records = (bytes + chunk - 1) / chunk;
    return bytes + WEFT__NET_HEAD_BYTES * (records ? records : 1);
}

/* Of those records of a message that lie within its first @p bytes. */
static inline uint64_t weft__net_whole_records(size_t bytes, size_t chunk)
{
    return bytes / chunk * (chunk + WEFT__NET_HEAD_BYTES);
}

#endif
