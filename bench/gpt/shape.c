/* SPDX-License-Identifier: Apache-2.0 */
/* Derives the sizes of a model, and names what does not fit. */
#include "gpt/shape.h"

#include <limits.h>

#include "complain.h"

/* With this bound on each size, products of two and their sums stay within 64 bits. */
static const size_t largest = 1 << 24;

typedef struct divides {
    size_t whole, part;
    const char *whole_name, *part_name;
} divides;

static int check_sizes(const gpt_shape *s, gpt_failure *failure)
{
    const struct {
        const char *name;
        size_t value;
    } sizes[] = {
        {"--num-layers", s->layers},
        {"--hidden-size", s->hidden},
        {"--ffn-hidden-size", s->ffn},
        {"--num-attention-heads", s->heads},
        {"--num-query-groups", s->groups},
        {"--kv-channels", s->channels},
        {"--seq-length", s->sequence},
        {"--vocab-size", s->vocabulary},
        {"--make-vocab-size-divisible-by", s->vocabulary_multiple},
        {"--micro-batch-size", s->micro_batch},
        {"--tensor-model-parallel-size", s->tensor},
        {"--pipeline-model-parallel-size", s->pipeline},
        {"--num-virtual-stages-per-pipeline-rank", s->virtual_stages},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i].value < 1 || sizes[i].value > largest)
            return gpt_fail(failure, EXIT_USAGE, "%s is %zu, not from 1 to %zu", sizes[i].name, sizes[i].value,
                            largest);
    return 0;
}

static int check_divides(const divides *rules, size_t count, gpt_failure *failure)
{
    for (const divides *rule = rules; rule < rules + count; rule++)
        if (rule->whole % rule->part)
            return gpt_fail(failure, EXIT_USAGE, "%s %zu does not divide by %s %zu", rule->whole_name, rule->whole,
                            rule->part_name, rule->part);
    return 0;
}

static int check_fit(const gpt_shape *s, gpt_failure *failure)
{
    const divides rules[] = {
        {s->heads, s->groups, "--num-attention-heads", "--num-query-groups"},
        {s->heads, s->tensor, "--num-attention-heads", "--tensor-model-parallel-size"},
        {s->groups, s->tensor, "--num-query-groups", "--tensor-model-parallel-size"},
        {s->ffn, s->tensor, "--ffn-hidden-size", "--tensor-model-parallel-size"},
        {s->channels, 2, "--kv-channels", "the halves of rotary positions,"},
        {s->layers, s->pipeline * s->virtual_stages, "--num-layers", "the number of pipeline stages,"},
        {s->sequence, s->sequence_parallel ? s->tensor : 1, "with --sequence-parallel, --seq-length",
         "--tensor-model-parallel-size"},
    };
    if (check_divides(rules, sizeof rules / sizeof *rules, failure))
        return failure->code;
    if (s->virtual_stages > 1 && s->pipeline == 1)
        return gpt_fail(failure, EXIT_USAGE, "%zu virtual stages want --pipeline-model-parallel-size above 1",
                        s->virtual_stages);
    return 0;
}

static double parameters(const gpt_shape *s)
{
    double attention = (double)s->channels * (double)(2 * s->heads + 2 * s->groups) * (double)s->hidden;
    double layer = attention + 3 * (double)s->ffn * (double)s->hidden + 2 * (double)s->hidden;
    double ends = (s->tied ? 1 : 2) * (double)s->padded_vocabulary * (double)s->hidden + (double)s->hidden;
    return (double)s->layers * layer + ends;
}

static int check_products(const gpt_shape *s, gpt_failure *failure)
{
    if (parameters(s) > 0x1p52)
        return gpt_fail(failure, EXIT_USAGE, "a model of %g parameters is more than this can count", parameters(s));
    const size_t widths[] = {s->hidden, s->qkv_width, s->context_width, 2 * s->local_ffn, s->local_vocabulary};
    if (s->tokens > INT_MAX)
        return gpt_fail(failure, EXIT_USAGE, "a microbatch of %zu tokens is more than this can compute with",
                        s->tokens);
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
        if (widths[i] > INT_MAX / s->micro_batch)
            return gpt_fail(failure, EXIT_USAGE, "a layer %zu wide is more than this can compute with", widths[i]);
    return 0;
}

int gpt_shape_complete(gpt_shape *s, gpt_failure *failure)
{
    if (check_sizes(s, failure) || check_fit(s, failure))
        return failure->code;
    s->sequence_parallel = s->sequence_parallel && s->tensor > 1;
    size_t multiple = s->vocabulary_multiple * s->tensor;
    s->padded_vocabulary = (s->vocabulary + multiple - 1) / multiple * multiple;
    s->tokens = s->sequence * s->micro_batch;
    s->chunk_layers = s->layers / (s->pipeline * s->virtual_stages);
    s->rows = s->sequence_parallel ? s->tokens / s->tensor : s->tokens;
    s->local_heads = s->heads / s->tensor;
    s->local_groups = s->groups / s->tensor;
    s->local_ffn = s->ffn / s->tensor;
    s->local_vocabulary = s->padded_vocabulary / s->tensor;
    s->qkv_width = (s->local_heads + 2 * s->local_groups) * s->channels;
    s->context_width = s->local_heads * s->channels;
    return check_products(s, failure);
}

size_t gpt_shape_parameters(const gpt_shape *s)
{
    return (size_t)parameters(s); /* whole numbers below 2^52: exact */
}
