/* SPDX-License-Identifier: Apache-2.0 */
/* Causal attention in one kernel, and its gradient in two: scores never leave the chip. In the manner of Dao,
 * "FlashAttention-2" (arXiv:2307.08691), with the softmax of Milakov and Gimelshein, "Online normalizer calculation for
 * softmax" (arXiv:1805.02867). Here is what the kernels share. */
#ifndef WEFT_BENCH_GPT_CUDA_ATTENTION_FUSED_H
#define WEFT_BENCH_GPT_CUDA_ATTENTION_FUSED_H
#include <math.h>

#include "gpt/cuda/blocks.h"
#include "gpt/cuda/kernels.h"
#include "gpt/cuda/tile.h"

namespace gpt_cuda
{

enum : unsigned { WARPS = 4 }; /* of a block of threads */
constexpr float LOG2_E = 1.44269504f;

/* Where things are in memory. A row of queries, keys and values is a token's, tokens ordered [sequence][sample]; heads
 * and samples are numbered together, [head][sample], as the logarithms are. */
template <unsigned WIDTH> struct layout {
    size_t sequence, samples, groups, in_group;
    float scale;

    WEFT_KERNEL size_t numbers() const
    {
        return groups * in_group * samples;
    }
    WEFT_KERNEL size_t qkv_stride() const
    {
        return samples * groups * (in_group + 2) * WIDTH;
    }
    WEFT_KERNEL size_t context_stride() const
    {
        return samples * groups * in_group * WIDTH;
    }
    /* The queries, keys and values of a group in one sample; its key is @p in_group, its value the next. */
    WEFT_KERNEL size_t in_qkv(size_t sample, size_t group, size_t which) const
    {
        return ((sample * groups + group) * (in_group + 2) + which) * WIDTH;
    }
    WEFT_KERNEL size_t query(size_t number) const
    {
        size_t head = number / samples;
        return in_qkv(number % samples, head / in_group, head % in_group);
    }
    WEFT_KERNEL size_t key(size_t number) const
    {
        return in_qkv(number % samples, number / samples / in_group, in_group);
    }
    WEFT_KERNEL size_t context(size_t number) const
    {
        return (number % samples * groups * in_group + number / samples) * WIDTH;
    }
    unsigned blocks(unsigned rows) const
    {
        return (unsigned)((sequence + rows - 1) / rows);
    }
};

/* Which row of a warp's tiles this lane has, and which column. */
WEFT_KERNEL unsigned row_of(unsigned tile, unsigned part)
{
    return tile * 16 + part / 2 * 8 + lane() / 4;
}
WEFT_KERNEL unsigned column_of(unsigned tile, unsigned part)
{
    return tile * 8 + lane() % 4 * 2 + part % 2;
}

/* Over the four lanes that share rows. */
WEFT_KERNEL float row_sum(float x)
{
    x += shuffle_xor(x, 1);
    return x + shuffle_xor(x, 2);
}
WEFT_KERNEL float row_max(float x)
{
    x = fmaxf(x, shuffle_xor(x, 1));
    return fmaxf(x, shuffle_xor(x, 2));
}

template <unsigned TILES, unsigned COLUMNS> WEFT_KERNEL void scale_all(float (&c)[TILES][COLUMNS][4], float factor)
{
#pragma unroll
    for (unsigned i = 0; i < TILES; i++)
#pragma unroll
        for (unsigned j = 0; j < COLUMNS; j++)
#pragma unroll
            for (unsigned part = 0; part < 4; part++)
                c[i][j][part] *= factor;
}

/* What is_hidden(row, column) becomes as nothing to an exponential. */
template <unsigned TILES, unsigned COLUMNS, typename Function>
WEFT_KERNEL void hide(float (&scores)[TILES][COLUMNS][4], const Function &is_hidden)
{
#pragma unroll
    for (unsigned i = 0; i < TILES; i++)
#pragma unroll
        for (unsigned j = 0; j < COLUMNS; j++)
#pragma unroll
            for (unsigned part = 0; part < 4; part++)
                if (is_hidden((int)row_of(i, part), (int)column_of(j, part)))
                    scores[i][j][part] = -INFINITY;
}

template <unsigned WIDTH> layout<WIDTH> layout_of(const gpt_attention *a)
{
    return {a->sequence, a->samples, a->groups, a->heads_per_group, 1 / sqrtf((float)WIDTH)};
}

/* Bring KEYS keys, from @p key on, and their values behind them. */
template <unsigned KEYS, unsigned THREADS, unsigned WIDTH>
WEFT_KERNEL void fetch_keys(const layout<WIDTH> &at, const uint16_t *keys, size_t key, piece *stage)
{
    size_t stride = at.qkv_stride();
    const tile<WIDTH> k = {stage}, v = {stage + KEYS * tile<WIDTH>::PIECES};
    k.template copy_rows<KEYS, THREADS>(keys + key * stride, stride, at.sequence - key);
    v.template copy_rows<KEYS, THREADS>(keys + WIDTH + key * stride, stride, at.sequence - key);
    copy_commit();
}

} // namespace gpt_cuda
#endif
