/* SPDX-License-Identifier: Apache-2.0 */
/* Pipes: a stream of bytes from one rank's memory to another rank that cannot reach it. What each side knows of the
 * other is remembered, so that a full or empty look at the other's line is rare. */
#ifndef WEFT_LOCAL_PIPE_H
#define WEFT_LOCAL_PIPE_H
#include <stdbool.h>

#include "backend/local/page.h"

typedef struct weft__pipe_writer {
    weft__pipe_out *out;
    const weft__pipe_in *in;
    size_t bytes; /* of the ring, a power of two */
    uint64_t position, read_seen;
} weft__pipe_writer;

typedef struct weft__pipe_reader {
    const weft__pipe_out *out;
    weft__pipe_in *in;
    size_t bytes;
    uint64_t position, written_seen;
} weft__pipe_reader;

/* Bytes on their way, as last seen; the reader is asked anew if that is more than @p most. */
uint64_t weft__pipe_used(weft__pipe_writer *w, uint64_t most);
/* Contiguous room at *to_out, 0 if the pipe is full. */
size_t weft__pipe_room(weft__pipe_writer *w, unsigned char **to_out);
/* Copy as much of @p from as there is room for, at most @p bytes of a stream that ends with them. How much it was. */
size_t weft__pipe_write(weft__pipe_writer *w, const unsigned char *from, size_t bytes);

/* Contiguous bytes at *from_out, 0 if the pipe is empty. */
size_t weft__pipe_available(weft__pipe_reader *r, const unsigned char **from_out);
/* @p bytes of them have been used; @p last: the stream ends with them (the next one begins on a line). */
void weft__pipe_took(weft__pipe_reader *r, size_t bytes, int last);
/* Was it full when this side was at @p position? */
bool weft__pipe_was_full(const weft__pipe_reader *r, uint64_t position);

/* The next @p bytes are known to be there. */
static inline void weft__pipe_trust(weft__pipe_reader *r, size_t bytes)
{
    if (r->written_seen < r->position + bytes)
        r->written_seen = r->position + bytes;
}

#endif
