/* SPDX-License-Identifier: Apache-2.0 */
/* One half of a row on one comm: its calls, checked and timed on this rank. All functions are collective. */
#ifndef WEFT_BENCH_PERF_HALF_H
#define WEFT_BENCH_PERF_HALF_H
#include "perf/buffers.h"
#include "perf/contend.h"
#include "perf/limit.h"
#include "perf/measure.h"
#include "perf/settings.h"
#include "perf/values.h"

/* What a rank measures with. */
typedef struct perf_bench {
    const perf_settings *settings;
    weft_world *world;
    weft_comm *control; /* by which ranks agree */
    perf_values values;
    perf_buffers buffers, own; /* own: of the limit */
    perf_clock clock;
    perf_contender contender;
    uint64_t salt;

    perf_subject subject; /* the row at hand, */
    weft_comm *comm;      /* what carries it, */
    bool in_place;        /* and its half */
    perf_limit limit;
    void (*limit_way)(const perf_limit *limit, const char *from, char *to);
} perf_bench;

weft_result perf_bench_open(perf_bench *b, const perf_settings *settings, weft_comm *control);
void perf_bench_close(perf_bench *b);

/* Choose values and divide the memory for subject, comm and half. */
void perf_bench_prepare(perf_bench *b);
/* The checked calls before the timed ones: adds wrong elements of all ranks to *wrong. */
weft_result perf_bench_check(perf_bench *b, double *wrong);
/* Warm up, and find out how to measure. */
weft_result perf_bench_plan(perf_bench *b, double row_us, perf_plan *plan_out);
/* Time it: the samples are in b->clock.all. Adds wrong elements to *wrong, unless nothing is checked. */
weft_result perf_bench_time(perf_bench *b, const perf_plan *plan, double *wrong);
/* The median us of the fastest way to move as much without waiting; NAN if it is not known, or nothing has to move. */
weft_result perf_bench_limit(perf_bench *b, double row_us, double *us_out);
/* The median us beside a matrix product, and what part of the product's rate is left. */
weft_result perf_bench_contend(perf_bench *b, double row_us, double *us_out, double *left_out);

#endif
