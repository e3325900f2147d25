/* SPDX-License-Identifier: Apache-2.0 */
/* The second half of a layer: norm, gates and ups, SwiGLU, down, residual connection. */
#include "gpt/layer.h"

weft_result gpt_mlp_forward(gpt_chunk *chunk, const gpt_param *layer, gpt_kept *kept, void *end)
{
    gpt_model *m = chunk->model;
    gpt_device *d = m->device;
    const gpt_shape *s = &m->shape;
    GPT_TRY(gpt_use(chunk, &layer[GPT_MLP_NORM]));
    d->ops->norm(d, s->rows, s->hidden, kept->middle, layer[GPT_MLP_NORM].value, kept->mlp_normed, kept->mlp_scale);
    GPT_TRY(gpt_column_forward(chunk, &layer[GPT_GATE_UP], kept->mlp_normed, 2 * s->local_ffn, kept->gate_up));
    d->ops->swiglu(d, s->tokens, s->local_ffn, kept->gate_up, kept->activated);
    GPT_TRY(gpt_row_forward(chunk, &layer[GPT_DOWN], kept->activated, s->local_ffn, m->branch));
    d->ops->add(d, s->rows * s->hidden, kept->middle, m->branch, end);
    return WEFT_OK;
}

weft_result gpt_mlp_backward(gpt_chunk *chunk, const gpt_param *layer, gpt_kept *kept)
{
    gpt_model *m = chunk->model;
    gpt_device *d = m->device;
    const gpt_shape *s = &m->shape;
    void *dactivated = m->narrow, *dgate_up = m->wide;
    GPT_TRY(gpt_row_backward(chunk, &layer[GPT_DOWN], kept->activated, s->local_ffn, m->grad, dactivated));
    d->ops->swiglu_grad(d, s->tokens, s->local_ffn, kept->gate_up, dactivated, dgate_up);
    GPT_TRY(gpt_column_backward(chunk, &layer[GPT_GATE_UP], kept->mlp_normed, 2 * s->local_ffn, dgate_up, m->branch));
    d->ops->norm_grad(d, s->rows, s->hidden, m->branch, kept->middle, layer[GPT_MLP_NORM].value, kept->mlp_scale,
                      m->grad, layer[GPT_MLP_NORM].grad);
    return gpt_ready(chunk, &layer[GPT_MLP_NORM]);
}
