/* SPDX-License-Identifier: Apache-2.0 */
/* Products shared out over the tensor parallel ranks. What the backward says to other ranks runs while it computes: the
 * rows come back while the gradient of the input is made, and that is summed while the gradient of the weight is. */
#include "gpt/layer.h"

weft_result gpt_ready(gpt_chunk *chunk, const gpt_param *param)
{
    return chunk->hooks.ready ? chunk->hooks.ready(chunk->hooks.cookie, (size_t)(param - chunk->params)) : WEFT_OK;
}

weft_result gpt_column_forward(gpt_chunk *chunk, const gpt_param *weight, void *rows, size_t width, void *y)
{
    gpt_model *m = chunk->model;
    void *all = gpt_tp_all(&m->tp, rows, m->all);
    GPT_TRY(gpt_tp_gather(&m->tp, rows, all, m->shape.rows * m->shape.hidden));
    m->device->ops->linear(m->device, m->shape.tokens, m->shape.hidden, width, all, weight->value, y);
    return WEFT_OK;
}

weft_result gpt_column_backward(gpt_chunk *chunk, const gpt_param *weight, void *rows, size_t width, const void *dy,
                                void *drows)
{
    gpt_model *m = chunk->model;
    const gpt_ops *ops = m->device->ops;
    size_t tokens = m->shape.tokens, hidden = m->shape.hidden, count = m->shape.rows * hidden;
    void *all = gpt_tp_all(&m->tp, rows, m->all), *dall = gpt_tp_all(&m->tp, drows, m->all_grad);
    weft_work gather, reduce;

    GPT_TRY(gpt_tp_gather_start(&m->tp, rows, all, count, &gather));
    ops->linear_input_grad(m->device, tokens, hidden, width, dy, weight->value, dall);
    GPT_TRY(gpt_tp_finish(&m->tp, gather));
    GPT_TRY(gpt_tp_reduce_start(&m->tp, dall, drows, count, &reduce));
    ops->linear_weight_grad(m->device, tokens, hidden, width, dy, all, weight->grad);
    weft_result marked = gpt_ready(chunk, weight), reduced = gpt_tp_finish(&m->tp, reduce); /* in any case */
    return marked < 0 ? marked : reduced;
}

weft_result gpt_row_forward(gpt_chunk *chunk, const gpt_param *weight, const void *x, size_t width, void *rows)
{
    gpt_model *m = chunk->model;
    void *all = gpt_tp_all(&m->tp, rows, m->all_grad);
    m->device->ops->linear(m->device, m->shape.tokens, width, m->shape.hidden, x, weight->value, all);
    return gpt_tp_reduce(&m->tp, all, rows, m->shape.rows * m->shape.hidden);
}

weft_result gpt_row_backward(gpt_chunk *chunk, const gpt_param *weight, const void *x, size_t width, void *drows,
                             void *dx)
{
    gpt_model *m = chunk->model;
    const gpt_ops *ops = m->device->ops;
    void *all = gpt_tp_all(&m->tp, drows, m->all);
    GPT_TRY(gpt_tp_gather(&m->tp, drows, all, m->shape.rows * m->shape.hidden));
    ops->linear_input_grad(m->device, m->shape.tokens, width, m->shape.hidden, all, weight->value, dx);
    ops->linear_weight_grad(m->device, m->shape.tokens, width, m->shape.hidden, all, x, weight->grad);
    return gpt_ready(chunk, weight);
}
