/* SPDX-License-Identifier: Apache-2.0 */
/* Exchanges as p2p batches: who sends what to whom is a row in a table, all else is the same. */
#include <weft/composed.h>

#include "base/dtype.h"
#include "base/error.h"
#include "start.h"

typedef struct exchange exchange;

/* Where the part for, or from, one rank lies; elements. */
typedef struct part {
    size_t offset, count;
} part;

/* How far into a list of counts, and how many elements those before make: the offset of the part of @p rank. */
typedef struct walk {
    int rank;
    size_t offset;
} walk;

typedef struct kind {
    const char *name;
    bool (*goes)(const exchange *x, int from, int to); /* is there such a part? */
    part (*sent)(exchange *x, int to);
    part (*received)(exchange *x, int from);
    bool is_rooted; /* and may be in place */
    uint64_t tag;   /* so that exchanges of different kinds do not take each other's parts */
} kind;

struct exchange {
    const kind *kind;
    const weft_comm *comm;
    const char *send;
    char *recv;
    weft_dtype dtype;
    int root;
    size_t count;
    const size_t *send_counts, *send_offsets, *recv_counts, *recv_offsets;
    walk send_walk, recv_walk;
};

/* ------------------------------------------------------------------------------------------- the kinds */

static bool goes_to_root(const exchange *x, int from, int to)
{
    (void)from;
    return to == x->root;
}

static bool goes_from_root(const exchange *x, int from, int to)
{
    (void)to;
    return from == x->root;
}

static bool goes_everywhere(const exchange *x, int from, int to)
{
    (void)x, (void)from, (void)to;
    return true;
}

static part whole(exchange *x, int peer)
{
    (void)peer;
    return (part){0, x->count};
}

static part by_rank(exchange *x, int peer)
{
    return (part){(size_t)peer * x->count, x->count};
}

/* Peers are asked for in their order, or against it, so the walk goes on from the one before. */
static part listed(const size_t *counts, const size_t *offsets, walk *at, int peer)
{
    if (offsets)
        return (part){offsets[peer], counts[peer]};
    while (at->rank < peer)
        at->offset += counts[at->rank++];
    while (at->rank > peer)
        at->offset -= counts[--at->rank];
    return (part){at->offset, counts[peer]};
}

static part listed_sent(exchange *x, int to)
{
    return listed(x->send_counts, x->send_offsets, &x->send_walk, to);
}

static part listed_received(exchange *x, int from)
{
    return listed(x->recv_counts, x->recv_offsets, &x->recv_walk, from);
}

static const kind gather = {"gather", goes_to_root, whole, by_rank, true, 0x676174686572},
                  scatter = {"scatter", goes_from_root, by_rank, whole, true, 0x73636174746572},
                  all_to_allv = {"all_to_allv", goes_everywhere, listed_sent, listed_received, false, 0x616c6c746f76};

/* ------------------------------------------------------------------------------------------- checks */

/* Elements that one buffer may have, so that their bytes can be counted. */
static size_t most_elements(const exchange *x)
{
    return SIZE_MAX / 16 / weft__dtype_bytes(x->dtype);
}

static weft_result too_many(const exchange *x)
{
    return weft__fail(WEFT_E_RANGE, "comm %s: %s of more elements than memory has", x->comm->name, x->kind->name);
}

/* Offsets and counts that were given are sums without overflow. */
static weft_result check_list(const exchange *x, const size_t *counts, const size_t *offsets, const char *which)
{
    size_t most = most_elements(x), sum = 0;
    if (!counts)
        return weft__fail(WEFT_E_INVALID, "comm %s: %s without %s_counts", x->comm->name, x->kind->name, which);
    for (int r = 0; r < x->comm->size; r++) {
        size_t begin = offsets ? offsets[r] : sum;
        if (begin > most || counts[r] > most - begin)
            return too_many(x);
        sum = offsets ? 0 : begin + counts[r];
    }
    return WEFT_OK;
}

static weft_result check_numbers(const exchange *x)
{
    const char *name = x->comm->name, *what = x->kind->name;
    if (!weft__is_dtype(x->dtype))
        return weft__fail(WEFT_E_INVALID, "comm %s: %s of dtype %d", name, what, (int)x->dtype);
    if (!x->kind->is_rooted) {
        WEFT_TRY(check_list(x, x->send_counts, x->send_offsets, "send"));
        return check_list(x, x->recv_counts, x->recv_offsets, "recv");
    }
    if ((unsigned)x->root >= (unsigned)x->comm->size)
        return weft__fail(WEFT_E_RANGE, "comm %s: %s with root %d of %d", name, what, x->root, x->comm->size);
    return x->count > most_elements(x) / (size_t)x->comm->size ? too_many(x) : WEFT_OK;
}

/* From the lowest to behind the highest element of a buffer on this rank; begin == end: none. */
typedef struct span {
    size_t begin, end;
} span;

static void widen(span *s, part p)
{
    if (p.count == 0)
        return;
    s->begin = s->begin == s->end || p.offset < s->begin ? p.offset : s->begin;
    s->end = p.offset + p.count > s->end ? p.offset + p.count : s->end;
}

static weft_result check_buffer(const exchange *x, const void *buffer, span used, const char *which)
{
    const char *name = x->comm->name, *what = x->kind->name;
    if (used.end > used.begin && !buffer)
        return weft__fail(WEFT_E_INVALID, "comm %s: %s without a %s buffer", name, what, which);
    if (used.end > used.begin && (uintptr_t)buffer & (weft__dtype_bytes(x->dtype) - 1))
        return weft__fail(WEFT_E_INVALID, "comm %s: %s: the %s buffer is not aligned to %s", name, what, which,
                          weft_dtype_string(x->dtype));
    return WEFT_OK;
}

/* Does the part of this rank to itself lie where it is to be? */
static bool in_place(exchange *x)
{
    int self = x->comm->rank;
    size_t bytes = weft__dtype_bytes(x->dtype);
    return x->kind->is_rooted && self == x->root && x->send && x->recv &&
           x->send + x->kind->sent(x, self).offset * bytes == x->recv + x->kind->received(x, self).offset * bytes;
}

static weft_result check_buffers(exchange *x)
{
    int self = x->comm->rank;
    span send = {0, 0}, recv = {0, 0};
    for (int r = 0; r < x->comm->size; r++) {
        if (x->kind->goes(x, self, r))
            widen(&send, x->kind->sent(x, r));
        if (x->kind->goes(x, r, self))
            widen(&recv, x->kind->received(x, r));
    }
    WEFT_TRY(check_buffer(x, x->send, send, "send"));
    WEFT_TRY(check_buffer(x, x->recv, recv, "recv"));
    if (send.begin == send.end || recv.begin == recv.end || in_place(x))
        return WEFT_OK;
    size_t bytes = weft__dtype_bytes(x->dtype);
    uintptr_t from = (uintptr_t)x->send, to = (uintptr_t)x->recv;
    if (from + send.begin * bytes < to + recv.end * bytes && to + recv.begin * bytes < from + send.end * bytes)
        return weft__fail(WEFT_E_INVALID, "comm %s: %s: the buffers overlap%s", x->comm->name, x->kind->name,
                          x->kind->is_rooted ? ", but not as in place" : "");
    return WEFT_OK;
}

/* ------------------------------------------------------------------------------------------- the batch */

static weft_p2p message(const exchange *x, weft_p2p_kind direction, int peer, const void *buffer, part p)
{
    char *base = (char *)(uintptr_t)buffer;
    return (weft_p2p){.kind = direction,
                      .peer = peer,
                      .dtype = x->dtype,
                      .buffer = p.count ? base + p.offset * weft__dtype_bytes(x->dtype) : NULL,
                      .count = p.count,
                      .tag = x->kind->tag};
}

/* Every rank begins with itself and goes round, so that not all send to the same one at once. */
static uint32_t fill(exchange *x, weft_p2p *messages)
{
    const weft_comm *comm = x->comm;
    int self = comm->rank;
    uint32_t count = 0;
    for (int step = in_place(x); step < comm->size; step++) {
        int to = (self + step) % comm->size, from = (self + comm->size - step) % comm->size;
        if (x->kind->goes(x, from, self))
            messages[count++] = message(x, WEFT_RECV, from, x->recv, x->kind->received(x, from));
        if (x->kind->goes(x, self, to))
            messages[count++] = message(x, WEFT_SEND, to, x->send, x->kind->sent(x, to));
    }
    return count;
}

/* Check, and fill a work. */
static weft_result prepare(weft_comm *comm, exchange x, weft_stream after, weft__work **work_out)
{
    WEFT_TRY(weft__p2p_usable(comm));
    x.comm = comm;
    WEFT_TRY(check_numbers(&x));
    WEFT_TRY(check_buffers(&x));
    weft_p2p *messages;
    WEFT_TRY(weft__p2p_prepare(comm, after, WEFT_WORK_NONE, work_out, &messages));
    (*work_out)->op.message_count = fill(&x, messages);
    return WEFT_OK;
}

static weft_result start(weft_comm *comm, exchange x, weft_stream after, weft_work *work_out)
{
    weft__work *work;
    if (!work_out)
        return weft__fail(WEFT_E_INVALID, "%s is started without a place for its work", x.kind->name);
    weft_result result = prepare(comm, x, after, &work);
    *work_out = result == WEFT_OK ? weft__start(work) : WEFT_WORK_NONE;
    return result;
}

static weft_result run(weft_comm *comm, exchange x, weft_stream stream)
{
    weft__work *work;
    WEFT_TRY(prepare(comm, x, stream, &work));
    return weft__run(work);
}

/* ------------------------------------------------------------------------------------------- the public calls */

static exchange rooted(const kind *what, const void *send, void *recv, size_t count, weft_dtype dtype, int root)
{
    return (exchange){.kind = what, .send = send, .recv = recv, .dtype = dtype, .root = root, .count = count};
}

weft_result weft_gather_start(weft_comm *comm, const void *send, void *recv, size_t count, weft_dtype dtype, int root,
                              weft_stream after, weft_work *work_out)
{
    return start(comm, rooted(&gather, send, recv, count, dtype, root), after, work_out);
}

weft_result weft_scatter_start(weft_comm *comm, const void *send, void *recv, size_t count, weft_dtype dtype, int root,
                               weft_stream after, weft_work *work_out)
{
    return start(comm, rooted(&scatter, send, recv, count, dtype, root), after, work_out);
}

weft_result weft_gather_run(weft_comm *comm, const void *send, void *recv, size_t count, weft_dtype dtype, int root,
                            weft_stream stream)
{
    return run(comm, rooted(&gather, send, recv, count, dtype, root), stream);
}

weft_result weft_scatter_run(weft_comm *comm, const void *send, void *recv, size_t count, weft_dtype dtype, int root,
                             weft_stream stream)
{
    return run(comm, rooted(&scatter, send, recv, count, dtype, root), stream);
}

static exchange listed_exchange(const void *send, const size_t *send_counts, const size_t *send_offsets, void *recv,
                                const size_t *recv_counts, const size_t *recv_offsets, weft_dtype dtype)
{
    return (exchange){.kind = &all_to_allv,
                      .send = send,
                      .recv = recv,
                      .dtype = dtype,
                      .send_counts = send_counts,
                      .send_offsets = send_offsets,
                      .recv_counts = recv_counts,
                      .recv_offsets = recv_offsets};
}

weft_result weft_all_to_allv_start(weft_comm *comm, const void *send, const size_t *send_counts,
                                   const size_t *send_offsets, void *recv, const size_t *recv_counts,
                                   const size_t *recv_offsets, weft_dtype dtype, weft_stream after, weft_work *work_out)
{
    exchange x = listed_exchange(send, send_counts, send_offsets, recv, recv_counts, recv_offsets, dtype);
    return start(comm, x, after, work_out);
}

weft_result weft_all_to_allv_run(weft_comm *comm, const void *send, const size_t *send_counts,
                                 const size_t *send_offsets, void *recv, const size_t *recv_counts,
                                 const size_t *recv_offsets, weft_dtype dtype, weft_stream stream)
{
    exchange x = listed_exchange(send, send_counts, send_offsets, recv, recv_counts, recv_offsets, dtype);
    return run(comm, x, stream);
}
