/* SPDX-License-Identifier: Apache-2.0 */
/* Cross entropy in pieces, with room for sums over ranks between them. */
#include "gpt/cuda/kernels.h"

#include <math.h>

#include "gpt/cuda/rows.h"
#include "gpt/cuda/types.h"
#include "gpt/cuda/vocabulary.h"
#include "gpt/math/exp.h"

namespace
{

using namespace gpt_cuda;
using weft::reads;
using weft::writes;

template <typename P> struct entropy_largest {
    static const char *name()
    {
        return "entropy_largest";
    }
    const typename P::type *logits;
    float *largest;
    size_t columns, valid, count;

    template <typename Team> WEFT_KERNEL void operator()(size_t row, const Team &team) const
    {
        constexpr unsigned N = P::SIZE;
        float most = -INFINITY, x[N];
        for (size_t i = team.first() * N; i < valid; i += team.size() * N) {
            P::load(x, logits + row * columns + i);
            for (unsigned k = 0; k < N; k++)
                most = i + k < valid && x[k] > most ? x[k] : most;
        }
        most = team.max(most);
        if (team.first() == 0)
            largest[row] = most;
    }
    size_t touches(standin_range *r) const
    {
        return r[0] = reads(logits, count * columns), r[1] = writes(largest, count), 2;
    }
};

template <typename P> struct entropy_exponentials {
    static const char *name()
    {
        return "entropy_exponentials";
    }
    typename P::type *logits;
    const int32_t *targets;
    const float *largest;
    float *sums;
    size_t first, columns, valid, count;

    template <typename Team> WEFT_KERNEL void operator()(size_t row, const Team &team) const
    {
        constexpr unsigned N = P::SIZE;
        size_t target = local_row(targets[row], first, valid);
        float sum = 0, most = largest[row], x[N];
        for (size_t i = team.first() * N; i < columns; i += team.size() * N) {
            P::load(x, logits + row * columns + i);
            for (unsigned k = 0; k < N; k++) {
                float above = x[k] - most;
                if (i + k == target && target < valid)
                    sums[count + row] = above;
                x[k] = i + k < valid ? math_exp(above) : 0;
                sum += x[k];
            }
            P::store(logits + row * columns + i, x);
        }
        sum = team.sum(sum);
        if (team.first() == 0)
            sums[row] = sum;
        if (team.first() == 0 && target == valid)
            sums[count + row] = 0;
    }
    size_t touches(standin_range *r) const
    {
        r[0] = reads(targets, count), r[1] = reads(largest, count), r[2] = writes(logits, count * columns);
        r[3] = writes(sums, 2 * count);
        return 4;
    }
};

struct entropy_loss {
    static const char *name()
    {
        return "entropy_loss";
    }
    const float *sums;
    double *total;
    size_t rows, count; /* count: 1 */

    template <typename Team> WEFT_KERNEL void operator()(size_t, const Team &team) const
    {
        double loss = 0;
        for (size_t i = team.first(); i < rows; i += team.size())
            loss += log((double)sums[i]) - (double)sums[rows + i];
        loss = team.sum(loss);
        if (team.first() == 0)
            *total += loss;
    }
    size_t touches(standin_range *r) const
    {
        return r[0] = reads(sums, 2 * rows), r[1] = writes(total, 1), 2;
    }
};

/* A row each. */
template <typename P> struct entropy_grad {
    static const char *name()
    {
        return "entropy_grad";
    }
    typename P::type *values;
    const int32_t *targets;
    const float *sums;
    float factor;
    size_t first, columns, valid, count;

    template <typename Team> WEFT_KERNEL void operator()(size_t row, const Team &team) const
    {
        constexpr unsigned N = P::SIZE;
        size_t target = local_row(targets[row], first, valid);
        float part = factor / sums[row], x[N];
        for (size_t i = team.first() * N; i < columns; i += team.size() * N) {
            P::load(x, values + row * columns + i);
            for (unsigned k = 0; k < N; k++)
                x[k] = x[k] * part - (i + k == target && target < valid ? factor : 0);
            P::store(values + row * columns + i, x);
        }
    }
    size_t touches(standin_range *r) const
    {
        r[0] = reads(targets, count), r[1] = reads(sums, count), r[2] = writes(values, count * columns);
        return 3;
    }
};

} // namespace

extern "C" weft_result gpt_cuda_entropy_largest(weft_dtype dtype, const gpt_vocabulary *v, size_t rows,
                                                const void *logits, float *largest, weft_stream stream)
{
    const gpt_vocabulary own = *v;
    auto launch_packs = [=](auto p) {
        using P = decltype(p);
        return launch_rows(entropy_largest<P>{AS(P, logits), largest, own.columns, own.valid, rows}, stream);
    };
    return with_packs(dtype, own.columns, launch_packs, logits);
}

extern "C" weft_result gpt_cuda_entropy_exponentials(weft_dtype dtype, const gpt_vocabulary *v, size_t rows,
                                                     void *logits, const int32_t *targets, const float *largest,
                                                     float *sums, weft_stream stream)
{
    const gpt_vocabulary own = *v;
    auto launch_packs = [=](auto p) {
        using P = decltype(p);
        return launch_rows(
            entropy_exponentials<P>{TO(P, logits), targets, largest, sums, own.first, own.columns, own.valid, rows},
            stream);
    };
    return with_packs(dtype, own.columns, launch_packs, logits);
}

extern "C" weft_result gpt_cuda_entropy_loss(size_t rows, const float *sums, double *total, weft_stream stream)
{
    return launch_rows(entropy_loss{sums, total, rows, 1}, stream);
}

extern "C" weft_result gpt_cuda_entropy_grad(weft_dtype dtype, const gpt_vocabulary *v, size_t rows, void *exponentials,
                                             const int32_t *targets, const float *sums, float factor,
                                             weft_stream stream)
{
    const gpt_vocabulary own = *v;
    auto launch_packs = [=](auto p) {
        using P = decltype(p);
        return launch_rows(
            entropy_grad<P>{TO(P, exponentials), targets, sums, factor, own.first, own.columns, own.valid, rows},
            stream);
    };
    return with_packs(dtype, own.columns, launch_packs, exponentials);
}
