/* SPDX-License-Identifier: Apache-2.0 */
/* Timing on all ranks at once: how many calls, the loop, and what all agree on afterwards. */
#ifndef WEFT_BENCH_PERF_MEASURE_H
#define WEFT_BENCH_PERF_MEASURE_H
#include <stdbool.h>
#include <weft/collective.h>

#include "perf/statistics.h"

enum { PERF_SAMPLES_MIN = 20, PERF_SAMPLES_MAX = 1000, PERF_SAMPLE_US = 10 };

/* What is timed: call after call, numbered from 0. */
typedef struct perf_loop {
    void *what;
    weft_result (*before)(void *what, size_t number); /* not timed; NULL = nothing */
    weft_result (*call)(void *what, size_t number);
    bool before_each; /* before each call, else before each sample */
} perf_loop;

typedef struct perf_plan {
    size_t samples, calls; /* calls of one sample */
} perf_plan;

typedef struct perf_clock {
    const weft_world *world;
    weft_comm *control; /* what ranks agree by; not what is measured */
    double *own, *all;  /* us: [samples], [rank][samples] */
    size_t room;
    perf_pick pick;
} perf_clock;

weft_result perf_clock_open(perf_clock *clock, weft_comm *control, size_t most_samples, perf_pick pick);
void perf_clock_close(perf_clock *clock);

/* Find out how many calls make a sample, and how many samples take @p row_us; @p samples > 0: so many. The same answer
 * on all ranks. Collective. */
weft_result perf_plan_make(perf_clock *clock, const perf_loop *loop, size_t samples, double row_us,
                           perf_plan *plan_out);
/* Measure; clock->all then begins with the time of a call in each sample, in us, the same on all ranks. Allocates
 * nothing. Collective. */
weft_result perf_measure(perf_clock *clock, const perf_loop *loop, const perf_plan *plan);

/* Agree on the sum, or the maximum, of a number. Collective. */
weft_result perf_agree(weft_comm *control, weft_reduction reduction, double *number);

#endif
