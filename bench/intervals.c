/* SPDX-License-Identifier: Apache-2.0 */
/* Unites, intersects and measures intervals; nothing is allocated once there is room. */
#include "intervals.h"

#include <stdlib.h>

bool intervals_open(intervals *set, size_t room)
{
    *set = (intervals){.room = room, .ends = calloc(room ? room : 1, 2 * sizeof *set->ends)};
    return set->ends != NULL;
}

void intervals_close(intervals *set)
{
    free(set->ends);
    *set = (intervals){0};
}

void intervals_add(intervals *set, int64_t from, int64_t to)
{
    if (from >= to || set->count == set->room)
        return;
    set->ends[2 * set->count] = from;
    set->ends[2 * set->count + 1] = to;
    set->count++;
}

/* By their begin: they come nearly so. */
static void sort(int64_t *ends, size_t count)
{
    for (size_t gap = count / 2; gap > 0; gap /= 2)
        for (size_t i = gap; i < count; i++) {
            int64_t from = ends[2 * i], to = ends[2 * i + 1];
            size_t at = i;
            for (; at >= gap && ends[2 * (at - gap)] > from; at -= gap) {
                ends[2 * at] = ends[2 * (at - gap)];
                ends[2 * at + 1] = ends[2 * (at - gap) + 1];
            }
            ends[2 * at] = from;
            ends[2 * at + 1] = to;
        }
}

void intervals_unite(intervals *set)
{
    int64_t *ends = set->ends;
    size_t kept = 0;
    sort(ends, set->count);
    for (size_t i = 0; i < set->count; i++) {
        int64_t from = ends[2 * i], to = ends[2 * i + 1];
        if (kept && from <= ends[2 * kept - 1]) {
            if (to > ends[2 * kept - 1])
                ends[2 * kept - 1] = to;
            continue;
        }
        ends[2 * kept] = from;
        ends[2 * kept + 1] = to;
        kept++;
    }
    set->count = kept;
}

void intervals_intersect(intervals *set, const intervals *a, const intervals *b)
{
    set->count = 0;
    for (size_t i = 0, j = 0; i < a->count && j < b->count;) {
        int64_t from = a->ends[2 * i] > b->ends[2 * j] ? a->ends[2 * i] : b->ends[2 * j];
        int64_t a_to = a->ends[2 * i + 1], b_to = b->ends[2 * j + 1];
        intervals_add(set, from, a_to < b_to ? a_to : b_to);
        if (a_to < b_to)
            i++;
        else
            j++;
    }
}

/* The first that ends behind @p moment. */
static size_t first_behind(const intervals *set, int64_t moment)
{
    size_t low = 0, high = set->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (set->ends[2 * middle + 1] <= moment)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int64_t intervals_within(const intervals *set, int64_t from, int64_t to)
{
    int64_t total = 0;
    for (size_t i = first_behind(set, from); i < set->count && set->ends[2 * i] < to; i++) {
        int64_t begin = set->ends[2 * i] > from ? set->ends[2 * i] : from;
        int64_t end = set->ends[2 * i + 1] < to ? set->ends[2 * i + 1] : to;
        total += end > begin ? end - begin : 0;
    }
    return total;
}
