/* SPDX-License-Identifier: Apache-2.0 */
/* Splits a window by the trace: gathers its intervals, unites them, and measures what the unions have in common. */
#include "overlap.h"

bool overlap_space_open(overlap_space *space, size_t records)
{
    bool communicating = intervals_open(&space->communicating, records);
    bool waiting = intervals_open(&space->waiting, records);
    return intervals_open(&space->exposed, 2 * records) && communicating && waiting;
}

void overlap_space_close(overlap_space *space)
{
    intervals_close(&space->communicating);
    intervals_close(&space->waiting);
    intervals_close(&space->exposed);
}

void overlap_unite(overlap_space *space)
{
    intervals_unite(&space->communicating);
    intervals_unite(&space->waiting);
    intervals_intersect(&space->exposed, &space->communicating, &space->waiting);
}

overlap overlap_within(const overlap_space *space, int64_t begin, int64_t end)
{
    uint64_t communicating = (uint64_t)intervals_within(&space->communicating, begin, end);
    uint64_t waiting = (uint64_t)intervals_within(&space->waiting, begin, end);
    overlap o = {.window = end > begin ? (uint64_t)(end - begin) : 0,
                 .exposed = (uint64_t)intervals_within(&space->exposed, begin, end)};
    o.hidden = communicating - o.exposed;
    o.idle = waiting - o.exposed;
    o.computing = o.window - o.hidden - o.exposed - o.idle;
    return o;
}

/* Add what lies in the window. */
static void add(intervals *set, uint64_t from, uint64_t to, uint64_t begin, uint64_t end)
{
    intervals_add(set, (int64_t)(from > begin ? from : begin), (int64_t)(to < end ? to : end));
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
    overlap_unite(space);
    return overlap_within(space, (int64_t)begin, (int64_t)end);
}
