/* SPDX-License-Identifier: Apache-2.0 */
/* The gradient of the fused attention. Probabilities are made twice, once going over the keys of each query and once
 * over the queries of each key: so nobody adds to what another has, and sums have one order. */
#include "gpt/cuda/attention_fused.h"

namespace
{

using namespace gpt_cuda;
using weft::reads;
using weft::writes;

/* ---- gradient of queries ---- */

/* As the forward goes. Also makes the dots of context and its gradient, which the gradient of the keys reads. */
template <unsigned WIDTH> struct query_grad {
    static const char *name()
    {
        return "attention_dq";
    }
    enum : unsigned {
        THREADS = WARPS * LANES,
        TILES = WIDTH == 64 ? 2 : 1,
        QUERIES = WARPS * TILES * 16,
        KEYS = WIDTH == 64 ? 64 : 32,
        CHUNK = 32, /* of keys, whose probabilities a warp holds */
        PIECES = tile<WIDTH>::PIECES,
        SHARED_BYTES = tile<WIDTH>::bytes(2 * QUERIES + 4 * KEYS),
        PER_SM = 2,
    };
    const uint16_t *qkv, *context, *dcontext;
    const float *logsum;
    float *dots;
    uint16_t *dqkv;
    layout<WIDTH> at;
    unsigned blocks;

    struct state {
        float dq[TILES][WIDTH / 8][4];
        float away[TILES][2], dot[TILES][2];
    };

    WEFT_KERNEL void operator()(unsigned block, void *shared) const
    {
        size_t number = block % at.numbers(), first = (blocks - 1 - block) / at.numbers() * QUERIES;
        size_t stride = at.qkv_stride(), end = first + QUERIES < at.sequence ? first + QUERIES : at.sequence;
        const uint16_t *keys = qkv + at.key(number);
        piece *memory = static_cast<piece *>(shared), *stages = memory + 2 * QUERIES * PIECES;
        const tile<WIDTH> q = {memory}, dout = {memory + QUERIES * PIECES};
        q.template copy_rows<QUERIES, THREADS>(qkv + at.query(number) + first * stride, stride, at.sequence - first);
        dout.template copy_rows<QUERIES, THREADS>(dcontext + at.context(number) + first * at.context_stride(),
                                                  at.context_stride(), at.sequence - first);
        fetch_keys<KEYS, THREADS>(at, keys, 0, stages);
        size_t mine = first + warp() * TILES * 16, seen = mine < at.sequence ? mine + TILES * 16 : 0;
        state s = {};
        begin(s, number, mine);
        unsigned stage = 0;
        for (size_t key = 0; key < end; key += KEYS, stage = 1 - stage) {
            copy_wait();
            sync_block();
            if (key + KEYS < end)
                fetch_keys<KEYS, THREADS>(at, keys, key + KEYS, stages + (1 - stage) * 2 * KEYS * PIECES);
            for (unsigned chunk = 0; chunk < KEYS && key + chunk < seen; chunk += CHUNK)
                see(s, q, dout, stages + stage * 2 * KEYS * PIECES, chunk, (int)(key + chunk) - (int)mine);
        }
        scale_all(s.dq, at.scale);
        store_rows(s.dq, q, warp() * TILES * 16, dqkv + at.query(number) + first * stride, stride, at.sequence - first);
    }

    WEFT_KERNEL void begin(state &s, size_t number, size_t mine) const
    {
#pragma unroll
        for (unsigned i = 0; i < TILES; i++)
#pragma unroll
            for (unsigned half = 0; half < 2; half++) {
                size_t query = mine + row_of(i, half * 2), row = number * at.sequence + query;
                bool valid = query < at.sequence;
                s.away[i][half] = valid ? load(&logsum[row]) * LOG2_E : 0;
                s.dot[i][half] = row_sum(valid ? part_of_dot(number, query) : 0);
                if (valid && lane() % 4 == 0)
                    store(&dots[row], s.dot[i][half]);
            }
    }

    /* Every fourth piece of the row, from the lane's on. */
    WEFT_KERNEL float part_of_dot(size_t number, size_t query) const
    {
        size_t row = at.context(number) + query * at.context_stride();
        float dot = 0;
        for (unsigned i = lane() % 4; i < PIECES; i += 4) {
            piece a = load(reinterpret_cast<const piece *>(context + row) + i);
            piece b = load(reinterpret_cast<const piece *>(dcontext + row) + i);
#pragma unroll
            for (unsigned j = 0; j < 8; j++)
                dot = fmaf(math_bf16_to_float(a.channel[j]), math_bf16_to_float(b.channel[j]), dot);
        }
        return dot;
    }

    WEFT_KERNEL void see(state &s, const tile<WIDTH> &q, const tile<WIDTH> &dout, piece *stage, unsigned chunk,
                         int ahead) const
    {
        const tile<WIDTH> k = {stage}, v = {stage + KEYS * PIECES};
        float p[TILES][CHUNK / 8][4] = {}, d[TILES][CHUNK / 8][4] = {};
        add_rows_by_rows(p, q, warp() * TILES * 16, k, chunk);
        add_rows_by_rows(d, dout, warp() * TILES * 16, v, chunk);
        if (ahead + (int)CHUNK > 1)
            hide(p, [=](int row, int column) { return ahead + column > row; });
#pragma unroll
        for (unsigned i = 0; i < TILES; i++)
#pragma unroll
            for (unsigned j = 0; j < CHUNK / 8; j++)
#pragma unroll
                for (unsigned part = 0; part < 4; part++) {
                    float x = power_of_2(fmaf(p[i][j][part], at.scale * LOG2_E, -s.away[i][part / 2]));
                    d[i][j][part] = x * (d[i][j][part] - s.dot[i][part / 2]);
                }
        add_held_by(s.dq, d, k, chunk);
    }

    size_t touches(standin_range *r) const
    {
        r[0] = reads(qkv, at.sequence * at.qkv_stride());
        r[1] = reads(context, at.sequence * at.context_stride());
        r[2] = reads(dcontext, at.sequence * at.context_stride());
        r[3] = reads(logsum, at.numbers() * at.sequence);
        r[4] = writes(dots, at.numbers() * at.sequence);
        r[5] = writes(dqkv, at.sequence * at.qkv_stride());
        return 6;
    }
};

/* ---- gradients of keys and values ---- */

/* A block of keys of one group; the queries that see them come by blocks, head after head. Keys are the rows of what a
 * warp holds: so its probabilities are the left operand of both products as they are. */
template <unsigned WIDTH> struct key_value_grad {
    static const char *name()
    {
        return "attention_dkv";
    }
    enum : unsigned {
        THREADS = WARPS * LANES,
        TILES = WIDTH == 64 ? 2 : 1,
        KEYS = WARPS * TILES * 16,
        QUERIES = WIDTH == 64 ? 64 : 32,
        CHUNK = WIDTH == 64 ? 16 : 32, /* of queries */
        PIECES = tile<WIDTH>::PIECES,
        STAGE_PIECES = 2 * QUERIES * PIECES + 2 * QUERIES * sizeof(float) / sizeof(piece),
        SHARED_BYTES = tile<WIDTH>::bytes(2 * KEYS) + 2 * STAGE_PIECES * sizeof(piece),
        PER_SM = 2,
    };
    const uint16_t *qkv, *dcontext;
    const float *logsum, *dots;
    uint16_t *dqkv;
    layout<WIDTH> at;
    unsigned blocks;

    /* Queries, what comes back to their contexts, and a number of each for them. */
    struct stage {
        tile<WIDTH> q, dout;
        float *logsum, *dots;
    };
    WEFT_KERNEL stage stage_at(piece *memory, unsigned which) const
    {
        piece *here = memory + 2 * KEYS * PIECES + which * STAGE_PIECES;
        float *numbers = reinterpret_cast<float *>(here + 2 * QUERIES * PIECES);
        return {{here}, {here + QUERIES * PIECES}, numbers, numbers + QUERIES};
    }

    struct state {
        float dk[TILES][WIDTH / 8][4], dv[TILES][WIDTH / 8][4];
    };

    WEFT_KERNEL void operator()(unsigned block, void *shared) const
    {
        size_t pairs = at.groups * at.samples, pair = block % pairs, first = block / pairs * KEYS; /* longest first */
        size_t stride = at.qkv_stride(), sample = pair % at.samples, group = pair / at.samples;
        size_t key = at.in_qkv(sample, group, at.in_group) + first * stride, valid = at.sequence - first;
        piece *memory = static_cast<piece *>(shared);
        const tile<WIDTH> k = {memory}, v = {memory + KEYS * PIECES};
        k.template copy_rows<KEYS, THREADS>(qkv + key, stride, valid);
        v.template copy_rows<KEYS, THREADS>(qkv + key + WIDTH, stride, valid);
        size_t head = group * at.in_group, behind = head + at.in_group, query = first;
        fetch(stage_at(memory, 0), head * at.samples + sample, query);
        state s = {};
        for (unsigned which = 0; head < behind; which = 1 - which) {
            size_t now = query;
            query += QUERIES;
            if (query >= at.sequence)
                query = first, head++;
            copy_wait();
            sync_block();
            if (head < behind)
                fetch(stage_at(memory, 1 - which), head * at.samples + sample, query);
            size_t mine = first + warp() * TILES * 16;
            if (mine < at.sequence)
                see(s, k, v, stage_at(memory, which), (int)mine - (int)now, at.sequence - now);
        }
        scale_all(s.dk, at.scale);
        store_rows(s.dk, k, warp() * TILES * 16, dqkv + key, stride, valid);
        store_rows(s.dv, v, warp() * TILES * 16, dqkv + key + WIDTH, stride, valid);
    }

    WEFT_KERNEL void fetch(const stage &to, size_t number, size_t query) const
    {
        size_t stride = at.qkv_stride(), valid = at.sequence - query, row = number * at.sequence + query;
        to.q.template copy_rows<QUERIES, THREADS>(qkv + at.query(number) + query * stride, stride, valid);
        to.dout.template copy_rows<QUERIES, THREADS>(dcontext + at.context(number) + query * at.context_stride(),
                                                     at.context_stride(), valid);
        if (thread() < QUERIES) {
            bool zero = thread() >= valid;
            copy(to.logsum + thread(), logsum + row + (zero ? 0 : thread()), zero);
            copy(to.dots + thread(), dots + row + (zero ? 0 : thread()), zero);
        }
        copy_commit();
    }

    /* Keys begin @p ahead behind the queries, of which there are so many. */
    WEFT_KERNEL void see(state &s, const tile<WIDTH> &k, const tile<WIDTH> &v, const stage &from, int ahead,
                         size_t queries) const
    {
        for (unsigned chunk = 0; chunk < QUERIES && chunk < queries; chunk += CHUNK) {
            int behind = ahead - (int)chunk; /* keys that begin so far behind the chunk */
            if (behind >= (int)CHUNK)
                continue;
            float p[TILES][CHUNK / 8][4] = {}, d[TILES][CHUNK / 8][4] = {};
            add_rows_by_rows(p, k, warp() * TILES * 16, from.q, chunk);
            add_rows_by_rows(d, v, warp() * TILES * 16, from.dout, chunk);
            if (behind + (int)TILES * 16 > 1)
                hide(p, [=](int row, int column) { return behind + row > column; });
#pragma unroll
            for (unsigned j = 0; j < CHUNK / 8; j++)
#pragma unroll
                for (unsigned side = 0; side < 2; side++) {
                    float away = from.logsum[chunk + column_of(j, side)] * LOG2_E;
                    float dot = from.dots[chunk + column_of(j, side)];
#pragma unroll
                    for (unsigned i = 0; i < TILES; i++)
#pragma unroll
                        for (unsigned part = side; part < 4; part += 2) {
                            float x = power_of_2(fmaf(p[i][j][part], at.scale * LOG2_E, -away));
                            p[i][j][part] = x;
                            d[i][j][part] = x * (d[i][j][part] - dot);
                        }
                }
            add_held_by(s.dv, p, from.dout, chunk);
            add_held_by(s.dk, d, from.q, chunk);
        }
    }

    size_t touches(standin_range *r) const
    {
        r[0] = reads(qkv, at.sequence * at.qkv_stride());
        r[1] = reads(dcontext, at.sequence * at.context_stride());
        r[2] = reads(logsum, at.numbers() * at.sequence);
        r[3] = reads(dots, at.numbers() * at.sequence);
        r[4] = writes(dqkv, at.sequence * at.qkv_stride());
        return 5;
    }
};

template <unsigned WIDTH>
weft_result backward(const gpt_attention *a, const void *qkv, const void *context, const float *logsum,
                     const void *dcontext, float *dots, void *dqkv, weft_stream stream)
{
    const layout<WIDTH> at = layout_of<WIDTH>(a);
    using of_queries = query_grad<WIDTH>;
    using of_keys = key_value_grad<WIDTH>;
    const uint16_t *in = static_cast<const uint16_t *>(qkv), *out = static_cast<const uint16_t *>(context),
                   *dout = static_cast<const uint16_t *>(dcontext);
    uint16_t *din = static_cast<uint16_t *>(dqkv);
    weft_result result = launch_blocks(
        of_queries{in, out, dout, logsum, dots, din, at, at.blocks(of_queries::QUERIES) * (unsigned)at.numbers()},
        stream);
    if (result != WEFT_OK)
        return result;
    return launch_blocks(
        of_keys{in, dout, logsum, dots, din, at, at.blocks(of_keys::KEYS) * (unsigned)(at.groups * at.samples)},
        stream);
}

} // namespace

extern "C" weft_result gpt_cuda_fused_attention_grad(const gpt_attention *a, const void *qkv, const void *context,
                                                     const float *logsum, const void *dcontext, float *dots, void *dqkv,
                                                     weft_stream stream)
{
    return a->channels == 64 ? backward<64>(a, qkv, context, logsum, dcontext, dots, dqkv, stream)
                             : backward<128>(a, qkv, context, logsum, dcontext, dots, dqkv, stream);
}
