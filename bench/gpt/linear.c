/* SPDX-License-Identifier: Apache-2.0 */
/* Products shared out over the tensor parallel ranks. What the backward says to other ranks runs while it computes:
 *
 *     column  the rows come back while the gradient of the input is made, that is summed while the weight's is
 *     row     the gradient's rows come while the weight's gradient of the row-parallel product before is made, which
 *             waits for that: it is wanted by nothing else. Without sequence parallelism there is nothing to bring
 *
 * In the forward nothing can be hidden: each product takes what was just brought, each norm what was just summed. */
#include "gpt/layer.h"

weft_result gpt_use(gpt_chunk *chunk, const gpt_param *param)
{
    return chunk->hooks.use ? chunk->hooks.use(chunk->hooks.cookie, (size_t)(param - chunk->params)) : WEFT_OK;
}

weft_result gpt_ready(gpt_chunk *chunk, const gpt_param *param)
{
    return chunk->hooks.ready ? chunk->hooks.ready(chunk->hooks.cookie, (size_t)(param - chunk->params)) : WEFT_OK;
}

weft_result gpt_column_forward(gpt_chunk *chunk, const gpt_param *weight, void *rows, size_t width, void *y)
{
    gpt_model *m = chunk->model;
    void *all = gpt_tp_all(&m->tp, rows, m->all);
    GPT_TRY(gpt_tp_gather(&m->tp, rows, all, m->shape.rows * m->shape.hidden));
    GPT_TRY(gpt_use(chunk, weight));
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
    GPT_TRY(gpt_use(chunk, weight));
    m->device->ops->linear(m->device, m->shape.tokens, width, m->shape.hidden, x, weight->value, all);
    return gpt_tp_reduce(&m->tp, all, rows, m->shape.rows * m->shape.hidden);
}

weft_result gpt_late_grad(gpt_chunk *chunk)
{
    gpt_model *m = chunk->model;
    gpt_late late = m->late;
    m->late.weight = NULL;
    if (!late.weight)
        return WEFT_OK;
    m->device->ops->linear_weight_grad(m->device, m->shape.tokens, late.width, m->shape.hidden, late.dy, late.x,
                                       late.weight->grad);
    return gpt_ready(chunk, late.weight);
}

weft_result gpt_gather_grad(gpt_chunk *chunk, const void *drows, void *all)
{
    gpt_model *m = chunk->model;
    weft_work gather;
    GPT_TRY(gpt_tp_gather_start(&m->tp, drows, all, m->shape.rows * m->shape.hidden, &gather));
    weft_result marked = gpt_late_grad(chunk), gathered = gpt_tp_finish(&m->tp, gather); /* in any case */
    return marked < 0 ? marked : gathered;
}

weft_result gpt_row_backward(gpt_chunk *chunk, const gpt_param *weight, const void *x, size_t width, void *drows,
                             void *dx)
{
    gpt_model *m = chunk->model;
    void *all = gpt_tp_all(&m->tp, drows, m->late_grad[m->late_turn ^= 1]);
    GPT_TRY(gpt_gather_grad(chunk, drows, all));
    m->device->ops->linear_input_grad(m->device, m->shape.tokens, width, m->shape.hidden, all, weight->value, dx);
    m->late = (gpt_late){weight, x, all, width};
    return m->tp.sequence && !m->tp.serial ? WEFT_OK : gpt_late_grad(chunk);
}
