/* SPDX-License-Identifier: Apache-2.0 */
/* What the marked spans of computing took, and how much of that ran beside operations. */
#include <stdlib.h>
#include <string.h>

#include "prof/analysis.h"

/* Index of the spans of that name, made if there are none; -1: no memory. */
static int named(prof_analysis *a, const char *name)
{
    for (int i = 0; i < a->computing_count; i++)
        if (strcmp(a->computing[i].name, name) == 0)
            return i;
    prof_computing *more = realloc(a->computing, ((size_t)a->computing_count + 1) * sizeof *more);
    if (!more)
        return -1;
    a->computing = more;
    more[a->computing_count] = (prof_computing){.name = name};
    return a->computing_count++;
}

static bool take(prof_analysis *a, const prof_split_rank *s, const prof_record *r, intervals *marked)
{
    int i = named(a, prof_record_name(r));
    if (i < 0)
        return false;
    a->computing[i].count++;
    a->computing[i].sum += (double)(r->last - r->start);
    a->computing[i].beside += (double)intervals_within(&s->space.communicating, r->start, r->last);
    intervals_add(marked, r->start, r->last);
    return true;
}

/* Of the computing in the selected windows of a rank, what no span marks. */
static double unmarked(const prof_analysis *a, int rank, const intervals *marked, const intervals *waited)
{
    const prof_split_rank *s = &a->split->ranks[rank];
    double sum = 0;
    for (int step = 0; step < a->run->step_count; step++) {
        prof_window w = a->run->steps[step].windows[rank];
        if (w.begin == PROF_UNKNOWN || !prof_is_selected(a, step))
            continue;
        int64_t computing = w.end - w.begin - intervals_within(&s->space.waiting, w.begin, w.end);
        int64_t in_spans = intervals_within(marked, w.begin, w.end) - intervals_within(waited, w.begin, w.end);
        sum += (double)(computing - in_spans);
    }
    return sum;
}

static bool take_rank(prof_analysis *a, int rank)
{
    const prof_rank *r = &a->run->ranks[rank];
    const prof_split_rank *s = &a->split->ranks[rank];
    intervals marked, waited = {0};
    bool done = intervals_open(&marked, r->count);
    done = intervals_open(&waited, 2 * r->count) && done;
    for (size_t i = 0; done && i < r->count; i++) {
        const prof_record *span = &r->records[i];
        if (span->kind == WEFT_TRACE_SPAN && span->step >= 0 && prof_is_selected(a, span->step) &&
            span->start != PROF_UNKNOWN && span->last >= span->start)
            done = take(a, s, span, &marked);
    }
    if (done) {
        intervals_unite(&marked);
        intervals_intersect(&waited, &marked, &s->space.waiting);
        a->unmarked += unmarked(a, rank, &marked, &waited);
    }
    intervals_close(&marked);
    intervals_close(&waited);
    return done;
}

bool prof_sum_computing(prof_analysis *a)
{
    double windows = a->totals.windows ? (double)a->totals.windows : 1;
    bool done = true;
    for (int r = 0; done && r < a->run->count; r++)
        if (prof_rank_selected(a, r))
            done = take_rank(a, r);
    for (int i = 0; i < a->computing_count; i++) {
        a->computing[i].sum /= windows;
        a->computing[i].beside /= windows;
    }
    a->unmarked /= windows;
    return done;
}
