/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of the embedding, and its gradient. */
#include "gpt/cuda/kernels.h"

#include "gpt/cuda/types.h"
#include "gpt/cuda/vocabulary.h"

namespace
{

using namespace gpt_cuda;
using weft::launch;
using weft::reads;
using weft::writes;

template <typename T> struct embed {
    static const char *name()
    {
        return "embed";
    }
    const int32_t *tokens;
    const typename T::type *table;
    typename T::type *y;
    size_t first, valid, width, count;

    WEFT_KERNEL void operator()(size_t i) const
    {
        size_t row = local_row(tokens[i / width], first, valid);
        y[i] = row < valid ? table[row * width + i % width] : T::store(0);
    }
    size_t touches(standin_range *r) const
    {
        return r[0] = reads(tokens, count / width), r[1] = reads(table, valid * width), r[2] = writes(y, count), 3;
    }
};

/* A column each: tokens are added in their order. */
template <typename T> struct embed_grad {
    static const char *name()
    {
        return "embed_grad";
    }
    const int32_t *tokens;
    const typename T::type *dy;
    float *dtable;
    size_t first, valid, rows, count;

    WEFT_KERNEL void operator()(size_t column) const
    {
        for (size_t i = 0; i < rows; i++) {
            size_t row = local_row(tokens[i], first, valid);
            if (row < valid)
                dtable[row * count + column] += T::load(dy[i * count + column]);
        }
    }
    size_t touches(standin_range *r) const
    {
        return r[0] = reads(tokens, rows), r[1] = reads(dy, rows * count), r[2] = writes(dtable, valid * count), 3;
    }
};

} // namespace

extern "C" weft_result gpt_cuda_embed(weft_dtype dtype, const gpt_vocabulary *v, size_t count, size_t width,
                                      const int32_t *tokens, const void *table, void *y, weft_stream stream)
{
    const gpt_vocabulary own = *v;
    return with(dtype, [=](auto t) {
        using T = decltype(t);
        return launch(embed<T>{tokens, AS(T, table), TO(T, y), own.first, own.valid, width, count * width}, stream);
    });
}

extern "C" weft_result gpt_cuda_embed_grad(weft_dtype dtype, const gpt_vocabulary *v, size_t count, size_t width,
                                           const int32_t *tokens, const void *dy, float *dtable, weft_stream stream)
{
    const gpt_vocabulary own = *v;
    return with(dtype, [=](auto t) {
        using T = decltype(t);
        return launch(embed_grad<T>{tokens, AS(T, dy), dtable, own.first, own.valid, count, width}, stream);
    });
}
