/* SPDX-License-Identifier: Apache-2.0 */
/* One rank's share of a GPT: what all its chunks have in common, and the chunks, each a run of layers of one pipeline
 * stage. A chunk turns the activations of the stage before it into those of the one behind it, microbatch by
 * microbatch, and gradients the other way. Nothing is allocated after the places have been taken. */
#ifndef WEFT_BENCH_GPT_MODEL_H
#define WEFT_BENCH_GPT_MODEL_H
#include <weft/comm.h>

#include "gpt/arena.h"
#include "gpt/ops.h"
#include "gpt/params.h"
#include "gpt/shape.h"
#include "gpt/tp.h"

/* For functions that hold nothing: pass a failure up. */
#define GPT_TRY(call)                         \
    do {                                      \
        weft_result gpt_try_result_ = (call); \
        if (gpt_try_result_ < 0)              \
            return gpt_try_result_;           \
    } while (0)

/* A product that waits for an operation to run beside: the gradient of a row-parallel weight. */
typedef struct gpt_late {
    const gpt_param *weight; /* NULL: none */
    const void *x, *dy;
    size_t width;
} gpt_late;

typedef struct gpt_model {
    gpt_shape shape;
    gpt_device *device;
    gpt_tp tp;
    gpt_attention attention;
    gpt_vocabulary vocabulary;
    /* Space that every layer of every chunk uses in turn. "rows" are this rank's, "all" are all tokens'. */
    void *all, *all_grad; /* [tokens][hidden] */
    void *late_grad[2];   /* the same, in turn: what the next late product reads, and the one before it */
    int late_turn;
    gpt_late late;
    void *branch, *grad; /* [rows][hidden]: what joins the residual stream; the gradient that runs down it */
    void *wide, *narrow; /* [tokens]: gradients of queries, keys, values or gates and ups; of what follows them */
    float *largest;      /* [tokens] */
} gpt_model;

/* What one layer keeps from its forward for its backward. */
typedef struct gpt_kept {
    void *start, *attention_normed, *middle, *mlp_normed; /* [rows][hidden] */
    float *attention_scale, *mlp_scale;                   /* [rows] */
    void *qkv, *context, *gate_up, *activated;            /* [tokens] */
    float *logsum;                                        /* [heads][samples][sequence] */
} gpt_kept;

/* What a chunk keeps of one microbatch in flight. */
typedef struct gpt_slot {
    gpt_kept *layers;
    int32_t *tokens, *targets; /* on the first, on the last stage */
    void *end, *normed;        /* last stage: [rows][hidden] */
    float *scale;
    void *logits; /* last stage: [tokens][vocabulary of this rank]; after the forward their exponentials */
    float *sums;
} gpt_slot;

/* Called as the chunk comes to its parameters, which are numbered from 0. */
typedef struct gpt_hooks {
    void *cookie;
    /* This parameter is read next, in the forward; a tied embedding again at its end. */
    weft_result (*use)(void *cookie, size_t param);
    /* One contribution to the gradient of this parameter has been added, in the backward. */
    weft_result (*ready)(void *cookie, size_t param);
} gpt_hooks;

typedef struct gpt_chunk {
    gpt_model *model;
    gpt_param *params; /* value and grad of each are set from outside */
    size_t param_count;
    gpt_param *embedding, *first_layer, *final_norm, *output; /* in the table; NULL if not here */
    size_t layers;
    gpt_slot *slots;
    size_t slot_count;
    gpt_hooks hooks; /* each NULL if nobody wants to know */
} gpt_chunk;

/* @p device and @p comm (of the tensor parallel ranks; NULL for one) are borrowed. */
void gpt_model_open(gpt_model *model, const gpt_shape *shape, gpt_device *device, weft_comm *comm);
/* Take the places of the shared space. */
void gpt_model_place(gpt_model *model, gpt_arena *arena);

/* Chunk @p index of the whole model, counted along the forward; @p slots microbatches can be in flight. */
int gpt_chunk_open(gpt_chunk *chunk, gpt_model *model, size_t index, size_t slots, gpt_failure *failure);
/* Take the places of what is kept. */
void gpt_chunk_place(gpt_chunk *chunk, gpt_arena *arena);
void gpt_chunk_close(gpt_chunk *chunk);

static inline bool gpt_chunk_is_first(const gpt_chunk *chunk)
{
    return chunk->embedding != NULL;
}
static inline bool gpt_chunk_is_last(const gpt_chunk *chunk)
{
    return chunk->final_norm != NULL;
}

/* Take a microbatch forward. @p input and @p output are [rows][hidden] of the parameters' type, borrowed for the call;
 * not used on the first and on the last stage, which instead take tokens and targets, [sequence][samples]. The last
 * stage adds the losses of all tokens to *loss. */
weft_result gpt_chunk_forward(gpt_chunk *chunk, size_t slot, const void *input, void *output, const int32_t *tokens,
                              const int32_t *targets, double *loss);
/* Take it backward: add to the gradients of the parameters, and write that of the input. @p factor multiplies the sum
 * of the losses: 1 / (tokens of all microbatches) for the mean. */
weft_result gpt_chunk_backward(gpt_chunk *chunk, size_t slot, const void *output_grad, void *input_grad, float factor);

#endif
