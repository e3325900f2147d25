/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of ranks: as text for messages, and as runs, which say in a few words what most lists are. */
#ifndef WEFT_BASE_RANKS_H
#define WEFT_BASE_RANKS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Add a rank to a list like "1, 5, 6" in @p text, which was "" in the beginning; a full one ends with "...". */
void weft__ranks_add(char *text, size_t bytes, int rank);
/* Name all of them. */
void weft__ranks_name(const int *ranks, int count, char *text, size_t bytes);

/* first, first + stride, ...: so many. */
typedef struct weft__rank_run {
    int32_t first, stride, count;
} weft__rank_run;

/* Write the ranks to @p runs in their order. Returns how many there are; 0: more than @p most. */
int weft__runs_of(const int *ranks, int count, weft__rank_run *runs, int most);
/* One run that holds them all, and others. */
weft__rank_run weft__runs_around(const int *ranks, int count);
/* Are they runs of ranks of a world of @p size? */
bool weft__runs_are_sound(const weft__rank_run *runs, int count, int size);
/* Is there a rank from @p begin to before @p end among them? */
bool weft__runs_meet(const weft__rank_run *runs, int count, int begin, int end);

#endif
