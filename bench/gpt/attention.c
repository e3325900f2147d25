/* SPDX-License-Identifier: Apache-2.0 */
/* The first half of a layer: norm, queries keys and values, attention, output, residual connection. */
#include "gpt/layer.h"

weft_result gpt_attention_forward(gpt_chunk *chunk, const gpt_param *layer, gpt_kept *kept)
{
    gpt_model *m = chunk->model;
    gpt_device *d = m->device;
    const gpt_shape *s = &m->shape;
    GPT_TRY(gpt_use(chunk, &layer[GPT_ATTENTION_NORM]));
    d->ops->norm(d, s->rows, s->hidden, kept->start, layer[GPT_ATTENTION_NORM].value, kept->attention_normed,
                 kept->attention_scale);
    GPT_TRY(gpt_column_forward(chunk, &layer[GPT_QKV], kept->attention_normed, s->qkv_width, kept->qkv));
    d->ops->rotate(d, &m->attention, kept->qkv);
    d->ops->attention(d, &m->attention, kept->qkv, kept->context, kept->logsum);
    GPT_TRY(gpt_row_forward(chunk, &layer[GPT_ATTENTION_OUTPUT], kept->context, s->context_width, m->branch));
    d->ops->add(d, s->rows * s->hidden, kept->start, m->branch, kept->middle);
    return WEFT_OK;
}

weft_result gpt_attention_backward(gpt_chunk *chunk, const gpt_param *layer, gpt_kept *kept)
{
    gpt_model *m = chunk->model;
    gpt_device *d = m->device;
    const gpt_shape *s = &m->shape;
    void *dcontext = m->narrow, *dqkv = m->wide;
    GPT_TRY(gpt_row_backward(chunk, &layer[GPT_ATTENTION_OUTPUT], kept->context, s->context_width, m->grad, dcontext));
    d->ops->attention_grad(d, &m->attention, kept->qkv, kept->context, kept->logsum, dcontext, dqkv);
    d->ops->rotate_back(d, &m->attention, dqkv);
    GPT_TRY(gpt_column_backward(chunk, &layer[GPT_QKV], kept->attention_normed, s->qkv_width, dqkv, m->branch));
    d->ops->norm_grad(d, s->rows, s->hidden, m->branch, kept->start, layer[GPT_ATTENTION_NORM].value,
                      kept->attention_scale, m->grad, layer[GPT_ATTENTION_NORM].grad);
    return gpt_ready(chunk, &layer[GPT_ATTENTION_NORM]);
}
