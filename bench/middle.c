/* SPDX-License-Identifier: Apache-2.0 */
/* Counts as many values off both ends as may be on the wrong side of the median. */
#include "middle.h"

#include <math.h>
#include <stdlib.h>

/* The most values that may be left out at each end: of `count` coins, fewer than that many heads, or tails, come with
 * 5 % at most. */
static size_t left_out(size_t count)
{
    double chance = pow(0.5, (double)count), sum = chance;
    size_t heads = 0;
    while (heads < count && 2 * sum <= 0.05) {
        heads++;
        chance *= (double)(count - heads + 1) / (double)heads;
        sum += chance;
    }
    return heads;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

middle middle_of(double *values, size_t count)
{
    size_t out = left_out(count);
    qsort(values, count, sizeof *values, ascending);
    return (middle){
        .median = count > 0 ? values[count / 2] : (double)NAN,
        .error = out > 0 ? (values[count - out] - values[out - 1]) / 2 : INFINITY,
    };
}
