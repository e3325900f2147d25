/* SPDX-License-Identifier: Apache-2.0 */
/* Products of bf16 matrices in a build without oneDNN: there are none. */
#include "gpt/host/product.h"

const char *gpt_product_library(void)
{
    return NULL;
}

gpt_product *gpt_product_open(const gpt_product_shape *shape)
{
    (void)shape;
    return NULL;
}

void gpt_product_run(const gpt_product *product, const uint16_t *a, const uint16_t *b, float *c)
{
    (void)product, (void)a, (void)b, (void)c;
}

void gpt_product_close(gpt_product *product)
{
    (void)product;
}
