/* SPDX-License-Identifier: Apache-2.0 */
/* The operations of a GPT's microbatch, how often each comes, and what it computes and moves. */
#include <string.h>

#include "gpu/bed.h"

static void linear(gpu_bed *bed, size_t in, size_t out)
{
    bed->device->ops->linear(bed->device, bed->shape.tokens, in, out, bed->a, bed->weight, bed->b);
}

static void input_grad(gpu_bed *bed, size_t in, size_t out)
{
    bed->device->ops->linear_input_grad(bed->device, bed->shape.tokens, in, out, bed->a, bed->weight, bed->b);
}

static void weight_grad(gpu_bed *bed, size_t in, size_t out)
{
    bed->device->ops->linear_weight_grad(bed->device, bed->shape.tokens, in, out, bed->a, bed->b, bed->grad);
}

static void norm(gpu_bed *bed, size_t in, size_t out)
{
    (void)in, (void)out;
    bed->device->ops->norm(bed->device, bed->shape.rows, bed->shape.hidden, bed->a, bed->weight, bed->b, bed->floats);
}

static void norm_grad(gpu_bed *bed, size_t in, size_t out)
{
    (void)in, (void)out;
    bed->device->ops->norm_grad(bed->device, bed->shape.rows, bed->shape.hidden, bed->a, bed->b, bed->weight,
                                bed->floats, bed->c, bed->grad);
}

static void rotate(gpu_bed *bed, size_t in, size_t out)
{
    (void)in, (void)out;
    bed->device->ops->rotate(bed->device, &bed->attention, bed->a);
}

static void attention(gpu_bed *bed, size_t in, size_t out)
{
    (void)in, (void)out;
    bed->device->ops->attention(bed->device, &bed->attention, bed->a, bed->c, bed->floats);
}

static void attention_grad(gpu_bed *bed, size_t in, size_t out)
{
    (void)in, (void)out;
    bed->device->ops->attention_grad(bed->device, &bed->attention, bed->a, bed->c, bed->floats, bed->c, bed->b);
}

static void swiglu(gpu_bed *bed, size_t in, size_t out)
{
    (void)in, (void)out;
    bed->device->ops->swiglu(bed->device, bed->shape.tokens, bed->shape.local_ffn, bed->a, bed->b);
}

static void swiglu_grad(gpu_bed *bed, size_t in, size_t out)
{
    (void)in, (void)out;
    bed->device->ops->swiglu_grad(bed->device, bed->shape.tokens, bed->shape.local_ffn, bed->a, bed->c, bed->b);
}

static void add(gpu_bed *bed, size_t in, size_t out)
{
    (void)in, (void)out;
    bed->device->ops->add(bed->device, bed->shape.rows * bed->shape.hidden, bed->a, bed->b, bed->c);
}

static void embed(gpu_bed *bed, size_t in, size_t out)
{
    (void)in, (void)out;
    bed->device->ops->embed(bed->device, &bed->vocabulary, bed->shape.tokens, bed->shape.hidden, bed->tokens,
                            bed->weight, bed->c);
}

static void embed_grad(gpu_bed *bed, size_t in, size_t out)
{
    (void)in, (void)out;
    bed->device->ops->embed_grad(bed->device, &bed->vocabulary, bed->shape.tokens, bed->shape.hidden, bed->tokens,
                                 bed->c, bed->grad);
}

static void loss(gpu_bed *bed, size_t in, size_t out)
{
    gpt_device *d = bed->device;
    size_t rows = bed->shape.tokens;
    (void)in, (void)out;
    d->ops->entropy_largest(d, &bed->vocabulary, rows, bed->a, bed->floats);
    d->ops->entropy_exponentials(d, &bed->vocabulary, rows, bed->a, bed->tokens, bed->floats, bed->floats + rows);
    d->ops->entropy_loss(d, rows, bed->floats + rows, bed->total);
}

static void loss_grad(gpu_bed *bed, size_t in, size_t out)
{
    (void)in, (void)out;
    bed->device->ops->entropy_grad(bed->device, &bed->vocabulary, bed->shape.tokens, bed->a, bed->tokens, bed->floats,
                                   1);
}

/* A product forward, and the two of its backward. */
static gpu_operation *put_products(gpu_operation *to, const char *const names[3], size_t tokens, size_t in, size_t out,
                                   size_t times, bool of_layer)
{
    static void (*const runs[3])(gpu_bed * bed, size_t in, size_t out) = {linear, input_grad, weight_grad};
    for (int i = 0; i < 3; i++)
        *to++ = (gpu_operation){.name = names[i],
                                .run = runs[i],
                                .in = in,
                                .out = out,
                                .times = times,
                                .flops = 2.0 * (double)tokens * (double)in * (double)out,
                                .backward = of_layer && i > 0};
    return to;
}

size_t gpu_operations(const gpt_shape *s, gpu_operation operations[GPU_OPERATIONS])
{
    static const char *const qkv[] = {"qkv", "qkv, input gradient", "qkv, weight gradient"};
    static const char *const output[] = {"output", "output, input gradient", "output, weight gradient"};
    static const char *const gates[] = {"gate and up", "gate and up, input gradient", "gate and up, weight gradient"};
    static const char *const down[] = {"down", "down, input gradient", "down, weight gradient"};
    static const char *const head[] = {"logits", "logits, input gradient", "logits, weight gradient"};
    size_t l = s->layers, t = s->tokens, h = s->hidden, element = weft_dtype_bytes(s->dtype);
    gpu_operation *at = operations;
    at = put_products(at, qkv, t, h, s->qkv_width, l, true);
    at = put_products(at, output, t, s->context_width, h, l, true);
    at = put_products(at, gates, t, h, 2 * s->local_ffn, l, true);
    at = put_products(at, down, t, s->local_ffn, h, l, true);
    at = put_products(at, head, t, h, s->local_vocabulary, 1, false);
    /* Of causal scores half are there; the backward has five products for two. */
    double scores = 2.0 * (double)t * (double)s->sequence * (double)s->context_width;
    double row = (double)(t * element), hidden = row * (double)h, ffn = row * (double)s->local_ffn,
           logits = row * (double)s->local_vocabulary, rotated = row * (double)s->qkv_width;
    const gpu_operation rest[] = {
        {"attention", attention, 0, 0, l, scores, 0, false},
        {"attention, gradient", attention_grad, 0, 0, l, 2.5 * scores, 0, true},
        {"norm", norm, 0, 0, 2 * l + 1, 0, 2 * hidden, false},
        {"norm, gradient", norm_grad, 0, 0, 2 * l + 1, 0, 4 * hidden, true},
        {"rotation", rotate, 0, 0, 2 * l, 0, 2 * rotated, false},
        {"SwiGLU", swiglu, 0, 0, l, 0, 3 * ffn, false},
        {"SwiGLU, gradient", swiglu_grad, 0, 0, l, 0, 5 * ffn, true},
        {"residual sum", add, 0, 0, 2 * l, 0, 3 * hidden, false},
        {"embedding", embed, 0, 0, 1, 0, 2 * hidden, false},
        {"embedding, gradient", embed_grad, 0, 0, 1, 0, 5 * hidden, false},
        {"loss", loss, 0, 0, 1, 0, 3 * logits, false},
        {"loss, gradient", loss_grad, 0, 0, 1, 0, 2 * logits, false},
    };
    memcpy(at, rest, sizeof rest);
    return (size_t)(at - operations) + sizeof rest / sizeof *rest;
}
