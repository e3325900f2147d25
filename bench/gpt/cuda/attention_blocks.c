/* SPDX-License-Identifier: Apache-2.0 */
/* Causal attention on a GPU, the plain way: products of blocks of queries with the keys that they see, all heads of a
 * group at once. Only the logarithms of the sums are kept; the backward makes the probabilities again. Sums of
 * gradients over queries and heads are fp32. */
#include <math.h>

#include "gpt/cuda/device.h"

/* One group of one sample: where in a row its queries, key and value begin, and where its contexts do. */
typedef struct group {
    size_t query, key, value, context, qkv_stride, context_stride;
    size_t logsum; /* of its first head: [head][sample][query] */
} group;

static group group_of(const gpt_attention *a, size_t sample, size_t number)
{
    size_t in_row = a->heads_per_group + 2, qkv_width = a->groups * in_row * a->channels;
    size_t heads = a->groups * a->heads_per_group, first_head = number * a->heads_per_group;
    size_t start = sample * qkv_width + number * in_row * a->channels;
    return (group){
        .query = start,
        .key = start + a->heads_per_group * a->channels,
        .value = start + (a->heads_per_group + 1) * a->channels,
        .context = (sample * heads + first_head) * a->channels,
        .qkv_stride = a->samples * qkv_width,
        .context_stride = a->samples * heads * a->channels,
        .logsum = (first_head * a->samples + sample) * a->sequence,
    };
}

static gpt_cuda_matrix at(const gpt_cuda *cuda, const void *memory, size_t start, size_t ld, size_t batch_stride)
{
    const char *bytes = memory;
    return (gpt_cuda_matrix){bytes + start * weft_dtype_bytes(cuda->device.parameter), cuda->device.parameter, ld,
                             batch_stride, 0};
}

static gpt_cuda_matrix transpose(gpt_cuda_matrix matrix)
{
    matrix.transposed = !matrix.transposed;
    return matrix;
}

static gpt_cuda_matrix floats(float *memory, size_t ld, size_t batch_stride)
{
    return (gpt_cuda_matrix){memory, WEFT_FP32, ld, batch_stride, 0};
}

/* A block of queries of one group. */
typedef struct block {
    group g;
    gpt_cuda_scores s;
    float scale;
} block;

static block block_of(const gpt_attention *a, size_t sample, size_t number, size_t first)
{
    size_t left = a->sequence - first, count = left < GPT_CUDA_QUERY_BLOCK ? left : GPT_CUDA_QUERY_BLOCK;
    return (block){group_of(a, sample, number),
                   {a->heads_per_group, first, count, first + count, a->samples * a->sequence},
                   1 / sqrtf((float)a->channels)};
}

static void make_scores(gpt_cuda *cuda, const gpt_attention *a, const block *b, const void *qkv)
{
    const group *g = &b->g;
    gpt_cuda_matrix query = at(cuda, qkv, g->query + b->s.first * g->qkv_stride, g->qkv_stride, a->channels);
    gpt_cuda_matrix key = at(cuda, qkv, g->key, g->qkv_stride, 0);
    gpt_cuda_multiply(cuda, b->s.count, b->s.keys, a->channels, b->scale, query, transpose(key), 0,
                      floats(cuda->scores, b->s.keys, b->s.count * b->s.keys), a->heads_per_group);
}

static void attend(gpt_cuda *cuda, const gpt_attention *a, const block *b, const void *qkv, void *context,
                   float *logsum)
{
    const group *g = &b->g;
    weft_dtype dtype = cuda->device.parameter;
    make_scores(cuda, a, b, qkv);
    gpt_cuda_note(cuda, "softmax",
                  gpt_cuda_softmax(dtype, &b->s, cuda->scores, cuda->probabilities, logsum + g->logsum + b->s.first,
                                   cuda->device.stream));
    gpt_cuda_multiply(cuda, b->s.count, a->channels, b->s.keys, 1,
                      at(cuda, cuda->probabilities, 0, b->s.keys, b->s.count * b->s.keys),
                      at(cuda, qkv, g->value, g->qkv_stride, 0), 0,
                      at(cuda, context, g->context + b->s.first * g->context_stride, g->context_stride, a->channels),
                      a->heads_per_group);
}

void gpt_cuda_attention_blocks(gpt_cuda *cuda, const gpt_attention *a, const void *qkv, void *context, float *logsum)
{
    for (size_t sample = 0; sample < a->samples; sample++)
        for (size_t number = 0; number < a->groups; number++)
            for (size_t first = 0; first < a->sequence; first += GPT_CUDA_QUERY_BLOCK) {
                block b = block_of(a, sample, number, first);
                attend(cuda, a, &b, qkv, context, logsum);
            }
}

typedef struct grads {
    const void *qkv, *context, *dcontext;
    const float *logsum;
    void *dqkv;
} grads;

/* Probabilities and gradients of scores of a block. */
static void make_dscores(gpt_cuda *cuda, const gpt_attention *a, const block *b, const grads *x)
{
    const group *g = &b->g;
    weft_dtype dtype = cuda->device.parameter;
    weft_stream stream = cuda->device.stream;
    size_t element = weft_dtype_bytes(dtype), start = g->context + b->s.first * g->context_stride;
    make_scores(cuda, a, b, x->qkv);
    gpt_cuda_note(cuda, "softmax",
                  gpt_cuda_softmax_again(dtype, &b->s, cuda->scores, cuda->probabilities,
                                         x->logsum + g->logsum + b->s.first, stream));
    gpt_cuda_multiply(cuda, b->s.count, b->s.keys, a->channels, 1,
                      at(cuda, x->dcontext, start, g->context_stride, a->channels),
                      transpose(at(cuda, x->qkv, g->value, g->qkv_stride, 0)), 0,
                      floats(cuda->scores, b->s.keys, b->s.count * b->s.keys), a->heads_per_group);
    gpt_cuda_note(cuda, "dots",
                  gpt_cuda_row_dots(dtype, a->heads_per_group, b->s.count, a->channels, g->context_stride,
                                    (const char *)x->context + start * element,
                                    (const char *)x->dcontext + start * element, cuda->dots, stream));
    gpt_cuda_note(cuda, "gradient of softmax",
                  gpt_cuda_softmax_grad(dtype, &b->s, cuda->probabilities, cuda->scores, cuda->dots, b->scale,
                                        cuda->dscores, stream));
}

/* @p whole: nothing has been added to the gradients of keys and values yet, and this block reaches all of them. */
static void attend_grad(gpt_cuda *cuda, const gpt_attention *a, const block *b, int whole, const grads *x)
{
    const group *g = &b->g;
    size_t channels = a->channels, keys = b->s.keys, count = b->s.count;
    make_dscores(cuda, a, b, x);
    gpt_cuda_multiply(cuda, count, channels, keys, 1, at(cuda, cuda->dscores, 0, keys, count * keys),
                      at(cuda, x->qkv, g->key, g->qkv_stride, 0), 0,
                      at(cuda, x->dqkv, g->query + b->s.first * g->qkv_stride, g->qkv_stride, channels),
                      a->heads_per_group);
    for (size_t head = 0; head < a->heads_per_group; head++) {
        float beta = whole && head == 0 ? 0 : 1;
        size_t scores = head * count * keys;
        gpt_cuda_multiply(
            cuda, keys, channels, count, 1, transpose(at(cuda, cuda->probabilities, scores, keys, 0)),
            at(cuda, x->dcontext, g->context + head * channels + b->s.first * g->context_stride, g->context_stride, 0),
            beta, floats(cuda->dvalue, channels, 0), 1);
        gpt_cuda_multiply(cuda, keys, channels, count, 1, transpose(at(cuda, cuda->dscores, scores, keys, 0)),
                          at(cuda, x->qkv, g->query + head * channels + b->s.first * g->qkv_stride, g->qkv_stride, 0),
                          beta, floats(cuda->dkey, channels, 0), 1);
    }
}

static void store(gpt_cuda *cuda, const gpt_attention *a, const float *from, void *dqkv, size_t start, size_t stride)
{
    size_t element = weft_dtype_bytes(cuda->device.parameter);
    gpt_cuda_note(cuda, "storing gradients",
                  gpt_cuda_store_rows(cuda->device.parameter, a->sequence, a->channels, from, stride,
                                      (char *)dqkv + start * element, cuda->device.stream));
}

void gpt_cuda_attention_blocks_grad(gpt_cuda *cuda, const gpt_attention *a, const void *qkv, const void *context,
                                    const float *logsum, const void *dcontext, void *dqkv)
{
    const grads x = {qkv, context, dcontext, logsum, dqkv};
    size_t last = (a->sequence - 1) / GPT_CUDA_QUERY_BLOCK * GPT_CUDA_QUERY_BLOCK;
    for (size_t sample = 0; sample < a->samples; sample++)
        for (size_t number = 0; number < a->groups; number++) {
            group g = group_of(a, sample, number);
            /* From the last block, which sees every key, to the first: so nothing has to be zeroed before. */
            for (size_t first = last + GPT_CUDA_QUERY_BLOCK; first > 0;) {
                first -= GPT_CUDA_QUERY_BLOCK;
                block b = block_of(a, sample, number, first);
                attend_grad(cuda, a, &b, first == last, &x);
            }
            store(cuda, a, cuda->dkey, dqkv, g.key, g.qkv_stride);
            store(cuda, a, cuda->dvalue, dqkv, g.value, g.qkv_stride);
        }
}
