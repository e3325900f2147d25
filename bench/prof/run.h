/* SPDX-License-Identifier: Apache-2.0 */
/* The traces of all ranks of one run, on one clock: what everything `weft prof` shows is worked out from.
 *
 * Times are nanoseconds on the clock of the lowest rank there is, since it opened its world;
 * PROF_UNKNOWN is what was not measured, or has not happened. Indices are -1 where there is nothing to point at. */
#ifndef WEFT_BENCH_PROF_RUN_H
#define WEFT_BENCH_PROF_RUN_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <weft/trace.h>

#define PROF_UNKNOWN INT64_MIN

typedef struct prof_record {
    uint8_t kind;      /* weft_trace_kind */
    uint8_t operation; /* weft_collective_kind; of a message weft_p2p_kind */
    uint8_t dtype, reduction;
    int32_t result;    /* WEFT_PENDING: had not ended when the file was read, or its process killed */
    const char *label; /* "" = none */
    int comm;          /* into run->comms */
    int step;          /* into run->steps: in which it was ready, or began */
    uint64_t number;   /* as in weft_trace_record */
    uint64_t bytes;
    int64_t ready, start, first, last, last_arrival, wait, go; /* as in weft_trace_record; of a message: its batch's */
    int32_t late_rank;                                         /* world rank; of a message: of its peer */
    uint16_t messages;  /* p2p: so many of its messages follow it; message: its channel */
    int group;          /* collective: into run->groups */
    int peer;           /* message: into run->ranks, where its other end is, ... */
    size_t peer_record; /* ... and which of its records that is */
} prof_record;

/* A rank that left a file. */
typedef struct prof_rank {
    int rank; /* in the world */
    char host[64];
    bool crowded;         /* its machine has fewer cores than ranks */
    bool comms_cut;       /* of some comms that it took part in only the name is known: its file is cut off */
    int clock;            /* into run->clocks */
    char *labels;         /* that the texts of its records point into */
    prof_record *records; /* in the order they were made */
    size_t count;
    uint64_t overwritten, lost; /* records that are not there: the ring was too small; not written whole, or cut off */
    int64_t begin, end;         /* the earliest and the latest time in its file */
} prof_rank;

/* The same collective on all ranks that have it. */
typedef struct prof_part {
    int rank; /* into run->ranks */
    size_t record;
} prof_part;

typedef struct prof_group {
    int comm;
    uint64_t number; /* on its comm, from 1 */
    size_t first;    /* its parts are run->parts[first ... first + count), by rank */
    int count;
} prof_group;

typedef struct prof_comm {
    const char *name, *backend; /* "" = not known */
    int size;                   /* 0 = not known */
    uint64_t members;           /* hash of its world ranks; with name and incarnation it tells comms apart */
    uint32_t incarnation;
    int *world_ranks; /* of its members, -1 = not known; NULL if size is 0 */
} prof_comm;

typedef struct prof_window {
    int64_t begin, end; /* PROF_UNKNOWN: this rank has no such step, or not all of its records any more */
} prof_window;

typedef struct prof_step {
    uint64_t number;
    const char *label;    /* "" but for steps run in a special way */
    prof_window *windows; /* [index into run->ranks] */
} prof_step;

typedef enum prof_fit {
    PROF_FIT_SAME,    /* the clock all times are on */
    PROF_FIT_FITTED,  /* by operations that both took part in */
    PROF_FIT_CALENDAR /* by the time of day, for want of such operations: good for little */
} prof_fit;

/* A clock that some ranks share: that of a machine. */
typedef struct prof_clock {
    int first; /* into run->ranks: the first on it */
    prof_fit fit;
    double offset_ns;   /* added to its times, at time 0, ... */
    double drift;       /* ... and so much more for each ns of the run */
    double residual_ns; /* fitted: within so much the operations leave no doubt; else 0 */
    size_t pairs;       /* fitted: so many operations were compared */
} prof_clock;

typedef struct prof_run {
    const char *folder; /* borrowed */
    int size;           /* ranks of the world */
    prof_rank *ranks;   /* those there are, in order */
    int count;
    int *missing; /* world ranks without a file that can be read */
    int missing_count;
    prof_comm *comms;
    int comm_count;
    prof_group *groups; /* by comm and number */
    size_t group_count;
    prof_part *parts;
    size_t part_count;
    prof_step *steps; /* by number; without any mark one, number 0, that is all there is */
    int step_count;
    bool steps_marked;
    prof_clock *clocks;
    int clock_count;
    char **notes; /* what a reader should know: files left out, records lost, ... A line each. */
    size_t note_count;
    uint64_t origin_realtime_ns; /* time 0 by the calendar, since 1970; 0 = not known */
} prof_run;

/* Read the files of @p folder. An exit code after complain() if there is none to go by, else 0; give back with
 * prof_run_close() whatever the answer. */
int prof_run_open(const char *folder, prof_run *run);
void prof_run_close(prof_run *run);

/* The message that goes with a send or a receive: the other end of @p record; NULL if it is not known. */
static inline const prof_record *prof_peer(const prof_run *run, const prof_record *record)
{
    return record->peer >= 0 ? &run->ranks[record->peer].records[record->peer_record] : NULL;
}

/* Does every rank that takes part in this collective need something of every other? */
bool prof_is_mutual(const prof_record *record);
/* Index of a world rank in run->ranks; -1: it has no file. */
int prof_rank_index(const prof_run *run, int world_rank);
/* How a record is called: its label, else what it does. */
const char *prof_record_name(const prof_record *record);

#endif
