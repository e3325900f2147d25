/* SPDX-License-Identifier: Apache-2.0 */
/* From the files of ranks to their records: ticks to nanoseconds, labels to texts, entries to the comms of the run. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "prof/parts.h"

/* ---- clocks ---- */

/* What turns the ticks of a machine into its CLOCK_MONOTONIC. */
typedef struct tick_map {
    uint64_t tick0;
    double ns0, ns_per_tick;
} tick_map;

/* Ranks whose machines are equal up to the "/" read the same counter. Files of version 1 tell no more than a name. */
static bool same_clock(const weft_trace_header *a, const weft_trace_header *b)
{
    const char *x = a->machine[0] ? a->machine : a->host, *y = b->machine[0] ? b->machine : b->host;
    size_t bytes = strcspn(x, "/");
    return bytes == strcspn(y, "/") && memcmp(x, y, bytes) == 0;
}

/* The rate that one process measured as it began is good to some parts in a million; two looks at the clocks that lie
 * far apart, by any two ranks of the machine, are better. All ranks of a machine are converted alike. */
static tick_map map_of(const prof_file *files, int count, int first)
{
    const weft_trace_header *early = &files[first].header, *late = early;
    for (int i = first; i < count; i++) {
        const weft_trace_header *h = &files[i].header;
        if (!same_clock(h, &files[first].header))
            continue;
        if (h->monotonic0_ns < early->monotonic0_ns)
            early = h;
        if (h->monotonic1_ns > late->monotonic1_ns)
            late = h;
    }
    tick_map map = {early->tick0, (double)early->monotonic0_ns, early->ns_per_tick};
    double ticks = (double)(int64_t)(late->tick1 - early->tick0);
    double ns = (double)late->monotonic1_ns - (double)early->monotonic0_ns, rate = ns / ticks;
    if (late->monotonic1_ns && ticks > 0 && fabs(rate / early->ns_per_tick - 1) < 1e-3)
        map.ns_per_tick = rate;
    return map;
}

static double ns_of(const tick_map *map, uint64_t tick)
{
    return map->ns0 + (double)(int64_t)(tick - map->tick0) * map->ns_per_tick;
}

/* ---- comms ---- */

/* The comm of these terms among those of the run, which it joins if it is new. -1: no memory. */
static int intern(prof_run *run, const prof_comm *comm)
{
    for (int i = 0; i < run->comm_count; i++) {
        const prof_comm *c = &run->comms[i];
        if (c->members == comm->members && c->size == comm->size && c->incarnation == comm->incarnation &&
            strcmp(c->name, comm->name) == 0)
            return i;
    }
    prof_comm *comms = realloc(run->comms, ((size_t)run->comm_count + 1) * sizeof *comms);
    if (!comms)
        return -1;
    run->comms = comms;
    comms[run->comm_count] = *comm;
    if (comm->size > 0) {
        int *ranks = malloc((size_t)comm->size * sizeof *ranks);
        if (!ranks)
            return -1;
        for (int i = 0; i < comm->size; i++)
            ranks[i] = -1;
        comms[run->comm_count].world_ranks = ranks;
    }
    return run->comm_count++;
}

/* Comm of the run for each entry of a file's table; false: no memory. */
static bool intern_table(prof_run *run, const prof_file *file, int *comms)
{
    for (size_t i = 0; i < file->comm_count; i++) {
        const weft_trace_comm *c = &file->comms[i];
        const char *name = prof_file_label(file, c->label);
        comms[i] = -1;
        if (!*name || c->size < 1 || c->size > run->size || c->rank < 0 || c->rank >= c->size)
            continue;
        comms[i] = intern(run, &(prof_comm){.name = name,
                                            .backend = prof_file_label(file, c->backend),
                                            .size = c->size,
                                            .members = c->members,
                                            .incarnation = c->incarnation});
        if (comms[i] < 0)
            return false;
        run->comms[comms[i]].world_ranks[c->rank] = file->header.rank;
    }
    return true;
}

/* The comm of a record; without an entry, all that is known is its name. -1: none, -2: no memory. */
static int comm_of(prof_run *run, const prof_file *file, const int *table, const weft_trace_record *raw)
{
    if (raw->kind == WEFT_TRACE_SPAN || raw->kind == WEFT_TRACE_STEP)
        return -1;
    if (raw->comm_entry > 0 && raw->comm_entry < file->comm_count)
        return table[raw->comm_entry];
    const char *name = prof_file_label(file, raw->comm);
    int comm = *name ? intern(run, &(prof_comm){.name = name, .backend = ""}) : -1;
    return *name && comm < 0 ? -2 : comm;
}

/* ---- records ---- */

/* What the records of a rank are converted by. */
typedef struct conversion {
    prof_run *run;
    const prof_file *file;
    prof_rank *rank;
    tick_map map;
    int *comms;              /* of the run, by entry of the file's table */
    prof_record *batch;      /* the last one, whose messages may follow; NULL: none */
    uint64_t batch_number;   /* its sequence, ... */
    uint16_t batch_messages; /* ... and how many messages it was written with */
} conversion;

/* Times so far off that they cannot be of this run (a year) are not known: the file is damaged. */
static int64_t time_of(conversion *c, uint64_t tick)
{
    const double year_ns = 3.2e16;
    double ns = ns_of(&c->map, tick);
    if (tick == 0 || !(fabs(ns) < year_ns))
        return PROF_UNKNOWN;
    int64_t time = llround(ns);
    c->rank->begin = time < c->rank->begin ? time : c->rank->begin;
    c->rank->end = time > c->rank->end ? time : c->rank->end;
    return time;
}

/* A message happens when its batch does. */
static void join_batch(conversion *c, const weft_trace_record *raw, prof_record *to)
{
    prof_record *b = c->batch;
    if (!b || raw->sequence <= c->batch_number || raw->sequence - c->batch_number > c->batch_messages)
        return;
    b->messages++;
    to->result = b->result;
    to->ready = b->ready;
    to->start = b->start;
    to->first = b->first;
    to->last = b->last;
    to->wait = b->wait;
    to->go = b->go;
}

static bool convert_record(conversion *c, const weft_trace_record *raw, prof_record *to)
{
    bool message = raw->kind == WEFT_TRACE_MESSAGE;
    *to = (prof_record){.kind = raw->kind,
                        .operation = raw->operation,
                        .dtype = raw->dtype,
                        .reduction = raw->reduction,
                        .result = raw->result,
                        .label = prof_file_label(c->file, raw->label),
                        .comm = comm_of(c->run, c->file, c->comms, raw),
                        .step = -1,
                        .number = raw->number,
                        .bytes = raw->bytes,
                        .late_rank = raw->late_rank,
                        .messages = raw->messages,
                        .group = -1,
                        .peer = -1};
    int64_t *const times[] = {&to->ready, &to->start, &to->first, &to->last, &to->last_arrival, &to->wait, &to->go};
    const uint64_t ticks[] = {raw->ready, raw->start, raw->first, raw->last, raw->last_arrival, raw->wait, raw->go};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        *times[i] = message ? PROF_UNKNOWN : time_of(c, ticks[i]);
    if (message)
        join_batch(c, raw, to);
    if (raw->kind == WEFT_TRACE_P2P) {
        c->batch = to;
        c->batch_number = raw->sequence;
        c->batch_messages = raw->messages;
        to->messages = 0; /* until they are seen */
    }
    return to->comm != -2;
}

static bool convert_rank(conversion *c)
{
    const prof_file *f = c->file;
    prof_rank *r = c->rank;
    r->records = calloc(f->count ? f->count : 1, sizeof *r->records);
    c->comms = calloc(f->comm_count + 1, sizeof *c->comms);
    r->begin = INT64_MAX;
    r->end = INT64_MIN;
    (void)time_of(c, f->header.tick0);
    if (!f->records_cut) /* else what was until then is not known */
        (void)time_of(c, f->header.tick1);
    bool done = r->records && c->comms && intern_table(c->run, f, c->comms);
    for (size_t i = 0; done && i < f->count; i++)
        done = convert_record(c, &f->records[i], &r->records[r->count++]);
    free(c->comms);
    if (r->begin > r->end)
        r->begin = r->end = 0;
    return done;
}

/* The clock of a file among those of the run, which it joins if it is the first on it. */
static int clock_of(prof_run *run, const prof_file *files, int index)
{
    for (int i = 0; i < run->clock_count; i++)
        if (same_clock(&files[run->clocks[i].first].header, &files[index].header))
            return i;
    run->clocks[run->clock_count] = (prof_clock){.first = index};
    return run->clock_count++;
}

/* The time 0 of a clock, by itself: for want of better the same moment as that of the first clock by the calendar. */
static double zero_of(const prof_file *files, const prof_clock *clock)
{
    const double year_ns = 3.2e16;
    const weft_trace_header *h = &files[clock->first].header, *first = &files[0].header;
    double later_ns = (double)(int64_t)(h->realtime0_ns - first->realtime0_ns);
    bool known = h->realtime0_ns && first->realtime0_ns && fabs(later_ns) < year_ns;
    return (double)h->monotonic0_ns - (known ? later_ns : 0);
}

bool prof_convert(prof_run *run, prof_file *files, int count)
{
    run->ranks = calloc((size_t)count, sizeof *run->ranks);
    run->clocks = calloc((size_t)count, sizeof *run->clocks);
    bool done = run->ranks && run->clocks;
    for (int i = 0; done && i < count; i++) {
        const weft_trace_header *h = &files[i].header;
        prof_rank *r = &run->ranks[run->count++];
        *r = (prof_rank){.rank = h->rank,
                         .crowded = h->crowded != 0,
                         .comms_cut = files[i].comms_cut,
                         .clock = clock_of(run, files, i),
                         .overwritten = files[i].overwritten,
                         .lost = files[i].lost};
        memcpy(r->host, h->host, sizeof r->host);
        conversion c = {
            .run = run, .file = &files[i], .rank = r, .map = map_of(files, count, run->clocks[r->clock].first)};
        c.map.ns0 -= zero_of(files, &run->clocks[r->clock]);
        done = convert_rank(&c);
        r->labels = files[i].labels; /* its records' texts; the file has them no more */
        files[i].labels = NULL;
    }
    run->origin_realtime_ns = files[0].header.realtime0_ns;
    return done;
}
