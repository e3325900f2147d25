/* SPDX-License-Identifier: Apache-2.0 */
/* The product of two matrices, by whatever BLAS this was built with. */
#ifndef WEFT_BENCH_GPT_HOST_GEMM_H
#define WEFT_BENCH_GPT_HOST_GEMM_H
#include <stdbool.h>
#include <stddef.h>

/* A row-major matrix in fp32, or one seen as its transpose; stride: distance of two rows as stored. */
typedef struct gpt_matrix {
    const float *values;
    size_t stride;
    bool transposed;
} gpt_matrix;

/* c[m][n] = alpha a b + beta c, with a [m][k] and b [k][n] as they are seen. With beta = 0 c is not read. Sizes and
 * strides fit an int. Threads: any. */
void gpt_gemm(size_t m, size_t n, size_t k, float alpha, gpt_matrix a, gpt_matrix b, float beta, float *c,
              size_t stride);

/* Bring the BLAS into the state in which it serves many ranks on one machine: one thread for each. Once a process. */
void gpt_gemm_open(void);

/* Who computes them, for people. Static text; behind gpt_gemm_open(). */
const char *gpt_gemm_library(void);

/* Some builds of OpenBLAS take a processor newer than themselves for one of 2004, and are ten times slower. They can
 * be told only at their start: if this is the case, start the command again with OPENBLAS_CORETYPE set to what the
 * processor can do. Returns otherwise. Before threads, worlds and files. */
void gpt_gemm_restart(char **argv);

#endif
