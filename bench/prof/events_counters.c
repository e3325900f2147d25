/* SPDX-License-Identifier: Apache-2.0 */
/* Counters of a rank: how many operations are in flight and how many bytes, and what share of each step was exposed. */
#include <stdlib.h>

#include "prof/events.h"

typedef struct change {
    int64_t at, bytes;
    int operations;
} change;

static int by_time(const void *a, const void *b)
{
    const change *x = a, *y = b;
    return (x->at > y->at) - (x->at < y->at);
}

static void put_whole(events *e, const char *name, const char *unit, int rank, int64_t at, int64_t value)
{
    events_open(e, 'C', name, rank, 0, at);
    json_open(&e->json, "args", '{');
    json_put_whole(&e->json, unit, value);
    json_close(&e->json, '}');
    events_close(e);
}

static bool put_in_flight(events *e, int rank)
{
    const prof_rank *r = &e->run->ranks[rank];
    change *changes = malloc((2 * r->count + 1) * sizeof *changes);
    size_t count = 0;
    if (!changes)
        return false;
    for (size_t i = 0; i < r->count; i++) {
        int64_t begin, end, bytes = (int64_t)(r->records[i].bytes & INT64_MAX);
        if (!prof_is_operation(&r->records[i]) || !prof_under_way(e->split, rank, i, &begin, &end))
            continue;
        changes[count++] = (change){begin, bytes, 1};
        changes[count++] = (change){end, -bytes, -1};
    }
    qsort(changes, count, sizeof *changes, by_time);
    uint64_t bytes = 0; /* unsigned: files may say anything */
    int64_t operations = 0;
    for (size_t i = 0; i < count; i++) {
        bytes += (uint64_t)changes[i].bytes;
        operations += changes[i].operations;
        if (i + 1 < count && changes[i + 1].at == changes[i].at)
            continue; /* only what holds */
        put_whole(e, "operations in flight", "operations", rank, changes[i].at, operations);
        put_whole(e, "bytes in flight", "bytes", rank, changes[i].at, (int64_t)(bytes & INT64_MAX));
    }
    free(changes);
    return true;
}

static void put_share(events *e, int rank, int64_t at, double percent)
{
    events_open(e, 'C', "exposed share", rank, 0, at);
    json_open(&e->json, "args", '{');
    json_put_number(&e->json, "percent", percent);
    json_close(&e->json, '}');
    events_close(e);
}

/* At the beginning of each step its share, and nothing behind the last. */
static void put_exposed(events *e, int rank)
{
    const prof_run *run = e->run;
    int64_t last = PROF_UNKNOWN;
    for (int i = 0; i < run->step_count; i++) {
        prof_window w = events_step(run, rank, i);
        if (w.begin == PROF_UNKNOWN || w.end <= w.begin)
            continue;
        overlap o = overlap_within(&e->split->ranks[rank].space, w.begin, w.end);
        put_share(e, rank, w.begin, 100 * (double)o.exposed / (double)o.window);
        last = w.end;
    }
    if (last != PROF_UNKNOWN)
        put_share(e, rank, last, 0);
}

bool events_counters(events *e, int rank)
{
    put_exposed(e, rank);
    return put_in_flight(e, rank);
}
