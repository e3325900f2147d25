/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels for flat arrays. Formulas are those of the host; every element's result is the same bits as there. */
#include "device/cuda/vector.h"

#include <math.h>

#include "device/adamw_math.h"
#include "device/convert_math.h"
#include "device/cuda/kernel.h"
#include "device/double2_math.h"
#include "device/nonfinite_math.h"

namespace
{

using weft::reads;
using weft::writes;

/* ---- types ---- */

struct fp64 {
    using type = double;
    static WEFT_KERNEL double widen(type x)
    {
        return x;
    }
    static WEFT_KERNEL uint32_t nonfinite(type x)
    {
        return weft__nonfinite_double(x);
    }
};

struct fp32 {
    using type = float;
    static WEFT_KERNEL float widen(type x)
    {
        return x;
    }
    static WEFT_KERNEL type narrow(float x)
    {
        return x;
    }
    static WEFT_KERNEL type narrow_double(double x)
    {
        return (float)x;
    }
    static WEFT_KERNEL uint32_t nonfinite(type x)
    {
        return weft__nonfinite_float(x);
    }
};

/* Of 16 bits: what differs is how they stand for a float. */
template <float (*to_float)(uint16_t), uint16_t (*from_float)(float), uint32_t (*is_nonfinite)(uint16_t)> struct half {
    using type = uint16_t;
    static WEFT_KERNEL float widen(type x)
    {
        return to_float(x);
    }
    static WEFT_KERNEL type narrow(float x)
    {
        return from_float(x);
    }
    static WEFT_KERNEL type narrow_double(double x)
    {
        return narrow(weft__math_double_to_odd_float(x));
    }
    static WEFT_KERNEL uint32_t nonfinite(type x)
    {
        return is_nonfinite(x);
    }
};

using bf16 = half<weft__math_bf16_to_float, weft__math_float_to_bf16, weft__nonfinite_bf16>;
using fp16 = half<weft__math_fp16_to_float, weft__math_float_to_fp16, weft__nonfinite_fp16>;

/* One value to another type: rounded once. */
template <typename To, typename From> WEFT_KERNEL typename To::type convert(typename From::type x)
{
    return To::narrow(From::widen(x));
}
template <> WEFT_KERNEL float convert<fp32, fp64>(double x)
{
    return fp32::narrow_double(x);
}
template <> WEFT_KERNEL uint16_t convert<bf16, fp64>(double x)
{
    return bf16::narrow_double(x);
}
template <> WEFT_KERNEL uint16_t convert<fp16, fp64>(double x)
{
    return fp16::narrow_double(x);
}
template <> WEFT_KERNEL double convert<fp64, fp64>(double x)
{
    return x;
}
template <> WEFT_KERNEL double convert<fp64, fp32>(float x)
{
    return (double)x;
}
template <> WEFT_KERNEL double convert<fp64, bf16>(uint16_t x)
{
    return (double)bf16::widen(x);
}
template <> WEFT_KERNEL double convert<fp64, fp16>(uint16_t x)
{
    return (double)fp16::widen(x);
}

/* Call @p function with a value of the type that stands for @p dtype. */
template <typename Function> weft_result with_floating(weft_dtype dtype, const char *what, Function function)
{
    switch (dtype) {
    case WEFT_FP64:
        return function(fp64());
    case WEFT_FP32:
        return function(fp32());
    case WEFT_BF16:
        return function(bf16());
    case WEFT_FP16:
        return function(fp16());
    case WEFT_INT32:
    case WEFT_INT64:
    case WEFT_UINT8:
        break;
    }
    return weft_backend_error(WEFT_E_BUG, "%s of dtype %d, which is not a floating type", what, (int)dtype);
}

/* ---- one element after the other ---- */

template <typename T> struct fill {
    static const char *name()
    {
        return "fill";
    }
    T *dst;
    T value;
    size_t count;
    WEFT_KERNEL void operator()(size_t i) const
    {
        dst[i] = value;
    }
    size_t touches(standin_range *r) const
    {
        return r[0] = writes(dst, count), 1;
    }
};

template <typename Type, typename Factor> struct scale {
    static const char *name()
    {
        return "scale";
    }
    typename Type::type *dst;
    Factor factor;
    size_t count;
    WEFT_KERNEL void operator()(size_t i) const
    {
        dst[i] = Type::narrow(Type::widen(dst[i]) * factor);
    }
    size_t touches(standin_range *r) const
    {
        return r[0] = writes(dst, count), 1;
    }
};

struct scale_double {
    static const char *name()
    {
        return "scale";
    }
    double *dst;
    double factor;
    size_t count;
    WEFT_KERNEL void operator()(size_t i) const
    {
        dst[i] *= factor;
    }
    size_t touches(standin_range *r) const
    {
        return r[0] = writes(dst, count), 1;
    }
};

template <typename To, typename From> struct cast {
    static const char *name()
    {
        return "cast";
    }
    typename To::type *dst;
    const typename From::type *src;
    size_t count;
    WEFT_KERNEL void operator()(size_t i) const
    {
        dst[i] = convert<To, From>(src[i]);
    }
    size_t touches(standin_range *r) const
    {
        return r[0] = reads(src, count), r[1] = writes(dst, count), 2;
    }
};

template <typename From> struct accumulate {
    static const char *name()
    {
        return "accumulate";
    }
    float *dst;
    const typename From::type *src;
    size_t count;
    WEFT_KERNEL void operator()(size_t i) const
    {
        dst[i] += convert<fp32, From>(src[i]);
    }
    size_t touches(standin_range *r) const
    {
        return r[0] = reads(src, count), r[1] = writes(dst, count), 2;
    }
};

template <typename Type> struct first_nonfinite {
    static const char *name()
    {
        return "first_nonfinite";
    }
    const typename Type::type *src;
    unsigned long long base, *first;
    size_t count;
    WEFT_KERNEL void operator()(size_t i) const
    {
        if (!(Type::nonfinite(src[i]) >> 31))
            return;
#ifdef __CUDA_ARCH__
        atomicMin(first, base + i);
#else
        *first = *first < base + i ? *first : base + i;
#endif
    }
    size_t touches(standin_range *r) const
    {
        return r[0] = reads(src, count), r[1] = writes(first, 1), 2;
    }
};

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

extern "C" weft_result weft__cuda_fill(void *dst, size_t count, size_t element_bytes, uint64_t bits, weft_stream stream)
{
    switch (element_bytes) {
    case 1:
        return weft::launch(fill<uint8_t>{(uint8_t *)dst, (uint8_t)bits, count}, stream);
    case 2:
        return weft::launch(fill<uint16_t>{(uint16_t *)dst, (uint16_t)bits, count}, stream);
    case 4:
        return weft::launch(fill<uint32_t>{(uint32_t *)dst, (uint32_t)bits, count}, stream);
    default:
        return weft::launch(fill<uint64_t>{(uint64_t *)dst, bits, count}, stream);
    }
}

extern "C" weft_result weft__cuda_scale(void *dst, size_t count, weft_dtype dtype, double factor, weft_stream stream)
{
    switch (dtype) {
    case WEFT_FP64:
        return weft::launch(scale_double{(double *)dst, factor, count}, stream);
    case WEFT_FP32:
        return weft::launch(scale<fp32, float>{(float *)dst, (float)factor, count}, stream);
    case WEFT_BF16:
        return weft::launch(scale<bf16, float>{(uint16_t *)dst, (float)factor, count}, stream);
    case WEFT_FP16:
        return weft::launch(scale<fp16, float>{(uint16_t *)dst, (float)factor, count}, stream);
    default:
        return weft_backend_error(WEFT_E_BUG, "scale of dtype %d, which is not a floating type", (int)dtype);
    }
}

extern "C" weft_result weft__cuda_cast(void *dst, weft_dtype to, const void *src, weft_dtype from, size_t count,
                                       weft_stream stream)
{
    return with_floating(to, "cast", [=](auto wanted) {
        return with_floating(from, "cast", [=](auto given) {
            using To = decltype(wanted);
            using From = decltype(given);
            return weft::launch(cast<To, From>{(typename To::type *)dst, (const typename From::type *)src, count},
                                stream);
        });
    });
}

extern "C" weft_result weft__cuda_accumulate(float *dst, const void *src, weft_dtype from, size_t count,
                                             weft_stream stream)
{
    return with_floating(from, "accumulate", [=](auto given) {
        using From = decltype(given);
        return weft::launch(accumulate<From>{dst, (const typename From::type *)src, count}, stream);
    });
}

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

extern "C" weft_result weft__cuda_first_nonfinite(const void *src, size_t count, weft_dtype dtype, uint64_t base,
                                                  uint64_t *first, weft_stream stream)
{
    return with_floating(dtype, "first nonfinite", [=](auto given) {
        using Type = decltype(given);
        return weft::launch(
            first_nonfinite<Type>{(const typename Type::type *)src, base, (unsigned long long *)first, count}, stream);
    });
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
