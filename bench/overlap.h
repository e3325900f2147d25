/* SPDX-License-Identifier: Apache-2.0 */
/* How much of the communication computing covered: unions of intervals, never sums. With C the union of [start, last
 * byte] of all operations and W the union of [came to wait, went on] of their finishes, both within a window,
 *
 *     exposed = |C and W|,   hidden = |C without W|,   idle = |W without C|,   computing only = the rest,
 *
 * and the four add up to the window. */
#ifndef WEFT_BENCH_OVERLAP_H
#define WEFT_BENCH_OVERLAP_H
#include <weft/trace.h>

#include "intervals.h"

/* In ticks of the records, or whatever the times were that went in. */
typedef struct overlap {
    uint64_t window, computing, hidden, exposed, idle;
} overlap;

typedef struct overlap_space {
    intervals communicating, waiting, exposed;
} overlap_space;

/* Room for the records of a window; false: no memory. */
bool overlap_space_open(overlap_space *space, size_t records);
void overlap_space_close(overlap_space *space);

/* Split the window [begin, end); operations that are in flight run from when they were ready until its end. At most
 * as many records as there is room for. */
overlap overlap_of(overlap_space *space, const weft_trace_record *records, size_t count, uint64_t begin, uint64_t end);

/* The same in two steps, for times from elsewhere and more than one window: unite what was added to communicating and
 * waiting, and split any window by it. */
void overlap_unite(overlap_space *space);
overlap overlap_within(const overlap_space *space, int64_t begin, int64_t end);

#endif
