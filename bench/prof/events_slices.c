/* SPDX-License-Identifier: Apache-2.0 */
/* Slices: what was going on from when until when. Slices of one track must not overlap but for being nested, so
 * whatever is at the same time as others of its track goes into a further lane of it. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "prof/events.h"
#include "prof/lanes.h"

/* The tracks of a rank, in the order they are shown in; behind them one for each comm, and one for no comm. */
enum { STEPS = 1, COMPUTING = EVENTS_COMPUTING / EVENTS_LANES, WAITING, SPANS, COMMS };

typedef struct slice {
    int64_t begin, end;
    int track;
    size_t of; /* a record of the rank; in the track of steps one of run->steps; in that of computing nothing */
} slice;

typedef struct slices {
    events *events;
    int rank;
    slice *at;
    size_t count;
    lanes *lanes; /* by track */
} slices;

/* ---- which there are ---- */

/* The next may have begun by the look at the clock before the one that ended this. */
prof_window events_step(const prof_run *run, int rank, int step)
{
    prof_window w = run->steps[step].windows[rank];
    const prof_window *next = step + 1 < run->step_count ? &run->steps[step + 1].windows[rank] : NULL;
    if (next && next->begin != PROF_UNKNOWN && next->begin > w.begin && next->begin < w.end)
        w.end = next->begin;
    return w;
}

static int track_of(const prof_run *run, const prof_record *record)
{
    return COMMS + (record->comm >= 0 ? record->comm : run->comm_count);
}

static void add(slices *s, int track, size_t of, int64_t begin, int64_t end)
{
    s->at[s->count++] = (slice){begin, end, track, of};
}

static void add_record(slices *s, size_t index)
{
    const prof_split *split = s->events->split;
    const prof_record *r = &split->run->ranks[s->rank].records[index];
    int64_t begin, end;
    if (prof_under_way(split, s->rank, index, &begin, &end))
        add(s, r->kind == WEFT_TRACE_SPAN ? SPANS : track_of(split->run, r), index, begin, end);
    if (prof_waited_for(split, s->rank, index, &begin, &end) && end > begin)
        add(s, WAITING, index, begin, end);
}

/* Computing is what is no waiting, within steps where there are any. */
static bool find_computing(slices *s)
{
    const prof_run *run = s->events->run;
    const prof_rank *rank = &run->ranks[s->rank];
    const prof_split_rank *split = &s->events->split->ranks[s->rank];
    intervals *to = &s->events->ranks[s->rank].computing;
    prof_stretch stretch;
    size_t steps = (size_t)run->step_count;
    if (!intervals_open(to, 2 * (split->space.communicating.count + split->space.waiting.count + steps) + 1))
        return false;
    for (int i = 0; i < run->step_count; i++) {
        prof_window w = run->steps_marked ? events_step(run, s->rank, i) : (prof_window){rank->begin, rank->end};
        prof_walk walk = prof_walk_begin(split, w.begin, w.end);
        while (w.begin != PROF_UNKNOWN && prof_walk_next(&walk, &stretch))
            if (stretch.state == PROF_COMPUTING || stretch.state == PROF_HIDDEN)
                intervals_add(to, stretch.begin, stretch.end);
    }
    intervals_unite(to);
    return true;
}

/* ---- how they are written ---- */

static void name_track(slices *s, int track, int lane)
{
    static const char *const names[] = {
        [STEPS] = "steps", [COMPUTING] = "computing", [WAITING] = "waiting", [SPANS] = "spans"};
    events *e = s->events;
    int comm = track - COMMS;
    const char *name = comm < 0 ? names[track] : comm < e->run->comm_count ? e->run->comms[comm].name : "no comm";
    char text[128], further[16] = "";
    if (lane > 0)
        snprintf(further, sizeof further, " (%d)", lane + 1);
    snprintf(text, sizeof text, "%s%s%s", comm < 0 ? "" : "comm ", name, further);
    int thread = track * EVENTS_LANES + lane;
    events_open(e, 'M', "thread_name", s->rank, thread, e->origin);
    json_open(&e->json, "args", '{');
    json_put_text(&e->json, "name", text);
    json_close(&e->json, '}');
    events_close(e);
    events_open(e, 'M', "thread_sort_index", s->rank, thread, e->origin);
    json_open(&e->json, "args", '{');
    json_put_whole(&e->json, "sort_index", thread);
    json_close(&e->json, '}');
    events_close(e);
}

/* The thread that a slice is in. -1: no memory. */
static int thread_of(slices *s, const slice *at)
{
    lanes *l = &s->lanes[at->track];
    int before = l->count, lane = lanes_take(l, at->begin, at->end);
    lane = lane < EVENTS_LANES ? lane : EVENTS_LANES - 1;
    if (l->count > before && l->count <= EVENTS_LANES)
        name_track(s, at->track, lane);
    return lane < 0 ? -1 : at->track * EVENTS_LANES + lane;
}

static void put_time(json_writer *json, const char *key, int64_t from, int64_t to)
{
    if (from != PROF_UNKNOWN && to != PROF_UNKNOWN)
        json_put_decimals(json, key, (double)(to - from) / 1e3, 3);
}

static void put_arguments(slices *s, const prof_record *r)
{
    json_writer *json = &s->events->json;
    const prof_run *run = s->events->run;
    json_open(json, "args", '{');
    json_put_whole(json, "number", (int64_t)r->number);
    if (prof_is_operation(r)) {
        json_put_whole(json, "bytes", (int64_t)r->bytes);
        if (r->comm >= 0 && *run->comms[r->comm].backend)
            json_put_text(json, "backend", run->comms[r->comm].backend);
        put_time(json, "ready_to_start_us", r->ready, r->start);
        put_time(json, "start_to_last_arrival_us", r->start, r->last_arrival);
        put_time(json, "waited_us", r->wait, r->go);
        if (r->late_rank >= 0)
            json_put_whole(json, "late_rank", r->late_rank);
        json_put_text(json, "result", r->result == WEFT_PENDING ? "in flight" : weft_result_string(r->result));
    }
    json_close(json, '}');
}

static void put_slice(slices *s, const slice *at, int thread)
{
    events *e = s->events;
    const prof_record *r = at->track > COMPUTING ? &e->run->ranks[s->rank].records[at->of] : NULL;
    char name[160] = "computing";
    if (at->track == STEPS)
        snprintf(name, sizeof name, "step %" PRIu64, e->run->steps[at->of].number);
    else if (at->track == WAITING)
        snprintf(name, sizeof name, "waiting for %s", prof_record_name(r));
    else if (r)
        snprintf(name, sizeof name, "%s", prof_record_name(r));
    events_open(e, 'X', name, s->rank, thread, at->begin);
    json_put_decimals(&e->json, "dur", (double)(at->end - at->begin) / 1e3, 3);
    if (r && at->track != WAITING)
        put_arguments(s, r);
    events_close(e);
}

/* ---- all of a rank ---- */

static int by_begin(const void *a, const void *b)
{
    const slice *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return (x->end < y->end) - (x->end > y->end); /* the longer first: others are nested in it */
}

static bool put_all(slices *s)
{
    events_rank *to = &s->events->ranks[s->rank];
    qsort(s->at, s->count, sizeof *s->at, by_begin);
    for (size_t i = 0; i < s->count; i++) {
        const slice *at = &s->at[i];
        int thread = thread_of(s, at);
        if (thread < 0)
            return false;
        put_slice(s, at, thread);
        if (at->track == WAITING)
            to->places[at->of].wait = thread;
        else if (at->track >= COMMS)
            to->places[at->of].operation = thread;
    }
    return true;
}

/* Messages are where their batch is. */
static void place_messages(const prof_rank *rank, events_place *places)
{
    for (size_t i = 1; i < rank->count; i++)
        if (rank->records[i].kind == WEFT_TRACE_MESSAGE)
            places[i] = places[i - 1];
}

static void add_all(slices *s)
{
    const prof_run *run = s->events->run;
    const events_rank *of = &s->events->ranks[s->rank];
    for (int i = 0; run->steps_marked && i < run->step_count; i++) {
        prof_window w = events_step(run, s->rank, i);
        if (w.begin != PROF_UNKNOWN)
            add(s, STEPS, (size_t)i, w.begin, w.end);
    }
    for (size_t i = 0; i < of->computing.count; i++)
        add(s, COMPUTING, 0, of->computing.ends[2 * i], of->computing.ends[2 * i + 1]);
    for (size_t i = 0; i < run->ranks[s->rank].count; i++)
        add_record(s, i);
}

bool events_slices(events *e, int rank)
{
    const prof_rank *r = &e->run->ranks[rank];
    events_rank *to = &e->ranks[rank];
    size_t tracks = COMMS + (size_t)e->run->comm_count + 1;
    slices s = {.events = e, .rank = rank, .lanes = calloc(tracks, sizeof *s.lanes)};
    to->places = calloc(r->count + 1, sizeof *to->places);
    bool done = s.lanes && to->places && find_computing(&s);
    if (done)
        s.at = malloc((2 * r->count + to->computing.count + (size_t)e->run->step_count + 1) * sizeof *s.at);
    done = done && s.at;
    if (done)
        add_all(&s);
    done = done && put_all(&s);
    if (done)
        place_messages(r, to->places);
    for (size_t i = 0; s.lanes && i < tracks; i++)
        lanes_close(&s.lanes[i]);
    free(s.lanes);
    free(s.at);
    return done;
}

void events_rank_close(events_rank *rank)
{
    free(rank->places);
    intervals_close(&rank->computing);
}
