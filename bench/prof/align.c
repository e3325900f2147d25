/* SPDX-License-Identifier: Apache-2.0 */
/* Puts the clocks of all machines on that of the first. Nobody can be done with an operation before all that it takes
 * something from have begun it: each operation that ranks of two clocks took part in says that the second is at most so
 * far behind the first, and at most so far ahead. Of all offsets with a constant drift that break none of these bounds
 * the one in the middle of the widest gap is taken; half the gap is the doubt that is left, the residual. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <weft/p2p.h>

#include "prof/parts.h"

/* What one operation says: at time `at` the offset is at most, or at least, so much. */
typedef struct bound {
    double at_ns, offset_ns;
    bool upper;
} bound;

typedef struct bounds {
    bound *all;
    size_t count, room;
    bool failed; /* no memory */
} bounds;

typedef struct line {
    double offset_ns, drift, residual_ns;
    size_t pairs;
    bool found;
} line;

static void add(bounds *b, bool upper, int64_t at, int64_t offset)
{
    if (b->count == b->room) {
        size_t room = b->room ? 2 * b->room : 256;
        bound *all = realloc(b->all, room * sizeof *all);
        b->failed |= !all;
        if (!all)
            return;
        b->all = all;
        b->room = room;
    }
    b->all[b->count++] = (bound){(double)at, (double)offset, upper};
}

/* ---- what operations say ---- */

/* The first end and the last start among ranks of one side. */
typedef struct side {
    int64_t start, end;
    bool any;
} side;

static void take(side *s, const prof_record *r)
{
    if (r->start == PROF_UNKNOWN || r->last == PROF_UNKNOWN)
        return;
    s->start = !s->any || r->start > s->start ? r->start : s->start;
    s->end = !s->any || r->last < s->end ? r->last : s->end;
    s->any = true;
}

static void bound_by_collectives(const prof_run *run, const bool *aligned, int clock, bounds *b)
{
    for (const prof_group *g = run->groups; g < run->groups + run->group_count; g++) {
        side known = {0}, other = {0};
        for (const prof_part *p = run->parts + g->first; p < run->parts + g->first + g->count; p++) {
            const prof_record *r = &run->ranks[p->rank].records[p->record];
            int c = run->ranks[p->rank].clock;
            if (r->result == WEFT_OK && prof_is_mutual(r) && (aligned[c] || c == clock))
                take(c == clock ? &other : &known, r);
        }
        if (!known.any || !other.any)
            continue;
        add(b, true, other.start, known.end - other.start);
        add(b, false, other.end, known.start - other.end);
    }
}

static void bound_by_messages(const prof_run *run, const bool *aligned, int clock, bounds *b)
{
    for (int i = 0; i < run->count; i++) {
        const prof_rank *rank = &run->ranks[i];
        for (const prof_record *m = rank->records; rank->clock == clock && m < rank->records + rank->count; m++) {
            const prof_record *peer = m->kind == WEFT_TRACE_MESSAGE ? prof_peer(run, m) : NULL;
            if (!peer || !aligned[run->ranks[m->peer].clock])
                continue;
            const prof_record *sent = m->operation == WEFT_SEND ? m : peer, *got = m->operation == WEFT_SEND ? peer : m;
            if (sent->start == PROF_UNKNOWN || got->last == PROF_UNKNOWN || got->result != WEFT_OK || m->bytes == 0)
                continue;
            if (sent == m)
                add(b, true, m->start, peer->last - m->start);
            else
                add(b, false, m->last, peer->start - m->last);
        }
    }
}

/* ---- the line through the gap ---- */

/* The gap that a drift leaves: *low_out to *high_out; negative if the bounds contradict each other. */
static double gap_of(const bounds *b, double drift, double *low_out, double *high_out)
{
    double low = -INFINITY, high = INFINITY;
    for (size_t i = 0; i < b->count; i++) {
        double offset = b->all[i].offset_ns - drift * b->all[i].at_ns;
        if (b->all[i].upper)
            high = fmin(high, offset);
        else
            low = fmax(low, offset);
    }
    *low_out = low;
    *high_out = high;
    return high - low;
}

/* Do the bounds reach over a time in which a drift can be told from the time that operations take? */
static bool spans_enough(const bounds *b)
{
    enum { ENOUGH_NS = 1000000000, ENOUGH = 8 };
    double from = INFINITY, to = -INFINITY;
    for (size_t i = 0; i < b->count; i++) {
        from = fmin(from, b->all[i].at_ns);
        to = fmax(to, b->all[i].at_ns);
    }
    return b->count >= 2 * ENOUGH && to - from > ENOUGH_NS;
}

/* The gap is widest at one drift, and narrower the farther from it. */
static line fit(const bounds *b)
{
    double low, high, from = -5e-4, to = 5e-4; /* clocks that drift more are broken */
    if (!isfinite(gap_of(b, 0, &low, &high)))
        return (line){0};
    for (int round = 0; spans_enough(b) && round < 80; round++) {
        double a = from + (to - from) / 3, c = to - (to - from) / 3;
        if (gap_of(b, a, &low, &high) < gap_of(b, c, &low, &high))
            from = a;
        else
            to = c;
    }
    double drift = spans_enough(b) ? (from + to) / 2 : 0, gap = gap_of(b, drift, &low, &high);
    return (line){(low + high) / 2, drift, fabs(gap) / 2, b->count, true};
}

/* ---- all clocks ---- */

static void move(int64_t *time, const line *l)
{
    if (*time != PROF_UNKNOWN)
        *time += llround(l->offset_ns + l->drift * (double)*time);
}

static void shift(prof_run *run, int clock, const line *l)
{
    prof_clock *c = &run->clocks[clock];
    c->offset_ns = l->offset_ns;
    c->drift = l->drift;
    c->residual_ns = l->residual_ns;
    c->pairs = l->pairs;
    c->fit = PROF_FIT_FITTED;
    for (prof_rank *rank = run->ranks; rank < run->ranks + run->count; rank++) {
        if (rank->clock != clock)
            continue;
        move(&rank->begin, l);
        move(&rank->end, l);
        for (prof_record *r = rank->records; r < rank->records + rank->count; r++) {
            int64_t *const times[] = {&r->ready, &r->start, &r->first, &r->last, &r->last_arrival, &r->wait, &r->go};
            for (size_t i = 0; i < sizeof times / sizeof *times; i++)
                move(times[i], l);
        }
    }
}

/* The clock that is left with the least doubt about it; -1: none has anything in common with those aligned. -2: no
 * memory. */
static int closest(const prof_run *run, const bool *aligned, line *line_out)
{
    int best = -1;
    bounds b = {0};
    for (int c = 0; c < run->clock_count; c++) {
        b.count = 0;
        if (aligned[c])
            continue;
        bound_by_collectives(run, aligned, c, &b);
        bound_by_messages(run, aligned, c, &b);
        line l = fit(&b);
        if (!l.found || (best >= 0 && l.residual_ns >= line_out->residual_ns))
            continue;
        best = c;
        *line_out = l;
    }
    free(b.all);
    return b.failed ? -2 : best;
}

bool prof_align(prof_run *run)
{
    bool *aligned = calloc((size_t)run->clock_count, sizeof *aligned);
    if (!aligned)
        return false;
    aligned[0] = true;
    int next;
    for (line l = {0}; (next = closest(run, aligned, &l)) >= 0; aligned[next] = true)
        shift(run, next, &l);
    for (int c = 0; c < run->clock_count; c++)
        if (!aligned[c]) {
            run->clocks[c].fit = PROF_FIT_CALENDAR;
            prof_note(run, "host %s: its clock is set by the time of day only, for no operation was made with others",
                      run->ranks[run->clocks[c].first].host);
        }
    free(aligned);
    return next != -2;
}
