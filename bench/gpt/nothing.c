/* SPDX-License-Identifier: Apache-2.0 */
/* A device that computes nothing and touches no memory. */
#include "gpt/ops.h"

static void close_nothing(gpt_device *device)
{
    (void)device;
}

static void linear(gpt_device *device, size_t rows, size_t in, size_t out, const void *x, const void *w, void *y)
{
    (void)device, (void)rows, (void)in, (void)out, (void)x, (void)w, (void)y;
}

static void linear_weight_grad(gpt_device *device, size_t rows, size_t in, size_t out, const void *dy, const void *x,
                               float *dw)
{
    (void)device, (void)rows, (void)in, (void)out, (void)dy, (void)x, (void)dw;
}

static void norm(gpt_device *device, size_t rows, size_t width, const void *x, const void *w, void *y, float *scale)
{
    (void)device, (void)rows, (void)width, (void)x, (void)w, (void)y, (void)scale;
}

static void norm_grad(gpt_device *device, size_t rows, size_t width, const void *dy, const void *x, const void *w,
                      const float *scale, void *dx, float *dw)
{
    (void)device, (void)rows, (void)width, (void)dy, (void)x, (void)w, (void)scale, (void)dx, (void)dw;
}

static void rotate(gpt_device *device, const gpt_attention *a, void *qkv)
{
    (void)device, (void)a, (void)qkv;
}

static void attention(gpt_device *device, const gpt_attention *a, const void *qkv, void *context, float *logsum)
{
    (void)device, (void)a, (void)qkv, (void)context, (void)logsum;
}

static void attention_grad(gpt_device *device, const gpt_attention *a, const void *qkv, const void *context,
                           const float *logsum, const void *dcontext, void *dqkv)
{
    (void)device, (void)a, (void)qkv, (void)context, (void)logsum, (void)dcontext, (void)dqkv;
}

static void swiglu(gpt_device *device, size_t rows, size_t width, const void *gate_up, void *y)
{
    (void)device, (void)rows, (void)width, (void)gate_up, (void)y;
}

static void swiglu_grad(gpt_device *device, size_t rows, size_t width, const void *gate_up, const void *dy,
                        void *dgate_up)
{
    (void)device, (void)rows, (void)width, (void)gate_up, (void)dy, (void)dgate_up;
}

static void embed(gpt_device *device, const gpt_vocabulary *v, size_t count, size_t width, const int32_t *tokens,
                  const void *table, void *y)
{
    (void)device, (void)v, (void)count, (void)width, (void)tokens, (void)table, (void)y;
}

static void embed_grad(gpt_device *device, const gpt_vocabulary *v, size_t count, size_t width, const int32_t *tokens,
                       const void *dy, float *dtable)
{
    (void)device, (void)v, (void)count, (void)width, (void)tokens, (void)dy, (void)dtable;
}

static void entropy_largest(gpt_device *device, const gpt_vocabulary *v, size_t rows, const void *logits,
                            float *largest)
{
    (void)device, (void)v, (void)rows, (void)logits, (void)largest;
}

static void entropy_exponentials(gpt_device *device, const gpt_vocabulary *v, size_t rows, void *logits,
                                 const int32_t *targets, const float *largest, float *sums)
{
    (void)device, (void)v, (void)rows, (void)logits, (void)targets, (void)largest, (void)sums;
}

static void entropy_loss(gpt_device *device, size_t rows, const float *sums, double *total)
{
    (void)device, (void)rows, (void)sums, (void)total;
}

static void entropy_grad(gpt_device *device, const gpt_vocabulary *v, size_t rows, void *exponentials,
                         const int32_t *targets, const float *sums, float factor)
{
    (void)device, (void)v, (void)rows, (void)exponentials, (void)targets, (void)sums, (void)factor;
}

static void clear(gpt_device *device, size_t bytes, void *memory)
{
    (void)device, (void)bytes, (void)memory;
}

static void bring(gpt_device *device, size_t bytes, const void *from_host, void *memory)
{
    (void)device, (void)bytes, (void)from_host, (void)memory;
}

static void add(gpt_device *device, size_t count, const void *a, const void *b, void *y)
{
    (void)device, (void)count, (void)a, (void)b, (void)y;
}

static void convert(gpt_device *device, size_t count, const void *from, weft_dtype from_dtype, void *to,
                    weft_dtype to_dtype)
{
    (void)device, (void)count, (void)from, (void)from_dtype, (void)to, (void)to_dtype;
}

const gpt_ops gpt_nothing = {
    .name = "nothing",
    .close = close_nothing,
    .linear = linear,
    .linear_input_grad = linear,
    .linear_weight_grad = linear_weight_grad,
    .norm = norm,
    .norm_grad = norm_grad,
    .rotate = rotate,
    .rotate_back = rotate,
    .attention = attention,
    .attention_grad = attention_grad,
    .swiglu = swiglu,
    .swiglu_grad = swiglu_grad,
    .embed = embed,
    .embed_grad = embed_grad,
    .entropy_largest = entropy_largest,
    .entropy_exponentials = entropy_exponentials,
    .entropy_loss = entropy_loss,
    .entropy_grad = entropy_grad,
    .clear = clear,
    .bring = bring,
    .add = add,
    .convert = convert,
};

gpt_device gpt_nothing_device(const gpt_shape *shape)
{
    return (gpt_device){&gpt_nothing, GPT_HOST_ACTIVATION, shape->dtype, WEFT_STREAM_HOST, ""};
}
