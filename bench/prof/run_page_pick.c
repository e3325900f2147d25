/* SPDX-License-Identifier: Apache-2.0 */
/* Picks what there is room for: some steps, and of very many ranks some. */
#include <stdlib.h>

#include "prof/run_page.h"

/* ---- steps ---- */

typedef struct length {
    int64_t ns;
    int step;
} length;

static int by_length(const void *a, const void *b)
{
    const length *x = a, *y = b;
    return x->ns != y->ns ? (x->ns > y->ns) - (x->ns < y->ns) : (x->step > y->step) - (x->step < y->step);
}

/* Of its longest rank; 0: some have no such step. */
static int64_t length_of(const prof_run *run, int step)
{
    int64_t longest = 0;
    for (int i = 0; i < run->count; i++) {
        prof_window w = run->steps[step].windows[i];
        if (w.begin == PROF_UNKNOWN)
            return 0;
        longest = w.end - w.begin > longest ? w.end - w.begin : longest;
    }
    return longest;
}

static void add_step(prof_page *p, int step, const char *why)
{
    p->steps[p->step_count] = step;
    p->why[p->step_count++] = why;
}

void prof_page_pick_steps(prof_page *p)
{
    const prof_run *run = p->analysis->run;
    length *lengths = calloc((size_t)run->step_count + 1, sizeof *lengths);
    int count = 0;
    for (int i = 0; lengths && i < run->step_count; i++) {
        lengths[count] = (length){length_of(run, i), i};
        count += prof_is_selected(p->analysis, i) && lengths[count].ns > 0;
    }
    if (count > 0) {
        qsort(lengths, (size_t)count, sizeof *lengths, by_length);
        add_step(p, lengths[(count - 1) / 2].step, count > 1 ? ", of median length" : NULL);
    }
    if (count > 1)
        add_step(p, lengths[count - 1].step, ", the longest");
    free(lengths);
}

/* ---- ranks ---- */

/* Is there too much exposed of it to be left out? */
static bool is_among_worst(const prof_analysis *a, int rank, int most)
{
    int worse = 0;
    for (int k = 0; k < a->run->count && worse < most; k++) {
        double mine = a->totals.ranks[rank].exposed, other = a->totals.ranks[k].exposed;
        worse += other > mine || (other == mine && k < rank);
    }
    return worse < most;
}

void prof_page_pick_ranks(prof_page *p)
{
    const prof_analysis *a = p->analysis;
    int64_t count = a->run->count, worst = count > PROF_PAGE_RANKS ? PROF_PAGE_RANKS / 2 : count;
    int64_t others = count - worst, wanted = others > 0 ? PROF_PAGE_RANKS - worst : 0, seen = 0;
    for (int i = 0; i < count; i++) {
        bool picked = is_among_worst(a, i, (int)worst);
        if (!picked) /* exactly so many as are wanted, at even distances */
            picked = seen++ * wanted % others < wanted;
        if (picked)
            p->ranks[p->rank_count++] = i;
    }
}
