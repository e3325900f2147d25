/* SPDX-License-Identifier: Apache-2.0 */
/* Names ranks, and finds runs of them; pure. */
#include "base/ranks.h"

#include <stdio.h>
#include <string.h>

#define NAME_BYTES 20 /* the longest rank, and what says that there are more */

void weft__ranks_add(char *text, size_t bytes, int rank)
{
    size_t used = strlen(text);
    if (used && text[used - 1] == '.')
        return;
    if (used + NAME_BYTES > bytes)
        snprintf(text + used, bytes - used, ", ...");
    else
        snprintf(text + used, bytes - used, "%s%d", used ? ", " : "", rank);
}

void weft__ranks_name(const int *ranks, int count, char *text, size_t bytes)
{
    text[0] = 0;
    for (int i = 0; i < count && (i == 0 || text[strlen(text) - 1] != '.'); i++)
        weft__ranks_add(text, bytes, ranks[i]);
}

/* How many from the first on follow each other at one distance, upwards. */
static weft__rank_run run_at(const int *ranks, int count)
{
    weft__rank_run run = {ranks[0], 1, 1};
    if (count == 1 || ranks[1] <= ranks[0])
        return run;
    run.stride = ranks[1] - ranks[0];
    while (run.count < count && ranks[run.count] == ranks[run.count - 1] + run.stride)
        run.count++;
    return run;
}

int weft__runs_of(const int *ranks, int count, weft__rank_run *runs, int most)
{
    int used = 0;
    for (int i = 0; i < count; i += runs[used++].count) {
        if (used == most)
            return 0;
        runs[used] = run_at(ranks + i, count - i);
    }
    return used;
}

weft__rank_run weft__runs_around(const int *ranks, int count)
{
    int least = ranks[0], most = ranks[0];
    for (int i = 1; i < count; i++) {
        least = ranks[i] < least ? ranks[i] : least;
        most = ranks[i] > most ? ranks[i] : most;
    }
    return (weft__rank_run){least, 1, most - least + 1};
}

bool weft__runs_are_sound(const weft__rank_run *runs, int count, int size)
{
    for (int i = 0; i < count; i++) {
        const weft__rank_run *r = &runs[i];
        if (r->first < 0 || r->first >= size || r->stride < 1 || r->stride > size || r->count < 1 ||
            r->count - 1 > (size - 1 - r->first) / r->stride)
            return false;
    }
    return true;
}

bool weft__runs_meet(const weft__rank_run *runs, int count, int begin, int end)
{
    for (int i = 0; i < count; i++) {
        const weft__rank_run *r = &runs[i];
        int before = begin <= r->first ? 0 : (begin - r->first + r->stride - 1) / r->stride; /* of its ranks */
        if (before < r->count && r->first + before * r->stride < end)
            return true;
    }
    return false;
}
