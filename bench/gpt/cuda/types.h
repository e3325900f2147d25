/* SPDX-License-Identifier: Apache-2.0 */
/* The types that kernels are made for: fp32, and bf16 whose arithmetic is fp32; one by one, or as many as a GPU moves
 * at once. */
#ifndef WEFT_BENCH_GPT_CUDA_TYPES_H
#define WEFT_BENCH_GPT_CUDA_TYPES_H
#include "device/cuda/kernel.h"
#include "gpt/math/bf16.h"

namespace gpt_cuda
{

struct fp32 {
    using type = float;
    static WEFT_KERNEL float load(type x)
    {
        return x;
    }
    static WEFT_KERNEL type store(float x)
    {
        return x;
    }
};

struct bf16 {
    using type = uint16_t;
    static WEFT_KERNEL float load(type x)
    {
        return math_bf16_to_float(x);
    }
    static WEFT_KERNEL type store(float x)
    {
        return math_float_to_bf16(x);
    }
};

/* Call @p function with a value of the type that stands for @p dtype: the device is opened for no others. */
template <typename Function> weft_result with(weft_dtype dtype, Function function)
{
    if (dtype == WEFT_FP32)
        return function(fp32());
    if (dtype == WEFT_BF16)
        return function(bf16());
    return weft_backend_error(WEFT_E_BUG, "a kernel for dtype %d, which there is none for", (int)dtype);
}

/* N values side by side, which are moved at once; arithmetic has them as floats. */
template <typename T, unsigned N> struct packs {
    using type = typename T::type;
    static constexpr unsigned SIZE = N;
    struct alignas(N * sizeof(type)) pack {
        type value[N];
    };
    static WEFT_KERNEL void load(float (&x)[N], const type *from)
    {
        const pack p = *reinterpret_cast<const pack *>(from);
#pragma unroll
        for (unsigned i = 0; i < N; i++)
            x[i] = T::load(p.value[i]);
    }
    static WEFT_KERNEL void store(type *to, const float (&x)[N])
    {
        pack p;
#pragma unroll
        for (unsigned i = 0; i < N; i++)
            p.value[i] = T::store(x[i]);
        *reinterpret_cast<pack *>(to) = p;
    }
    /* Of more values, those from @p first on. */
    template <unsigned ALL> static WEFT_KERNEL void store(type *to, const float (&x)[ALL], unsigned first)
    {
        float own[N];
#pragma unroll
        for (unsigned i = 0; i < N; i++)
            own[i] = x[first + i];
        store(to, own);
    }
};

template <typename... Memory> bool are_packed(size_t bytes, const Memory *...memory)
{
    return ((reinterpret_cast<uintptr_t>(memory) % bytes == 0) && ...);
}

/* Call @p function with a value of the packs of 16 bytes if rows of @p width in @p memory are made of them, else of the
 * packs of one. */
template <typename Function, typename... Memory>
weft_result with_packs(weft_dtype dtype, size_t width, Function function, const Memory *...memory)
{
    return with(dtype, [=](auto t) {
        using T = decltype(t);
        constexpr unsigned most = 16 / sizeof(typename T::type);
        return width % most == 0 && are_packed(16, memory...) ? function(packs<T, most>()) : function(packs<T, 1>());
    });
}

/* The same for rows of T beside rows of floats: @p function is given packs of both, of four values or of one. */
template <typename Function, typename... Memory>
weft_result with_packs_and_floats(weft_dtype dtype, size_t width, Function function, const Memory *...memory)
{
    return with(dtype, [=](auto t) {
        using T = decltype(t);
        return width % 4 == 0 && are_packed(16, memory...) ? function(packs<T, 4>(), packs<fp32, 4>())
                                                           : function(packs<T, 1>(), packs<fp32, 1>());
    });
}

} // namespace gpt_cuda

#define AS(T, x) (const typename T::type *)(x)
#define TO(T, x) (typename T::type *)(x)

#endif
