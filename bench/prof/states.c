/* SPDX-License-Identifier: Apache-2.0 */
/* Walks along two unions of intervals, from one's edge to the other's. */
#include "prof/states.h"

/* The first interval that ends behind @p at. */
static size_t find(const intervals *set, int64_t at)
{
    size_t low = 0, high = set->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (set->ends[2 * middle + 1] > at)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

prof_walk prof_walk_begin(const prof_split_rank *rank, int64_t begin, int64_t end)
{
    const overlap_space *s = &rank->space;
    return (prof_walk){s, begin, end, find(&s->communicating, begin), find(&s->waiting, begin)};
}

/* Is @p at within the next interval? Then that ends, else it begins, at *edge, unless something else is sooner. */
static bool is_within(const intervals *set, size_t next, int64_t at, int64_t *edge)
{
    if (next == set->count)
        return false;
    int64_t begin = set->ends[2 * next], end = set->ends[2 * next + 1], change = at < begin ? begin : end;
    *edge = change < *edge ? change : *edge;
    return at >= begin;
}

static size_t pass(const intervals *set, size_t next, int64_t at)
{
    return next < set->count && set->ends[2 * next + 1] <= at ? next + 1 : next;
}

bool prof_walk_next(prof_walk *w, prof_stretch *stretch_out)
{
    static const prof_state states[2][2] = {{PROF_COMPUTING, PROF_HIDDEN}, {PROF_IDLE, PROF_EXPOSED}};
    if (w->at >= w->end)
        return false;
    int64_t edge = w->end;
    bool communicates = is_within(&w->space->communicating, w->communicating, w->at, &edge);
    bool waits = is_within(&w->space->waiting, w->waiting, w->at, &edge);
    *stretch_out = (prof_stretch){w->at, edge, states[waits][communicates]};
    w->at = edge;
    w->communicating = pass(&w->space->communicating, w->communicating, edge);
    w->waiting = pass(&w->space->waiting, w->waiting, edge);
    return true;
}

static bool between(int64_t from, int64_t to, int64_t until, int64_t *begin_out, int64_t *end_out)
{
    *begin_out = from;
    *end_out = to == PROF_UNKNOWN ? until : to;
    return from != PROF_UNKNOWN && *end_out >= from;
}

bool prof_under_way(const prof_split *split, int rank, size_t record, int64_t *begin_out, int64_t *end_out)
{
    const prof_rank *of = &split->run->ranks[rank];
    const prof_record *r = &of->records[record];
    if (prof_is_operation(r))
        return between(r->start > r->ready ? r->start : r->ready, split->ranks[rank].operations[record].end, of->end,
                       begin_out, end_out);
    return r->kind == WEFT_TRACE_SPAN && between(r->start, r->last, of->end, begin_out, end_out);
}

bool prof_waited_for(const prof_split *split, int rank, size_t record, int64_t *begin_out, int64_t *end_out)
{
    const prof_rank *of = &split->run->ranks[rank];
    const prof_record *r = &of->records[record];
    return prof_is_operation(r) && between(r->wait, r->go, of->end, begin_out, end_out);
}
