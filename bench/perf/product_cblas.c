/* SPDX-License-Identifier: Apache-2.0 */
/* The product by the CBLAS that the GPT uses. */
#include "gpt/host/gemm.h"
#include "perf/product.h"

const char perf_product_name[] = "cblas";

void perf_product(size_t n, const float *a, const float *b, float *c)
{
    gpt_gemm(n, n, n, 1, (gpt_matrix){a, n, false}, (gpt_matrix){b, n, false}, 0, c, n);
}

void perf_product_open(char **argv)
{
    gpt_gemm_restart(argv);
    gpt_gemm_open();
}
