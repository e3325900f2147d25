/* SPDX-License-Identifier: Apache-2.0 */
/* Where the time of steps went: each window of a rank is split by the rank's unions, and the parts are averaged. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "prof/analysis.h"

static prof_budget split_window(const prof_split_rank *s, prof_window w)
{
    overlap o = overlap_within(&s->space, w.begin, w.end);
    prof_budget b = {.step = (double)o.window,
                     .computing = (double)o.computing,
                     .hidden = (double)o.hidden,
                     .exposed = (double)o.exposed,
                     .idle = (double)o.idle,
                     .skew = (double)intervals_within(&s->skew, w.begin, w.end),
                     .unknown = (double)intervals_within(&s->unknown, w.begin, w.end)};
    b.unknown = fmin(b.unknown, b.exposed - b.skew); /* two may wait at once */
    b.transfer = b.exposed - b.skew - b.unknown;
    return b;
}

enum { BUDGET_PARTS = sizeof(prof_budget) / sizeof(double) };
_Static_assert(sizeof(prof_budget) % sizeof(double) == 0, "a budget is doubles");

static void add(prof_budget *sum, const prof_budget *more)
{
    double *to = (double *)sum;
    const double *from = (const double *)more;
    for (int i = 0; i < BUDGET_PARTS; i++)
        to[i] += from[i];
}

static void divide(prof_budget *sum, double by)
{
    double *part = (double *)sum;
    for (int i = 0; by > 0 && i < BUDGET_PARTS; i++)
        part[i] /= by;
}

static int by_length(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Mean of the windows of steps of that label, and of the time in them in which there was communication. */
static double special(const prof_analysis *a, const char *label, double *communicating)
{
    const prof_run *run = a->run;
    double sum = 0, comm = 0, count = 0;
    for (int s = 0; s < run->step_count; s++)
        for (int r = 0; r < run->count && strcmp(run->steps[s].label, label) == 0; r++) {
            prof_window w = run->steps[s].windows[r];
            if (w.begin == PROF_UNKNOWN || !prof_rank_selected(a, r))
                continue;
            prof_budget b = split_window(&a->split->ranks[r], w);
            sum += b.step;
            comm += b.hidden + b.exposed;
            count++;
        }
    *communicating = comm / count;
    return sum / count;
}

/* One step: its ranks' windows go into the sums; the longest is its length, 0 if there is none. */
static double take_step(prof_analysis *a, int step, double *counts)
{
    double longest = 0;
    for (int r = 0; r < a->run->count; r++) {
        prof_window w = a->run->steps[step].windows[r];
        if (w.begin == PROF_UNKNOWN || !prof_rank_selected(a, r))
            continue;
        prof_budget b = split_window(&a->split->ranks[r], w);
        add(&a->totals.ranks[r], &b);
        add(&a->totals.mean, &b);
        counts[r]++;
        a->totals.windows++;
        longest = fmax(longest, b.step);
    }
    return longest;
}

static void average(prof_analysis *a, const double *counts)
{
    prof_totals *t = &a->totals;
    double most = -1;
    divide(&t->mean, (double)t->windows);
    for (int r = 0; r < a->run->count; r++) {
        divide(&t->ranks[r], counts[r]);
        double computing = t->ranks[r].computing + t->ranks[r].hidden;
        if (counts[r] > 0 && computing > most) {
            most = computing;
            t->slowest = r;
        }
    }
    double communicating;
    t->serial = special(a, PROF_SERIAL, &t->serial_comm);
    t->alone = special(a, PROF_ALONE, &communicating);
    t->eta = (t->serial - t->mean.step) / (isnan(t->alone) ? t->serial_comm : t->alone);
    t->eta = t->windows > 0 && isfinite(t->eta) ? t->eta : (double)NAN;
}

static double count_records(const prof_analysis *a)
{
    double count = 0;
    for (int r = 0; r < a->run->count; r++)
        for (size_t i = 0; prof_rank_selected(a, r) && i < a->run->ranks[r].count; i++) {
            const prof_record *record = &a->run->ranks[r].records[i];
            bool once = record->kind == WEFT_TRACE_STEP || record->kind == WEFT_TRACE_MESSAGE;
            if (record->step >= 0 && prof_is_selected(a, record->step))
                count += once ? 1 : 2; /* written when it begins and when it is over */
        }
    return a->totals.windows ? count / (double)a->totals.windows : 0;
}

bool prof_total(prof_analysis *a)
{
    const prof_run *run = a->run;
    prof_totals *t = &a->totals;
    t->slowest = -1;
    t->ranks = calloc((size_t)run->count, sizeof *t->ranks);
    t->steps = calloc((size_t)run->step_count + 1, sizeof *t->steps);
    double *counts = calloc((size_t)run->count, sizeof *counts);
    bool done = t->ranks && t->steps && counts;
    for (int s = 0; done && s < run->step_count; s++) {
        double length = prof_is_selected(a, s) ? take_step(a, s, counts) : 0;
        if (length > 0)
            t->steps[t->step_count++] = length;
    }
    if (done) {
        qsort(t->steps, (size_t)t->step_count, sizeof *t->steps, by_length);
        average(a, counts);
        a->records_a_step = count_records(a);
    }
    free(counts);
    return done;
}
