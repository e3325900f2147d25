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
using weft::launch;
using weft::reads;
using weft::writes;

template <typename T> struct entropy_largest {
    static const char *name()
    {
        return "entropy_largest";
    }
    const typename T::type *logits;
    float *largest;
    size_t columns, valid, count;

    template <typename Team> WEFT_KERNEL void operator()(size_t row, const Team &team) const
    {
        float most = -INFINITY;
        for (size_t i = team.first(); i < valid; i += team.size()) {
            float x = T::load(logits[row * columns + i]);
            most = x > most ? x : most;
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

template <typename T> struct entropy_exponentials {
    static const char *name()
    {
        return "entropy_exponentials";
    }
    typename T::type *logits;
    const int32_t *targets;
    const float *largest;
    float *sums;
    size_t first, columns, valid, count;

    template <typename Team> WEFT_KERNEL void operator()(size_t row, const Team &team) const
    {
        typename T::type *x = logits + row * columns;
        size_t target = local_row(targets[row], first, valid);
        float sum = 0;
        for (size_t i = team.first(); i < columns; i += team.size()) {
            float above = T::load(x[i]) - largest[row], e = i < valid ? math_exp(above) : 0;
            if (i == target && i < valid)
                sums[count + row] = above;
            x[i] = T::store(e);
            sum += e;
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

template <typename T> struct entropy_grad {
    static const char *name()
    {
        return "entropy_grad";
    }
    typename T::type *values;
    const int32_t *targets;
    const float *sums;
    float factor;
    size_t rows, first, columns, valid, count;

    WEFT_KERNEL void operator()(size_t i) const
    {
        size_t row = i / columns, column = i % columns;
        float grad = T::load(values[i]) * (factor / sums[row]);
        if (column == local_row(targets[row], first, valid) && column < valid)
            grad -= factor;
        values[i] = T::store(grad);
    }
    size_t touches(standin_range *r) const
    {
        return r[0] = reads(targets, rows), r[1] = reads(sums, rows), r[2] = writes(values, count), 3;
    }
};

} // namespace

extern "C" weft_result gpt_cuda_entropy_largest(weft_dtype dtype, const gpt_vocabulary *v, size_t rows,
                                                const void *logits, float *largest, weft_stream stream)
{
    const gpt_vocabulary own = *v;
    return with(dtype, [=](auto t) {
        using T = decltype(t);
        return launch_rows(entropy_largest<T>{AS(T, logits), largest, own.columns, own.valid, rows}, stream);
    });
}

extern "C" weft_result gpt_cuda_entropy_exponentials(weft_dtype dtype, const gpt_vocabulary *v, size_t rows,
                                                     void *logits, const int32_t *targets, const float *largest,
                                                     float *sums, weft_stream stream)
{
    const gpt_vocabulary own = *v;
    return with(dtype, [=](auto t) {
        using T = decltype(t);
        return launch_rows(
            entropy_exponentials<T>{TO(T, logits), targets, largest, sums, own.first, own.columns, own.valid, rows},
            stream);
    });
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
    return with(dtype, [=](auto t) {
        using T = decltype(t);
        return launch(entropy_grad<T>{TO(T, exponentials), targets, sums, factor, rows, own.first, own.columns,
                                      own.valid, rows * own.columns},
                      stream);
    });
}
