/* SPDX-License-Identifier: Apache-2.0 */
/* One timed phase on this rank, in one of four ways. */
#ifndef WEFT_BENCH_PERF_OVERLAP_RUN_H
#define WEFT_BENCH_PERF_OVERLAP_RUN_H
#include "overlap.h"
#include "perf/overlap/compute.h"
#include "perf/overlap/subject.h"

typedef enum overlap_way {
    OVERLAP_COMPUTING,     /* alone */
    OVERLAP_COMMUNICATING, /* alone: every operation as early as can be */
    OVERLAP_BOTH,          /* as a trainer does */
    OVERLAP_SERIAL         /* one after the other */
} overlap_way;
enum { OVERLAP_WAYS = 4 };

/* What a phase took, in ms. What lies between `total` and `pieces` is time in weft's calls: waiting is `exposed` and
 * `idle`, the rest is work. */
typedef enum overlap_time {
    OVERLAP_TOTAL,
    OVERLAP_PIECES, /* computing, as long as it lasted */
    OVERLAP_HIDDEN, /* this and the next three by the trace: see bench/overlap.h */
    OVERLAP_EXPOSED,
    OVERLAP_SKEW, /* of it: the last rank had not come yet */
    OVERLAP_IDLE,
    OVERLAP_USER, /* processor time of the process, over its ranks */
    OVERLAP_SYSTEM,
    OVERLAP_ENGINE,   /* of it, that of weft's own threads */
    OVERLAP_SOFTIRQ,  /* of the host */
    OVERLAP_SLOWEST,  /* from here on for who compares ranks: total of the slowest, */
    OVERLAP_TRANSFER, /* exposed but for skew of the rank of which that is most, */
    OVERLAP_UNCOVERED /* and the most of what any rank exposed of its communication but for skew, a share */
} overlap_time;
enum { OVERLAP_TIMES = OVERLAP_UNCOVERED + 1 };

typedef struct overlap_runner {
    weft_comm *control; /* what ranks wait for each other by */
    overlap_subject *subject;
    overlap_compute *compute;
    double compute_ms; /* of a backward, as was asked for */
    double forward;    /* computing of a forward over that of a backward */
    int threads;       /* ranks of this process */
    overlap_space space;
    weft_trace_record *records;
    size_t room;
} overlap_runner;

/* Room for phases of so many buckets. WEFT_E_NO_MEMORY if there is none. */
weft_result overlap_runner_open(overlap_runner *r, size_t buckets);
void overlap_runner_close(overlap_runner *r);

/* Run @p phase; the ranks begin together. @p each has room for a number a piece, in the order of the phase: of
 * computing alone when each piece ended, in ms from the begin, of communicating alone how long each operation took from
 * the end of the one before. NULL = not wanted. */
weft_result overlap_run(overlap_runner *r, const overlap_phase *phase, overlap_way way, double times[OVERLAP_TIMES],
                        double *each);

#endif
