/* SPDX-License-Identifier: Apache-2.0 */
/* Lists the parameters and makes their first values. */
#include "gpt/params.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "gpt/random.h"

/* The table as it grows. */
typedef struct list {
    const gpt_shape *shape;
    gpt_param *params;
    size_t count;
} list;

static void add(list *l, gpt_param param, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void add(list *l, gpt_param param, const char *format, ...)
{
    size_t index = l->count++;
    if (!l->params)
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(param.name, sizeof param.name, format, arguments);
    va_end(arguments);
    if (!param.filled_rows)
        param.filled_rows = param.rows;
    if (!param.contributions)
        param.contributions = 1;
    param.count = param.parts * param.rows * param.columns / (param.sharded ? l->shape->tensor : 1);
    l->params[index] = param;
}

static gpt_param norm(const gpt_shape *s)
{
    return (gpt_param){.parts = 1, .rows = 1, .columns = s->hidden, .summed = s->sequence_parallel};
}

/* Ranks share the outputs. */
static gpt_param column_parallel(const gpt_shape *s, size_t parts, size_t outputs, size_t inputs)
{
    return (gpt_param){.parts = parts,
                       .rows = outputs,
                       .columns = inputs,
                       .sharded = true,
                       .decays = true,
                       .deviation = (double)s->init_deviation};
}

/* Ranks share the inputs; the output joins the residual stream, which sums one of these for each half of a layer. */
static gpt_param row_parallel(const gpt_shape *s, size_t outputs, size_t inputs)
{
    return (gpt_param){.parts = outputs,
                       .rows = inputs,
                       .columns = 1,
                       .sharded = true,
                       .decays = true,
                       .deviation = (double)s->init_deviation / sqrt(2 * (double)s->layers)};
}

static gpt_param vocabulary(const gpt_shape *s, bool tied, int contributions)
{
    gpt_param param = column_parallel(s, 1, s->padded_vocabulary, s->hidden);
    param.filled_rows = s->vocabulary;
    param.tied = tied;
    param.contributions = contributions;
    return param;
}

static void add_layer(list *l, size_t layer)
{
    const gpt_shape *s = l->shape;
    size_t context = s->heads * s->channels, qkv = (s->heads + 2 * s->groups) * s->channels;
    add(l, norm(s), "layers.%zu.attention.norm", layer);
    add(l, column_parallel(s, 1, qkv, s->hidden), "layers.%zu.attention.qkv", layer);
    add(l, row_parallel(s, s->hidden, context), "layers.%zu.attention.output", layer);
    add(l, norm(s), "layers.%zu.mlp.norm", layer);
    add(l, column_parallel(s, 2, s->ffn, s->hidden), "layers.%zu.mlp.gate_up", layer);
    add(l, row_parallel(s, s->hidden, s->ffn), "layers.%zu.mlp.down", layer);
}

size_t gpt_params_list(const gpt_shape *shape, size_t first_layer, size_t layers, bool first, bool last,
                       gpt_param *params)
{
    list l = {shape, params, 0};
    bool copies = shape->tied && !(first && last), both = shape->tied && first && last;
    if (first)
        add(&l, vocabulary(shape, copies, both ? 2 : 1), "embedding");
    for (size_t i = 0; i < layers; i++)
        add_layer(&l, first_layer + i);
    if (last) {
        add(&l, norm(shape), "final_norm");
        if (!both)
            add(&l, vocabulary(shape, copies, 1), shape->tied ? "embedding" : "output");
    }
    return l.count;
}

void gpt_param_fill(const gpt_param *p, uint64_t seed, size_t tensor_rank, size_t tensor_ranks, float *out)
{
    if (p->deviation == 0) {
        for (size_t i = 0; i < p->count; i++)
            out[i] = 1;
        return;
    }
    gpt_random stream = gpt_random_stream(seed, p->name);
    size_t rows = p->sharded ? p->rows / tensor_ranks : p->rows, first_row = p->sharded ? tensor_rank * rows : 0;
    size_t left = p->filled_rows > first_row ? p->filled_rows - first_row : 0, filled = left < rows ? left : rows;
    for (size_t part = 0; part < p->parts; part++, out += rows * p->columns) {
        uint64_t first = ((uint64_t)part * p->rows + first_row) * p->columns;
        gpt_random_normal(stream, first, filled * p->columns, p->deviation, out);
        memset(out + filled * p->columns, 0, (rows - filled) * p->columns * sizeof *out);
    }
}
