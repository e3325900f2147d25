/* SPDX-License-Identifier: Apache-2.0 */
/* Splits operations: first when each could begin, then when the last of its ranks had come, then by what was computed
 * and waited for meanwhile. */
#include "prof/split.h"

#include <stdlib.h>

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b; /* PROF_UNKNOWN is the earliest */
}

static int64_t sooner(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- begin ---- */

/* Operations of one comm go one after the other. */
static bool find_begins(const prof_run *run, int rank, prof_operation *operations)
{
    const prof_rank *r = &run->ranks[rank];
    int64_t *over = malloc(((size_t)run->comm_count + 1) * sizeof *over); /* [comm]: when its last one was */
    if (!over)
        return false;
    for (int c = 0; c < run->comm_count; c++)
        over[c] = PROF_UNKNOWN;
    for (size_t i = 0; i < r->count; i++) {
        const prof_record *record = &r->records[i];
        prof_operation *o = &operations[i];
        if (!prof_is_operation(record))
            continue;
        o->end = later(record->last != PROF_UNKNOWN ? record->last : r->end, record->ready);
        o->begin = later(record->start, record->ready);
        if (record->kind == WEFT_TRACE_COLLECTIVE && record->comm >= 0) {
            o->begin = later(o->begin, over[record->comm]);
            over[record->comm] = o->end;
        }
        o->begin = sooner(o->begin, o->end);
    }
    free(over);
    return true;
}

/* ---- arrival ---- */

static bool is_aligned(const prof_run *run, int rank)
{
    return run->clocks[run->ranks[rank].clock].fit != PROF_FIT_CALENDAR;
}

/* Of a collective whose ranks all left a trace, on one clock. */
static bool arrive_by_group(const prof_split *split, const prof_record *record, prof_operation *o)
{
    const prof_run *run = split->run;
    const prof_group *g = record->group >= 0 ? &run->groups[record->group] : NULL;
    if (!g || g->count != run->comms[g->comm].size || (g->count > 1 && !prof_is_mutual(record)))
        return false;
    int64_t last = PROF_UNKNOWN, before = PROF_UNKNOWN;
    int late = -1;
    for (const prof_part *p = run->parts + g->first; p < run->parts + g->first + g->count; p++) {
        int64_t begin = split->ranks[p->rank].operations[p->record].begin;
        if (!is_aligned(run, p->rank) || !prof_is_operation(&run->ranks[p->rank].records[p->record]))
            return false;
        if (begin > last) {
            before = last;
            last = begin;
            late = p->rank;
        } else {
            before = later(before, begin);
        }
    }
    o->arrival = last;
    o->late = g->count > 1 ? late : -1;
    o->late_by = g->count > 1 ? last - before : 0;
    return true;
}

/* Of a batch: when the other ends of its messages were taken up. */
static bool arrive_by_peers(const prof_split *split, const prof_record *record, prof_operation *o)
{
    const prof_run *run = split->run;
    if (record->kind != WEFT_TRACE_P2P || record->messages == 0)
        return false;
    int64_t last = PROF_UNKNOWN;
    for (const prof_record *m = record + 1; m <= record + record->messages; m++) {
        const prof_record *peer = prof_peer(run, m);
        if (!peer || peer->start == PROF_UNKNOWN || !is_aligned(run, m->peer))
            return false;
        o->late = peer->start > last ? m->peer : o->late;
        last = later(last, peer->start);
    }
    o->late_by = later(last - o->begin, 0);
    o->arrival = last;
    return true;
}

static void find_arrival(const prof_split *split, const prof_record *record, prof_operation *o)
{
    o->late = -1;
    if (!arrive_by_group(split, record, o) && !arrive_by_peers(split, record, o)) { /* what its own rank has seen */
        o->arrival = record->last_arrival;
        o->late = o->arrival == PROF_UNKNOWN ? -1 : prof_rank_index(split->run, record->late_rank);
        o->late_by = o->late < 0 ? 0 : later(o->arrival - o->begin, 0);
    }
    if (o->arrival != PROF_UNKNOWN)
        o->arrival = later(sooner(o->arrival, o->end), o->begin);
    o->queue = later(o->begin - record->ready, 0);
    o->skew = o->arrival == PROF_UNKNOWN ? 0 : o->arrival - o->begin;
    o->transfer = o->end - o->begin - o->skew;
}

/* ---- what was covered ---- */

static int64_t end_of_wait(const prof_rank *rank, const prof_record *record)
{
    return record->go != PROF_UNKNOWN ? record->go : rank->end;
}

static bool open_spaces(const prof_rank *rank, prof_split_rank *s, intervals waits[2])
{
    size_t room = rank->count;
    bool open = overlap_space_open(&s->space, room);
    for (int i = 0; i < 2; i++)
        open = intervals_open(&waits[i], room) && open;
    open = intervals_open(&s->skew, 3 * room) && open;
    return intervals_open(&s->unknown, 3 * room) && open;
}

/* The unions; waits[0] and [1] are those for ranks to come, and those of which that is not known. */
static bool unite(const prof_rank *rank, prof_split_rank *s)
{
    intervals waits[2] = {{0}, {0}};
    bool open = open_spaces(rank, s, waits);
    for (size_t i = 0; open && i < rank->count; i++) {
        const prof_record *r = &rank->records[i];
        const prof_operation *o = &s->operations[i];
        if (!prof_is_operation(r))
            continue;
        intervals_add(&s->space.communicating, later(r->start, r->ready), o->end);
        if (r->wait == PROF_UNKNOWN)
            continue;
        int64_t go = end_of_wait(rank, r);
        intervals_add(&s->space.waiting, r->wait, go);
        if (o->arrival == PROF_UNKNOWN)
            intervals_add(&waits[1], r->wait, go);
        else
            intervals_add(&waits[0], r->wait, sooner(go, o->arrival));
    }
    if (open) {
        overlap_unite(&s->space);
        intervals_unite(&waits[0]);
        intervals_unite(&waits[1]);
        intervals_intersect(&s->skew, &s->space.exposed, &waits[0]);
        intervals_intersect(&s->unknown, &s->space.exposed, &waits[1]);
    }
    intervals_close(&waits[0]);
    intervals_close(&waits[1]);
    return open;
}

static void cover(const prof_rank *rank, prof_split_rank *s)
{
    for (size_t i = 0; i < rank->count; i++) {
        const prof_record *r = &rank->records[i];
        prof_operation *o = &s->operations[i];
        if (!prof_is_operation(r))
            continue;
        o->hidden = o->end - o->begin - intervals_within(&s->space.waiting, o->begin, o->end);
        if (r->wait == PROF_UNKNOWN)
            continue;
        int64_t go = end_of_wait(rank, r);
        o->exposed = intervals_within(&s->space.communicating, r->wait, go);
        if (o->arrival != PROF_UNKNOWN)
            o->exposed_skew = intervals_within(&s->space.communicating, r->wait, sooner(go, o->arrival));
    }
}

bool prof_split_open(const prof_run *run, prof_split *split)
{
    *split = (prof_split){.run = run, .ranks = calloc((size_t)run->count, sizeof *split->ranks)};
    bool open = split->ranks != NULL;
    for (int i = 0; open && i < run->count; i++) {
        prof_split_rank *s = &split->ranks[i];
        s->operations = calloc(run->ranks[i].count + 1, sizeof *s->operations);
        open = s->operations && find_begins(run, i, s->operations);
    }
    for (int i = 0; open && i < run->count; i++) {
        const prof_rank *rank = &run->ranks[i];
        for (size_t k = 0; k < rank->count; k++)
            if (prof_is_operation(&rank->records[k]))
                find_arrival(split, &rank->records[k], &split->ranks[i].operations[k]);
        open = unite(rank, &split->ranks[i]);
        if (open)
            cover(rank, &split->ranks[i]);
    }
    return open;
}

void prof_split_close(prof_split *split)
{
    for (int i = 0; split->ranks && i < split->run->count; i++) {
        prof_split_rank *s = &split->ranks[i];
        free(s->operations);
        overlap_space_close(&s->space);
        intervals_close(&s->skew);
        intervals_close(&s->unknown);
    }
    free(split->ranks);
    *split = (prof_split){0};
}
