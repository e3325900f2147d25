/* SPDX-License-Identifier: Apache-2.0 */
/* SwiGLU and its gradient. */
#include "gpt/cuda/kernels.h"

#include "gpt/cuda/types.h"
#include "gpt/math/swiglu.h"

namespace
{

using namespace gpt_cuda;
using weft::launch;
using weft::reads;
using weft::writes;

template <typename T> struct swiglu {
    static const char *name()
    {
        return "swiglu";
    }
    const typename T::type *gate_up;
    typename T::type *y;
    size_t width, count;

    WEFT_KERNEL void operator()(size_t i) const
    {
        const typename T::type *row = gate_up + i / width * 2 * width;
        y[i] = T::store(math_swiglu(T::load(row[i % width]), T::load(row[width + i % width])));
    }
    size_t touches(standin_range *r) const
    {
        return r[0] = reads(gate_up, 2 * count), r[1] = writes(y, count), 2;
    }
};

template <typename T> struct swiglu_grad {
    static const char *name()
    {
        return "swiglu_grad";
    }
    const typename T::type *gate_up, *dy;
    typename T::type *dgate_up;
    size_t width, count;

    WEFT_KERNEL void operator()(size_t i) const
    {
        size_t at = i / width * 2 * width + i % width;
        float dgate, dup;
        math_swiglu_grad(T::load(gate_up[at]), T::load(gate_up[at + width]), T::load(dy[i]), &dgate, &dup);
        dgate_up[at] = T::store(dgate);
        dgate_up[at + width] = T::store(dup);
    }
    size_t touches(standin_range *r) const
    {
        return r[0] = reads(gate_up, 2 * count), r[1] = reads(dy, count), r[2] = writes(dgate_up, 2 * count), 3;
    }
};

} // namespace

extern "C" weft_result gpt_cuda_swiglu(weft_dtype dtype, size_t rows, size_t width, const void *gate_up, void *y,
                                       weft_stream stream)
{
    return with(dtype, [=](auto t) {
        using T = decltype(t);
        return launch(swiglu<T>{AS(T, gate_up), TO(T, y), width, rows * width}, stream);
    });
}

extern "C" weft_result gpt_cuda_swiglu_grad(weft_dtype dtype, size_t rows, size_t width, const void *gate_up,
                                            const void *dy, void *dgate_up, weft_stream stream)
{
    return with(dtype, [=](auto t) {
        using T = decltype(t);
        return launch(swiglu_grad<T>{AS(T, gate_up), AS(T, dy), TO(T, dgate_up), width, rows * width}, stream);
    });
}
