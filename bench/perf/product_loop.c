/* SPDX-License-Identifier: Apache-2.0 */
/* The product by a loop, where there is no CBLAS: rows of b are added up, which compilers vectorise. */
#include <string.h>

#include "perf/product.h"

const char perf_product_name[] = "own loop";

void perf_product(size_t n, const float *a, const float *b, float *c)
{
    memset(c, 0, n * n * sizeof *c);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < n; k++)
            for (size_t j = 0; j < n; j++)
                c[i * n + j] += a[i * n + k] * b[k * n + j];
}

void perf_product_open(char **argv)
{
    (void)argv;
}
