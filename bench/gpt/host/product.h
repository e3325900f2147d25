/* SPDX-License-Identifier: Apache-2.0 */
/* Products of two bf16 matrices, summed in fp32, by a library that has them for this processor. Each is made once for
 * its sizes and then run as often as one likes. */
#ifndef WEFT_BENCH_GPT_HOST_PRODUCT_H
#define WEFT_BENCH_GPT_HOST_PRODUCT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* c[m][n] = a b, or c += a b, with a [m][k] and b [k][n] as they are seen: row-major, or the transpose of what is
 * stored. stride: distance of two rows as stored. */
typedef struct gpt_product_shape {
    size_t m, n, k;
    size_t a_stride, b_stride, c_stride;
    bool a_transposed, b_transposed, adds;
} gpt_product_shape;

typedef struct gpt_product gpt_product;

/* Who computes them, for people; NULL if nobody does, or not faster than a BLAS does with fp32. Static text. */
const char *gpt_product_library(void);

/* NULL: it cannot be made. Opened and run by one thread, on which nothing else starts further ones. */
gpt_product *gpt_product_open(const gpt_product_shape *shape);
/* The same operands give the same bits, whoever opened the product. */
void gpt_product_run(const gpt_product *product, const uint16_t *a, const uint16_t *b, float *c);
void gpt_product_close(gpt_product *product); /* NULL is fine */

#endif
