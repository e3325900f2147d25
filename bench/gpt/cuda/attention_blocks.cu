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
template <typename P, typename F, bool known> struct softmax {
    static const char *name()
    {
        return known ? "softmax_again" : "softmax";
    }
    const float *scores;
    typename P::type *probabilities;
    float *logsum;
    gpt_cuda_scores s;
    size_t count;

    template <typename Team> WEFT_KERNEL void operator()(size_t row, const Team &team) const
    {
        constexpr unsigned N = P::SIZE;
        const float *scored = scores + row * s.keys;
        size_t query = row % s.count, seen = s.first + query + 1, first = team.first() * N, step = team.size() * N;
        float *log_of_sum = logsum + row / s.count * s.logsum_stride + query;
        float most = -INFINITY, sum = 0, away = *log_of_sum, x[N];
        if (!known) {
            for (size_t i = first; i < seen; i += step) {
                F::load(x, scored + i);
                for (unsigned k = 0; k < N; k++)
                    most = i + k < seen && x[k] > most ? x[k] : most;
            }
            most = team.max(most);
            for (size_t i = first; i < seen; i += step) {
                F::load(x, scored + i);
                for (unsigned k = 0; k < N; k++)
                    sum += i + k < seen ? math_exp(x[k] - most) : 0;
            }
            sum = team.sum(sum);
            away = most + logf(sum);
        }
        for (size_t i = first; i < s.keys; i += step) {
            F::load(x, scored + i);
            for (unsigned k = 0; k < N; k++)
                x[k] = i + k < seen ? math_exp(x[k] - away) : 0;
            P::store(probabilities + row * s.keys + i, x);
        }
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

template <typename P> struct row_dots {
    static const char *name()
    {
        return "row_dots";
    }
    const typename P::type *context, *dcontext;
    float *dots;
    size_t queries, channels, stride, count; /* count: heads * queries */

    template <typename Team> WEFT_KERNEL void operator()(size_t row, const Team &team) const
    {
        constexpr unsigned N = P::SIZE;
        size_t at = row % queries * stride + row / queries * channels;
        float dot = 0, value[N], dvalue[N];
        for (size_t i = team.first() * N; i < channels; i += team.size() * N) {
            P::load(value, context + at + i);
            P::load(dvalue, dcontext + at + i);
            for (unsigned k = 0; k < N; k++)
                dot += value[k] * dvalue[k];
        }
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

/* Element i is a pack, all of one row. */
template <typename P, typename F> struct softmax_grad {
    static const char *name()
    {
        return "softmax_grad";
    }
    const typename P::type *probabilities;
    const float *dprobabilities, *dots;
    float scale;
    typename P::type *dscores;
    size_t keys, count;

    WEFT_KERNEL void operator()(size_t i) const
    {
        constexpr unsigned N = P::SIZE;
        float probability[N], dprobability[N], dot = dots[i / (keys / N)];
        P::load(probability, probabilities + i * N);
        F::load(dprobability, dprobabilities + i * N);
        for (unsigned k = 0; k < N; k++)
            probability[k] *= (dprobability[k] - dot) * scale;
        P::store(dscores + i * N, probability);
    }
    size_t touches(standin_range *r) const
    {
        size_t all = count * P::SIZE;
        r[0] = reads(probabilities, all), r[1] = reads(dprobabilities, all), r[2] = reads(dots, all / keys);
        r[3] = writes(dscores, all);
        return 4;
    }
};

template <typename P, typename F> struct store_rows {
    static const char *name()
    {
        return "store_rows";
    }
    const float *from;
    typename P::type *to;
    size_t width, stride, count;
    WEFT_KERNEL void operator()(size_t i) const
    {
        constexpr unsigned N = P::SIZE;
        const size_t packs = width / N;
        float x[N];
        F::load(x, from + i * N);
        P::store(to + i / packs * stride + i % packs * N, x);
    }
    size_t touches(standin_range *r) const
    {
        size_t rows = count * P::SIZE / width;
        r[0] = reads(from, count * P::SIZE);
        r[1] = writes(to, rows ? (rows - 1) * stride + width : 0);
        return 2;
    }
};

} // namespace

extern "C" weft_result gpt_cuda_softmax(weft_dtype dtype, const gpt_cuda_scores *s, const float *scores,
                                        void *probabilities, float *logsum, weft_stream stream)
{
    const gpt_cuda_scores own = *s;
    auto launch_softmax = [=](auto p, auto f) {
        using P = decltype(p);
        using F = decltype(f);
        return launch_rows(softmax<P, F, false>{scores, TO(P, probabilities), logsum, own, own.heads * own.count},
                           stream);
    };
    return with_packs_and_floats(dtype, own.keys, launch_softmax, scores, probabilities);
}

extern "C" weft_result gpt_cuda_softmax_again(weft_dtype dtype, const gpt_cuda_scores *s, const float *scores,
                                              void *probabilities, const float *logsum, weft_stream stream)
{
    const gpt_cuda_scores own = *s;
    auto launch_again = [=](auto p, auto f) {
        using P = decltype(p);
        using F = decltype(f);
        return launch_rows(
            softmax<P, F, true>{scores, TO(P, probabilities), (float *)logsum, own, own.heads * own.count}, stream);
    };
    return with_packs_and_floats(dtype, own.keys, launch_again, scores, probabilities);
}

extern "C" weft_result gpt_cuda_row_dots(weft_dtype dtype, size_t heads, size_t count, size_t channels, size_t stride,
                                         const void *context, const void *dcontext, float *dots, weft_stream stream)
{
    auto launch_dots = [=](auto p) {
        using P = decltype(p);
        return launch_rows(row_dots<P>{AS(P, context), AS(P, dcontext), dots, count, channels, stride, heads * count},
                           stream);
    };
    return with_packs(dtype, channels | stride, launch_dots, context, dcontext); /* both are made of packs */
}

extern "C" weft_result gpt_cuda_softmax_grad(weft_dtype dtype, const gpt_cuda_scores *s, const void *probabilities,
                                             const float *dprobabilities, const float *dots, float scale, void *dscores,
                                             weft_stream stream)
{
    const gpt_cuda_scores own = *s;
    auto launch_grad = [=](auto p, auto f) {
        using P = decltype(p);
        using F = decltype(f);
        return launch(softmax_grad<P, F>{AS(P, probabilities), dprobabilities, dots, scale, TO(P, dscores), own.keys,
                                         own.heads * own.count * own.keys / P::SIZE},
                      stream);
    };
    return with_packs_and_floats(dtype, own.keys, launch_grad, probabilities, dprobabilities, dscores);
}

extern "C" weft_result gpt_cuda_store_rows(weft_dtype dtype, size_t rows, size_t width, const float *from,
                                           size_t stride, void *to, weft_stream stream)
{
    auto launch_store = [=](auto p, auto f) {
        using P = decltype(p);
        using F = decltype(f);
        return launch(store_rows<P, F>{from, TO(P, to), width, stride, rows * width / P::SIZE}, stream);
    };
    return with_packs_and_floats(dtype, width | stride, launch_store, from, to); /* both are made of packs */
}
