/* SPDX-License-Identifier: Apache-2.0 */
/* Inputs of every rank, as functions of who and where, and what a reduction of them must give: one element at a time,
 * by the words of the contract, with nothing of the library in it. */
#ifndef WEFT_BENCH_PERF_CONFORM_VALUES_H
#define WEFT_BENCH_PERF_CONFORM_VALUES_H
#include "perf/conform/conform.h"
#include "perf/element.h"

typedef struct conform_values {
    uint64_t seed;
    weft_dtype dtype;
    bool reduces; /* else any bits are good */
    weft_reduction reduction;
    int ranks;
    int group;    /* so many ranks are summed before others are: those of a host; all = ranks */
    bool ordered; /* sums must have these bits; else they may be as far off as the type allows */
} conform_values;

/* Inputs repeat themselves after so many elements, a prime number, and so do results: what moves them does not. */
enum { CONFORM_PERIOD = 4099 };

/* Element @p index of the input of @p rank. */
perf_element conform_value(const conform_values *v, int rank, size_t index);
/* Is @p got what the ranks' elements @p index make? If not, *want_out is. */
bool conform_is_right(const conform_values *v, size_t index, perf_element got, perf_element *want_out);

#endif
