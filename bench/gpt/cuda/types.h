/* SPDX-License-Identifier: Apache-2.0 */
/* The types that kernels are made for: fp32, and bf16 whose arithmetic is fp32. */
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
    return dtype == WEFT_FP32 ? function(fp32()) : function(bf16());
}

} // namespace gpt_cuda

#define AS(T, x) (const typename T::type *)(x)
#define TO(T, x) (typename T::type *)(x)

#endif
