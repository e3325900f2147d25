/* SPDX-License-Identifier: Apache-2.0 */
/* Who came last, how often, how much, and what that cost the others. */
#include <stdlib.h>

#include "prof/analysis.h"

/* One collective of which it is known who came last: what each of the others waited for it. */
static void blame(prof_analysis *a, const prof_group *g, const prof_operation *any)
{
    const prof_run *run = a->run;
    const prof_part *parts = run->parts + g->first;
    prof_late *late = &a->late[any->late];
    double cost = 0;
    int row = -1, others = 0;
    for (const prof_part *p = parts; p < parts + g->count; p++) {
        const prof_operation *o = &a->split->ranks[p->rank].operations[p->record];
        a->late[p->rank].of++;
        row = row < 0 ? a->row_of[p->rank][p->record] : row;
        if (p->rank == any->late || !prof_rank_selected(a, p->rank))
            continue;
        cost += (double)o->exposed_skew;
        others++;
    }
    late->times++;
    late->by += (double)any->late_by;
    late->cost += others > 0 ? cost / others : 0;
    if (row >= 0)
        a->rows[row].known_times++;
}

/* The selected record of a group, which tells for all; NULL: none. */
static const prof_part *speaker(const prof_analysis *a, const prof_group *g)
{
    for (const prof_part *p = a->run->parts + g->first; p < a->run->parts + g->first + g->count; p++)
        if (a->row_of[p->rank][p->record] >= 0)
            return p;
    return NULL;
}

/* Lateness within the doubt about the clocks is none. */
static bool is_certain(const prof_analysis *a, const prof_operation *o)
{
    double doubt = 0;
    for (int c = 0; c < a->run->clock_count; c++)
        doubt = a->run->clocks[c].residual_ns > doubt ? a->run->clocks[c].residual_ns : doubt;
    return o->late >= 0 && o->arrival != PROF_UNKNOWN && (double)o->late_by > doubt;
}

/* By row and rank: how often it came last, how much, and the cost. */
typedef struct tally {
    double times, by, cost;
} tally;

static void sum_up(prof_analysis *a, tally *tallies, double steps)
{
    for (int r = 0; r < a->run->count; r++) {
        prof_late *late = &a->late[r];
        late->worst = -1;
        late->by = late->times ? late->by / (double)late->times : 0;
        late->cost /= steps;
        for (int i = 0; i < a->row_count; i++) {
            tally *t = &tallies[(size_t)i * (size_t)a->run->count + (size_t)r];
            prof_row *row = &a->rows[i];
            if (t->cost / steps > late->worst_cost) {
                late->worst = i;
                late->worst_cost = t->cost / steps;
            }
            if (t->times > (double)row->late_times) {
                row->late = r;
                row->late_times = (size_t)t->times;
                row->late_by = t->by / t->times;
            }
        }
    }
}

bool prof_find_late(prof_analysis *a)
{
    const prof_run *run = a->run;
    double steps = a->totals.step_count > 0 ? a->totals.step_count : 1;
    a->late = calloc((size_t)run->count, sizeof *a->late);
    tally *tallies = calloc((size_t)a->row_count * (size_t)run->count + 1, sizeof *tallies);
    for (const prof_group *g = run->groups; a->late && tallies && g < run->groups + run->group_count; g++) {
        const prof_part *p = g->count > 1 ? speaker(a, g) : NULL;
        const prof_operation *o = p ? &a->split->ranks[p->rank].operations[p->record] : NULL;
        if (!o || !is_certain(a, o) || g->count != run->comms[g->comm].size)
            continue;
        double before = a->late[o->late].cost;
        blame(a, g, o);
        tally *t = &tallies[(size_t)a->row_of[p->rank][p->record] * (size_t)run->count + (size_t)o->late];
        t->times++;
        t->by += (double)o->late_by;
        t->cost += a->late[o->late].cost - before;
    }
    if (a->late && tallies)
        sum_up(a, tallies, steps);
    free(tallies);
    return a->late && tallies;
}
