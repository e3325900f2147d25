/* SPDX-License-Identifier: Apache-2.0 */
/* The host as a device: what its operations need besides their arguments. */
#ifndef WEFT_BENCH_GPT_HOST_DEVICE_H
#define WEFT_BENCH_GPT_HOST_DEVICE_H
#include "gpt/host/kernels.h"
#include "gpt/host/product.h"
#include "gpt/ops.h"

/* Queries that the attention takes at once: the block of scores stays in the cache, and most of what the future hides
 * is never computed. */
enum { GPT_QUERY_BLOCK = 64 };

typedef enum gpt_way { GPT_FORWARD, GPT_INPUT_GRAD, GPT_WEIGHT_GRAD, GPT_WAYS } gpt_way;

/* All linear layers of one kind, and their products for all tokens of a microbatch. */
enum { GPT_LINEARS = 5 };
typedef struct gpt_linear {
    size_t in, out;
    gpt_product *products[GPT_WAYS];
} gpt_linear;

typedef struct gpt_host {
    gpt_device device; /* first, so that a pointer to it is one to this */
    const gpt_kernels *kernels;
    gpt_linear linears[GPT_LINEARS];
    bool multiplies_bf16;    /* the products above have been made; else a BLAS multiplies fp32 */
    uint16_t *operands[2];   /* of the bf16 product at hand: activations, rounded */
    float *weights;          /* a parameter at hand, widened */
    float *scores, *dscores; /* [GPT_QUERY_BLOCK][sequence] */
    float *cosines, *sines;  /* [sequence][channels / 2] */
    float *minus_sines;
    float rows[2][GPT_QUERY_BLOCK]; /* a number for each query of a block */
    float norm_epsilon;
} gpt_host;

static inline gpt_host *gpt_host_of(gpt_device *device)
{
    return (gpt_host *)device;
}

/* A parameter as fp32: itself, or widened into the scratch, which holds one at a time. */
static inline const float *gpt_host_parameter(gpt_host *host, const void *w, size_t count)
{
    if (host->device.parameter == WEFT_FP32)
        return w;
    host->kernels->widen(count, w, host->weights);
    return host->weights;
}

/* As gpt_host_open(). @p bf16: parameters of that type are multiplied as such, if this machine can. */
int gpt_host_open_with(const gpt_shape *shape, bool bf16, gpt_device **device_out, gpt_failure *failure);

/* The linear layers, a file of its own. Their sizes, before anything else: */
void gpt_host_linears_describe(gpt_host *host, const gpt_shape *shape);
/* Make the products in bf16: all or, if one cannot be made, none. */
void gpt_host_linears_open(gpt_host *host, const gpt_shape *shape);
void gpt_host_linears_close(gpt_host *host);
void gpt_host_linear(gpt_device *device, size_t rows, size_t in, size_t out, const void *x, const void *w, void *y);
void gpt_host_linear_input_grad(gpt_device *device, size_t rows, size_t in, size_t out, const void *dy, const void *w,
                                void *dx);
void gpt_host_linear_weight_grad(gpt_device *device, size_t rows, size_t in, size_t out, const void *dy, const void *x,
                                 float *dw);

/* The attention, a file of its own. */
void gpt_host_attention(gpt_device *device, const gpt_attention *a, const void *qkv, void *context, float *logsum);
void gpt_host_attention_grad(gpt_device *device, const gpt_attention *a, const void *qkv, const void *context,
                             const float *logsum, const void *dcontext, void *dqkv);

#endif
