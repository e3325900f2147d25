/* SPDX-License-Identifier: Apache-2.0 */
/* Computing beside what is measured: a thread of this rank, on the rank's own cores, that multiplies matrices. */
#ifndef WEFT_BENCH_PERF_CONTEND_H
#define WEFT_BENCH_PERF_CONTEND_H
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

typedef struct perf_contender {
    float *a, *b, *c;
    pthread_t thread;
    _Atomic bool over;
    double products_per_s; /* of the last run */
} perf_contender;

bool perf_contender_open(perf_contender *p); /* false: no memory */
void perf_contender_close(perf_contender *p);
/* Compute alone, on the calling thread, for @p ms. */
void perf_contender_alone(perf_contender *p, double ms);
/* Compute on a thread of its own until stopped. False: no thread. */
bool perf_contender_start(perf_contender *p);
void perf_contender_stop(perf_contender *p);

#endif
