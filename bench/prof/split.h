/* SPDX-License-Identifier: Apache-2.0 */
/* What became of the time of every operation: how long it stood in line, waited for the last rank, moved bytes, and how
 * much of that computing covered. And of each rank the unions that steps are split by. */
#ifndef WEFT_BENCH_PROF_SPLIT_H
#define WEFT_BENCH_PROF_SPLIT_H
#include "overlap.h"
#include "prof/run.h"

/* One operation on one rank; ns. Zero for records that are none. */
typedef struct prof_operation {
    int64_t begin;        /* it was taken up, and those before it on its comm were over */
    int64_t arrival;      /* its last rank had come that far; PROF_UNKNOWN */
    int64_t end;          /* it was over; of one in flight, when the trace ends */
    int late;             /* into run->ranks: who came last; -1 = not known */
    int64_t late_by;      /* so much behind the last but one */
    int64_t queue;        /* from ready to begin */
    int64_t skew;         /* from begin to arrival */
    int64_t transfer;     /* from arrival to end; without known arrival, from begin */
    int64_t hidden;       /* from begin to end while nobody waited for anything */
    int64_t exposed;      /* its caller waited for it while something was under way, ... */
    int64_t exposed_skew; /* ... and its last rank had not come yet */
} prof_operation;

typedef struct prof_split_rank {
    prof_operation *operations; /* [record] */
    overlap_space space;        /* of all operations and waits */
    intervals skew, unknown;    /* of what is exposed: before the last arrival; without known arrival */
} prof_split_rank;

typedef struct prof_split {
    const prof_run *run;
    prof_split_rank *ranks; /* [index into run->ranks] */
} prof_split;

/* False: no memory. Give back with prof_split_close() whatever the answer. */
bool prof_split_open(const prof_run *run, prof_split *split);
void prof_split_close(prof_split *split);

static inline bool prof_is_operation(const prof_record *record)
{
    return (record->kind == WEFT_TRACE_COLLECTIVE || record->kind == WEFT_TRACE_P2P) && record->ready != PROF_UNKNOWN;
}

#endif
