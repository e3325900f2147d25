/* SPDX-License-Identifier: Apache-2.0 */
/* Looks for what should not be: ranks that start different things, steps with more operations than others, operations
 * that failed or never ended. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <weft/collective.h>

#include "plural.h"
#include "prof/analysis.h"
#include "prof/lines.h"

__attribute__((format(printf, 2, 3))) static void find(prof_analysis *a, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    prof_add_line(&a->checks, &a->check_count, format, arguments);
    va_end(arguments);
}

/* Labels on comms for sums of single params number each rank's own buckets. */
static bool is_same(const prof_run *run, const prof_record *a, const prof_record *b)
{
    char purpose[WEFT_TRACE_LABEL_BYTES];
    prof_purpose(run->comms[a->comm].name, purpose, sizeof purpose);
    return a->operation == b->operation && a->bytes == b->bytes && a->dtype == b->dtype &&
           a->reduction == b->reduction && (strcmp(a->label, b->label) == 0 || strcmp(purpose, "sum") == 0);
}

/* Operations of one number must be the same on all ranks of a comm. Of many differences the first is enough. */
static void check_order(prof_analysis *a)
{
    const prof_run *run = a->run;
    a->order_known = true;
    for (const prof_rank *r = run->ranks; r < run->ranks + run->count; r++)
        a->order_known &= !r->comms_cut;
    for (const prof_group *g = run->groups; g < run->groups + run->group_count && !a->order_differs; g++)
        for (int i = 1; i < g->count; i++) {
            const prof_part *p = &run->parts[g->first], *q = p + i;
            const prof_record *x = &run->ranks[p->rank].records[p->record];
            const prof_record *y = &run->ranks[q->rank].records[q->record];
            if (is_same(run, x, y))
                continue;
            find(a,
                 "launch order differs: comm %s, operation %" PRIu64 ": rank %d starts %s (%" PRIu64
                 " bytes), rank %d %s (%" PRIu64 " bytes)",
                 run->comms[g->comm].name, g->number, run->ranks[p->rank].rank, prof_record_name(x), x->bytes,
                 run->ranks[q->rank].rank, prof_record_name(y), y->bytes);
            a->order_differs = true;
            break;
        }
}

/* Collectives of each rank in each step, and of each comm on its ranks. */
static void check_counts(prof_analysis *a)
{
    const prof_run *run = a->run;
    size_t steps = (size_t)run->step_count;
    size_t *counts = calloc((size_t)run->count * steps + 1, sizeof *counts);
    if (!counts)
        return;
    for (int r = 0; r < run->count; r++)
        for (size_t i = 0; i < run->ranks[r].count; i++) {
            const prof_record *record = &run->ranks[r].records[i];
            if (record->kind == WEFT_TRACE_COLLECTIVE && record->step >= 0)
                counts[(size_t)r * steps + (size_t)record->step]++;
        }
    a->collectives_least = SIZE_MAX;
    for (int r = 0; r < run->count; r++)
        for (int s = 0; s < run->step_count; s++) {
            size_t n = counts[(size_t)r * steps + (size_t)s];
            if (!prof_is_selected(a, s) || !prof_rank_selected(a, r) || run->steps[s].windows[r].begin == PROF_UNKNOWN)
                continue;
            a->collectives_least = n < a->collectives_least ? n : a->collectives_least;
            a->collectives_most = n > a->collectives_most ? n : a->collectives_most;
        }
    if (a->collectives_least > a->collectives_most)
        a->collectives_least = a->collectives_most;
    free(counts);
}

/* In a step a comm has as many operations on one rank as on any other. */
static void check_windows(prof_analysis *a)
{
    const prof_run *run = a->run;
    for (const prof_group *g = run->groups; g < run->groups + run->group_count; g++)
        for (int i = 1; i < g->count; i++) {
            const prof_part *p = &run->parts[g->first], *q = p + i;
            int x = run->ranks[p->rank].records[p->record].step, y = run->ranks[q->rank].records[q->record].step;
            bool known = x >= 0 && y >= 0 && run->steps_marked;
            if (!known || x == y || !prof_is_selected(a, x))
                continue;
            find(a,
                 "collectives of a step differ: comm %s, operation %" PRIu64 " (%s) is in step %" PRIu64
                 " on rank %d, in step %" PRIu64 " on rank %d",
                 run->comms[g->comm].name, g->number, prof_record_name(&run->ranks[p->rank].records[p->record]),
                 run->steps[x].number, run->ranks[p->rank].rank, run->steps[y].number, run->ranks[q->rank].rank);
            return;
        }
}

/* The first that failed, and the first that was under way at the end, of each rank. */
static void check_ends(prof_analysis *a)
{
    const prof_run *run = a->run;
    for (const prof_rank *r = run->ranks; r < run->ranks + run->count; r++) {
        const prof_record *failed = NULL, *pending = NULL;
        size_t failures = 0, pendings = 0;
        for (size_t i = r->count; i-- > 0;) {
            const prof_record *record = &r->records[i];
            if (!prof_is_operation(record))
                continue;
            failed = record->result < 0 ? record : failed;
            pending = record->result == WEFT_PENDING ? record : pending;
            failures += record->result < 0;
            pendings += record->result == WEFT_PENDING;
        }
        if (failed)
            find(a, "rank %d: %zu operation%s failed, %s first (%s)", r->rank, failures, plural(failures, "s"),
                 prof_record_name(failed), weft_result_string((weft_result)failed->result));
        if (pending)
            find(a, "rank %d: its trace ends while %zu operation%s not finished, %s first, %.1f ms before the end",
                 r->rank, pendings, pendings == 1 ? " was" : "s were", prof_record_name(pending),
                 (double)(r->end - pending->ready) * 1e-6);
    }
}

bool prof_check(prof_analysis *a)
{
    check_order(a);
    check_counts(a);
    check_windows(a);
    check_ends(a);
    return true;
}
