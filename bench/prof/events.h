/* SPDX-License-Identifier: Apache-2.0 */
/* What the file of trace events is put together from: slices, the arrows between them, counters. */
#ifndef WEFT_BENCH_PROF_EVENTS_H
#define WEFT_BENCH_PROF_EVENTS_H
#include "json.h"
#include "prof/run.h"
#include "prof/states.h"

/* Where the slices of a record are: thread numbers of the file; 0: it has none. */
typedef struct events_place {
    int operation, wait;
} events_place;

/* The slices of a rank. */
typedef struct events_rank {
    events_place *places; /* by record; a message is where its batch is */
    intervals computing;  /* the slices of that track */
} events_rank;

typedef struct events {
    json_writer json;
    const prof_run *run;
    const prof_split *split;
    events_rank *ranks;
    int64_t origin; /* time 0 of the file: viewers want none before it */
    uint64_t arrows;
} events;

/* Threads of the file are numbered track by track; the one of computing has no second lane. */
enum { EVENTS_LANES = 4096, EVENTS_COMPUTING = 2 * EVENTS_LANES };

/* Begin an event in a thread of a rank (an index) at a time; more keys may follow until events_close(). */
void events_open(events *e, char phase, const char *name, int rank, int track, int64_t at);
void events_close(events *e);

/* When a step of a rank was, without what the next has of it. */
prof_window events_step(const prof_run *run, int rank, int step);
/* All slices of a rank, and their places. False: no memory. */
bool events_slices(events *e, int rank);
void events_rank_close(events_rank *rank);
void events_arrows(events *e);
/* False: no memory. */
bool events_counters(events *e, int rank);

#endif
