/* SPDX-License-Identifier: Apache-2.0 */
/* What a perfect overlap must leave exposed: the operations of a phase run one after another in the order of their
 * buckets, each not before its input is ready, and cost as much as they do alone. Times are of one unit, from the
 * begin of the phase; where there are no buckets, nothing is exposed. */
#ifndef WEFT_BENCH_CLOSED_FORM_H
#define WEFT_BENCH_CLOSED_FORM_H
#include <stddef.h>

/* A backward: bucket i is ready to be reduced at ready[i], which never falls, and costs[i] to reduce. Exposed is what
 * follows `computing`, the end of the last gradient:
 *
 *     max over i of (ready[i] + sum over j >= i of costs[j]) - computing */
double closed_form_reduces(const double *ready, const double *costs, size_t buckets, double computing);

/* A forward, the backward run in reverse: bucket i is free to be gathered at ready[i] (NULL: from the begin), and
 * piece i of the computing, which takes pieces[i], can only run behind that gather and piece i - 1. Exposed is what
 * the forward is longer than its pieces:
 *
 *     max over i of (gathered[i] + sum over j >= i of pieces[j]) - sum of pieces,
 *     where gathered[i] = max(ready[i], gathered[i - 1]) + costs[i] */
double closed_form_gathers(const double *ready, const double *costs, const double *pieces, size_t buckets);

/* Either, of `buckets` even buckets of cost `cost` each behind or before equal pieces of `computing`:
 *
 *     max(cost, buckets cost - (1 - 1 / buckets) computing) */
double closed_form_even(double cost, size_t buckets, double computing);

#endif
