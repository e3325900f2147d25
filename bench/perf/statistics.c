/* SPDX-License-Identifier: Apache-2.0 */
/* Computes what is said of many times: the median, the ends, and how far they are from each other. */
#include "perf/statistics.h"

#include <math.h>
#include <stdlib.h>

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double perf_median(double *times, size_t count)
{
    qsort(times, count, sizeof *times, compare);
    return times[count / 2];
}

/* Of values that are spread normally, 1.4826 times the median distance is the standard deviation, and the median is off
 * by sqrt(pi / 2) times what a mean would be. */
perf_gap perf_gap_of(const double *times, const double *less, size_t count)
{
    const double sigma = 1.4826, of_median = 1.2533;
    double *d = malloc(count * sizeof *d);
    perf_gap gap = {(double)NAN, (double)NAN};
    for (size_t i = 0; d && i < count; i++)
        d[i] = times[i] - less[i];
    if (d)
        gap.median = perf_median(d, count);
    for (size_t i = 0; d && i < count; i++)
        d[i] = fabs(d[i] - gap.median);
    if (d && count > 1)
        gap.error = 2 * of_median * sigma * perf_median(d, count) / sqrt((double)count);
    free(d);
    return gap;
}

static double variation_of(const double *times, size_t count)
{
    double sum = 0, squares = 0;
    for (size_t i = 0; i < count; i++)
        sum += times[i];
    double mean = sum / (double)count;
    for (size_t i = 0; i < count; i++)
        squares += (times[i] - mean) * (times[i] - mean);
    return mean > 0 ? sqrt(squares / (double)count) / mean : 0;
}

perf_statistics perf_statistics_of(double *times, size_t count)
{
    if (count == 0)
        return (perf_statistics){(double)NAN, (double)NAN, (double)NAN, (double)NAN, (double)NAN};
    perf_statistics s = {.variation = variation_of(times, count)};
    s.median = perf_median(times, count);
    s.min = times[0];
    s.max = times[count - 1];
    s.p99 = times[(count * 99 + 99) / 100 - 1];
    return s;
}

static double pick_one(perf_pick pick, const double *times, int ranks, size_t stride)
{
    double picked = times[0];
    for (int r = 1; r < ranks && pick != PERF_PICK_FIRST; r++) {
        double time = times[(size_t)r * stride];
        if (pick == PERF_PICK_MEAN)
            picked += time;
        else if (pick == PERF_PICK_MIN ? time < picked : time > picked)
            picked = time;
    }
    return pick == PERF_PICK_MEAN ? picked / ranks : picked;
}

void perf_pick_times(perf_pick pick, double *times, int ranks, size_t count)
{
    for (size_t i = 0; i < count; i++)
        times[i] = pick_one(pick, times + i, ranks, count);
}
