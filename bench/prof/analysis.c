/* SPDX-License-Identifier: Apache-2.0 */
/* Takes a run apart, piece by piece. */
#include "prof/analysis.h"

#include <stdlib.h>
#include <string.h>

#include "prof/lines.h"

prof_selection prof_select_default(const prof_run *run)
{
    enum { ENOUGH = 3 };
    int plain = 0, first = 0;
    for (int s = run->step_count; s-- > 0;)
        if (!*run->steps[s].label) {
            plain++;
            first = s;
        }
    int skipped = plain > ENOUGH ? 1 : 0; /* what is done once is done in the first */
    return (prof_selection){.first = first + skipped, .last = run->step_count - 1, .rank = -1};
}

bool prof_is_selected(const prof_analysis *a, int step)
{
    if (step < a->selection.first || step > a->selection.last)
        return false;
    const char *label = a->run->steps[step].label;
    return strcmp(label, PROF_SERIAL) != 0 && strcmp(label, PROF_ALONE) != 0;
}

bool prof_comms_known(const prof_analysis *a)
{
    bool known = true;
    for (int r = 0; r < a->run->count; r++)
        known &= !prof_rank_selected(a, r) || !a->run->ranks[r].comms_cut;
    return known;
}

bool prof_analyse(const prof_split *split, prof_selection selection, prof_analysis *a)
{
    *a = (prof_analysis){.run = split->run, .split = split, .selection = selection};
    return prof_total(a) && prof_make_rows(a) && prof_find_late(a) && prof_find_ideal(a) && prof_sum_computing(a) &&
           prof_check(a) && prof_hint(a);
}

void prof_analysis_close(prof_analysis *a)
{
    for (int i = 0; a->row_of && i < a->run->count; i++)
        free(a->row_of[i]);
    prof_free_lines(a->checks, a->check_count);
    prof_free_lines(a->hints, a->hint_count);
    free(a->row_of);
    free(a->totals.ranks);
    free(a->totals.steps);
    free(a->rows);
    free(a->late);
    free(a->computing);
    *a = (prof_analysis){0};
}
