/* SPDX-License-Identifier: Apache-2.0 */
/* All ways and phases of one subject, in turn, round after round, and what all ranks make of it. */
#ifndef WEFT_BENCH_PERF_OVERLAP_MEASURE_H
#define WEFT_BENCH_PERF_OVERLAP_MEASURE_H
#include "perf/overlap/figures.h"

typedef struct overlap_plan {
    const overlap_phase *phases;
    int phase_count;
    int rounds;       /* 0: as many as fit */
    double row_s;     /* into this */
    double within_ms; /* enough is known of what both take longer when its interval is +- so much; 0: never */
} overlap_plan;

enum { OVERLAP_ROUNDS_LEAST = 3, OVERLAP_ROUNDS_EXACT = 9, OVERLAP_ROUNDS_MOST = 1001 };

/* The communication of the first phase alone, in ms: the median of a few, the slowest rank. Collective. */
weft_result overlap_measure_communication(overlap_runner *r, const overlap_plan *plan, double *ms_out);
/* Make a backward take @p ms alone: how much computing that is. The same on all ranks. Collective. */
weft_result overlap_measure_amount(overlap_runner *r, const overlap_plan *plan, double ms);
/* Fills @p figures of each phase, alike on all ranks. Collective. */
weft_result overlap_measure(overlap_runner *r, const overlap_plan *plan, overlap_figures *figures);

#endif
