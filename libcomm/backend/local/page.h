/* SPDX-License-Identifier: Apache-2.0 */
/* What a rank shows to the other members of one comm: a page of counters that only grow and that it alone writes, then
 * slots for small messages, then pipes for memory that others cannot reach. All members lay it out alike. */
#ifndef WEFT_LOCAL_PAGE_H
#define WEFT_LOCAL_PAGE_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <weft/backend.h>

#include "base/memory.h"

#define WEFT__AHEAD        16          /* operations that a rank may be ahead of the slowest */
#define WEFT__MAIL_ENTRIES WEFT__AHEAD /* messages on their way, for each peer and channel */
#define WEFT__NOWHERE      UINT64_MAX

#define WEFT__IN_LINE 24 /* bytes of input that fit beside what is asked for */

/* What a rank asks for, and where it is. */
typedef struct weft__request {
    uint64_t arrived_ticks;
    uint64_t mark; /* of the operation that it is a part of; 0 = of none */
    weft_asked asked;
    union {
        struct {
            uint64_t send, recv; /* offsets in the rank's segment; WEFT__NOWHERE: others cannot reach it */
        };
        unsigned char input[WEFT__IN_LINE];
    };
} weft__request;

/* What an operation is on one rank, in one cache line: who waits for it fetches nothing else. It is written at one go,
 * or those who look whether it is there would take the line away in between. */
typedef struct weft__descriptor {
    _Alignas(WEFT__LINE) _Atomic uint64_t number; /* of the operation: it has arrived; written last */
    weft__request request;
} weft__descriptor;

_Static_assert(offsetof(weft__descriptor, request) + sizeof(weft__request) <= 64, "all of it is in one cache line");

/* Work of one operation that others may take over. What is claimed of each move follows it: parts from its begin, by
 * the owner, in the low half; from its end, by others, in the high one. */
typedef struct weft__share {
    _Alignas(WEFT__LINE) uint64_t recv;         /* offset of the result in the rank's segment; WEFT__NOWHERE: it is not
                                                   offered; written before the rank arrives */
    _Alignas(WEFT__LINE) _Atomic uint32_t done; /* parts; the owner's in one sum, once all are claimed */
    _Atomic uint32_t attended;                  /* the owner is at it */
    _Alignas(WEFT__LINE) _Atomic uint64_t claims[];
} weft__share;

typedef struct weft__page {
    _Alignas(WEFT__LINE) _Atomic uint64_t arrived;  /* the last operation that has, for those who explain */
    _Alignas(WEFT__LINE) _Atomic uint64_t produced; /* its part of the result of operation n can be read */
    _Alignas(WEFT__LINE) _Atomic uint64_t released; /* it touches nobody's memory for operation n any more */
    _Alignas(WEFT__LINE) _Atomic int32_t verdict;   /* the comm has failed there; what follows was written before */
    _Atomic uint32_t destroyed;
    uint64_t verdict_number; /* the first operation that did not end well there */
    char verdict_text[240];
    _Alignas(WEFT__LINE) _Atomic uint64_t doing; /* the last p2p batch: weft__doing; 0 = none */
    _Alignas(WEFT__LINE) weft__descriptor descriptors[WEFT__AHEAD];
} weft__page;

/* A pipe from its writer's page to one reader: positions only grow; its ring follows and holds position % bytes. */
typedef struct weft__pipe_out {
    _Alignas(WEFT__LINE) _Atomic uint64_t written;
} weft__pipe_out;

static inline unsigned char *weft__pipe_ring(const weft__pipe_out *out)
{
    return (unsigned char *)(uintptr_t)(out + 1);
}

typedef struct weft__pipe_in {
    _Alignas(WEFT__LINE) _Atomic uint64_t read;
} weft__pipe_in;

/* Where its bytes are: they come through the pipe; they are all in it; where they lie; in the entry. */
enum { WEFT__MAIL_IN_PIPE = 0, WEFT__MAIL_WHOLE = 1, WEFT__MAIL_DIRECT = 2, WEFT__MAIL_IN_LINE = 3 };
#define WEFT__MAIL_LINE_BYTES 24

/* A message, in one cache line. */
typedef struct weft__mail_entry {
    _Alignas(WEFT__LINE) _Atomic uint64_t number; /* of the message on its lane, from 1: it is posted; written last */
    uint64_t bytes, tag;
    uint64_t started; /* ticks: when its sender took it up */
    uint32_t mode, reserved;
    union {
        uint64_t offset; /* in the sender's segment */
        unsigned char input[WEFT__MAIL_LINE_BYTES];
    };
} weft__mail_entry;

_Static_assert(offsetof(weft__mail_entry, input) + WEFT__MAIL_LINE_BYTES <= 64, "all of it is in one cache line");

/* Messages to one peer on one channel, in its writer's page. */
typedef struct weft__mail_out {
    _Alignas(WEFT__LINE) _Atomic uint64_t posted; /* messages, for those who explain */
    _Alignas(WEFT__LINE) weft__mail_entry entries[WEFT__MAIL_ENTRIES];
    weft__pipe_out pipe; /* last: its ring follows */
} weft__mail_out;

/* What has been received from one peer on one channel, in its reader's page. */
typedef struct weft__mail_in {
    _Alignas(WEFT__LINE) _Atomic uint64_t taken;
    weft__pipe_in pipe;
} weft__mail_in;

/* Where things are, in bytes from the start of the page. Pure: the same on all members. */
typedef struct weft__page_layout {
    int count, channels;
    size_t slot_bytes, pipe_bytes, mail_bytes; /* payload of one */
    size_t shares, slots, pipes_out, pipes_in, mails_out, mails_in;
    size_t share_stride, pipe_stride, mail_stride;
    size_t total;
} weft__page_layout;

weft__page_layout weft__page_lay_out(int count, int channels, size_t slot_bytes);

static inline unsigned char *weft__page_slot(const weft__page_layout *l, const weft__page *page, uint64_t number)
{
    return (unsigned char *)(uintptr_t)page + l->slots + number % WEFT__AHEAD * l->slot_bytes;
}

/* Where operation @p number is among the descriptors: not one behind the other, or the reader's core would guess which
 * line is next and take it away while it is written. */
static inline size_t weft__page_place(uint64_t number)
{
    static const uint8_t places[WEFT__AHEAD] = {0, 8, 4, 12, 2, 10, 6, 14, 1, 9, 5, 13, 3, 11, 7, 15};
    return places[number % WEFT__AHEAD];
}

/* Has operation @p number arrived on the rank of that page? */
static inline bool weft__page_has(const weft__page *page, uint64_t number)
{
    return atomic_load(&page->descriptors[weft__page_place(number)].number) >= number;
}

static inline weft__descriptor *weft__page_descriptor(weft__page *page, uint64_t number)
{
    return &page->descriptors[weft__page_place(number)];
}

/* What that rank asks for with an operation that it has arrived at. */
static inline const weft__request *weft__page_request(weft__page *page, uint64_t number)
{
    return &weft__page_descriptor(page, number)->request;
}

static inline weft__share *weft__page_share(const weft__page_layout *l, const weft__page *page, uint64_t number)
{
    return (weft__share *)((unsigned char *)(uintptr_t)page + l->shares + number % WEFT__AHEAD * l->share_stride);
}

/* In @p page: the pipe to member @p peer, and how far the pipe from it was read. */
weft__pipe_out *weft__page_pipe_out(const weft__page_layout *l, weft__page *page, int peer);
weft__pipe_in *weft__page_pipe_in(const weft__page_layout *l, weft__page *page, int peer);
weft__mail_out *weft__page_mail_out(const weft__page_layout *l, weft__page *page, int peer, uint32_t channel);
weft__mail_in *weft__page_mail_in(const weft__page_layout *l, weft__page *page, int peer, uint32_t channel);

#endif
