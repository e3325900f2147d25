/* SPDX-License-Identifier: Apache-2.0 */
/* The loops over rows and elements themselves. This file is compiled once for each instruction set; KERNELS names the
 * table. */
#include "gpt/host/kernels.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "gpt/host/lanes.h"
#include "gpt/math/bf16.h"
#include "gpt/math/exp.h"
#include "gpt/math/swiglu.h"

static void norm(size_t rows, size_t width, float epsilon, const float *restrict x, const float *restrict w,
                 float *restrict y, float *restrict scale)
{
    for (size_t r = 0; r < rows; r++, x += width, y += width) {
        float s = 1.0f / sqrtf(row_dot(x, x, width) / (float)width + epsilon);
        scale[r] = s;
        for (size_t i = 0; i < width; i++)
            y[i] = x[i] * s * w[i];
    }
}

/* With n = x s: dx += s (dy w - n mean(dy w n)), dw += dy n. */
static void norm_grad(size_t rows, size_t width, const float *restrict dy, const float *restrict x,
                      const float *restrict w, const float *restrict scale, float *restrict dx, float *restrict dw)
{
    for (size_t r = 0; r < rows; r++, x += width, dy += width, dx += width) {
        float s = scale[r], pull = row_dot3(dy, w, x, width) * s * s / (float)width;
        for (size_t i = 0; i < width; i++) {
            dx[i] += s * (dy[i] * w[i] - x[i] * pull);
            dw[i] += dy[i] * x[i] * s;
        }
    }
}

static void rotate(size_t heads, size_t half, const float *restrict cosines, const float *restrict sines,
                   float *restrict vectors)
{
    for (size_t h = 0; h < heads; h++, vectors += 2 * half)
        for (size_t i = 0; i < half; i++) {
            float a = vectors[i], b = vectors[half + i];
            vectors[i] = a * cosines[i] - b * sines[i];
            vectors[half + i] = b * cosines[i] + a * sines[i];
        }
}

static void exponentials_of(size_t count, float *values, float minus)
{
    for (size_t i = 0; i < count; i++)
        values[i] = math_exp(values[i] - minus);
}

static void softmax(size_t rows, size_t keys, size_t seen, float *scores, float *inverse_sum, float *logsum)
{
    for (size_t r = 0; r < rows; r++, scores += keys) {
        size_t count = seen + r;
        float largest = row_max(scores, count, -FLT_MAX);
        exponentials_of(count, scores, largest);
        memset(scores + count, 0, (keys - count) * sizeof *scores);
        float sum = row_sum(scores, count);
        inverse_sum[r] = 1.0f / sum;
        logsum[r] = largest + logf(sum);
    }
}

static void softmax_again(size_t rows, size_t keys, size_t seen, float *scores, const float *logsum)
{
    for (size_t r = 0; r < rows; r++, scores += keys) {
        exponentials_of(seen + r, scores, logsum[r]);
        memset(scores + seen + r, 0, (keys - seen - r) * sizeof *scores);
    }
}

static void softmax_grad(size_t rows, size_t keys, const float *restrict scores, const float *restrict dots,
                         float factor, float *restrict dscores)
{
    for (size_t r = 0; r < rows; r++, scores += keys, dscores += keys) {
        float dot = dots[r];
        for (size_t i = 0; i < keys; i++)
            dscores[i] = scores[i] * (dscores[i] - dot) * factor;
    }
}

static void row_scale(size_t rows, size_t width, const float *restrict factors, float *restrict values, size_t stride)
{
    for (size_t r = 0; r < rows; r++, values += stride)
        for (size_t i = 0; i < width; i++)
            values[i] *= factors[r];
}

static void row_dots(size_t rows, size_t width, const float *a, const float *b, size_t stride, float *dots)
{
    for (size_t r = 0; r < rows; r++, a += stride, b += stride)
        dots[r] = row_dot(a, b, width);
}

static void swiglu(size_t rows, size_t width, const float *restrict gate_up, float *restrict y)
{
    for (size_t r = 0; r < rows; r++, gate_up += 2 * width, y += width)
        for (size_t i = 0; i < width; i++)
            y[i] = math_swiglu(gate_up[i], gate_up[width + i]);
}

static void swiglu_grad(size_t rows, size_t width, const float *restrict gate_up, const float *restrict dy,
                        float *restrict dgate_up)
{
    for (size_t r = 0; r < rows; r++, gate_up += 2 * width, dgate_up += 2 * width, dy += width)
        for (size_t i = 0; i < width; i++)
            math_swiglu_grad(gate_up[i], gate_up[width + i], dy[i], &dgate_up[i], &dgate_up[width + i]);
}

static void largest_of_rows(size_t rows, size_t stride, size_t valid, const float *logits, float *largest)
{
    for (size_t r = 0; r < rows; r++)
        largest[r] = row_max(logits + r * stride, valid, -FLT_MAX);
}

static void exponentials(size_t rows, size_t stride, size_t valid, float *logits, const float *largest, float *sums)
{
    for (size_t r = 0; r < rows; r++, logits += stride) {
        exponentials_of(valid, logits, largest[r]);
        memset(logits + valid, 0, (stride - valid) * sizeof *logits);
        sums[r] = row_sum(logits, valid);
    }
}

static void row_divide(size_t rows, size_t stride, float *values, const float *sums, float factor)
{
    for (size_t r = 0; r < rows; r++, values += stride) {
        float times = factor / sums[r];
        for (size_t i = 0; i < stride; i++)
            values[i] *= times;
    }
}

static void add(size_t count, const float *restrict a, const float *restrict b, float *restrict y)
{
    for (size_t i = 0; i < count; i++)
        y[i] = a[i] + b[i];
}

static void accumulate(size_t count, const float *restrict x, float *restrict sum)
{
    for (size_t i = 0; i < count; i++)
        sum[i] += x[i];
}

static void widen(size_t count, const uint16_t *restrict bf16, float *restrict out)
{
    for (size_t i = 0; i < count; i++)
        out[i] = math_bf16_to_float(bf16[i]);
}

static void narrow(size_t count, const float *restrict in, uint16_t *restrict bf16)
{
    for (size_t i = 0; i < count; i++)
        bf16[i] = math_float_to_bf16(in[i]);
}

#define TEXT_OF(name)  #name
#define TEXT(name)     TEXT_OF(name)
#define TABLE_OF(name) gpt_kernels_##name
#define TABLE(name)    TABLE_OF(name)

extern const gpt_kernels TABLE(KERNELS);
const gpt_kernels TABLE(KERNELS) = {
    .name = TEXT(KERNELS),
    .norm = norm,
    .norm_grad = norm_grad,
    .rotate = rotate,
    .softmax = softmax,
    .softmax_again = softmax_again,
    .softmax_grad = softmax_grad,
    .row_scale = row_scale,
    .row_dots = row_dots,
    .swiglu = swiglu,
    .swiglu_grad = swiglu_grad,
    .largest = largest_of_rows,
    .exponentials = exponentials,
    .row_divide = row_divide,
    .add = add,
    .accumulate = accumulate,
    .widen = widen,
    .narrow = narrow,
};
