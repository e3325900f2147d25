/* SPDX-License-Identifier: Apache-2.0 */
/* The vocabulary-parallel embedding: each rank looks up the tokens that are its own, and the rows are summed. */
#include "gpt/layer.h"

weft_result gpt_embedding_forward(gpt_chunk *chunk, gpt_slot *slot, void *rows)
{
    gpt_model *m = chunk->model;
    const gpt_shape *s = &m->shape;
    void *all = gpt_tp_all(&m->tp, rows, m->all_grad);
    GPT_TRY(gpt_use(chunk, chunk->embedding));
    m->device->ops->embed(m->device, &m->vocabulary, s->tokens, s->hidden, slot->tokens, chunk->embedding->value, all);
    return gpt_tp_reduce(&m->tp, all, rows, s->rows * s->hidden);
}

weft_result gpt_embedding_backward(gpt_chunk *chunk, gpt_slot *slot)
{
    gpt_model *m = chunk->model;
    const gpt_shape *s = &m->shape;
    void *all = gpt_tp_all(&m->tp, m->grad, m->all);
    GPT_TRY(gpt_gather_grad(chunk, m->grad, all));
    m->device->ops->embed_grad(m->device, &m->vocabulary, s->tokens, s->hidden, slot->tokens, all,
                               chunk->embedding->grad);
    return gpt_ready(chunk, chunk->embedding);
}
