/* SPDX-License-Identifier: Apache-2.0 */
/* What both forms of the report ask of an analysis. */
#include "prof/report.h"

#include <stdlib.h>
#include <string.h>

prof_span prof_selected_steps(const prof_analysis *a)
{
    prof_span span = {0};
    for (int s = 0; s < a->run->step_count; s++) {
        if (!prof_is_selected(a, s))
            continue;
        if (span.count++ == 0)
            span.first = a->run->steps[s].number;
        span.last = a->run->steps[s].number;
    }
    return span;
}

static int by_exposed(const void *a, const void *b)
{
    double x = ((const prof_kind *)a)->exposed, y = ((const prof_kind *)b)->exposed;
    return (x < y) - (x > y);
}

int prof_kinds(const prof_analysis *a, prof_kind *kinds, int most)
{
    int count = 0;
    for (int i = 0; i < a->row_count; i++) {
        const prof_row *row = &a->rows[i];
        int k = 0;
        while (k < count && strcmp(kinds[k].kind, row->kind) != 0)
            k++;
        if (k == most || row->count == 0)
            continue;
        if (k == count)
            kinds[count++] = (prof_kind){.kind = row->kind};
        kinds[k].hidden += row->hidden;
        kinds[k].exposed += row->exposed;
    }
    qsort(kinds, (size_t)count, sizeof *kinds, by_exposed);
    return count;
}
