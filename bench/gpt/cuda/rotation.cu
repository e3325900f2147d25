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

/* A pack of pairs of channels of one head of one token. */
template <typename P> struct rotate {
    static const char *name()
    {
        return "rotate";
    }
    typename P::type *qkv;
    const float *cosines, *sines;
    float sign;
    size_t samples, groups, turned, half, sequence, count;

    WEFT_KERNEL void operator()(size_t i) const
    {
        constexpr unsigned N = P::SIZE;
        size_t packs = half / N, pair = i % packs * N, head = i / packs % turned, group = i / packs / turned % groups;
        size_t token = i / packs / turned / groups, angle = token / samples * half + pair;
        typename P::type *x = qkv + ((token * groups + group) * (turned + 1) + head) * 2 * half + pair;
        float a[N], b[N];
        P::load(a, x);
        P::load(b, x + half);
        for (unsigned k = 0; k < N; k++) {
            float c = cosines[angle + k], s = sign * sines[angle + k], turned_a = a[k] * c - b[k] * s;
            b[k] = b[k] * c + a[k] * s;
            a[k] = turned_a;
        }
        P::store(x, a);
        P::store(x + half, b);
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
    auto launch_packs = [=](auto p) {
        using P = decltype(p);
        return launch(rotate<P>{TO(P, qkv), cosines, sines, back ? -1.0f : 1.0f, own.samples, own.groups, turned, half,
                                own.sequence, tokens * own.groups * turned * half / P::SIZE},
                      stream);
    };
    return with_packs(dtype, half, launch_packs, qkv);
}
