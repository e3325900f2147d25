/* SPDX-License-Identifier: Apache-2.0 */
/* The floating types as kernels know them: how they are widened to what is computed in, and rounded back. */
#ifndef WEFT_DEVICE_CUDA_TYPES_H
#define WEFT_DEVICE_CUDA_TYPES_H
#include "device/convert_math.h"
#include "device/cuda/kernel.h"
#include "device/nonfinite_math.h"

namespace weft
{

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
    static_assert(WEFT_DTYPES == 7, "a new floating type has its case here");
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

} // namespace weft
#endif
