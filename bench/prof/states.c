/* SPDX-License-Identifier: Apache-2.0 */
/* Cuts time at every begin and end of an operation or a wait, and counts how many of either are on. */
#include "prof/states.h"

#include <stdlib.h>

typedef struct edge {
    int64_t at;
    int operations, waits; /* more, or fewer, from then on */
} edge;

typedef struct edges {
    edge *at;
    size_t count;
    int64_t begin, end; /* of the rank */
} edges;

bool prof_is_operation(const prof_record *record)
{
    return record->kind == WEFT_TRACE_COLLECTIVE || record->kind == WEFT_TRACE_P2P;
}

static bool between(int64_t from, int64_t to, int64_t until, int64_t *begin_out, int64_t *end_out)
{
    *begin_out = from;
    *end_out = to == PROF_UNKNOWN ? until : to;
    return from != PROF_UNKNOWN && *end_out >= from;
}

bool prof_under_way(const prof_record *r, int64_t until, int64_t *begin_out, int64_t *end_out)
{
    return between(r->start == PROF_UNKNOWN ? r->ready : r->start, r->last, until, begin_out, end_out);
}

bool prof_waited_for(const prof_record *r, int64_t until, int64_t *begin_out, int64_t *end_out)
{
    return between(r->wait, r->go, until, begin_out, end_out);
}

static void add(edges *e, int64_t begin, int64_t end, int operations, int waits)
{
    begin = begin > e->begin ? begin : e->begin;
    end = end < e->end ? end : e->end;
    if (begin >= end)
        return;
    e->at[e->count++] = (edge){begin, operations, waits};
    e->at[e->count++] = (edge){end, -operations, -waits};
}

static int by_time(const void *a, const void *b)
{
    const edge *x = a, *y = b;
    return (x->at > y->at) - (x->at < y->at);
}

/* Edges sorted, the last at the end. */
static void find_edges(edges *e, const prof_rank *rank)
{
    for (size_t i = 0; i < rank->count; i++) {
        const prof_record *r = &rank->records[i];
        int64_t begin, end;
        if (prof_is_operation(r) && prof_under_way(r, e->end, &begin, &end))
            add(e, begin, end, 1, 0);
        if (prof_is_operation(r) && prof_waited_for(r, e->end, &begin, &end))
            add(e, begin, end, 0, 1);
    }
    e->at[e->count++] = (edge){e->end, 0, 0};
    qsort(e->at, e->count, sizeof *e->at, by_time);
}

static void cut(prof_states *states, const edges *e)
{
    static const prof_state of[2][2] = {{PROF_COMPUTING, PROF_HIDDEN}, {PROF_IDLE, PROF_EXPOSED}};
    int operations = 0, waits = 0;
    int64_t begin = e->begin;
    for (const edge *to = e->at; to < e->at + e->count; to++) {
        prof_state state = of[waits > 0][operations > 0];
        prof_stretch *last = states->count ? &states->at[states->count - 1] : NULL;
        if (to->at > begin && last && last->state == state)
            last->end = to->at;
        else if (to->at > begin)
            states->at[states->count++] = (prof_stretch){begin, to->at, state};
        begin = to->at > begin ? to->at : begin;
        operations += to->operations;
        waits += to->waits;
    }
}

bool prof_states_open(prof_states *states, const prof_rank *rank)
{
    size_t most = 4 * rank->count + 1;
    edges e = {.at = malloc(most * sizeof *e.at), .begin = rank->begin, .end = rank->end};
    *states = (prof_states){.at = malloc(most * sizeof *states->at)};
    bool done = e.at && states->at;
    if (done) {
        find_edges(&e, rank);
        cut(states, &e);
    }
    free(e.at);
    return done;
}

void prof_states_close(prof_states *states)
{
    free(states->at);
    *states = (prof_states){0};
}

/* The first that ends behind @p at. */
static size_t find(const prof_states *states, int64_t at)
{
    size_t low = 0, high = states->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (states->at[middle].end > at)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

bool prof_states_next(const prof_states *states, int64_t begin, int64_t end, size_t *next, prof_stretch *cut_out)
{
    size_t index = *next ? *next : find(states, begin);
    if (index >= states->count || states->at[index].begin >= end)
        return false;
    *cut_out = states->at[index];
    cut_out->begin = cut_out->begin > begin ? cut_out->begin : begin;
    cut_out->end = cut_out->end < end ? cut_out->end : end;
    *next = index + 1;
    return true;
}
