/* SPDX-License-Identifier: Apache-2.0 */
/* The exposed part of a perfect overlap, from the times of its parts. */
#include "closed_form.h"

static double larger(double a, double b)
{
    return a > b ? a : b;
}

double closed_form_reduces(const double *ready, const double *costs, size_t buckets, double computing)
{
    double end = computing, left = 0;
    for (size_t i = buckets; i-- > 0;) {
        left += costs[i];
        end = larger(end, ready[i] + left);
    }
    return end - computing;
}

double closed_form_gathers(const double *ready, const double *costs, const double *pieces, size_t buckets)
{
    double gathered = 0, computed = 0, late = 0; /* late: the most that any gather was behind the computing before it */
    for (size_t i = 0; i < buckets; i++) {
        gathered = larger(ready ? ready[i] : 0, gathered) + costs[i];
        late = larger(late, gathered - computed);
        computed += pieces[i];
    }
    return late;
}

double closed_form_even(double cost, size_t buckets, double computing)
{
    double n = (double)buckets;
    return buckets ? larger(cost, n * cost - (1 - 1 / n) * computing) : 0;
}
