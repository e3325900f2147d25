/* SPDX-License-Identifier: Apache-2.0 */
/* The rotation of queries and keys by their positions. */
#include "gpt/cuda/kernels.h"

#include "gpt/cuda/types.h"

namespace
{

using namespace gpt_cuda;
using weft::launch;
using weft::reads;
using weft::writes;

/* One pair of channels of one head of one token. */
template <typename T> struct rotate {
    static const char *name()
    {
        return "rotate";
    }
    typename T::type *qkv;
    const float *cosines, *sines;
    float sign;
    size_t samples, groups, turned, half, sequence, count;

    WEFT_KERNEL void operator()(size_t i) const
    {
        size_t pair = i % half, head = i / half % turned, group = i / half / turned % groups;
        size_t token = i / half / turned / groups, position = token / samples;
        typename T::type *x = qkv + ((token * groups + group) * (turned + 1) + head) * 2 * half + pair;
        float c = cosines[position * half + pair], s = sign * sines[position * half + pair];
        float a = T::load(x[0]), b = T::load(x[half]);
        x[0] = T::store(a * c - b * s);
        x[half] = T::store(b * c + a * s);
    }
    size_t touches(standin_range *r) const
    {
        r[0] = reads(cosines, sequence * half), r[1] = reads(sines, sequence * half);
        r[2] = writes(qkv, sequence * samples * groups * (turned + 1) * 2 * half);
        return 3;
    }
};

} // namespace

extern "C" weft_result gpt_cuda_rotate(weft_dtype dtype, const gpt_attention *a, const float *cosines,
                                       const float *sines, int back, void *qkv, weft_stream stream)
{
    size_t turned = a->heads_per_group + 1, half = a->channels / 2, tokens = a->sequence * a->samples;
    const gpt_attention own = *a;
    return with(dtype, [=](auto t) {
        using T = decltype(t);
        return launch(rotate<T>{TO(T, qkv), cosines, sines, back ? -1.0f : 1.0f, own.samples, own.groups, turned, half,
                                own.sequence, tokens * own.groups * turned * half},
                      stream);
    });
}
