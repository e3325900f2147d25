/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the parts of a model and gives each its place in memory. */
#include "gpt/model.h"

#include <stdlib.h>

#include "complain.h"

void gpt_model_open(gpt_model *model, const gpt_shape *s, gpt_device *device, weft_comm *comm)
{
    size_t rank = comm ? (size_t)weft_comm_rank(comm) : 0, first = rank * s->local_vocabulary;
    size_t behind = s->vocabulary > first ? s->vocabulary - first : 0;
    *model = (gpt_model){
        .shape = *s,
        .device = device,
        .tp = {comm, rank, s->tensor, s->sequence_parallel, device->activation, device->stream, NULL, false, NULL},
        .attention = {s->sequence, s->micro_batch, s->local_groups, s->heads / s->groups, s->channels},
        .vocabulary = {first, s->local_vocabulary, behind < s->local_vocabulary ? behind : s->local_vocabulary},
    };
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

void gpt_model_place(gpt_model *m, gpt_arena *arena)
{
    const gpt_shape *s = &m->shape;
    size_t element = weft_dtype_bytes(m->device->activation), row = s->hidden * element;
    m->all = gpt_arena_take(arena, s->sequence_parallel ? s->tokens * row : 0);
    m->all_grad = gpt_arena_take(arena, s->sequence_parallel ? s->tokens * row : 0);
    for (int i = 0; i < 2; i++)
        m->late_grad[i] = gpt_arena_take(arena, s->sequence_parallel ? s->tokens * row : 0);
    m->branch = gpt_arena_take(arena, s->rows * row);
    m->grad = gpt_arena_take(arena, s->rows * row);
    m->wide = gpt_arena_take(arena, s->tokens * larger(s->qkv_width, 2 * s->local_ffn) * element);
    m->narrow = gpt_arena_take(arena, s->tokens * larger(s->context_width, s->local_ffn) * element);
    m->largest = gpt_arena_take(arena, s->tokens * sizeof(float));
}

static void place_layer(gpt_kept *kept, const gpt_shape *s, size_t element, gpt_arena *arena)
{
    size_t rows = s->rows * s->hidden * element;
    *kept = (gpt_kept){
        .start = gpt_arena_take(arena, rows),
        .attention_normed = gpt_arena_take(arena, rows),
        .middle = gpt_arena_take(arena, rows),
        .mlp_normed = gpt_arena_take(arena, rows),
        .attention_scale = gpt_arena_take(arena, s->rows * sizeof(float)),
        .mlp_scale = gpt_arena_take(arena, s->rows * sizeof(float)),
        .qkv = gpt_arena_take(arena, s->tokens * s->qkv_width * element),
        .context = gpt_arena_take(arena, s->tokens * s->context_width * element),
        .gate_up = gpt_arena_take(arena, s->tokens * 2 * s->local_ffn * element),
        .activated = gpt_arena_take(arena, s->tokens * s->local_ffn * element),
        .logsum = gpt_arena_take(arena, s->tokens * s->local_heads * sizeof(float)),
    };
}

static void place_slot(const gpt_chunk *chunk, gpt_slot *slot, gpt_arena *arena)
{
    const gpt_shape *s = &chunk->model->shape;
    size_t element = weft_dtype_bytes(chunk->model->device->activation);
    for (size_t i = 0; i < chunk->layers; i++)
        place_layer(&slot->layers[i], s, element, arena);
    if (chunk->embedding)
        slot->tokens = gpt_arena_take(arena, s->tokens * sizeof(int32_t));
    if (!gpt_chunk_is_last(chunk))
        return;
    slot->targets = gpt_arena_take(arena, s->tokens * sizeof(int32_t));
    slot->end = gpt_arena_take(arena, s->rows * s->hidden * element);
    slot->normed = gpt_arena_take(arena, s->rows * s->hidden * element);
    slot->scale = gpt_arena_take(arena, s->rows * sizeof(float));
    slot->logits = gpt_arena_take(arena, s->tokens * s->local_vocabulary * element);
    slot->sums = gpt_arena_take(arena, 2 * s->tokens * sizeof(float));
}

void gpt_chunk_place(gpt_chunk *chunk, gpt_arena *arena)
{
    for (size_t i = 0; i < chunk->slot_count; i++)
        place_slot(chunk, &chunk->slots[i], arena);
}

int gpt_chunk_open(gpt_chunk *chunk, gpt_model *model, size_t index, size_t slots, gpt_failure *failure)
{
    const gpt_shape *s = &model->shape;
    bool first = index == 0, last = index + 1 == s->pipeline * s->virtual_stages;
    size_t count = gpt_params_list(s, index * s->chunk_layers, s->chunk_layers, first, last, NULL);
    gpt_kept *kept = calloc(slots * s->chunk_layers, sizeof *kept);
    *chunk = (gpt_chunk){.model = model,
                         .param_count = count,
                         .params = calloc(count, sizeof *chunk->params),
                         .layers = s->chunk_layers,
                         .slots = calloc(slots, sizeof *chunk->slots),
                         .slot_count = slots};
    if (!chunk->params || !chunk->slots || !kept) {
        free(kept);
        free(chunk->slots);
        free(chunk->params);
        *chunk = (gpt_chunk){0};
        return gpt_fail(failure, EXIT_FAILED, "no memory for chunk %zu of the model", index);
    }
    for (size_t i = 0; i < slots; i++)
        chunk->slots[i].layers = kept + i * s->chunk_layers;
    gpt_params_list(s, index * s->chunk_layers, s->chunk_layers, first, last, chunk->params);
    chunk->embedding = first ? chunk->params : NULL;
    chunk->first_layer = chunk->params + (first ? 1 : 0);
    chunk->final_norm = last ? chunk->first_layer + s->chunk_layers * GPT_LAYER_PARAMS : NULL;
    chunk->output = !last ? NULL : first && s->tied ? chunk->embedding : chunk->final_norm + 1;
    return 0;
}

void gpt_chunk_close(gpt_chunk *chunk)
{
    free(chunk->slots ? chunk->slots[0].layers : NULL);
    free(chunk->slots);
    free(chunk->params);
    *chunk = (gpt_chunk){0};
}
