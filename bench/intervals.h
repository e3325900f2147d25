/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of moments, as unions of intervals [from, to): what overlaps counts once. */
#ifndef WEFT_BENCH_INTERVALS_H
#define WEFT_BENCH_INTERVALS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct intervals {
    int64_t *ends; /* begin and end of each */
    size_t count, room;
} intervals;

/* Room for so many, empty; false: no memory, and it can only be closed. */
bool intervals_open(intervals *set, size_t room);
void intervals_close(intervals *set);

/* Put one more in, unless it is empty or there is no room for it; intervals_unite() comes next. */
void intervals_add(intervals *set, int64_t from, int64_t to);
/* Make the intervals a union: sorted, and apart from each other. */
void intervals_unite(intervals *set);
/* What two unions have in common, into @p set, which has room for as many as both together. */
void intervals_intersect(intervals *set, const intervals *a, const intervals *b);
/* How much of [from, to) is in a union. */
int64_t intervals_within(const intervals *set, int64_t from, int64_t to);

#endif
