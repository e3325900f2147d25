/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of a GPT, in the order of a stream. `dtype` is that of activations and parameters alike: fp32, or bf16,
 * whose arithmetic is fp32 and rounded when it is stored. Sizes and layouts as in gpt/ops.h. */
#ifndef WEFT_BENCH_GPT_CUDA_KERNELS_H
#define WEFT_BENCH_GPT_CUDA_KERNELS_H
#include "gpt/ops.h"
#ifdef __cplusplus
extern "C" {
#endif

enum { GPT_CUDA_NORM_PARTS = 128 }; /* of rows, in the gradient of a norm's weight: so many rows of scratch */

weft_result gpt_cuda_norm(weft_dtype dtype, size_t rows, size_t width, float epsilon, const void *x, const void *w,
                          void *y, float *scale, weft_stream stream);
/* @p parts: [GPT_CUDA_NORM_PARTS][width] of scratch. */
weft_result gpt_cuda_norm_grad(weft_dtype dtype, size_t rows, size_t width, const void *dy, const void *x,
                               const void *w, const float *scale, void *dx, float *dw, float *parts,
                               weft_stream stream);
/* @p back: turn the other way. Cosines and sines: [sequence][channels / 2]. */
weft_result gpt_cuda_rotate(weft_dtype dtype, const gpt_attention *a, const float *cosines, const float *sines,
                            int back, void *qkv, weft_stream stream);
weft_result gpt_cuda_swiglu(weft_dtype dtype, size_t rows, size_t width, const void *gate_up, void *y,
                            weft_stream stream);
weft_result gpt_cuda_swiglu_grad(weft_dtype dtype, size_t rows, size_t width, const void *gate_up, const void *dy,
                                 void *dgate_up, weft_stream stream);
weft_result gpt_cuda_embed(weft_dtype dtype, const gpt_vocabulary *v, size_t count, size_t width, const int32_t *tokens,
                           const void *table, void *y, weft_stream stream);
weft_result gpt_cuda_embed_grad(weft_dtype dtype, const gpt_vocabulary *v, size_t count, size_t width,
                                const int32_t *tokens, const void *dy, float *dtable, weft_stream stream);
weft_result gpt_cuda_entropy_largest(weft_dtype dtype, const gpt_vocabulary *v, size_t rows, const void *logits,
                                     float *largest, weft_stream stream);
weft_result gpt_cuda_entropy_exponentials(weft_dtype dtype, const gpt_vocabulary *v, size_t rows, void *logits,
                                          const int32_t *targets, const float *largest, float *sums,
                                          weft_stream stream);
weft_result gpt_cuda_entropy_loss(size_t rows, const float *sums, double *total, weft_stream stream);
weft_result gpt_cuda_entropy_grad(weft_dtype dtype, const gpt_vocabulary *v, size_t rows, void *exponentials,
                                  const int32_t *targets, const float *sums, float factor, weft_stream stream);
weft_result gpt_cuda_add(weft_dtype dtype, size_t count, const void *a, const void *b, void *y, weft_stream stream);
weft_result gpt_cuda_convert(size_t count, const void *from, weft_dtype from_dtype, void *to, weft_dtype to_dtype,
                             weft_stream stream);

/* Of attention: rows of scores[heads][count][keys], of queries first ... first + count - 1, each of which sees keys up
 * to its own; logsum[head * logsum_stride + query]. */
typedef struct gpt_cuda_scores {
    size_t heads, first, count, keys, logsum_stride;
} gpt_cuda_scores;
/* Probabilities from scores; keeps the logarithms of the sums. */
weft_result gpt_cuda_softmax(weft_dtype dtype, const gpt_cuda_scores *s, const float *scores, void *probabilities,
                             float *logsum, weft_stream stream);
/* The same by sums that are known. */
weft_result gpt_cuda_softmax_again(weft_dtype dtype, const gpt_cuda_scores *s, const float *scores, void *probabilities,
                                   const float *logsum, weft_stream stream);
/* dots[head][query] = context . dcontext, over rows of @p channels that lie @p stride apart, heads side by side. */
weft_result gpt_cuda_row_dots(weft_dtype dtype, size_t heads, size_t count, size_t channels, size_t stride,
                              const void *context, const void *dcontext, float *dots, weft_stream stream);
/* dscores = probability * (dprobability - dot) * scale, of the parameters' type. */
weft_result gpt_cuda_softmax_grad(weft_dtype dtype, const gpt_cuda_scores *s, const void *probabilities,
                                  const float *dprobabilities, const float *dots, float scale, void *dscores,
                                  weft_stream stream);
/* to[row][i] = from[row][i], rows of @p width that lie @p stride apart in @p to. */
weft_result gpt_cuda_store_rows(weft_dtype dtype, size_t rows, size_t width, const float *from, size_t stride, void *to,
                                weft_stream stream);

/* Attention without scores in memory: of bf16 whose heads have 64 or 128 channels. As gpt_ops has it; the gradient's
 * scratch is @p dots[head][sample][query]. */
int gpt_cuda_fused_fits(weft_dtype dtype, size_t channels);
weft_result gpt_cuda_fused_attention(const gpt_attention *a, const void *qkv, void *context, float *logsum,
                                     weft_stream stream);
weft_result gpt_cuda_fused_attention_grad(const gpt_attention *a, const void *qkv, const void *context,
                                          const float *logsum, const void *dcontext, float *dots, void *dqkv,
                                          weft_stream stream);

#ifdef __cplusplus
}
#endif
#endif
