/* SPDX-License-Identifier: Apache-2.0 */
/* Single elements of every type as numbers, and their arithmetic done slowly: what results are compared with. It
 * shares nothing with weft's own. */
#ifndef WEFT_BENCH_PERF_ELEMENT_H
#define WEFT_BENCH_PERF_ELEMENT_H
#include <stdbool.h>
#include <weft/dtype.h>

/* An element: the bits of its type, in the low bytes. */
typedef uint64_t perf_element;

/* Rounded to nearest even; for whole types a whole number that the type has. */
perf_element perf_element_of(weft_dtype dtype, double number);
double perf_element_number(weft_dtype dtype, perf_element element);
perf_element perf_element_load(const void *at, weft_dtype dtype);
void perf_element_store(void *at, weft_dtype dtype, perf_element element);
/* As many of the low bits as the type has. */
perf_element perf_element_cut(weft_dtype dtype, uint64_t bits);
/* The elements of @p count ranks as one: in rank order, first those of each @p group ranks side by side, then what
 * the groups gave; 16-bit types in fp32, rounded once; integers wrap; NaN is least and largest. */
perf_element perf_element_reduce(weft_dtype dtype, weft_reduction reduction, const perf_element *elements, int count,
                                 int group);
bool perf_element_is_whole(weft_dtype dtype);
/* Half the distance from 1 to the next number of a floating type; 0 for others. */
double perf_element_epsilon(weft_dtype dtype);

#endif
