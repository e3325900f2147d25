/* SPDX-License-Identifier: Apache-2.0 */
/* Linear layers on the host: products of bf16 matrices where the device has opened them, else a BLAS's of fp32. */
#include <assert.h>

#include "gpt/host/device.h"
#include "gpt/host/gemm.h"

static gpt_product_shape shape_of(gpt_way way, size_t rows, size_t in, size_t out)
{
    const gpt_product_shape shapes[GPT_WAYS] = {
        [GPT_FORWARD] =
            {.m = rows, .n = out, .k = in, .a_stride = in, .b_stride = in, .b_transposed = true, .c_stride = out},
        [GPT_INPUT_GRAD] = {.m = rows, .n = in, .k = out, .a_stride = out, .b_stride = in, .c_stride = in},
        [GPT_WEIGHT_GRAD] = {.m = out,
                             .n = in,
                             .k = rows,
                             .a_stride = out,
                             .a_transposed = true,
                             .b_stride = in,
                             .c_stride = in,
                             .adds = true},
    };
    return shapes[way];
}

static void multiply(const gpt_product_shape *s, const float *a, const float *b, float *c)
{
    gpt_gemm(s->m, s->n, s->k, 1, (gpt_matrix){a, s->a_stride, s->a_transposed},
             (gpt_matrix){b, s->b_stride, s->b_transposed}, s->adds ? 1 : 0, c, s->c_stride);
}

static const gpt_product *product_of(const gpt_host *host, gpt_way way, size_t in, size_t out)
{
    int i = 0;
    while (i < GPT_LINEARS && (host->linears[i].in != in || host->linears[i].out != out))
        i++;
    assert(i < GPT_LINEARS); /* a layer of another model than the device was opened for */
    return host->linears[i].products[way];
}

static const uint16_t *rounded(gpt_host *host, int operand, const float *activations, size_t count)
{
    host->kernels->narrow(count, activations, host->operands[operand]);
    return host->operands[operand];
}

/* A product of activations and a parameter. */
static void by_parameter(gpt_host *host, gpt_way way, size_t rows, size_t in, size_t out, const float *a, const void *w,
                         float *c)
{
    gpt_product_shape shape = shape_of(way, rows, in, out);
    if (host->multiplies_bf16)
        gpt_product_run(product_of(host, way, in, out), rounded(host, 0, a, shape.m * shape.k), w, c);
    else
        multiply(&shape, a, gpt_host_parameter(host, w, in * out), c);
}

void gpt_host_linear(gpt_device *device, size_t rows, size_t in, size_t out, const void *x, const void *w, void *y)
{
    by_parameter(gpt_host_of(device), GPT_FORWARD, rows, in, out, x, w, y);
}

void gpt_host_linear_input_grad(gpt_device *device, size_t rows, size_t in, size_t out, const void *dy, const void *w,
                                void *dx)
{
    by_parameter(gpt_host_of(device), GPT_INPUT_GRAD, rows, in, out, dy, w, dx);
}

void gpt_host_linear_weight_grad(gpt_device *device, size_t rows, size_t in, size_t out, const void *dy, const void *x,
                                 float *dw)
{
    gpt_host *host = gpt_host_of(device);
    gpt_product_shape shape = shape_of(GPT_WEIGHT_GRAD, rows, in, out);
    if (host->multiplies_bf16)
        gpt_product_run(product_of(host, GPT_WEIGHT_GRAD, in, out), rounded(host, 0, dy, rows * out),
                        rounded(host, 1, x, rows * in), dw);
    else
        multiply(&shape, dy, x, dw);
}

void gpt_host_linears_describe(gpt_host *host, const gpt_shape *s)
{
    const gpt_linear linears[GPT_LINEARS] = {
        {.in = s->hidden, .out = s->qkv_width},        {.in = s->context_width, .out = s->hidden},
        {.in = s->hidden, .out = 2 * s->local_ffn},    {.in = s->local_ffn, .out = s->hidden},
        {.in = s->hidden, .out = s->local_vocabulary},
    };
    for (int i = 0; i < GPT_LINEARS; i++)
        host->linears[i] = linears[i];
}

void gpt_host_linears_open(gpt_host *host, const gpt_shape *s)
{
    host->multiplies_bf16 = true;
    for (int i = 0; i < GPT_LINEARS * GPT_WAYS && host->multiplies_bf16; i++) {
        gpt_linear *l = &host->linears[i / GPT_WAYS];
        gpt_product_shape shape = shape_of((gpt_way)(i % GPT_WAYS), s->tokens, l->in, l->out);
        host->multiplies_bf16 = (l->products[i % GPT_WAYS] = gpt_product_open(&shape));
    }
    if (!host->multiplies_bf16)
        gpt_host_linears_close(host);
}

void gpt_host_linears_close(gpt_host *host)
{
    for (int i = 0; i < GPT_LINEARS * GPT_WAYS; i++) {
        gpt_product **product = &host->linears[i / GPT_WAYS].products[i % GPT_WAYS];
        gpt_product_close(*product);
        *product = NULL;
    }
}
