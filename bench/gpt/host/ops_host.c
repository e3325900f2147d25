/* SPDX-License-Identifier: Apache-2.0 */
/* The operations of a GPT on the host: products by BLAS, everything else by the kernels. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "complain.h"
#include "gpt/host/device.h"
#include "gpt/host/gemm.h"
#include "gpt/math/bf16.h"

static gpt_matrix plain(const float *values, size_t stride)
{
    return (gpt_matrix){values, stride, false};
}

static gpt_matrix transposed(const float *values, size_t stride)
{
    return (gpt_matrix){values, stride, true};
}

/* A parameter as fp32: itself, or widened into the scratch, which holds one at a time. */
static const float *parameter(gpt_device *device, const void *w, size_t count)
{
    gpt_host *host = gpt_host_of(device);
    if (device->parameter == WEFT_FP32)
        return w;
    host->kernels->widen(count, w, host->weights);
    return host->weights;
}

static void linear(gpt_device *device, size_t rows, size_t in, size_t out, const void *x, const void *w, void *y)
{
    const float *weights = parameter(device, w, in * out);
    gpt_gemm(rows, out, in, 1, plain(x, in), transposed(weights, in), 0, y, out);
}

static void linear_input_grad(gpt_device *device, size_t rows, size_t in, size_t out, const void *dy, const void *w,
                              void *dx)
{
    const float *weights = parameter(device, w, in * out);
    gpt_gemm(rows, in, out, 1, plain(dy, out), plain(weights, in), 0, dx, in);
}

static void linear_weight_grad(gpt_device *device, size_t rows, size_t in, size_t out, const void *dy, const void *x,
                               float *dw)
{
    (void)device;
    gpt_gemm(out, in, rows, 1, transposed(dy, out), plain(x, in), 1, dw, in);
}

static void norm(gpt_device *device, size_t rows, size_t width, const void *x, const void *w, void *y, float *scale)
{
    gpt_host *host = gpt_host_of(device);
    host->kernels->norm(rows, width, host->norm_epsilon, x, parameter(device, w, width), y, scale);
}

static void norm_grad(gpt_device *device, size_t rows, size_t width, const void *dy, const void *x, const void *w,
                      const float *scale, void *dx, float *dw)
{
    gpt_host_of(device)->kernels->norm_grad(rows, width, dy, x, parameter(device, w, width), scale, dx, dw);
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
    .linear = linear,
    .linear_input_grad = linear_input_grad,
    .linear_weight_grad = linear_weight_grad,
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
    .add = add,
    .convert = convert,
};

static size_t largest_parameter(const gpt_shape *s)
{
    const size_t widths[] = {s->qkv_width, s->context_width, 2 * s->local_ffn, s->local_vocabulary};
    size_t largest = 0;
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
        largest = widths[i] > largest ? widths[i] : largest;
    return largest * s->hidden;
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

int gpt_host_open(const gpt_shape *shape, gpt_device **device_out, gpt_failure *failure)
{
    size_t angles = shape->sequence * shape->channels / 2, block = GPT_QUERY_BLOCK * shape->sequence;
    if (shape->dtype != WEFT_FP32 && shape->dtype != WEFT_BF16)
        return gpt_fail(failure, EXIT_USAGE, "the host has no parameters of dtype %s", weft_dtype_string(shape->dtype));
    gpt_host *host = calloc(1, sizeof *host);
    if (!host)
        return gpt_fail(failure, EXIT_FAILED, "no memory for the device");
    host->device = (gpt_device){&host_ops, GPT_HOST_ACTIVATION, shape->dtype, WEFT_STREAM_HOST};
    host->kernels = gpt_kernels_best();
    host->norm_epsilon = shape->norm_epsilon;
    bool widens = shape->dtype != WEFT_FP32;
    const struct {
        float **values;
        size_t count;
    } parts[] = {
        {&host->weights, widens ? largest_parameter(shape) : 1},
        {&host->scores, block},
        {&host->dscores, block},
        {&host->cosines, angles},
        {&host->sines, angles},
        {&host->minus_sines, angles},
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!(*parts[i].values = calloc(parts[i].count, sizeof(float)))) {
            close_host(&host->device);
            return gpt_fail(failure, EXIT_FAILED, "no memory for %zu numbers of the device", parts[i].count);
        }
    fill_angles(host, shape);
    gpt_gemm_open();
    *device_out = &host->device;
    return 0;
}
