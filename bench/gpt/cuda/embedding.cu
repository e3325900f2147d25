/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of the embedding, and its gradient. */
#include "gpt/cuda/kernels.h"

#include "gpt/cuda/rows.h"
#include "gpt/cuda/types.h"
#include "gpt/cuda/vocabulary.h"

namespace
{

using namespace gpt_cuda;
using weft::reads;
using weft::writes;

/* A token each. */
template <typename P> struct embed {
    static const char *name()
    {
        return "embed";
    }
    const int32_t *tokens;
    const typename P::type *table;
    typename P::type *y;
    size_t first, valid, width, count;

    template <typename Team> WEFT_KERNEL void operator()(size_t token, const Team &team) const
    {
        constexpr unsigned N = P::SIZE;
        size_t row = local_row(tokens[token], first, valid);
        float value[N] = {};
        for (size_t i = team.first() * N; i < width; i += team.size() * N) {
            if (row < valid)
                P::load(value, table + row * width + i);
            P::store(y + token * width + i, value);
        }
    }
    size_t touches(standin_range *r) const
    {
        r[0] = reads(tokens, count), r[1] = reads(table, valid * width), r[2] = writes(y, count * width);
        return 3;
    }
};

/* The first token of its kind adds for all of them, in their order: so nobody adds to another's row. */
template <typename P> struct embed_grad {
    static const char *name()
    {
        return "embed_grad";
    }
    const int32_t *tokens;
    const typename P::type *dy;
    float *dtable;
    size_t first, valid, width, count;

    template <typename Team> WEFT_KERNEL void operator()(size_t token, const Team &team) const
    {
        constexpr unsigned N = P::SIZE;
        size_t row = local_row(tokens[token], first, valid);
        float earlier = 0;
        for (size_t i = team.first(); i < token; i += team.size())
            earlier = tokens[i] == tokens[token] ? 1.0f : earlier;
        if (team.max(earlier) > 0 || row >= valid)
            return;
        for (size_t same = token; same < count; same++) {
            if (tokens[same] != tokens[token])
                continue;
            float value[N];
            for (size_t i = team.first() * N; i < width; i += team.size() * N) {
                P::load(value, dy + same * width + i);
                for (unsigned k = 0; k < N; k++)
                    dtable[row * width + i + k] += value[k];
            }
        }
    }
    size_t touches(standin_range *r) const
    {
        r[0] = reads(tokens, count), r[1] = reads(dy, count * width), r[2] = writes(dtable, valid * width);
        return 3;
    }
};

} // namespace

extern "C" weft_result gpt_cuda_embed(weft_dtype dtype, const gpt_vocabulary *v, size_t count, size_t width,
                                      const int32_t *tokens, const void *table, void *y, weft_stream stream)
{
    const gpt_vocabulary own = *v;
    auto launch_packs = [=](auto p) {
        using P = decltype(p);
        return launch_rows(embed<P>{tokens, AS(P, table), TO(P, y), own.first, own.valid, width, count}, stream);
    };
    return with_packs(dtype, width, launch_packs, table, y);
}

extern "C" weft_result gpt_cuda_embed_grad(weft_dtype dtype, const gpt_vocabulary *v, size_t count, size_t width,
                                           const int32_t *tokens, const void *dy, float *dtable, weft_stream stream)
{
    const gpt_vocabulary own = *v;
    auto launch_packs = [=](auto p) {
        using P = decltype(p);
        return launch_rows(embed_grad<P>{tokens, AS(P, dy), dtable, own.first, own.valid, width, count}, stream);
    };
    return with_packs(dtype, width, launch_packs, dy);
}
