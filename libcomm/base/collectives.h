/* SPDX-License-Identifier: Apache-2.0 */
/* What there is to know of each kind of collective, whatever carries it: a row in a table. */
#ifndef WEFT_BASE_COLLECTIVES_H
#define WEFT_BASE_COLLECTIVES_H
#include <stdbool.h>
#include <weft/collective.h>

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

/* "reduce of 7 fp32, sum, root 1"; @p c may be nonsense. */
void weft__collective_describe(const weft_collective *c, char *text, size_t bytes);
/* Do both ask for the same, whatever the buffers? Where the root means nothing it is 0. */
bool weft__collective_same(const weft_collective *a, const weft_collective *b);

#endif
