/* SPDX-License-Identifier: Apache-2.0 */
/* The pieces that a chunk is made of, forward and backward. */
#ifndef WEFT_BENCH_GPT_LAYER_H
#define WEFT_BENCH_GPT_LAYER_H
#include "gpt/model.h"

/* @p param is read next, in the forward: no sooner is it waited for. */
weft_result gpt_use(gpt_chunk *chunk, const gpt_param *param);
/* A contribution to the gradient of @p param has been added. */
weft_result gpt_ready(gpt_chunk *chunk, const gpt_param *param);

/* Products whose weight is shared out by its outputs (column-parallel) or by its inputs (row-parallel). Rows are this
 * rank's rows, [rows][hidden]; the other side is [tokens][width], with this rank's share of the width. */
weft_result gpt_column_forward(gpt_chunk *chunk, const gpt_param *weight, void *rows, size_t width, void *y);
weft_result gpt_column_backward(gpt_chunk *chunk, const gpt_param *weight, void *rows, size_t width, const void *dy,
                                void *drows);
weft_result gpt_row_forward(gpt_chunk *chunk, const gpt_param *weight, const void *x, size_t width, void *rows);
weft_result gpt_row_backward(gpt_chunk *chunk, const gpt_param *weight, const void *x, size_t width, void *drows,
                             void *dx);
/* Bring the rows of a gradient to every rank, at @p all, and meanwhile compute what gpt_row_backward() has left. */
weft_result gpt_gather_grad(gpt_chunk *chunk, const void *drows, void *all);
/* Compute what it has left, if anything. */
weft_result gpt_late_grad(gpt_chunk *chunk);

/* The halves of layer @p layer, each with its norm and residual connection: start -> middle, and middle -> @p end.
 * Backward: the chunk's running gradient, in place. */
weft_result gpt_attention_forward(gpt_chunk *chunk, const gpt_param *layer, gpt_kept *kept);
weft_result gpt_attention_backward(gpt_chunk *chunk, const gpt_param *layer, gpt_kept *kept);
weft_result gpt_mlp_forward(gpt_chunk *chunk, const gpt_param *layer, gpt_kept *kept, void *end);
weft_result gpt_mlp_backward(gpt_chunk *chunk, const gpt_param *layer, gpt_kept *kept);

/* Tokens to rows, and the running gradient to that of the embedding. */
weft_result gpt_embedding_forward(gpt_chunk *chunk, gpt_slot *slot, void *rows);
weft_result gpt_embedding_backward(gpt_chunk *chunk, gpt_slot *slot);

/* Rows to the sum of the losses; and from there to the running gradient. */
weft_result gpt_loss_forward(gpt_chunk *chunk, gpt_slot *slot, double *loss);
weft_result gpt_loss_backward(gpt_chunk *chunk, gpt_slot *slot, float factor);

#endif
