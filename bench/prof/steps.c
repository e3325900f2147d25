/* SPDX-License-Identifier: Apache-2.0 */
/* Lists the steps that ranks have marked, and says of each record in which of them it was. */
#include <stdlib.h>

#include "prof/parts.h"

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* The numbers of all steps that were marked, each once (given); NULL: no memory. */
static uint64_t *list_numbers(const prof_run *run, size_t *count_out)
{
    size_t count = 0, kept = 0;
    for (const prof_rank *r = run->ranks; r < run->ranks + run->count; r++)
        for (size_t i = 0; i < r->count; i++)
            count += r->records[i].kind == WEFT_TRACE_STEP;
    uint64_t *numbers = calloc(count + 1, sizeof *numbers);
    count = 0;
    for (const prof_rank *r = run->ranks; numbers && r < run->ranks + run->count; r++)
        for (size_t i = 0; i < r->count; i++)
            if (r->records[i].kind == WEFT_TRACE_STEP)
                numbers[count++] = r->records[i].number;
    if (numbers)
        qsort(numbers, count, sizeof *numbers, by_number);
    for (size_t i = 0; numbers && i < count; i++)
        if (i == 0 || numbers[i] != numbers[i - 1])
            numbers[kept++] = numbers[i];
    *count_out = kept;
    return numbers;
}

static bool make_room(prof_run *run, size_t steps)
{
    size_t windows = steps * (size_t)run->count;
    run->steps = calloc(steps + 1, sizeof *run->steps);
    prof_window *all = calloc(windows + 1, sizeof *all);
    if (!run->steps || !all) {
        free(all);
        return false;
    }
    for (size_t i = 0; i < windows; i++)
        all[i] = (prof_window){PROF_UNKNOWN, PROF_UNKNOWN};
    run->steps[0].windows = all;
    for (size_t s = 0; s < steps; s++)
        run->steps[s] = (prof_step){.label = "", .windows = all + s * (size_t)run->count};
    run->step_count = (int)steps;
    return true;
}

/* From when on no record is missing because later ones took its place. */
static int64_t whole_since(const prof_rank *rank)
{
    for (size_t i = 0; rank->overwritten && i < rank->count; i++) {
        const prof_record *r = &rank->records[i];
        if (r->kind != WEFT_TRACE_STEP && r->kind != WEFT_TRACE_MESSAGE)
            return r->ready != PROF_UNKNOWN ? r->ready : r->start;
    }
    return PROF_UNKNOWN;
}

static void fill_windows(prof_run *run, const uint64_t *numbers)
{
    for (int i = 0; i < run->count; i++) {
        const prof_rank *rank = &run->ranks[i];
        int64_t since = whole_since(rank);
        for (size_t k = 0; k < rank->count; k++) {
            const prof_record *r = &rank->records[k];
            if (r->kind != WEFT_TRACE_STEP || r->start == PROF_UNKNOWN || r->last < r->start || r->start < since)
                continue;
            const uint64_t *number = bsearch(&r->number, numbers, (size_t)run->step_count, sizeof *numbers, by_number);
            prof_step *step = &run->steps[number - numbers];
            step->windows[i] = (prof_window){r->start, r->last};
            step->label = r->label;
        }
    }
}

/* Without any mark all there is is one step. */
static void take_as_one(prof_run *run)
{
    run->steps[0].number = 0;
    for (int i = 0; i < run->count; i++)
        run->steps[0].windows[i] = (prof_window){run->ranks[i].begin, run->ranks[i].end};
    prof_note(run, "no step is marked (see weft_trace_step()): all there is is taken as one");
}

static int64_t moment_of(const prof_record *record)
{
    return record->ready != PROF_UNKNOWN ? record->ready : record->start;
}

/* The step that a moment is in, or one beside it. Steps follow each other in time as they do in number, and so nearly
 * do records: the way from the last one found is short. */
static int near_step(const prof_run *run, int rank, int at, int64_t moment)
{
    const prof_step *steps = run->steps;
    while (at + 1 < run->step_count &&
           (steps[at].windows[rank].begin == PROF_UNKNOWN || steps[at].windows[rank].end <= moment))
        at++;
    while (at > 0 && (steps[at].windows[rank].begin == PROF_UNKNOWN || steps[at].windows[rank].begin > moment))
        at--;
    return at;
}

static void place_records(prof_run *run)
{
    for (int i = 0; i < run->count; i++) {
        const prof_rank *rank = &run->ranks[i];
        int at = 0;
        for (prof_record *r = rank->records; r < rank->records + rank->count; r++) {
            int64_t moment = moment_of(r);
            if (moment == PROF_UNKNOWN)
                continue;
            at = near_step(run, i, at, moment);
            const prof_window *w = &run->steps[at].windows[i];
            if (w->begin != PROF_UNKNOWN && moment >= w->begin && moment < w->end)
                r->step = at;
        }
    }
}

bool prof_list_steps(prof_run *run)
{
    size_t count;
    uint64_t *numbers = list_numbers(run, &count);
    bool done = numbers && count < INT32_MAX && make_room(run, count ? count : 1);
    run->steps_marked = count > 0;
    for (size_t s = 0; done && s < count; s++)
        run->steps[s].number = numbers[s];
    if (done && count > 0)
        fill_windows(run, numbers);
    else if (done)
        take_as_one(run);
    if (done)
        place_records(run);
    free(numbers);
    return done;
}
