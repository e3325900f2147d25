/* SPDX-License-Identifier: Apache-2.0 */
/* The computing that communication is to hide behind: an amount that is cut into pieces. Products and fma loops take a
 * core, timed computing takes none: it sleeps until the moment at which the piece would be done. */
#ifndef WEFT_BENCH_PERF_OVERLAP_COMPUTE_H
#define WEFT_BENCH_PERF_OVERLAP_COMPUTE_H
#include <stdbool.h>

#include "pretend.h"

typedef enum overlap_kernel { OVERLAP_PRODUCT, OVERLAP_FMA, OVERLAP_TIMED } overlap_kernel;

typedef struct overlap_compute {
    overlap_kernel kernel;
    double amount;    /* of the whole: units of work; timed: ns */
    float *a, *b, *c; /* of a product */
    pretend core;     /* timed */
} overlap_compute;

bool overlap_compute_open(overlap_compute *c, overlap_kernel kernel); /* false: no memory */
void overlap_compute_close(overlap_compute *c);
/* What computes, for people. */
const char *overlap_compute_name(overlap_kernel kernel);

/* ns that a unit takes on this core now, by computing for about @p ms. */
double overlap_compute_unit_ns(overlap_compute *c, double ms);

/* The pieces that follow begin now. */
void overlap_compute_begin(overlap_compute *c);
/* Compute what lies between two shares of the whole. */
void overlap_compute_piece(overlap_compute *c, double from, double to);

#endif
