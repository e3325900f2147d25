/* SPDX-License-Identifier: Apache-2.0 */
/* Finds lanes: the lowest that is free, so that as few are used as there are things at a time. */
#include "prof/lanes.h"

#include <stdlib.h>

int lanes_take(lanes *l, int64_t begin, int64_t end)
{
    int lane = 0;
    while (lane < l->count && l->ends[lane] > begin)
        lane++;
    if (lane == l->count) {
        int64_t *ends = realloc(l->ends, ((size_t)lane + 1) * sizeof *ends);
        if (!ends)
            return -1;
        l->ends = ends;
        l->count++;
    }
    l->ends[lane] = end;
    return lane;
}

void lanes_close(lanes *l)
{
    free(l->ends);
    *l = (lanes){0};
}
