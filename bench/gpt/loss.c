/* SPDX-License-Identifier: Apache-2.0 */
/* The end of the model: last norm, logits of this rank's part of the vocabulary, cross entropy over all parts. */
#include "gpt/layer.h"

weft_result gpt_loss_forward(gpt_chunk *chunk, gpt_slot *slot, double *loss)
{
    gpt_model *m = chunk->model;
    gpt_device *d = m->device;
    const gpt_shape *s = &m->shape;
    GPT_TRY(gpt_use(chunk, chunk->final_norm));
    d->ops->norm(d, s->rows, s->hidden, slot->end, chunk->final_norm->value, slot->normed, slot->scale);
    GPT_TRY(gpt_column_forward(chunk, chunk->output, slot->normed, s->local_vocabulary, slot->logits));
    d->ops->entropy_largest(d, &m->vocabulary, s->tokens, slot->logits, m->largest);
    GPT_TRY(gpt_tp_agree(&m->tp, m->largest, s->tokens, WEFT_MAX));
    d->ops->entropy_exponentials(d, &m->vocabulary, s->tokens, slot->logits, slot->targets, m->largest, slot->sums);
    GPT_TRY(gpt_tp_agree(&m->tp, slot->sums, 2 * s->tokens, WEFT_SUM));
    d->ops->entropy_loss(d, s->tokens, slot->sums, loss);
    return WEFT_OK;
}

weft_result gpt_loss_backward(gpt_chunk *chunk, gpt_slot *slot, float factor)
{
    gpt_model *m = chunk->model;
    gpt_device *d = m->device;
    const gpt_shape *s = &m->shape;
    d->ops->entropy_grad(d, &m->vocabulary, s->tokens, slot->logits, slot->targets, slot->sums, factor);
    GPT_TRY(gpt_column_backward(chunk, chunk->output, slot->normed, s->local_vocabulary, slot->logits, m->branch));
    d->ops->clear(d, s->rows * s->hidden * weft_dtype_bytes(d->activation), m->grad);
    d->ops->norm_grad(d, s->rows, s->hidden, m->branch, slot->end, chunk->final_norm->value, slot->scale, m->grad,
                      chunk->final_norm->grad);
    return gpt_ready(chunk, chunk->final_norm);
}
