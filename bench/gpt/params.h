/* SPDX-License-Identifier: Apache-2.0 */
/* The parameters of a part of the model: names, shapes, what the buckets must know about them, first values. */
#ifndef WEFT_BENCH_GPT_PARAMS_H
#define WEFT_BENCH_GPT_PARAMS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpt/shape.h"

typedef struct gpt_param {
    char name[40]; /* "layers.3.attention.qkv": the same in every layout */
    /* The whole tensor is [parts][rows][columns]; of a sharded one each tensor parallel rank has an equal run of the
     * rows of every part. Element i of the whole is number i of the generator's stream of this name. */
    size_t parts, rows, columns;
    bool sharded;     /* else every tensor parallel rank has all of it */
    bool summed;      /* not sharded, but each rank's gradient is a partial sum: add them over tensor parallel ranks */
    bool tied;        /* also on the first or last stage: add the gradients */
    bool decays;      /* subject to weight decay */
    double deviation; /* of the first values; 0: they are 1 */
    size_t filled_rows; /* rows from here on are padding: 0 */
    int contributions;  /* how often a microbatch's backward adds to the gradient */
    size_t count;       /* elements here */
    void *value;        /* set from outside, as is ... */
    float *grad;        /* ... this */
} gpt_param;

/* Places of a layer's parameters behind its first. */
enum { GPT_ATTENTION_NORM, GPT_QKV, GPT_ATTENTION_OUTPUT, GPT_MLP_NORM, GPT_GATE_UP, GPT_DOWN, GPT_LAYER_PARAMS };

/* The parameters of layers first_layer ... first_layer + layers - 1, and of what lies before them on the first stage
 * and behind them on the last, in the order of the forward. NULL: only count. Returns how many. */
size_t gpt_params_list(const gpt_shape *shape, size_t first_layer, size_t layers, bool first, bool last,
                       gpt_param *params);
/* The first values of this rank's part, in fp32, into out[param->count]. */
void gpt_param_fill(const gpt_param *param, uint64_t seed, size_t tensor_rank, size_t tensor_ranks, float *out);

#endif
