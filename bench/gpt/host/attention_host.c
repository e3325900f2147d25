/* SPDX-License-Identifier: Apache-2.0 */
/* Causal attention on the host: products of blocks of queries with the keys that they see, softmax in between. Only the
 * logarithms of the sums are kept; the backward makes the probabilities again. */
#include <math.h>

#include "gpt/host/device.h"
#include "gpt/host/gemm.h"

/* One head of one sample: where its queries, keys, values and results begin, and how far apart its rows are. */
typedef struct head {
    size_t query, key, value, context;
    size_t qkv_stride, context_stride;
    size_t number; /* of the logarithms: [head][sample][query] */
} head;

static head head_of(const gpt_attention *a, size_t sample, size_t group, size_t in_group)
{
    size_t in_row = a->heads_per_group + 2, qkv_width = a->groups * in_row * a->channels;
    size_t heads = a->groups * a->heads_per_group, number = group * a->heads_per_group + in_group;
    size_t group_start = sample * qkv_width + group * in_row * a->channels;
    return (head){
        .query = group_start + in_group * a->channels,
        .key = group_start + a->heads_per_group * a->channels,
        .value = group_start + (a->heads_per_group + 1) * a->channels,
        .context = (sample * heads + number) * a->channels,
        .qkv_stride = a->samples * qkv_width,
        .context_stride = a->samples * heads * a->channels,
        .number = (number * a->samples + sample) * a->sequence,
    };
}

/* The same rows from @p row on, or their transpose. */
static gpt_matrix rows_from(const float *values, size_t start, size_t stride, size_t row)
{
    return (gpt_matrix){values + start + row * stride, stride, false};
}

static gpt_matrix transpose(gpt_matrix matrix)
{
    matrix.transposed = !matrix.transposed;
    return matrix;
}

static void attend(gpt_host *host, const gpt_attention *a, const head *h, size_t first, size_t count, const float *qkv,
                   float *context, float *logsum)
{
    size_t keys = first + count, channels = a->channels;
    float *out = context + h->context + first * h->context_stride, *inverse_sums = host->rows[0];
    gpt_gemm(count, keys, channels, 1 / sqrtf((float)channels), rows_from(qkv, h->query, h->qkv_stride, first),
             transpose(rows_from(qkv, h->key, h->qkv_stride, 0)), 0, host->scores, keys);
    host->kernels->softmax(count, keys, first + 1, host->scores, inverse_sums, logsum + h->number + first);
    gpt_gemm(count, channels, keys, 1, (gpt_matrix){host->scores, keys, false},
             rows_from(qkv, h->value, h->qkv_stride, 0), 0, out, h->context_stride);
    host->kernels->row_scale(count, channels, inverse_sums, out, h->context_stride);
}

void gpt_host_attention(gpt_device *device, const gpt_attention *a, const void *qkv, void *context, float *logsum)
{
    for (size_t sample = 0; sample < a->samples; sample++)
        for (size_t i = 0; i < a->groups * a->heads_per_group; i++) {
            head h = head_of(a, sample, i / a->heads_per_group, i % a->heads_per_group);
            for (size_t first = 0; first < a->sequence; first += GPT_QUERY_BLOCK) {
                size_t left = a->sequence - first, count = left < GPT_QUERY_BLOCK ? left : GPT_QUERY_BLOCK;
                attend(gpt_host_of(device), a, &h, first, count, qkv, context, logsum);
            }
        }
}

typedef struct grads {
    const float *qkv, *context, *logsum, *dcontext;
    float *dqkv;
} grads;

/* @p whole: nothing has been added to the gradients of keys and values yet, and this block reaches all of them. */
static void attend_grad(gpt_host *host, const gpt_attention *a, const head *h, size_t first, size_t count, bool whole,
                        const grads *g)
{
    size_t keys = first + count, channels = a->channels;
    size_t context_start = h->context + first * h->context_stride;
    float scale = 1 / sqrtf((float)channels), *dots = host->rows[0], beta = whole ? 0 : 1;
    gpt_matrix query = rows_from(g->qkv, h->query, h->qkv_stride, first),
               key = rows_from(g->qkv, h->key, h->qkv_stride, 0), value = rows_from(g->qkv, h->value, h->qkv_stride, 0),
               dout = rows_from(g->dcontext, h->context, h->context_stride, first),
               probabilities = {host->scores, keys, false}, dscores = {host->dscores, keys, false};

    gpt_gemm(count, keys, channels, scale, query, transpose(key), 0, host->scores, keys);
    host->kernels->softmax_again(count, keys, first + 1, host->scores, g->logsum + h->number + first);
    gpt_gemm(keys, channels, count, 1, transpose(probabilities), dout, beta, g->dqkv + h->value, h->qkv_stride);

    gpt_gemm(count, keys, channels, 1, dout, transpose(value), 0, host->dscores, keys);
    host->kernels->row_dots(count, channels, g->context + context_start, g->dcontext + context_start, h->context_stride,
                            dots);
    host->kernels->softmax_grad(count, keys, host->scores, dots, scale, host->dscores);
    gpt_gemm(count, channels, keys, 1, dscores, key, 0, g->dqkv + h->query + first * h->qkv_stride, h->qkv_stride);
    gpt_gemm(keys, channels, count, 1, transpose(dscores), query, beta, g->dqkv + h->key, h->qkv_stride);
}

void gpt_host_attention_grad(gpt_device *device, const gpt_attention *a, const void *qkv, const void *context,
                             const float *logsum, const void *dcontext, void *dqkv)
{
    const grads g = {qkv, context, logsum, dcontext, dqkv};
    size_t last = (a->sequence - 1) / GPT_QUERY_BLOCK * GPT_QUERY_BLOCK;
    for (size_t sample = 0; sample < a->samples; sample++)
        for (size_t i = 0; i < a->groups * a->heads_per_group; i++) {
            head h = head_of(a, sample, i / a->heads_per_group, i % a->heads_per_group);
            /* From the last block, which sees every key, to the first: so no gradient has to be zeroed before. */
            for (size_t first = last + GPT_QUERY_BLOCK; first > 0;) {
                first -= GPT_QUERY_BLOCK;
                size_t left = a->sequence - first, count = left < GPT_QUERY_BLOCK ? left : GPT_QUERY_BLOCK;
                attend_grad(gpt_host_of(device), a, &h, first, count, first == last && i % a->heads_per_group == 0, &g);
            }
        }
}
