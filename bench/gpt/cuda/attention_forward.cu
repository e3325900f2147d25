/* SPDX-License-Identifier: Apache-2.0 */
/* The fused attention. */
#include "gpt/cuda/attention_fused.h"

namespace
{

using namespace gpt_cuda;
using weft::reads;
using weft::writes;

/* A block of queries of one head; keys come by blocks, the next while one is used. */
template <unsigned WIDTH> struct attend {
    static const char *name()
    {
        return "attention";
    }
    enum : unsigned {
        THREADS = WARPS * LANES,
        TILES = 2, /* of 16 queries, a warp */
        QUERIES = WARPS * TILES * 16,
        KEYS = WIDTH == 64 ? 64 : 32,
        PIECES = tile<WIDTH>::PIECES,
        SHARED_BYTES = tile<WIDTH>::bytes(QUERIES + 4 * KEYS),
        PER_SM = 2,
    };
    const uint16_t *qkv;
    uint16_t *context;
    float *logsum;
    layout<WIDTH> at;
    unsigned blocks;

    /* What a warp knows of its queries so far. */
    struct state {
        float out[TILES][WIDTH / 8][4];
        float most[TILES][2], sum[TILES][2]; /* of scores; of exponentials, this lane's part */
    };

    WEFT_KERNEL void operator()(unsigned block, void *shared) const
    {
        size_t number = block % at.numbers(), first = (blocks - 1 - block) / at.numbers() * QUERIES; /* longest first */
        size_t stride = at.qkv_stride(), end = first + QUERIES < at.sequence ? first + QUERIES : at.sequence;
        const uint16_t *keys = qkv + at.key(number);
        piece *memory = static_cast<piece *>(shared), *stages = memory + QUERIES * PIECES;
        const tile<WIDTH> q = {memory};
        q.template copy_rows<QUERIES, THREADS>(qkv + at.query(number) + first * stride, stride, at.sequence - first);
        fetch_keys<KEYS, THREADS>(at, keys, 0, stages);
        state s = {};
#pragma unroll
        for (unsigned i = 0; i < TILES; i++)
            s.most[i][0] = s.most[i][1] = -INFINITY;
        size_t mine = first + warp() * TILES * 16, seen = mine < at.sequence ? mine + TILES * 16 : 0;
        unsigned stage = 0;
        for (size_t key = 0; key < end; key += KEYS, stage = 1 - stage) {
            copy_wait();
            sync_block();
            if (key + KEYS < end)
                fetch_keys<KEYS, THREADS>(at, keys, key + KEYS, stages + (1 - stage) * 2 * KEYS * PIECES);
            if (key < seen)
                see(s, q, stages + stage * 2 * KEYS * PIECES, mine, key);
        }
        finish(s, q, number, first);
    }

    /* @p query and @p key: the first of the warp, and of the stage. */
    WEFT_KERNEL void see(state &s, const tile<WIDTH> &q, piece *stage, size_t query, size_t key) const
    {
        const tile<WIDTH> k = {stage}, v = {stage + KEYS * PIECES};
        float scores[TILES][KEYS / 8][4] = {};
        add_rows_by_rows(scores, q, warp() * TILES * 16, k, 0);
        int ahead = (int)key - (int)query;
        if (ahead + (int)KEYS > 1)
            hide(scores, [=](int row, int column) { return ahead + column > row; });
        soften(s, scores);
        add_held_by(s.out, scores, v, 0);
    }

    /* Scores become exponentials, relative to the largest so far; what was summed before is scaled to it. */
    WEFT_KERNEL void soften(state &s, float (&scores)[TILES][KEYS / 8][4]) const
    {
        const float factor = at.scale * LOG2_E;
#pragma unroll
        for (unsigned i = 0; i < TILES; i++)
#pragma unroll
            for (unsigned half = 0; half < 2; half++) {
                float most = s.most[i][half], sum = 0;
#pragma unroll
                for (unsigned j = 0; j < KEYS / 8; j++)
                    most = fmaxf(most, fmaxf(scores[i][j][half * 2], scores[i][j][half * 2 + 1]));
                most = row_max(most);
                float shrink = power_of_2((s.most[i][half] - most) * factor), away = most * factor;
#pragma unroll
                for (unsigned j = 0; j < KEYS / 8; j++)
#pragma unroll
                    for (unsigned part = half * 2; part < half * 2 + 2; part++) {
                        scores[i][j][part] = power_of_2(fmaf(scores[i][j][part], factor, -away));
                        sum += scores[i][j][part];
                    }
                s.most[i][half] = most;
                s.sum[i][half] = fmaf(s.sum[i][half], shrink, sum);
#pragma unroll
                for (unsigned j = 0; j < WIDTH / 8; j++) {
                    s.out[i][j][half * 2] *= shrink;
                    s.out[i][j][half * 2 + 1] *= shrink;
                }
            }
    }

    WEFT_KERNEL void finish(state &s, const tile<WIDTH> &q, size_t number, size_t first) const
    {
#pragma unroll
        for (unsigned i = 0; i < TILES; i++)
#pragma unroll
            for (unsigned half = 0; half < 2; half++) {
                size_t query = first + warp() * TILES * 16 + row_of(i, half * 2);
                float sum = row_sum(s.sum[i][half]), inverse = 1 / sum;
                if (lane() % 4 == 0 && query < at.sequence)
                    store(&logsum[number * at.sequence + query], fmaf(s.most[i][half], at.scale, logf(sum)));
#pragma unroll
                for (unsigned j = 0; j < WIDTH / 8; j++) {
                    s.out[i][j][half * 2] *= inverse;
                    s.out[i][j][half * 2 + 1] *= inverse;
                }
            }
        size_t stride = at.context_stride();
        store_rows(s.out, q, warp() * TILES * 16, context + at.context(number) + first * stride, stride,
                   at.sequence - first);
    }

    size_t touches(standin_range *r) const
    {
        r[0] = reads(qkv, at.sequence * at.qkv_stride());
        r[1] = writes(context, at.sequence * at.context_stride());
        r[2] = writes(logsum, at.numbers() * at.sequence);
        return 3;
    }
};

template <unsigned WIDTH>
weft_result forward(const gpt_attention *a, const void *qkv, void *context, float *logsum, weft_stream stream)
{
    const layout<WIDTH> at = layout_of<WIDTH>(a);
    using kernel = attend<WIDTH>;
    return launch_blocks(kernel{static_cast<const uint16_t *>(qkv), static_cast<uint16_t *>(context), logsum, at,
                                at.blocks(kernel::QUERIES) * (unsigned)at.numbers()},
                         stream);
}

} // namespace

extern "C" int gpt_cuda_fused_fits(weft_dtype dtype, size_t channels)
{
    return dtype == WEFT_BF16 && (channels == 64 || channels == 128);
}

extern "C" weft_result gpt_cuda_fused_attention(const gpt_attention *a, const void *qkv, void *context, float *logsum,
                                                weft_stream stream)
{
    return a->channels == 64 ? forward<64>(a, qkv, context, logsum, stream)
                             : forward<128>(a, qkv, context, logsum, stream);
}
