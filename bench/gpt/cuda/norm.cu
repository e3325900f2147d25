/* SPDX-License-Identifier: Apache-2.0 */
/* The norm of each row by its root mean square. Sums over rows go column by column, in one order. */
#include "gpt/cuda/kernels.h"

#include <math.h>

#include "gpt/cuda/rows.h"
#include "gpt/cuda/types.h"

namespace
{

using namespace gpt_cuda;
using weft::launch;
using weft::reads;
using weft::writes;

template <typename P> struct norm_rows {
    static const char *name()
    {
        return "norm";
    }
    const typename P::type *x, *w;
    typename P::type *y;
    float *scale, epsilon;
    size_t width, count;

    template <typename Team> WEFT_KERNEL void operator()(size_t row, const Team &team) const
    {
        constexpr unsigned N = P::SIZE;
        const typename P::type *in = x + row * width;
        float squares = 0, value[N], factor[N];
        for (size_t i = team.first() * N; i < width; i += team.size() * N) {
            P::load(value, in + i);
            for (unsigned k = 0; k < N; k++)
                squares += value[k] * value[k];
        }
        float s = 1.0f / sqrtf(team.sum(squares) / (float)width + epsilon);
        for (size_t i = team.first() * N; i < width; i += team.size() * N) {
            P::load(value, in + i);
            P::load(factor, w + i);
            for (unsigned k = 0; k < N; k++)
                value[k] = value[k] * s * factor[k];
            P::store(y + row * width + i, value);
        }
        if (team.first() == 0)
            scale[row] = s;
    }
    size_t touches(standin_range *r) const
    {
        r[0] = reads(x, count * width), r[1] = reads(w, width);
        r[2] = writes(y, count * width), r[3] = writes(scale, count);
        return 4;
    }
};

template <typename P> struct norm_dx {
    static const char *name()
    {
        return "norm_dx";
    }
    const typename P::type *dy, *x, *w;
    const float *scale;
    typename P::type *dx;
    size_t width, count;

    template <typename Team> WEFT_KERNEL void operator()(size_t row, const Team &team) const
    {
        constexpr unsigned N = P::SIZE;
        const typename P::type *in = x + row * width, *grad = dy + row * width;
        float dot = 0, s = scale[row], value[N], factor[N], dvalue[N], sum[N];
        for (size_t i = team.first() * N; i < width; i += team.size() * N) {
            P::load(value, in + i);
            P::load(factor, w + i);
            P::load(dvalue, grad + i);
            for (unsigned k = 0; k < N; k++)
                dot += dvalue[k] * factor[k] * value[k];
        }
        float along = team.sum(dot) * s * s / (float)width;
        for (size_t i = team.first() * N; i < width; i += team.size() * N) {
            P::load(value, in + i);
            P::load(factor, w + i);
            P::load(dvalue, grad + i);
            P::load(sum, dx + row * width + i);
            for (unsigned k = 0; k < N; k++)
                sum[k] += s * (dvalue[k] * factor[k] - value[k] * along);
            P::store(dx + row * width + i, sum);
        }
    }
    size_t touches(standin_range *r) const
    {
        r[0] = reads(x, count * width), r[1] = reads(w, width), r[2] = reads(dy, count * width);
        r[3] = reads(scale, count), r[4] = writes(dx, count * width);
        return 5;
    }
};

/* Part p has rows p, p + PARTS, ...: element i stands for a pack of columns of a part. */
template <typename P> struct norm_dw_parts {
    static const char *name()
    {
        return "norm_dw_parts";
    }
    const typename P::type *dy, *x;
    const float *scale;
    float *parts;
    size_t rows, width, count;

    WEFT_KERNEL void operator()(size_t i) const
    {
        constexpr unsigned N = P::SIZE, FLOATS = N < 4 ? N : 4;
        size_t part = i / (width / N), column = i % (width / N) * N;
        float sum[N] = {}, value[N], dvalue[N];
#pragma unroll 4
        for (size_t row = part; row < rows; row += GPT_CUDA_NORM_PARTS) {
            P::load(value, x + row * width + column);
            P::load(dvalue, dy + row * width + column);
            for (unsigned k = 0; k < N; k++)
                sum[k] += dvalue[k] * value[k] * scale[row];
        }
        for (unsigned k = 0; k < N; k += FLOATS)
            packs<fp32, FLOATS>::store(parts + part * width + column + k, sum, k);
    }
    size_t touches(standin_range *r) const
    {
        r[0] = reads(dy, rows * width), r[1] = reads(x, rows * width), r[2] = reads(scale, rows);
        r[3] = writes(parts, count * P::SIZE);
        return 4;
    }
};

struct add_parts {
    static const char *name()
    {
        return "add_parts";
    }
    const float *parts;
    float *sums;
    size_t count;

    WEFT_KERNEL void operator()(size_t column) const
    {
        float sum = 0;
#pragma unroll 16
        for (size_t part = 0; part < GPT_CUDA_NORM_PARTS; part++)
            sum += parts[part * count + column];
        sums[column] += sum;
    }
    size_t touches(standin_range *r) const
    {
        return r[0] = reads(parts, GPT_CUDA_NORM_PARTS * count), r[1] = writes(sums, count), 2;
    }
};

} // namespace

extern "C" weft_result gpt_cuda_norm(weft_dtype dtype, size_t rows, size_t width, float epsilon, const void *x,
                                     const void *w, void *y, float *scale, weft_stream stream)
{
    auto launch_norm = [=](auto p) {
        using P = decltype(p);
        return launch_rows(norm_rows<P>{AS(P, x), AS(P, w), TO(P, y), scale, epsilon, width, rows}, stream);
    };
    return with_packs(dtype, width, launch_norm, x, w, y);
}

extern "C" weft_result gpt_cuda_norm_grad(weft_dtype dtype, size_t rows, size_t width, const void *dy, const void *x,
                                          const void *w, const float *scale, void *dx, float *dw, float *parts,
                                          weft_stream stream)
{
    auto launch_dx = [=](auto p) {
        using P = decltype(p);
        return launch_rows(norm_dx<P>{AS(P, dy), AS(P, x), AS(P, w), scale, TO(P, dx), width, rows}, stream);
    };
    auto launch_parts = [=](auto p) {
        using P = decltype(p);
        const size_t count = GPT_CUDA_NORM_PARTS * (width / P::SIZE);
        return launch(norm_dw_parts<P>{AS(P, dy), AS(P, x), scale, parts, rows, width, count}, stream);
    };
    weft_result result = with_packs(dtype, width, launch_dx, dy, x, w, dx);
    if (result == WEFT_OK)
        result = with_packs(dtype, width, launch_parts, dy, x, parts);
    return result == WEFT_OK ? launch(add_parts{parts, dw, width}, stream) : result;
}
