/* SPDX-License-Identifier: Apache-2.0 */
/* The sizes of a model and of one rank's part of it. */
#ifndef WEFT_BENCH_GPT_SHAPE_H
#define WEFT_BENCH_GPT_SHAPE_H
#include <stdbool.h>
#include <stddef.h>
#include <weft/dtype.h>

#include "gpt/failure.h"

/* How a GPU computes attention: fused where its kernels fit, or by blocks of queries always. */
typedef enum gpt_attention_kind { GPT_ATTENTION_AUTO, GPT_ATTENTION_BLOCKS } gpt_attention_kind;

typedef struct gpt_shape {
    /* said */
    size_t layers, hidden, ffn, heads, groups, channels, sequence, vocabulary, vocabulary_multiple, micro_batch;
    float norm_epsilon, rotary_base, init_deviation;
    bool tied;
    gpt_attention_kind attention;
    weft_dtype dtype; /* of the parameters, and of what stages send each other */
    size_t tensor;    /* tensor parallel ranks */
    bool sequence_parallel;
    size_t pipeline, virtual_stages;
    /* follows, see gpt_shape_complete() */
    size_t padded_vocabulary;
    size_t tokens; /* of a microbatch: [sequence][micro_batch], the sequence outside */
    size_t chunk_layers;
    /* one tensor parallel rank's part */
    size_t rows; /* of the tokens, where the sequence is shared out; else all */
    size_t local_heads, local_groups, local_ffn, local_vocabulary;
    size_t qkv_width;     /* for each group side by side: its query heads, its key, its value */
    size_t context_width; /* of all local heads together */
} gpt_shape;

/* Compute what follows from what was said; refuse what does not divide. */
int gpt_shape_complete(gpt_shape *shape, gpt_failure *failure);
/* What stages send each other in a message: elements of the parameters' type. */
static inline size_t gpt_shape_message(const gpt_shape *shape)
{
    return shape->rows * shape->hidden;
}
/* The whole model's parameters, a tied embedding once. */
size_t gpt_shape_parameters(const gpt_shape *shape);

#endif
