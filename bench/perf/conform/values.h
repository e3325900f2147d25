/* SPDX-License-Identifier: Apache-2.0 */
/* Inputs of every rank, as functions of who and where, and what a reduction of them must give: one element at a time,
 * by the words of the contract, with nothing of the library in it. */
#ifndef WEFT_BENCH_PERF_CONFORM_VALUES_H
#define WEFT_BENCH_PERF_CONFORM_VALUES_H
#include "perf/conform/conform.h"

/* An element in the low bytes. */
typedef uint64_t conform_bits;

typedef struct conform_values {
    uint64_t seed;
    weft_dtype dtype;
    bool reduces; /* else any bits are good */
    weft_reduction reduction;
    int ranks;
    bool ordered; /* sums must have these bits; else they may be as far off as the type allows */
} conform_values;

/* Inputs repeat themselves after so many elements, a prime number, and so do results: what moves them does not. */
enum { CONFORM_PERIOD = 4099 };

/* Element @p index of the input of @p rank. */
conform_bits conform_value(const conform_values *v, int rank, size_t index);
/* Is @p got what the ranks' elements @p index make? If not, *want_out is. */
bool conform_is_right(const conform_values *v, size_t index, conform_bits got, conform_bits *want_out);

conform_bits conform_load(const unsigned char *at, weft_dtype dtype);
void conform_store(unsigned char *at, weft_dtype dtype, conform_bits bits);

#endif
