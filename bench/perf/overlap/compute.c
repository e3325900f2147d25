/* SPDX-License-Identifier: Apache-2.0 */
/* Computes, or sleeps as long as computing would take. */
#include "perf/overlap/compute.h"

#include <math.h>
#include <stdlib.h>

#include "clock.h"
#include "perf/product.h"

enum { SIDE = 96, LANES = 64, TURNS = 1000 }; /* a unit takes some 10 us */

bool overlap_compute_open(overlap_compute *c, overlap_kernel kernel)
{
    size_t elements = (size_t)SIDE * SIDE;
    *c = (overlap_compute){.kernel = kernel};
    if (kernel == OVERLAP_TIMED)
        pretend_open(&c->core);
    if (kernel != OVERLAP_PRODUCT)
        return true;
    c->a = malloc(elements * sizeof *c->a);
    c->b = malloc(elements * sizeof *c->b);
    c->c = malloc(elements * sizeof *c->c);
    for (size_t i = 0; c->a && c->b && i < elements; i++)
        c->a[i] = (float)(i % 7), c->b[i] = (float)(i % 5);
    return c->a && c->b && c->c;
}

void overlap_compute_close(overlap_compute *c)
{
    free(c->a);
    free(c->b);
    free(c->c);
    *c = (overlap_compute){0};
}

const char *overlap_compute_name(overlap_kernel kernel)
{
    return kernel == OVERLAP_PRODUCT ? perf_product_name : kernel == OVERLAP_FMA ? "fma" : "timed";
}

static _Thread_local volatile float sink; /* so that something comes of it */

/* Multiplies and adds in registers alone. */
static void multiply_and_add(void)
{
    float lanes[LANES], sum = 0;
    for (int i = 0; i < LANES; i++)
        lanes[i] = (float)i;
    for (int turn = 0; turn < TURNS; turn++)
        for (int i = 0; i < LANES; i++)
            lanes[i] = lanes[i] * 0.999f + 0.5f;
    for (int i = 0; i < LANES; i++)
        sum += lanes[i];
    sink = sum;
}

static void compute_units(overlap_compute *c, double units)
{
    for (double i = 0; i < units; i++)
        if (c->kernel == OVERLAP_PRODUCT)
            perf_product(SIDE, c->a, c->b, c->c);
        else
            multiply_and_add();
}

double overlap_compute_unit_ns(overlap_compute *c, double ms)
{
    enum { AT_ONCE = 16 };
    int64_t begin = clock_ns(), took;
    double units = 0;
    if (c->kernel == OVERLAP_TIMED)
        return 1;
    do {
        compute_units(c, AT_ONCE);
        units += AT_ONCE;
        took = clock_ns() - begin;
    } while ((double)took < ms * 1e6);
    return (double)took / units;
}

void overlap_compute_begin(overlap_compute *c)
{
    pretend_begin(&c->core);
}

void overlap_compute_piece(overlap_compute *c, double from, double to)
{
    if (c->kernel != OVERLAP_TIMED) {
        compute_units(c, floor(to * c->amount) - floor(from * c->amount));
        return;
    }
    pretend_pass(&c->core, (int64_t)((to - from) * c->amount));
}
