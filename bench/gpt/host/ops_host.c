/* SPDX-License-Identifier: Apache-2.0 */
/* The operations of a GPT on the host: everything by the kernels, but for the products. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "complain.h"
#include "gpt/host/device.h"
#include "gpt/host/gemm.h"
#include "gpt/math/bf16.h"

static void norm(gpt_device *device, size_t rows, size_t width, const void *x, const void *w, void *y, float *scale)
{
    gpt_host *host = gpt_host_of(device);
    host->kernels->norm(rows, width, host->norm_epsilon, x, gpt_host_parameter(host, w, width), y, scale);
}

static void norm_grad(gpt_device *device, size_t rows, size_t width, const void *dy, const void *x, const void *w,
                      const float *scale, void *dx, float *dw)
{
    gpt_host *host = gpt_host_of(device);
    host->kernels->norm_grad(rows, width, dy, x, gpt_host_parameter(host, w, width), scale, dx, dw);
}

static void rotate_by(gpt_host *host, const gpt_attention *a, float *qkv, const float *sines)
{
    size_t half = a->channels / 2, turned = a->heads_per_group + 1, group_width = (turned + 1) * a->channels;
    for (size_t position = 0; position < a->sequence; position++)
        for (size_t i = 0; i < a->samples * a->groups; i++, qkv += group_width)
            host->kernels->rotate(turned, half, host->cosines + position * half, sines + position * half, qkv);
}

static void rotate(gpt_device *device, const gpt_attention *a, void *qkv)
{
    rotate_by(gpt_host_of(device), a, qkv, gpt_host_of(device)->sines);
}

static void rotate_back(gpt_device *device, const gpt_attention *a, void *dqkv)
{
    rotate_by(gpt_host_of(device), a, dqkv, gpt_host_of(device)->minus_sines);
}

static void swiglu(gpt_device *device, size_t rows, size_t width, const void *gate_up, void *y)
{
    gpt_host_of(device)->kernels->swiglu(rows, width, gate_up, y);
}

static void swiglu_grad(gpt_device *device, size_t rows, size_t width, const void *gate_up, const void *dy,
                        void *dgate_up)
{
    gpt_host_of(device)->kernels->swiglu_grad(rows, width, gate_up, dy, dgate_up);
}

/* The row of @p token among this rank's, or -1. */
static ptrdiff_t local_row(const gpt_vocabulary *v, int32_t token)
{
    size_t row = (size_t)token - v->first; /* wraps to something large below */
    return row < v->valid ? (ptrdiff_t)row : -1;
}

static void embed(gpt_device *device, const gpt_vocabulary *v, size_t count, size_t width, const int32_t *tokens,
                  const void *table, void *y)
{
    const char *rows = table;
    float *out = y;
    size_t row_bytes = width * weft_dtype_bytes(device->parameter);
    for (size_t i = 0; i < count; i++, out += width) {
        ptrdiff_t row = local_row(v, tokens[i]);
        if (row < 0)
            memset(out, 0, width * sizeof *out);
        else
            device->ops->convert(device, width, rows + (size_t)row * row_bytes, device->parameter, out, WEFT_FP32);
    }
}

static void embed_grad(gpt_device *device, const gpt_vocabulary *v, size_t count, size_t width, const int32_t *tokens,
                       const void *dy, float *dtable)
{
    const float *grad = dy;
    for (size_t i = 0; i < count; i++, grad += width) {
        ptrdiff_t row = local_row(v, tokens[i]);
        if (row >= 0)
            gpt_host_of(device)->kernels->accumulate(width, grad, dtable + (size_t)row * width);
    }
}

static void entropy_largest(gpt_device *device, const gpt_vocabulary *v, size_t rows, const void *logits,
                            float *largest)
{
    gpt_host_of(device)->kernels->largest(rows, v->columns, v->valid, logits, largest);
}

static void entropy_exponentials(gpt_device *device, const gpt_vocabulary *v, size_t rows, void *logits,
                                 const int32_t *targets, const float *largest, float *sums)
{
    const float *values = logits;
    for (size_t i = 0; i < rows; i++) {
        ptrdiff_t column = local_row(v, targets[i]);
        sums[rows + i] = column < 0 ? 0 : values[i * v->columns + (size_t)column] - largest[i];
    }
    gpt_host_of(device)->kernels->exponentials(rows, v->columns, v->valid, logits, largest, sums);
}

static void entropy_loss(gpt_device *device, size_t rows, const float *sums, double *total)
{
    (void)device;
    for (size_t i = 0; i < rows; i++)
        *total += log((double)sums[i]) - (double)sums[rows + i];
}

static void entropy_grad(gpt_device *device, const gpt_vocabulary *v, size_t rows, void *exponentials,
                         const int32_t *targets, const float *sums, float factor)
{
    float *values = exponentials;
    gpt_host_of(device)->kernels->row_divide(rows, v->columns, values, sums, factor);
    for (size_t i = 0; i < rows; i++) {
        ptrdiff_t column = local_row(v, targets[i]);
        if (column >= 0)
            values[i * v->columns + (size_t)column] -= factor;
    }
}

static void clear(gpt_device *device, size_t bytes, void *memory)
{
    (void)device;
    memset(memory, 0, bytes);
}

static void bring(gpt_device *device, size_t bytes, const void *from_host, void *memory)
{
    (void)device;
    memcpy(memory, from_host, bytes);
}

static void fetch(gpt_device *device, size_t bytes, const void *memory, void *to_host)
{
    (void)device;
    memcpy(to_host, memory, bytes);
}

static void add(gpt_device *device, size_t count, const void *a, const void *b, void *y)
{
    gpt_host_of(device)->kernels->add(count, a, b, y);
}

/* Between fp32 and the dtype of parameters: gpt_host_open() takes no others than fp32 and bf16. */
static void convert(gpt_device *device, size_t count, const void *from, weft_dtype from_dtype, void *to,
                    weft_dtype to_dtype)
{
    const gpt_kernels *kernels = gpt_host_of(device)->kernels;
    if (from_dtype == to_dtype)
        memmove(to, from, count * weft_dtype_bytes(to_dtype));
    else if (to_dtype == WEFT_FP32)
        kernels->widen(count, from, to);
    else
        kernels->narrow(count, from, to);
}

static void close_host(gpt_device *device)
{
    gpt_host *host = gpt_host_of(device);
    gpt_host_linears_close(host);
    free(host->operands[0]);
    free(host->operands[1]);
    free(host->weights);
    free(host->scores);
    free(host->dscores);
    free(host->cosines);
    free(host->sines);
    free(host->minus_sines);
    free(host);
}

static const gpt_ops host_ops = {
    .name = "host",
    .close = close_host,
    .linear = gpt_host_linear,
    .linear_input_grad = gpt_host_linear_input_grad,
    .linear_weight_grad = gpt_host_linear_weight_grad,
    .norm = norm,
    .norm_grad = norm_grad,
    .rotate = rotate,
    .rotate_back = rotate_back,
    .attention = gpt_host_attention,
    .attention_grad = gpt_host_attention_grad,
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
    .fetch = fetch,
    .add = add,
    .convert = convert,
};

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Elements of what products and norms need in another type than they find it in. */
static size_t widened_elements(const gpt_host *host, const gpt_shape *s)
{
    size_t largest = s->hidden;
    for (int i = 0; i < GPT_LINEARS && !host->multiplies_bf16; i++)
        largest = larger(largest, host->linears[i].in * host->linears[i].out);
    return s->dtype == WEFT_FP32 ? 0 : largest;
}

static size_t rounded_elements(const gpt_host *host, const gpt_shape *s)
{
    size_t widest = 0;
    for (int i = 0; i < GPT_LINEARS && host->multiplies_bf16; i++)
        widest = larger(widest, larger(host->linears[i].in, host->linears[i].out));
    return widest * s->tokens;
}

static void fill_angles(gpt_host *host, const gpt_shape *s)
{
    size_t half = s->channels / 2;
    for (size_t position = 0; position < s->sequence; position++)
        for (size_t i = 0; i < half; i++) {
            double angle = (double)position * pow(s->rotary_base, -2.0 * (double)i / (double)s->channels);
            host->cosines[position * half + i] = (float)cos(angle);
            host->sines[position * half + i] = (float)sin(angle);
            host->minus_sines[position * half + i] = -(float)sin(angle);
        }
}

static int allocate(gpt_host *host, const gpt_shape *s, gpt_failure *failure)
{
    size_t angles = s->sequence * s->channels / 2, block = GPT_QUERY_BLOCK * s->sequence;
    size_t rounded = rounded_elements(host, s) * sizeof(uint16_t);
    const struct {
        void *memory; /* a pointer to fill in */
        size_t bytes;
    } parts[] = {
        {&host->operands[0], rounded},
        {&host->operands[1], rounded},
        {&host->weights, widened_elements(host, s) * sizeof(float)},
        {&host->scores, block * sizeof(float)},
        {&host->dscores, block * sizeof(float)},
        {&host->cosines, angles * sizeof(float)},
        {&host->sines, angles * sizeof(float)},
        {&host->minus_sines, angles * sizeof(float)},
    };
    enum { LINE = 64 }; /* bytes */
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        void *memory = aligned_alloc(LINE, (parts[i].bytes / LINE + 1) * LINE);
        if (!memory)
            return gpt_fail(failure, EXIT_FAILED, "no memory for %zu bytes of the device", parts[i].bytes);
        memcpy(parts[i].memory, &memory, sizeof memory);
    }
    return 0;
}

static void describe(gpt_device *device)
{
    const char *fp32 = gpt_gemm_library();
    char *text = device->products;
    size_t room = sizeof device->products;
    if (device->parameter == WEFT_FP32)
        snprintf(text, room, "fp32 by %s", fp32);
    else if (gpt_host_of(device)->multiplies_bf16)
        snprintf(text, room, "fp32 by %s, bf16 by %s", fp32, gpt_product_library());
    else
        snprintf(text, room, "fp32, and bf16 widened to it, by %s", fp32);
}

int gpt_host_open_with(const gpt_shape *shape, bool bf16, gpt_device **device_out, gpt_failure *failure)
{
    if (shape->dtype != WEFT_FP32 && shape->dtype != WEFT_BF16)
        return gpt_fail(failure, EXIT_USAGE, "the host has no parameters of dtype %s", weft_dtype_string(shape->dtype));
    gpt_host *host = calloc(1, sizeof *host);
    if (!host)
        return gpt_fail(failure, EXIT_FAILED, "no memory for the device");
    host->device = (gpt_device){&host_ops, GPT_HOST_ACTIVATION, shape->dtype, WEFT_STREAM_HOST, ""};
    host->kernels = gpt_kernels_best();
    host->norm_epsilon = shape->norm_epsilon;
    gpt_gemm_open();
    gpt_host_linears_describe(host, shape);
    if (bf16 && shape->dtype == WEFT_BF16)
        gpt_host_linears_open(host, shape);
    if (allocate(host, shape, failure)) {
        close_host(&host->device);
        return failure->code;
    }
    fill_angles(host, shape);
    describe(&host->device);
    *device_out = &host->device;
    return 0;
}

int gpt_host_open(const gpt_shape *shape, gpt_device **device_out, gpt_failure *failure)
{
    return gpt_host_open_with(shape, true, device_out, failure);
}
