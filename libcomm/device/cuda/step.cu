/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of a step: the sum of squares of gradients, what becomes of it, and AdamW. Formulas are those of the host;
 * every element's result is the same bits as there. */
#include <math.h>

#include "device/adamw_math.h"
#include "device/cuda/types.h"
#include "device/cuda/vector.h"
#include "device/double2_math.h"

namespace
{

using namespace weft;

/* ---- sums of squares ---- */

/* A square, exactly unless its low half underflows. */
WEFT_KERNEL weft__double2 square_of(double x)
{
    return weft__exact_square(x);
}
WEFT_KERNEL weft__double2 square_of(float x)
{
    return weft__double2_of((double)x * (double)x, 0);
}

/* What is not finite stays what it is in plain arithmetic. */
WEFT_KERNEL weft__double2 plus(weft__double2 a, weft__double2 b)
{
    double plain = a.high + b.high;
    return plain - plain == 0 ? weft__math_double2_add(a, b) : weft__double2_of(plain, 0);
}

enum { SUM_THREADS = 256 };

/* Element i is added by thread i % THREADS of part i / THREADS % PARTS, and the threads' sums are joined in pairs. */
template <typename Type> struct sum_of_squares {
    static const char *name()
    {
        return "sum_of_squares";
    }
    const typename Type::type *src;
    weft__device_sum *sum;
    size_t count;

    WEFT_KERNEL weft__double2 of_thread(size_t part, size_t thread) const
    {
        weft__double2 total = weft__double2_of(0, 0);
        for (size_t i = part * SUM_THREADS + thread; i < count; i += (size_t)WEFT__DEVICE_PARTS * SUM_THREADS)
            total = plus(total, square_of(Type::widen(src[i])));
        return total;
    }
    size_t touches(standin_range *r) const
    {
        return r[0] = reads(src, count), r[1] = writes(sum, 1), 2;
    }
};

/* The same for both: @p sums[SUM_THREADS] are joined in place. */
template <typename Kernel> void sum_body(const void *argument)
{
    const Kernel &kernel = *static_cast<const Kernel *>(argument);
    for (size_t part = 0; part < WEFT__DEVICE_PARTS && part * SUM_THREADS < kernel.count; part++) {
        weft__double2 sums[SUM_THREADS];
        for (size_t thread = 0; thread < SUM_THREADS; thread++)
            sums[thread] = kernel.of_thread(part, thread);
        for (size_t half = SUM_THREADS / 2; half > 0; half /= 2)
            for (size_t thread = 0; thread < half; thread++)
                sums[thread] = plus(sums[thread], sums[thread + half]);
        kernel.sum->parts[part] = plus(kernel.sum->parts[part], sums[0]);
    }
}

#ifdef __CUDACC__
template <typename Kernel> __global__ void __launch_bounds__(SUM_THREADS) sum_blocks(const Kernel kernel)
{
    __shared__ weft__double2 sums[SUM_THREADS];
    sums[threadIdx.x] = kernel.of_thread(blockIdx.x, threadIdx.x);
    for (unsigned half = SUM_THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half)
            sums[threadIdx.x] = plus(sums[threadIdx.x], sums[threadIdx.x + half]);
    }
    if (threadIdx.x == 0)
        kernel.sum->parts[blockIdx.x] = plus(kernel.sum->parts[blockIdx.x], sums[0]);
}
template <typename Kernel> const void *sum_entry()
{
    return reinterpret_cast<const void *>(&sum_blocks<Kernel>);
}
#else
template <typename Kernel> const void *sum_entry()
{
    return reinterpret_cast<const void *>(&sum_body<Kernel>);
}
#endif

struct fold {
    static const char *name()
    {
        return "fold";
    }
    const weft__device_sum *sum;
    weft__double2 *total;
    size_t count; /* 1 */
    WEFT_KERNEL void operator()(size_t) const
    {
        weft__double2 all = *total;
        for (int part = 0; part < WEFT__DEVICE_PARTS; part++)
            all = plus(all, sum->parts[part]);
        *total = all;
    }
    size_t touches(standin_range *r) const
    {
        return r[0] = reads(sum, 1), r[1] = writes(total, 1), 2;
    }
};

/* ---- the step ---- */

struct judge {
    static const char *name()
    {
        return "judge";
    }
    const weft__double2 *sums;
    int ranks;
    weft__step_rule rule;
    weft__step_verdict *verdict;
    size_t count; /* 1 */
    WEFT_KERNEL void operator()(size_t) const
    {
        weft__double2 all = weft__double2_of(0, 0);
        for (int rank = 0; rank < ranks; rank++)
            all = plus(all, sums[rank]);
        double norm = (double)(float)sqrt(all.high), clip = 1;
        if (rule.clip > 0)
            clip = (double)rule.clip / (norm + (double)rule.clip_epsilon);
        uint32_t skipped = norm - norm == 0 ? 0 : 1;
        uint64_t updates = verdict->updates + (skipped ? 0 : 1);
        verdict->updates = updates;
        verdict->norm = norm;
        verdict->grad_scale = clip < 1 ? (float)clip : 1.0f;
        verdict->correction1 = (float)(1 - pow((double)rule.beta1, (double)updates));
        verdict->correction2 = (float)(1 - pow((double)rule.beta2, (double)updates));
        verdict->skipped = skipped;
    }
    size_t touches(standin_range *r) const
    {
        return r[0] = reads(sums, (size_t)ranks), r[1] = writes(verdict, 1), 2;
    }
};

template <typename Grad, typename Param> struct adamw {
    static const char *name()
    {
        return "adamw";
    }
    weft__adamw step;
    const weft__step_verdict *verdict;
    float *master, *m, *v;
    const typename Grad::type *grad;
    typename Param::type *param; /* may be NULL, or master */
    size_t count;

    struct element {
        const adamw &all;
        weft__adamw_rates rates;
        bool skipped;
        WEFT_KERNEL void operator()(size_t i) const
        {
            if (skipped)
                return;
            weft__adamw_state state = {all.master[i], all.m[i], all.v[i]};
            state = weft__adamw_step(rates, state, convert<fp32, Grad>(all.grad[i]));
            all.master[i] = state.master;
            all.m[i] = state.m;
            all.v[i] = state.v;
            if (all.param)
                all.param[i] = convert<Param, fp32>(state.master);
        }
    };

    WEFT_KERNEL element prepare() const
    {
        weft__adamw own = step;
        own.grad_scale = verdict->grad_scale;
        own.correction1 = verdict->correction1;
        own.correction2 = verdict->correction2;
        return element{*this, weft__adamw_rates_of(&own), verdict->skipped != 0};
    }
    size_t touches(standin_range *r) const
    {
        r[0] = reads(verdict, 1);
        r[1] = writes(master, count);
        r[2] = writes(m, count);
        r[3] = writes(v, count);
        r[4] = reads(grad, count);
        r[5] = writes(param, param ? count : 0);
        return 6;
    }
};

} // namespace

/* ---- calls ---- */

extern "C" weft_result weft__cuda_sum_of_squares(const void *src, size_t count, weft_dtype dtype, weft__device_sum *sum,
                                                 weft_stream stream)
{
    if (!count)
        return WEFT_OK;
    return with_floating(dtype, "sum of squares", [=](auto given) {
        using Kernel = sum_of_squares<decltype(given)>;
        size_t blocks = (count + SUM_THREADS - 1) / SUM_THREADS;
        return weft::launch_as(sum_entry<Kernel>(), sum_body<Kernel>,
                               (unsigned)(blocks < WEFT__DEVICE_PARTS ? blocks : WEFT__DEVICE_PARTS), SUM_THREADS,
                               Kernel{(const typename decltype(given)::type *)src, sum, count}, stream);
    });
}

extern "C" weft_result weft__cuda_fold(const weft__device_sum *sum, weft__double2 *total, weft_stream stream)
{
    return weft::launch(fold{sum, total, 1}, stream);
}

extern "C" weft_result weft__cuda_judge(const weft__double2 *sums, int ranks, const weft__step_rule *rule,
                                        weft__step_verdict *verdict, weft_stream stream)
{
    return weft::launch(judge{sums, ranks, *rule, verdict, 1}, stream);
}

extern "C" weft_result weft__cuda_adamw(const weft__adamw *step, const weft__step_verdict *verdict, size_t count,
                                        float *master, float *m, float *v, const void *grad, weft_dtype grad_dtype,
                                        void *param_out, weft_dtype param_dtype, weft_stream stream)
{
    const weft__adamw own = *step;
    return with_floating(grad_dtype, "adamw", [=](auto given) {
        return with_floating(param_dtype, "adamw", [=](auto wanted) {
            using Grad = decltype(given);
            using Param = decltype(wanted);
            return weft::launch(adamw<Grad, Param>{own, verdict, master, m, v, (const typename Grad::type *)grad,
                                                   (typename Param::type *)param_out, count},
                                stream);
        });
    });
}
