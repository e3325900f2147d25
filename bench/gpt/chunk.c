/* SPDX-License-Identifier: Apache-2.0 */
/* A chunk of layers as a pipeline stage runs it. */
#include "gpt/layer.h"

static const gpt_param *layer_params(const gpt_chunk *chunk, size_t layer)
{
    return chunk->first_layer + layer * GPT_LAYER_PARAMS;
}

/* What the stages send each other is of the parameters' type. */
static void take_in(gpt_chunk *chunk, const void *from, void *to)
{
    gpt_device *d = chunk->model->device;
    size_t count = gpt_shape_message(&chunk->model->shape);
    d->ops->convert(d, count, from, d->parameter, to, d->activation);
}

static void hand_on(gpt_chunk *chunk, const void *from, void *to)
{
    gpt_device *d = chunk->model->device;
    size_t count = gpt_shape_message(&chunk->model->shape);
    d->ops->convert(d, count, from, d->activation, to, d->parameter);
}

static weft_result forward_layers(gpt_chunk *chunk, gpt_slot *slot, void *end)
{
    for (size_t i = 0; i < chunk->layers; i++) {
        const gpt_param *layer = layer_params(chunk, i);
        GPT_TRY(gpt_attention_forward(chunk, layer, &slot->layers[i]));
        GPT_TRY(
            gpt_mlp_forward(chunk, layer, &slot->layers[i], i + 1 < chunk->layers ? slot->layers[i + 1].start : end));
    }
    return WEFT_OK;
}

weft_result gpt_chunk_forward(gpt_chunk *chunk, size_t number, const void *input, void *output, const int32_t *tokens,
                              const int32_t *targets, double *loss)
{
    gpt_model *m = chunk->model;
    gpt_slot *slot = &chunk->slots[number];
    size_t token_bytes = m->shape.tokens * sizeof(int32_t);
    if (gpt_chunk_is_first(chunk)) {
        m->device->ops->bring(m->device, token_bytes, tokens, slot->tokens);
        GPT_TRY(gpt_embedding_forward(chunk, slot, slot->layers[0].start));
    } else {
        take_in(chunk, input, slot->layers[0].start);
    }
    if (!gpt_chunk_is_last(chunk)) {
        GPT_TRY(forward_layers(chunk, slot, m->grad)); /* free in the forward */
        hand_on(chunk, m->grad, output);
        return WEFT_OK;
    }
    GPT_TRY(forward_layers(chunk, slot, slot->end));
    m->device->ops->bring(m->device, token_bytes, targets, slot->targets);
    return gpt_loss_forward(chunk, slot, loss);
}

weft_result gpt_chunk_backward(gpt_chunk *chunk, size_t number, const void *output_grad, void *input_grad, float factor)
{
    gpt_slot *slot = &chunk->slots[number];
    if (gpt_chunk_is_last(chunk))
        GPT_TRY(gpt_loss_backward(chunk, slot, factor));
    else
        take_in(chunk, output_grad, chunk->model->grad);
    for (size_t i = chunk->layers; i-- > 0;) {
        GPT_TRY(gpt_mlp_backward(chunk, layer_params(chunk, i), &slot->layers[i]));
        GPT_TRY(gpt_attention_backward(chunk, layer_params(chunk, i), &slot->layers[i]));
    }
    if (gpt_chunk_is_first(chunk))
        return gpt_embedding_backward(chunk, slot);
    GPT_TRY(gpt_late_grad(chunk));
    hand_on(chunk, chunk->model->grad, input_grad);
    return WEFT_OK;
}
