/* SPDX-License-Identifier: Apache-2.0 */
/* A matrix product to compute beside communication: by the CBLAS of this build, or by a loop of our own. */
#ifndef WEFT_BENCH_PERF_PRODUCT_H
#define WEFT_BENCH_PERF_PRODUCT_H
#include <stddef.h>

/* c = a b, all of them n by n. Threads: any. */
void perf_product(size_t n, const float *a, const float *b, float *c);
/* What computes it, for people. */
extern const char perf_product_name[];
/* Once a process, before threads, worlds and files; may start the command again with another environment. */
void perf_product_open(char **argv);

#endif
