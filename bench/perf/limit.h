/* SPDX-License-Identifier: Apache-2.0 */
/* The limit of an operation: what one rank reads and writes for it, in memory of its own, without waiting for
 * anybody. */
#ifndef WEFT_BENCH_PERF_LIMIT_H
#define WEFT_BENCH_PERF_LIMIT_H
#include "perf/operations.h"

/* The traffic of one rank. */
typedef struct perf_limit {
    size_t copied; /* bytes that are copied from the one buffer to the other */
    size_t summed; /* or floats of each of `parts` that are added, */
    size_t parts;
    size_t written; /* and to how many places the sum is written, side by side */
    bool in_place;  /* over the parts */
} perf_limit;

/* Bytes that it reads to write them, or their sums, elsewhere; 0: all lies there already. */
double perf_limit_moved(const perf_limit *limit);
/* False: there is none known for such a row. */
bool perf_limit_of(const perf_subject *s, bool in_place, perf_limit *limit_out);

enum { PERF_LIMIT_WAYS = 3 };
/* Ways to do it, in one instruction set: with ordinary stores, with stores that go past the caches, and with the
 * processor's own instruction for copying. */
typedef struct perf_limit_ways {
    void (*way[PERF_LIMIT_WAYS])(const perf_limit *limit, const char *from, char *to); /* NULL: no such */
} perf_limit_ways;
/* For the best instruction set that this processor has. */
const perf_limit_ways *perf_limit_ways_here(void);

extern const perf_limit_ways perf_limit_ways_baseline, perf_limit_ways_avx2, perf_limit_ways_avx512;

#endif
