/* SPDX-License-Identifier: Apache-2.0 */
/* The BLAS this was built with, as the model uses it. */
#include <pthread.h>
#include <stdlib.h>

#include "gpt/host/gemm.h"
#include "harness/test.h"

enum { MOST = 90 };

/* Small whole numbers: every product and sum is exact, whatever the order. */
static void fill(float *values, size_t count, unsigned seed)
{
    for (size_t i = 0; i < count; i++)
        values[i] = (float)((i * 7 + seed * 13) % 17) - 8;
}

static float at(gpt_matrix m, size_t row, size_t column)
{
    return m.transposed ? m.values[column * m.stride + row] : m.values[row * m.stride + column];
}

static void check_product(size_t m, size_t n, size_t k, bool a_transposed, bool b_transposed, float beta)
{
    static float a_values[MOST * 2 * MOST], b_values[MOST * 2 * MOST], c[MOST * 2 * MOST], before[MOST * 2 * MOST];
    gpt_matrix a = {a_values, (a_transposed ? m : k) + 3, a_transposed};
    gpt_matrix b = {b_values, (b_transposed ? k : n) + 5, b_transposed};
    size_t stride = n + 2;
    fill(a_values, MOST * 2 * MOST, (unsigned)m);
    fill(b_values, MOST * 2 * MOST, (unsigned)n);
    fill(c, MOST * 2 * MOST, (unsigned)k);
    for (size_t i = 0; i < m && beta == 0; i++)
        for (size_t j = 0; j < n; j++)
            c[i * stride + j] = NAN; /* must not be read */
    memcpy(before, c, sizeof c);
    gpt_gemm(m, n, k, 0.5f, a, b, beta, c, stride);
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < stride; j++) {
            float want = before[i * stride + j];
            if (j < n) {
                float sum = 0;
                for (size_t l = 0; l < k; l++)
                    sum += at(a, i, l) * at(b, l, j);
                want = 0.5f * sum + (beta == 0 ? 0 : beta * want);
            }
            CHECK_MSG(c[i * stride + j] == want, "%zux%zux%zu %d %d: [%zu][%zu] is %g, not %g", m, n, k, a_transposed,
                      b_transposed, i, j, (double)c[i * stride + j], (double)want);
        }
}

TEST(products_are_exact_for_whole_numbers_in_every_shape_and_order)
{
    gpt_gemm_open();
    const size_t sizes[] = {1, 2, 5, 16, 31, 64, 90};
    for (size_t i = 0; i < 343; i++)
        for (int way = 0; way < 8; way++)
            check_product(sizes[i % 7], sizes[i / 7 % 7], sizes[i / 49], way & 1, way & 2, way & 4 ? 1 : 0);
}

static void *multiply_again_and_again(void *argument)
{
    enum { N = 104 };
    float *a = malloc(N * N * sizeof *a), *b = malloc(N * N * sizeof *b), *c = malloc(N * N * sizeof *c);
    float *want = calloc(N * N, sizeof *want);
    fill(a, N * N, *(unsigned *)argument);
    fill(b, N * N, *(unsigned *)argument + 1);
    for (size_t i = 0; i < N; i++)
        for (size_t k = 0; k < N; k++)
            for (size_t j = 0; j < N; j++)
                want[i * N + j] += a[i * N + k] * b[k * N + j];
    for (int round = 0; round < 3000; round++) {
        gpt_gemm(N, N, N, 1, (gpt_matrix){a, N, false}, (gpt_matrix){b, N, false}, 0, c, N);
        CHECK_MSG(memcmp(c, want, N * N * sizeof *c) == 0, "thread %u is wrong in round %d", *(unsigned *)argument,
                  round);
    }
    free(a);
    free(b);
    free(c);
    free(want);
    return NULL;
}

TEST(threads_multiply_at_once_without_harm)
{
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    unsigned numbers[THREADS];
    gpt_gemm_open();
    for (unsigned i = 0; i < THREADS; i++) {
        numbers[i] = i;
        CHECK(pthread_create(&threads[i], NULL, multiply_again_and_again, &numbers[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}
