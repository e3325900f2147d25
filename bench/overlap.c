/* SPDX-License-Identifier: Apache-2.0 */
/* Splits a window by the trace: gathers its intervals, unites them, and measures what the unions have in common. */
#include "overlap.h"

#include <stdlib.h>

static bool make_room(overlap_intervals *intervals, size_t room)
{
    intervals->count = 0;
    intervals->room = room;
    intervals->ends = calloc(room ? room : 1, 2 * sizeof *intervals->ends);
    return intervals->ends != NULL;
}

bool overlap_space_open(overlap_space *space, size_t records)
{
    bool made = make_room(&space->communicating, records);
    return make_room(&space->waiting, records) && made;
}

void overlap_space_close(overlap_space *space)
{
    free(space->communicating.ends);
    free(space->waiting.ends);
    *space = (overlap_space){0};
}

/* Add what lies in the window. */
static void add(overlap_intervals *intervals, uint64_t from, uint64_t to, uint64_t begin, uint64_t end)
{
    from = from > begin ? from : begin;
    to = to < end ? to : end;
    if (from >= to || intervals->count == intervals->room)
        return;
    intervals->ends[2 * intervals->count] = from;
    intervals->ends[2 * intervals->count + 1] = to;
    intervals->count++;
}

/* By their begin: they come nearly so, and nothing is allocated. */
static void sort(uint64_t *ends, size_t count)
{
    for (size_t gap = count / 2; gap > 0; gap /= 2)
        for (size_t i = gap; i < count; i++) {
            uint64_t from = ends[2 * i], to = ends[2 * i + 1];
            size_t at = i;
            for (; at >= gap && ends[2 * (at - gap)] > from; at -= gap) {
                ends[2 * at] = ends[2 * (at - gap)];
                ends[2 * at + 1] = ends[2 * (at - gap) + 1];
            }
            ends[2 * at] = from;
            ends[2 * at + 1] = to;
        }
}

/* Sorted, without overlaps; answers their total length. */
static uint64_t unite(overlap_intervals *intervals)
{
    uint64_t *ends = intervals->ends, total = 0;
    size_t kept = 0;
    sort(ends, intervals->count);
    for (size_t i = 0; i < intervals->count; i++) {
        uint64_t from = ends[2 * i], to = ends[2 * i + 1];
        if (kept && from <= ends[2 * kept - 1]) {
            if (to > ends[2 * kept - 1])
                ends[2 * kept - 1] = to;
            continue;
        }
        ends[2 * kept] = from;
        ends[2 * kept + 1] = to;
        kept++;
    }
    intervals->count = kept;
    for (size_t i = 0; i < kept; i++)
        total += ends[2 * i + 1] - ends[2 * i];
    return total;
}

/* Length of what two unions have in common. */
static uint64_t common(const overlap_intervals *a, const overlap_intervals *b)
{
    uint64_t total = 0;
    for (size_t i = 0, j = 0; i < a->count && j < b->count;) {
        uint64_t from = a->ends[2 * i] > b->ends[2 * j] ? a->ends[2 * i] : b->ends[2 * j];
        uint64_t a_to = a->ends[2 * i + 1], b_to = b->ends[2 * j + 1], to = a_to < b_to ? a_to : b_to;
        total += to > from ? to - from : 0;
        if (a_to < b_to)
            i++;
        else
            j++;
    }
    return total;
}

overlap overlap_of(overlap_space *space, const weft_trace_record *records, size_t count, uint64_t begin, uint64_t end)
{
    space->communicating.count = space->waiting.count = 0;
    for (size_t i = 0; i < count; i++) {
        const weft_trace_record *r = &records[i];
        if (r->kind != WEFT_TRACE_COLLECTIVE && r->kind != WEFT_TRACE_P2P)
            continue;
        uint64_t start = r->start ? r->start : r->ready; /* in flight: the record knows no more yet */
        if (start)
            add(&space->communicating, start, r->last ? r->last : end, begin, end);
        if (r->wait)
            add(&space->waiting, r->wait, r->go ? r->go : end, begin, end);
    }
    uint64_t communicating = unite(&space->communicating), waiting = unite(&space->waiting);
    overlap o = {.window = end > begin ? end - begin : 0, .exposed = common(&space->communicating, &space->waiting)};
    o.hidden = communicating - o.exposed;
    o.idle = waiting - o.exposed;
    o.computing = o.window - o.hidden - o.exposed - o.idle;
    return o;
}
