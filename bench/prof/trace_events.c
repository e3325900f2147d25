/* SPDX-License-Identifier: Apache-2.0 */
/* Puts the file of trace events together. Times are microseconds since the earliest of the run, to the nanosecond. */
#include "prof/trace_events.h"

#include <stdlib.h>
#include <weft/version.h>

#include "prof/events.h"

void events_open(events *e, char phase, const char *name, int rank, int track, int64_t at)
{
    json_writer *json = &e->json;
    fputs(json->comma ? ",\n" : "\n", json->out); /* a line each */
    json->comma = false;
    json_open(json, NULL, '{');
    json_put_text(json, "ph", (char[]){phase, 0});
    json_put_text(json, "name", name);
    json_put_whole(json, "pid", e->run->ranks[rank].rank);
    json_put_whole(json, "tid", track);
    json_put_decimals(json, "ts", (double)(at - e->origin) / 1e3, 3);
}

void events_close(events *e)
{
    json_close(&e->json, '}');
}

static void name_process(events *e, int rank)
{
    const prof_rank *r = &e->run->ranks[rank];
    char name[128];
    snprintf(name, sizeof name, "rank %d on %s", r->rank, r->host);
    events_open(e, 'M', "process_name", rank, 0, e->origin);
    json_open(&e->json, "args", '{');
    json_put_text(&e->json, "name", name);
    json_close(&e->json, '}');
    events_close(e);
    events_open(e, 'M', "process_sort_index", rank, 0, e->origin);
    json_open(&e->json, "args", '{');
    json_put_whole(&e->json, "sort_index", r->rank);
    json_close(&e->json, '}');
    events_close(e);
}

/* What a reader should know, beside the events. */
static void put_about(events *e)
{
    json_writer *json = &e->json;
    json_put_text(json, "displayTimeUnit", "ms");
    json_open(json, "otherData", '{');
    json_put_text(json, "weft", weft_version_string());
    json_put_whole(json, "ranks", e->run->size);
    json_put_whole(json, "ranks_without_a_file", e->run->missing_count);
    json_open(json, "notes", '[');
    for (size_t i = 0; i < e->run->note_count; i++)
        json_put_text(json, NULL, e->run->notes[i]);
    json_close(json, ']');
    json_close(json, '}');
}

bool prof_trace_events(FILE *out, const prof_split *split)
{
    const prof_run *run = split->run;
    events e = {.json.out = out, .run = run, .split = split, .ranks = calloc((size_t)run->count, sizeof *e.ranks)};
    bool done = e.ranks != NULL;
    e.origin = run->ranks[0].begin;
    for (int i = 1; i < run->count; i++)
        e.origin = run->ranks[i].begin < e.origin ? run->ranks[i].begin : e.origin;
    json_open(&e.json, NULL, '{');
    put_about(&e);
    json_open(&e.json, "traceEvents", '[');
    for (int i = 0; done && i < run->count; i++) {
        name_process(&e, i);
        done = events_slices(&e, i) && events_counters(&e, i);
    }
    if (done)
        events_arrows(&e);
    json_close(&e.json, ']');
    json_close(&e.json, '}');
    json_end_line(&e.json);
    for (int i = 0; e.ranks && i < run->count; i++)
        events_rank_close(&e.ranks[i]);
    free(e.ranks);
    return done;
}
