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

template <typename T> struct norm_rows {
    static const char *name()
    {
        return "norm";
    }
    const typename T::type *x, *w;
    typename T::type *y;
    float *scale, epsilon;
    size_t width, count;

    template <typename Team> WEFT_KERNEL void operator()(size_t row, const Team &team) const
    {
        const typename T::type *in = x + row * width;
        float squares = 0;
        for (size_t i = team.first(); i < width; i += team.size())
            squares += T::load(in[i]) * T::load(in[i]);
        float s = 1.0f / sqrtf(team.sum(squares) / (float)width + epsilon);
        for (size_t i = team.first(); i < width; i += team.size())
            y[row * width + i] = T::store(T::load(in[i]) * s * T::load(w[i]));
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

template <typename T> struct norm_dx {
    static const char *name()
    {
        return "norm_dx";
    }
    const typename T::type *dy, *x, *w;
    const float *scale;
    typename T::type *dx;
    size_t width, count;

    template <typename Team> WEFT_KERNEL void operator()(size_t row, const Team &team) const
    {
        const typename T::type *in = x + row * width, *grad = dy + row * width;
        float dot = 0, s = scale[row];
        for (size_t i = team.first(); i < width; i += team.size())
            dot += T::load(grad[i]) * T::load(w[i]) * T::load(in[i]);
        float along = team.sum(dot) * s * s / (float)width;
        for (size_t i = team.first(); i < width; i += team.size()) {
            typename T::type *out = dx + row * width + i;
            *out = T::store(T::load(*out) + s * (T::load(grad[i]) * T::load(w[i]) - T::load(in[i]) * along));
        }
    }
    size_t touches(standin_range *r) const
    {
        r[0] = reads(x, count * width), r[1] = reads(w, width), r[2] = reads(dy, count * width);
        r[3] = reads(scale, count), r[4] = writes(dx, count * width);
        return 5;
    }
};

/* Part p has rows p, p + PARTS, ...: element i stands for a column of a part. */
template <typename T> struct norm_dw_parts {
    static const char *name()
    {
        return "norm_dw_parts";
    }
    const typename T::type *dy, *x;
    const float *scale;
    float *parts;
    size_t rows, width, count;

    WEFT_KERNEL void operator()(size_t i) const
    {
        size_t part = i / width, column = i % width;
        float sum = 0;
        for (size_t row = part; row < rows; row += GPT_CUDA_NORM_PARTS)
            sum += T::load(dy[row * width + column]) * T::load(x[row * width + column]) * scale[row];
        parts[i] = sum;
    }
    size_t touches(standin_range *r) const
    {
        r[0] = reads(dy, rows * width), r[1] = reads(x, rows * width), r[2] = reads(scale, rows);
        r[3] = writes(parts, count);
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
    return with(dtype, [=](auto t) {
        using T = decltype(t);
        return launch_rows(norm_rows<T>{AS(T, x), AS(T, w), TO(T, y), scale, epsilon, width, rows}, stream);
    });
}

extern "C" weft_result gpt_cuda_norm_grad(weft_dtype dtype, size_t rows, size_t width, const void *dy, const void *x,
                                          const void *w, const float *scale, void *dx, float *dw, float *parts,
                                          weft_stream stream)
{
    return with(dtype, [=](auto t) {
        using T = decltype(t);
        weft_result result =
            launch_rows(norm_dx<T>{AS(T, dy), AS(T, x), AS(T, w), scale, TO(T, dx), width, rows}, stream);
        if (result == WEFT_OK)
            result = launch(
                norm_dw_parts<T>{AS(T, dy), AS(T, x), scale, parts, rows, width, (size_t)GPT_CUDA_NORM_PARTS * width},
                stream);
        return result == WEFT_OK ? launch(add_parts{parts, dw, width}, stream) : result;
    });
}
