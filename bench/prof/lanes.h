/* SPDX-License-Identifier: Apache-2.0 */
/* Lanes for what happens at the same time: nothing overlaps what is in its own lane. */
#ifndef WEFT_BENCH_PROF_LANES_H
#define WEFT_BENCH_PROF_LANES_H
#include <stdint.h>

typedef struct lanes {
    int64_t *ends; /* of the last in each */
    int count;
} lanes;

/* The first lane that is free from @p begin on, a new one if none is; it is taken until @p end. Beginnings must not go
 * back. -1: no memory. */
int lanes_take(lanes *l, int64_t begin, int64_t end);
void lanes_close(lanes *l);

#endif
