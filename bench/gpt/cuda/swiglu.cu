/* SPDX-License-Identifier: Apache-2.0 */
/* SwiGLU and its gradient. */
#include "gpt/cuda/kernels.h"

#include "gpt/cuda/rows.h"
#include "gpt/cuda/types.h"
#include "gpt/math/swiglu.h"

namespace
{

using namespace gpt_cuda;
using weft::reads;
using weft::writes;

/* A row each. */
template <typename P> struct swiglu {
    static const char *name()
    {
        return "swiglu";
    }
    const typename P::type *gate_up;
    typename P::type *y;
    size_t width, count;

    template <typename Team> WEFT_KERNEL void operator()(size_t row, const Team &team) const
    {
        constexpr unsigned N = P::SIZE;
        const typename P::type *gates = gate_up + row * 2 * width;
        float gate[N], up[N];
        for (size_t i = team.first() * N; i < width; i += team.size() * N) {
            P::load(gate, gates + i);
            P::load(up, gates + width + i);
            for (unsigned k = 0; k < N; k++)
                gate[k] = math_swiglu(gate[k], up[k]);
            P::store(y + row * width + i, gate);
        }
    }
    size_t touches(standin_range *r) const
    {
        return r[0] = reads(gate_up, 2 * count * width), r[1] = writes(y, count * width), 2;
    }
};

template <typename P> struct swiglu_grad {
    static const char *name()
    {
        return "swiglu_grad";
    }
    const typename P::type *gate_up, *dy;
    typename P::type *dgate_up;
    size_t width, count;

    template <typename Team> WEFT_KERNEL void operator()(size_t row, const Team &team) const
    {
        constexpr unsigned N = P::SIZE;
        size_t gates = row * 2 * width, ups = gates + width;
        float gate[N], up[N], grad[N];
        for (size_t i = team.first() * N; i < width; i += team.size() * N) {
            P::load(gate, gate_up + gates + i);
            P::load(up, gate_up + ups + i);
            P::load(grad, dy + row * width + i);
            for (unsigned k = 0; k < N; k++) {
                float dgate, dup;
                math_swiglu_grad(gate[k], up[k], grad[k], &dgate, &dup);
                gate[k] = dgate, up[k] = dup;
            }
            P::store(dgate_up + gates + i, gate);
            P::store(dgate_up + ups + i, up);
        }
    }
    size_t touches(standin_range *r) const
    {
        r[0] = reads(gate_up, 2 * count * width), r[1] = reads(dy, count * width);
        r[2] = writes(dgate_up, 2 * count * width);
        return 3;
    }
};

} // namespace

extern "C" weft_result gpt_cuda_swiglu(weft_dtype dtype, size_t rows, size_t width, const void *gate_up, void *y,
                                       weft_stream stream)
{
    auto launch_packs = [=](auto p) {
        using P = decltype(p);
        return launch_rows(swiglu<P>{AS(P, gate_up), TO(P, y), width, rows}, stream);
    };
    return with_packs(dtype, width, launch_packs, gate_up, y);
}

extern "C" weft_result gpt_cuda_swiglu_grad(weft_dtype dtype, size_t rows, size_t width, const void *gate_up,
                                            const void *dy, void *dgate_up, weft_stream stream)
{
    auto launch_packs = [=](auto p) {
        using P = decltype(p);
        return launch_rows(swiglu_grad<P>{AS(P, gate_up), AS(P, dy), TO(P, dgate_up), width, rows}, stream);
    };
    return with_packs(dtype, width, launch_packs, gate_up, dy, dgate_up);
}
