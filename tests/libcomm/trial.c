/* SPDX-License-Identifier: Apache-2.0 */
/* One collective: its memory, and what it gives. */
#include "trial.h"

#include <stdlib.h>
#include <weft/memory.h>

/* Parts of `count` elements that the two buffers hold, as in the table of weft/collective.h. */
static size_t parts_sent(const trial *t, int ranks)
{
    return t->kind == WEFT_REDUCE_SCATTER || t->kind == WEFT_ALL_TO_ALL ? (size_t)ranks : 1;
}

static size_t parts_received(const trial *t, int ranks)
{
    return t->kind == WEFT_ALL_GATHER || t->kind == WEFT_ALL_TO_ALL ? (size_t)ranks : 1;
}

enum { GUARD = 64 };

memory trial_place(weft_world *world, const trial *t, int rank, int ranks)
{
    size_t size = weft_dtype_bytes(t->dtype), one = t->count * size;
    size_t sent = one * parts_sent(t, ranks), received = one * parts_received(t, ranks);
    size_t bytes = sent + received + 3 * GUARD;
    memory m = {.recv_bytes = received};
    void *all = NULL;
    if (t->in_heap)
        CHECK_OK(weft_memory_alloc(world, bytes, &all));
    else
        CHECK(all = malloc(bytes));
    m.all = all;
    memset(m.all, 0x5a, bytes);
    m.recv = m.all;
    m.send = m.all + received + GUARD + GUARD - (received + GUARD) % GUARD;
    if (t->in_place && sent >= received)
        m.send = m.all, m.recv = m.all + (sent > received ? (size_t)rank * one : 0);
    else if (t->in_place)
        m.send = m.recv + (size_t)rank * one;
    for (size_t i = 0; i < t->count * parts_sent(t, ranks); i++)
        value_write(m.send + i * size, t->dtype, i, rank);
    return m;
}

void trial_release(weft_world *world, const trial *t, const memory *m)
{
    if (t->in_heap)
        weft_memory_free(world, m->all);
    else
        free(m->all);
}

weft_collective trial_collective(const trial *t, const memory *m)
{
    weft_collective c = WEFT_COLLECTIVE_INIT;
    c.kind = t->kind;
    c.dtype = t->dtype;
    c.reduction = t->reduction;
    c.root = t->root;
    c.send = m->send;
    c.recv = m->recv;
    c.count = t->count;
    return c;
}

bool trial_makes_sense(const trial *t)
{
    bool reduces = t->kind == WEFT_ALL_REDUCE || t->kind == WEFT_REDUCE_SCATTER || t->kind == WEFT_REDUCE;
    return reduces ? is_floating(t->dtype) || t->reduction != WEFT_AVERAGE : t->reduction == WEFT_SUM;
}

/* Element @p i of the result. */
static void result_at(void *to, const trial *t, size_t i, int rank, shape s)
{
    switch (t->kind) {
    case WEFT_REDUCE_SCATTER:
        value_reduce(to, t->dtype, t->reduction, (size_t)rank * t->count + i, s);
        break;
    case WEFT_ALL_GATHER:
        value_write(to, t->dtype, i % t->count, (int)(i / t->count));
        break;
    case WEFT_BROADCAST:
        value_write(to, t->dtype, i, t->root);
        break;
    case WEFT_ALL_TO_ALL:
        value_write(to, t->dtype, (size_t)rank * t->count + i % t->count, (int)(i / t->count));
        break;
    case WEFT_ALL_REDUCE:
    case WEFT_REDUCE:
    case WEFT_BARRIER:
        value_reduce(to, t->dtype, t->reduction, i, s);
        break;
    }
}

void trial_check(const trial *t, const memory *m, int rank, shape s)
{
    int ranks = s.machines * s.per_machine;
    size_t count = t->count * parts_received(t, ranks);
    size_t step = count > 20000 ? 13 : 1; /* a prime: ends of pieces come in all places */
    unsigned char want[8];
    if (t->kind == WEFT_BARRIER || (t->kind == WEFT_REDUCE && t->root != rank))
        return;
    for (size_t i = 0; i < count; i = i + step < count || i == count - 1 ? i + step : count - 1) {
        result_at(want, t, i, rank, s);
        if (!same_element(m->recv, i, want, 0, t->dtype))
            FAIL("%s of %zu %s, %s, root %d, %s, on %d x %d ranks: element %zu of rank %d is wrong",
                 weft_collective_string(t->kind), t->count, weft_dtype_string(t->dtype),
                 weft_reduction_string(t->reduction), t->root, t->in_place ? "in place" : "not in place", s.machines,
                 s.per_machine, i, rank);
    }
    for (int i = 0; !t->in_place && i < GUARD; i++)
        CHECK(m->recv[m->recv_bytes + (size_t)i] == 0x5a);
}
