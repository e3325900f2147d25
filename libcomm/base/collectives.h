/* SPDX-License-Identifier: Apache-2.0 */
/* What there is to know of each kind of collective, whatever carries it: a row in a table. */
#ifndef WEFT_BASE_COLLECTIVES_H
#define WEFT_BASE_COLLECTIVES_H
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <weft/backend.h>

/* What a buffer holds, in parts of `count` elements. */
typedef enum weft__extent { WEFT__NO_PART, WEFT__ONE_PART, WEFT__PART_PER_RANK } weft__extent;

/* Which ranks of the comm. */
typedef enum weft__whom { WEFT__NOBODY, WEFT__ROOT, WEFT__EVERYBODY } weft__whom;

typedef struct weft__collective_row {
    const char *name;
    weft__extent send, recv;
    weft__whom senders;   /* whose send buffer is read */
    weft__whom receivers; /* whose recv buffer is written */
    bool reduces;
} weft__collective_row;

extern const weft__collective_row weft__collectives[]; /* its length is asserted where it is */

static inline bool weft__is_collective(weft_collective_kind kind)
{
    return (unsigned)kind < WEFT_COLLECTIVE_KINDS;
}

static inline size_t weft__parts(weft__extent extent, int ranks)
{
    return extent == WEFT__PART_PER_RANK ? (size_t)ranks : extent == WEFT__ONE_PART;
}

/* Parts of the larger buffer: what an operation is about on one rank. */
static inline size_t weft__most_parts(const weft__collective_row *row, int ranks)
{
    size_t send = weft__parts(row->send, ranks), recv = weft__parts(row->recv, ranks);
    return send > recv ? send : recv;
}

static inline bool weft__concerns(weft__whom whom, int rank, int root)
{
    return whom == WEFT__EVERYBODY || (whom == WEFT__ROOT && rank == root);
}

/* Does the root mean something? */
static inline bool weft__is_rooted(const weft__collective_row *row)
{
    return row->senders == WEFT__ROOT || row->receivers == WEFT__ROOT;
}

/* What members compare: what means nothing to a kind is 0. */
static inline weft_asked weft__collective_asked(const weft_collective *c)
{
    const weft__collective_row *row = &weft__collectives[c->kind];
    bool counts = row->send != WEFT__NO_PART;
    return (weft_asked){.count = counts ? c->count : 0,
                        .root = weft__is_rooted(row) ? c->root : 0,
                        .kind = (uint8_t)c->kind,
                        .dtype = counts ? (uint8_t)c->dtype : 0,
                        .reduction = row->reduces ? (uint8_t)c->reduction : 0};
}

static inline bool weft__asked_same(const weft_asked *a, const weft_asked *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

/* "reduce of 7 fp32, sum, root 1"; @p c may be nonsense. */
void weft__collective_describe(const weft_collective *c, char *text, size_t bytes);
void weft__asked_describe(const weft_asked *asked, char *text, size_t bytes);
/* Do both, of kinds that there are, ask for the same? */
bool weft__collective_same(const weft_collective *a, const weft_collective *b);
/* What a rank asks for, in one word that is never 0: what differs here differs there, but for counts and numbers that
 * are the same below 2^32 and 2^12. For backends that carry an operation in parts. */
uint64_t weft__collective_mark(const weft_collective *c, uint64_t number);
/* What such a word means. */
weft_asked weft__collective_marked(uint64_t mark);

#endif
