/* SPDX-License-Identifier: Apache-2.0 */
/* A ring with one writer and one reader. */
#include "backend/local/pipe.h"

#include <string.h>

#define LINE  64
#define CHUNK ((size_t)32 << 10) /* published at once, so that the reader can follow */

static size_t contiguous(size_t ring_bytes, uint64_t position, uint64_t amount)
{
    size_t to_end = ring_bytes - (size_t)(position % ring_bytes);
    return amount < to_end ? (size_t)amount : to_end;
}

static uint64_t advance(uint64_t position, size_t bytes, int last)
{
    position += bytes;
    return last ? (position + LINE - 1) / LINE * LINE : position;
}

uint64_t weft__pipe_used(weft__pipe_writer *w, uint64_t most)
{
    if (w->position - w->read_seen > most)
        w->read_seen = atomic_load(&w->in->read);
    return w->position - w->read_seen;
}

size_t weft__pipe_room(weft__pipe_writer *w, unsigned char **to_out)
{
    uint64_t used = weft__pipe_used(w, w->bytes - 1); /* the end of a stream may lie a little past the ring */
    *to_out = weft__pipe_ring(w->out) + w->position % w->bytes;
    return used < w->bytes ? contiguous(w->bytes, w->position, w->bytes - used) : 0;
}

static void wrote(weft__pipe_writer *w, size_t bytes, int last)
{
    w->position = advance(w->position, bytes, last);
    atomic_store(&w->out->written, w->position);
}

size_t weft__pipe_write(weft__pipe_writer *w, const unsigned char *from, size_t bytes)
{
    unsigned char *to;
    size_t room = weft__pipe_room(w, &to);
    size_t part = room < bytes ? room : bytes;
    part = part < CHUNK ? part : CHUNK;
    if (!part)
        return 0;
    memcpy(to, from, part);
    wrote(w, part, part == bytes);
    return part;
}

size_t weft__pipe_available(weft__pipe_reader *r, const unsigned char **from_out)
{
    if (r->written_seen <= r->position)
        r->written_seen = atomic_load(&r->out->written);
    *from_out = weft__pipe_ring(r->out) + r->position % r->bytes;
    return r->written_seen > r->position ? contiguous(r->bytes, r->position, r->written_seen - r->position) : 0;
}

void weft__pipe_took(weft__pipe_reader *r, size_t bytes, int last)
{
    r->position = advance(r->position, bytes, last);
    atomic_store(&r->in->read, r->position);
}

bool weft__pipe_was_full(const weft__pipe_reader *r, uint64_t position)
{
    return atomic_load(&r->out->written) - position >= r->bytes;
}
