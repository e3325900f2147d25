/* SPDX-License-Identifier: Apache-2.0 */
/* What is said of a phase: from the times of its four ways to what was hidden, what was not, and why. */
#ifndef WEFT_BENCH_PERF_OVERLAP_FIGURES_H
#define WEFT_BENCH_PERF_OVERLAP_FIGURES_H
#include "perf/overlap/run.h"

/* Times are ms. */
typedef struct overlap_figures {
    const char *phase;
    const char *operation;
    size_t buckets, bytes;
    int rounds, quiet;                             /* made; of them those that count */
    double computing, communicating, both, serial; /* of the slowest rank */
    double largest;                                /* the longest operation of those that communicate alone */
    double exposed_trace, exposed_clock;           /* waiting while operations are under way; both - computing */
    double skew;                                   /* of exposed_trace: until the last rank came */
    double transfer, hidden_transfer;              /* exposed, and the share hidden, but for skew; of the worst rank */
    double exposed_error;                          /* half of the interval that holds exposed_clock with 95 % */
    double closed, closed_even;                    /* the least that can be exposed */
    double hidden_trace, hidden_clock;             /* shares of the communication */
    double eta;
    /* What both took longer than computing alone, in parts: with exposed_trace they add up to exposed_clock. */
    double longer, calls, idle, others;
    /* Processor time that communication took a rank, alone and beside computing, and of it the kernel's. */
    double cpu_alone, cpu_both, system_alone, system_both;
    double engine_both;  /* what of it weft's own threads took; not finite: ranks are threads, and it is not known */
    double softirq_both; /* of the host, beside computing */
} overlap_figures;

/* The times of each way, of the rank that computes longest beside communication. Of all ranks: when pieces of computing
 * alone ended, and what operations cost that communicate alone; numbers a piece, in the order of the phase. */
typedef struct overlap_measured {
    double times[OVERLAP_WAYS][OVERLAP_TIMES];
    const double *ended, *costs;
    size_t pieces;
} overlap_measured;

/* Fills all but what says which phase it is. */
void overlap_figures_make(overlap_figures *f, const overlap_phase *phase, const overlap_measured *m);

enum { OVERLAP_APART_PERCENT = 5 };
/* Why the stop-watch and the trace say different things, if they are more than OVERLAP_APART_PERCENT of the
 * communication apart: a sentence in @p text. False: they are not. */
bool overlap_figures_why(const overlap_figures *f, char *text, size_t bytes);

#endif
