/* SPDX-License-Identifier: Apache-2.0 */
/* Inputs, and the count of outputs that are wrong. The element at index i of rank r's input is one of sixteen for each
 * rank, chosen by a hash of i: what is displaced shows, and what ought to come out is sixteen elements too, however
 * long the buffers. Sums and products of one operation are exact in every type up to 64 ranks. */
#ifndef WEFT_BENCH_PERF_VALUES_H
#define WEFT_BENCH_PERF_VALUES_H
#include "perf/element.h"
#include "perf/operations.h"

enum { PERF_CLASSES = 16 };

typedef struct perf_values {
    int ranks;
    perf_element *inputs;                /* [class][rank] */
    perf_element *scratch;               /* [rank] */
    perf_element expected[PERF_CLASSES]; /* reduced */
    uint64_t salt;                       /* chooses another hash */
} perf_values;

/* Room for that many ranks; false: no memory. */
bool perf_values_open(perf_values *v, int ranks);
void perf_values_close(perf_values *v);
/* The sixteen inputs of every rank that suit the row. */
void perf_values_choose(perf_values *v, const perf_subject *s, uint64_t salt);

/* Write this rank's input. */
void perf_values_fill(const perf_values *v, const perf_subject *s, void *send);
/* Write over an output what is wrong everywhere. */
void perf_values_spoil(const perf_subject *s, void *recv);
/* How many elements are wrong after the operation was carried out @p uses times in a row on these buffers. */
size_t perf_values_wrong(perf_values *v, const perf_subject *s, const void *recv, bool in_place, size_t uses);

#endif
