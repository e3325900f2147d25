/* SPDX-License-Identifier: Apache-2.0 */
/* What the attention by blocks of queries needs between its products: softmax and its gradient. */
#include "gpt/cuda/kernels.h"

#include <math.h>

#include "gpt/cuda/rows.h"
#include "gpt/cuda/types.h"
#include "gpt/math/exp.h"

namespace
{

using namespace gpt_cuda;
using weft::launch;
using weft::reads;
using weft::writes;

/* A row of scores each. @p known: the logarithms of the sums are. */
template <typename T, bool known> struct softmax {
    static const char *name()
    {
        return known ? "softmax_again" : "softmax";
    }
    const float *scores;
    typename T::type *probabilities;
    float *logsum;
    gpt_cuda_scores s;
    size_t count;

    template <typename Team> WEFT_KERNEL void operator()(size_t row, const Team &team) const
    {
        const float *x = scores + row * s.keys;
        size_t query = row % s.count, seen = s.first + query + 1;
        float *log_of_sum = logsum + row / s.count * s.logsum_stride + query;
        float most = -INFINITY, sum = 0, away = *log_of_sum;
        if (!known) {
            for (size_t i = team.first(); i < seen; i += team.size())
                most = x[i] > most ? x[i] : most;
            most = team.max(most);
            for (size_t i = team.first(); i < seen; i += team.size())
                sum += math_exp(x[i] - most);
            sum = team.sum(sum);
            away = most + logf(sum);
        }
        for (size_t i = team.first(); i < s.keys; i += team.size())
            probabilities[row * s.keys + i] = T::store(i < seen ? math_exp(x[i] - away) : 0);
        if (!known && team.first() == 0)
            *log_of_sum = away;
    }
    size_t touches(standin_range *r) const
    {
        r[0] = reads(scores, count * s.keys);
        r[1] = writes(probabilities, count * s.keys);
        r[2] = {logsum, ((s.heads - 1) * s.logsum_stride + s.count) * sizeof *logsum, !known};
        return 3;
    }
};

template <typename T> struct row_dots {
    static const char *name()
    {
        return "row_dots";
    }
    const typename T::type *context, *dcontext;
    float *dots;
    size_t queries, channels, stride, count; /* count: heads * queries */

    template <typename Team> WEFT_KERNEL void operator()(size_t row, const Team &team) const
    {
        size_t at = row % queries * stride + row / queries * channels;
        float dot = 0;
        for (size_t i = team.first(); i < channels; i += team.size())
            dot += T::load(context[at + i]) * T::load(dcontext[at + i]);
        dot = team.sum(dot);
        if (team.first() == 0)
            dots[row] = dot;
    }
    size_t touches(standin_range *r) const
    {
        size_t all = (queries - 1) * stride + count / queries * channels;
        return r[0] = reads(context, all), r[1] = reads(dcontext, all), r[2] = writes(dots, count), 3;
    }
};

template <typename T> struct softmax_grad {
    static const char *name()
    {
        return "softmax_grad";
    }
    const typename T::type *probabilities;
    const float *dprobabilities, *dots;
    float scale;
    typename T::type *dscores;
    size_t keys, count;

    WEFT_KERNEL void operator()(size_t i) const
    {
        dscores[i] = T::store(T::load(probabilities[i]) * (dprobabilities[i] - dots[i / keys]) * scale);
    }
    size_t touches(standin_range *r) const
    {
        r[0] = reads(probabilities, count), r[1] = reads(dprobabilities, count), r[2] = reads(dots, count / keys);
        r[3] = writes(dscores, count);
        return 4;
    }
};

template <typename T> struct store_rows {
    static const char *name()
    {
        return "store_rows";
    }
    const float *from;
    typename T::type *to;
    size_t width, stride, count;
    WEFT_KERNEL void operator()(size_t i) const
    {
        to[i / width * stride + i % width] = T::store(from[i]);
    }
    size_t touches(standin_range *r) const
    {
        size_t rows = count / width;
        r[0] = reads(from, count);
        r[1] = writes(to, rows ? (rows - 1) * stride + width : 0);
        return 2;
    }
};

} // namespace

extern "C" weft_result gpt_cuda_softmax(weft_dtype dtype, const gpt_cuda_scores *s, const float *scores,
                                        void *probabilities, float *logsum, weft_stream stream)
{
    const gpt_cuda_scores own = *s;
    return with(dtype, [=](auto t) {
        using T = decltype(t);
        return launch_rows(softmax<T, false>{scores, TO(T, probabilities), logsum, own, own.heads * own.count}, stream);
    });
}

extern "C" weft_result gpt_cuda_softmax_again(weft_dtype dtype, const gpt_cuda_scores *s, const float *scores,
                                              void *probabilities, const float *logsum, weft_stream stream)
{
    const gpt_cuda_scores own = *s;
    return with(dtype, [=](auto t) {
        using T = decltype(t);
        return launch_rows(softmax<T, true>{scores, TO(T, probabilities), (float *)logsum, own, own.heads * own.count},
                           stream);
    });
}

extern "C" weft_result gpt_cuda_row_dots(weft_dtype dtype, size_t heads, size_t count, size_t channels, size_t stride,
                                         const void *context, const void *dcontext, float *dots, weft_stream stream)
{
    return with(dtype, [=](auto t) {
        using T = decltype(t);
        return launch_rows(row_dots<T>{AS(T, context), AS(T, dcontext), dots, count, channels, stride, heads * count},
                           stream);
    });
}

extern "C" weft_result gpt_cuda_softmax_grad(weft_dtype dtype, const gpt_cuda_scores *s, const void *probabilities,
                                             const float *dprobabilities, const float *dots, float scale, void *dscores,
                                             weft_stream stream)
{
    const gpt_cuda_scores own = *s;
    return with(dtype, [=](auto t) {
        using T = decltype(t);
        return launch(softmax_grad<T>{AS(T, probabilities), dprobabilities, dots, scale, TO(T, dscores), own.keys,
                                      own.heads * own.count * own.keys},
                      stream);
    });
}

extern "C" weft_result gpt_cuda_store_rows(weft_dtype dtype, size_t rows, size_t width, const float *from,
                                           size_t stride, void *to, weft_stream stream)
{
    return with(dtype, [=](auto t) {
        using T = decltype(t);
        return launch(store_rows<T>{from, TO(T, to), width, stride, rows * width}, stream);
    });
}
