/* SPDX-License-Identifier: Apache-2.0 */
/* How much of the communication computing covered: unions of intervals, never sums. With C the union of [start, last
 * byte] of all operations and W the union of [came to wait, went on] of their finishes, both within a window,
 *
 *     exposed = |C and W|,   hidden = |C without W|,   idle = |W without C|,   computing only = the rest,
 *
 * and the four add up to the window. */
#ifndef WEFT_BENCH_OVERLAP_H
#define WEFT_BENCH_OVERLAP_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/trace.h>

/* In ticks of the records. */
typedef struct overlap {
    uint64_t window, computing, hidden, exposed, idle;
} overlap;

/* Intervals with room for `room` of them; freed with free(). */
typedef struct overlap_intervals {
    uint64_t *ends; /* begin and end of each */
    size_t count, room;
} overlap_intervals;

typedef struct overlap_space {
    overlap_intervals communicating, waiting;
} overlap_space;

/* Room for the records of a window; false: no memory. */
bool overlap_space_open(overlap_space *space, size_t records);
void overlap_space_close(overlap_space *space);

/* Split the window [begin, end); operations that are in flight run from when they were ready until its end. At most
 * as many records as there is room for. */
overlap overlap_of(overlap_space *space, const weft_trace_record *records, size_t count, uint64_t begin, uint64_t end);

#endif
