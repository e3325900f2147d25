/* SPDX-License-Identifier: Apache-2.0 */
/* Computes beside what is measured: a thread multiplies matrices that stay in a core's cache, and counts the
 * products. */
#include "perf/contend.h"

#include <stdlib.h>

#include "clock.h"
#include "perf/product.h"

enum { SIDE = 192 };

bool perf_contender_open(perf_contender *p)
{
    size_t elements = (size_t)SIDE * SIDE;
    *p = (perf_contender){.a = malloc(elements * sizeof *p->a),
                          .b = malloc(elements * sizeof *p->b),
                          .c = malloc(elements * sizeof *p->c)};
    for (size_t i = 0; p->a && p->b && i < elements; i++)
        p->a[i] = (float)(i % 7), p->b[i] = (float)(i % 5);
    return p->a && p->b && p->c;
}

void perf_contender_close(perf_contender *p)
{
    free(p->a);
    free(p->b);
    free(p->c);
}

/* Until it is over, or for @p seconds; at least one product. */
static void compute(perf_contender *p, double seconds)
{
    int64_t begin = clock_ns();
    double took, count = 0;
    do {
        perf_product(SIDE, p->a, p->b, p->c);
        count++;
        took = (double)(clock_ns() - begin) * 1e-9;
    } while (!atomic_load_explicit(&p->over, memory_order_relaxed) && took < seconds);
    p->products_per_s = count / took;
}

void perf_contender_alone(perf_contender *p, double ms)
{
    atomic_store(&p->over, false);
    compute(p, ms / 1e3);
}

static void *thread_main(void *argument)
{
    compute(argument, 1e9);
    return NULL;
}

bool perf_contender_start(perf_contender *p)
{
    atomic_store(&p->over, false);
    return pthread_create(&p->thread, NULL, thread_main, p) == 0;
}

void perf_contender_stop(perf_contender *p)
{
    atomic_store(&p->over, true);
    pthread_join(p->thread, NULL);
}
