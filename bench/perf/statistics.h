/* SPDX-License-Identifier: Apache-2.0 */
/* What is said of many times: the middle, the ends, and how far they are from each other. */
#ifndef WEFT_BENCH_PERF_STATISTICS_H
#define WEFT_BENCH_PERF_STATISTICS_H
#include <stdbool.h>
#include <stddef.h>

typedef struct perf_statistics {
    double median, p99, min, max; /* of an even number the upper median; p99: the nearest rank */
    double variation;             /* standard deviation over mean */
} perf_statistics;

/* Sorts the times; of none all is NaN. */
perf_statistics perf_statistics_of(double *times, size_t count);
double perf_median(double *times, size_t count);

/* Which of the ranks' times is the time of a sample. */
typedef enum perf_pick { PERF_PICK_FIRST, PERF_PICK_MEAN, PERF_PICK_MIN, PERF_PICK_MAX } perf_pick;
/* @p times holds `ranks` rows of `count`; the picked times are written over the first row. */
void perf_pick_times(perf_pick pick, double *times, int ranks, size_t count);

/* What lies between two calls that were timed in turn: the median of the differences of their rounds, and half of the
 * interval that holds it with 95 %, by how far the differences are from it; NaN of one round. No memory: both NaN. */
typedef struct perf_gap {
    double median, error;
} perf_gap;
perf_gap perf_gap_of(const double *times, const double *less, size_t count);
/* Does the gap tell that the first takes longer? */
static inline bool perf_gap_is_shown(perf_gap gap)
{
    return gap.median > gap.error; /* also if that is NaN */
}

#endif
