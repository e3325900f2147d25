/* SPDX-License-Identifier: Apache-2.0 */
/* Single elements of every type as numbers, and their arithmetic done slowly: what results are compared with. It
 * shares nothing with weft's own. */
#ifndef WEFT_BENCH_PERF_ELEMENT_H
#define WEFT_BENCH_PERF_ELEMENT_H
#include <stdbool.h>
#include <weft/dtype.h>

/* An element: the bits of its type, in the low bytes. */
typedef uint64_t perf_element;

/* Of a whole number, or a power of two, that the type has. */
perf_element perf_element_of(weft_dtype dtype, double number);
double perf_element_number(weft_dtype dtype, perf_element element);
/* The elements of @p count ranks as one: in rank order, 16-bit types in fp32, rounded once; integers wrap. */
perf_element perf_element_reduce(weft_dtype dtype, weft_reduction reduction, const perf_element *elements, int count);
/* Half the distance from 1 to the next number of a floating type; 0 for others. */
double perf_element_epsilon(weft_dtype dtype);

#endif
