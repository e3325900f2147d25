/* SPDX-License-Identifier: Apache-2.0 */
/* The loops over rows and elements behind the host's operations: one table an instruction set, all with the same bits.
 * Matrices are fp32 and row-major; a stride is the distance of two rows. */
#ifndef WEFT_BENCH_GPT_HOST_KERNELS_H
#define WEFT_BENCH_GPT_HOST_KERNELS_H
#include <stddef.h>
#include <stdint.h>

typedef struct gpt_kernels {
    const char *name;

    void (*norm)(size_t rows, size_t width, float epsilon, const float *x, const float *w, float *y, float *scale);
    void (*norm_grad)(size_t rows, size_t width, const float *dy, const float *x, const float *w, const float *scale,
                      float *dx, float *dw);
    /* Turn the halves of @p heads vectors of 2 * half, one behind the other, by the angles of one position. */
    void (*rotate)(size_t heads, size_t half, const float *cosines, const float *sines, float *vectors);

    /* A block of attention: of row r of @p scores the first `seen + r` are seen, the others become 0. */
    void (*softmax)(size_t rows, size_t keys, size_t seen, float *scores, float *inverse_sum, float *logsum);
    void (*softmax_again)(size_t rows, size_t keys, size_t seen, float *scores, const float *logsum);
    /* dscores = scores * (dscores - dots[row]) * factor. */
    void (*softmax_grad)(size_t rows, size_t keys, const float *scores, const float *dots, float factor,
                         float *dscores);
    void (*row_scale)(size_t rows, size_t width, const float *factors, float *values, size_t stride);
    void (*row_dots)(size_t rows, size_t width, const float *a, const float *b, size_t stride, float *dots);

    void (*swiglu)(size_t rows, size_t width, const float *gate_up, float *y);
    void (*swiglu_grad)(size_t rows, size_t width, const float *gate_up, const float *dy, float *dgate_up);

    /* The first @p valid columns of each row count; exponentials zeroes the others. */
    void (*largest)(size_t rows, size_t stride, size_t valid, const float *logits, float *largest);
    void (*exponentials)(size_t rows, size_t stride, size_t valid, float *logits, const float *largest, float *sums);
    /* values *= factor / sums[row]. */
    void (*row_divide)(size_t rows, size_t stride, float *values, const float *sums, float factor);

    void (*add)(size_t count, const float *a, const float *b, float *y);
    void (*accumulate)(size_t count, const float *x, float *sum);
    void (*widen)(size_t count, const uint16_t *bf16, float *out);
    void (*narrow)(size_t count, const float *in, uint16_t *bf16);
} gpt_kernels;

/* The table for this machine's processor. */
const gpt_kernels *gpt_kernels_best(void);
/* The table with this number, for tests; NULL behind the last and where this machine cannot run it. */
const gpt_kernels *gpt_kernels_at(int index);

#endif
