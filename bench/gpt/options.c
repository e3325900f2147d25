/* SPDX-License-Identifier: Apache-2.0 */
/* The options of `weft gpt`: one table, the defaults, and what follows from them. */
#include "gpt/options.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: weft gpt [options]\n\n"
    "Train a GPT on text, alone or as one rank of `weft run`. The world's ranks are shared out over tensor, data and\n"
    "pipeline parallelism; any layout gives the losses of one process.";

static const gpt_options defaults = {
    .layers = 4,
    .hidden = 128,
    .heads = 4,
    .groups = 1,
    .sequence = 128,
    .vocabulary = 256,
    .vocabulary_multiple = 128,
    .norm_epsilon = 1e-5,
    .rotary_base = 10000,
    .init_deviation = 0.02,
    .experts = 1,
    .tensor = 1,
    .pipeline = 1,
    .context = 1,
    .timeout_minutes = 10,
    .micro_batch = 8,
    .global_batch = 32,
    .iterations = 300,
    .decay_style = GPT_LR_COSINE,
    .seed = 1234,
    .rate = 3e-3,
    .lowest_rate = 3e-4,
    .weight_decay = 0.01,
    .clip = 1,
    .beta1 = 0.9,
    .beta2 = 0.999,
    .epsilon = 1e-8,
    .data = "/usr/share/common-licenses",
    .split = "95,5",
    .log_interval = 1,
};

#define AT(field) offsetof(gpt_options, field)
#define MANY      1e9
#define NO_EFFECT "understood, without effect here"

static const option table[] = {
    {"num-layers", OPTION_INT, AT(layers), 1, MANY, "N", "transformer layers (4)"},
    {"hidden-size", OPTION_INT, AT(hidden), 1, MANY, "N", "width of the residual stream (128)"},
    {"ffn-hidden-size", OPTION_INT, AT(ffn), 1, MANY, "N", "inner width of the MLP (8/3 hidden, a multiple of 64)"},
    {"num-attention-heads", OPTION_INT, AT(heads), 1, MANY, "N", "query heads (4)"},
    {"group-query-attention", OPTION_FLAG, AT(grouped), 0, 0, NULL, "query heads share keys and values"},
    {"num-query-groups", OPTION_INT, AT(groups), 1, MANY, "N", "how many keys and values, with the flag above (1)"},
    {"kv-channels", OPTION_INT, AT(channels), 1, MANY, "N", "width of a head (hidden / heads)"},
    {"seq-length", OPTION_INT, AT(sequence), 1, MANY, "TOKENS", "length of a sample (128)"},
    {"max-position-embeddings", OPTION_INT, AT(longest_sequence), 1, MANY, "TOKENS", "at least seq-length"},
    {"vocab-size", OPTION_INT, AT(vocabulary), 1, MANY, "N", "tokens there are (256: bytes)"},
    {"make-vocab-size-divisible-by", OPTION_INT, AT(vocabulary_multiple), 1, MANY, "N",
     "pad the vocabulary to a multiple of this times the tensor parallel ranks (128)"},
    {"norm-epsilon", OPTION_REAL, AT(norm_epsilon), 1e-30, 1, "X", "of RMSNorm (1e-5)"},
    {"normalization", OPTION_CHOICE, AT(normalization), 0, 0, "RMSNorm", "the one there is"},
    {"swiglu", OPTION_FLAG, AT(swiglu), 0, 0, NULL, "always so"},
    {"position-embedding-type", OPTION_CHOICE, AT(positions), 0, 0, "rope", "the one there is"},
    {"rotary-base", OPTION_REAL, AT(rotary_base), 1, 1e30, "X", "of the rotary positions (10000)"},
    {"disable-bias-linear", OPTION_FLAG, AT(no_bias), 0, 0, NULL, "always so"},
    {"untie-embeddings-and-output-weights", OPTION_FLAG, AT(untied), 0, 0, NULL, "two matrices instead of one"},
    {"init-method-std", OPTION_REAL, AT(init_deviation), 1e-30, 1e30, "X", "deviation of the first weights (0.02)"},
    {"attention-dropout", OPTION_REAL, AT(attention_dropout), 0, 0, "X", "must be 0 (0)"},
    {"hidden-dropout", OPTION_REAL, AT(hidden_dropout), 0, 0, "X", "must be 0 (0)"},
    {"num-experts", OPTION_INT, AT(experts), 0, MANY, "N", "must be 1 (1)"},

    {"tensor-model-parallel-size", OPTION_INT, AT(tensor), 1, MANY, "RANKS", "ranks that share each layer (1)"},
    {"pipeline-model-parallel-size", OPTION_INT, AT(pipeline), 1, MANY, "RANKS", "ranks that share the layers (1)"},
    {"num-layers-per-virtual-pipeline-stage", OPTION_INT, AT(layers_per_virtual_stage), 1, MANY, "N",
     "interleave the pipeline: layers of a chunk"},
    {"num-virtual-stages-per-pipeline-rank", OPTION_INT, AT(virtual_stages), 1, MANY, "N",
     "the same, said as chunks of a rank (1)"},
    {"microbatch-group-size-per-virtual-pipeline-stage", OPTION_INT, AT(microbatch_group), 1, MANY, "N",
     "microbatches before a rank turns to its next chunk (pipeline ranks)"},
    {"context-parallel-size", OPTION_INT, AT(context), 1, MANY, "RANKS", "must be 1 (1)"},
    {"sequence-parallel", OPTION_FLAG, AT(sequence_parallel), 0, 0, NULL,
     "tensor parallel ranks also share the sequence between the matrices"},
    {"use-distributed-optimizer", OPTION_FLAG, AT(sharded_optimizer), 0, 0, NULL, "always so"},
    {"overlap-grad-reduce", OPTION_FLAG, AT(overlap_reduce), 0, 0, NULL, "reduce gradients while the backward runs"},
    {"overlap-param-gather", OPTION_FLAG, AT(overlap_gather), 0, 0, NULL, "gather parameters while the forward runs"},
    {"ddp-bucket-size", OPTION_SIZE, AT(bucket_elements), 1, 1e15, "ELEMENTS",
     "close a bucket at this many (40 000 000, or 1 000 000 a data parallel rank)"},
    {"ddp-average-in-collective", OPTION_FLAG, AT(average_in_collective), 0, 0, NULL,
     "average in the collective, not before it"},
    {"use-tp-pp-dp-mapping", OPTION_FLAG, AT(pipeline_inside), 0, 0, NULL,
     "neighbouring ranks: tensor, then pipeline, then data parallel"},
    {"distributed-timeout-minutes", OPTION_REAL, AT(timeout_minutes), 1e-3, 1e5, "MINUTES", "of an operation (10)"},

    {"micro-batch-size", OPTION_INT, AT(micro_batch), 1, MANY, "SAMPLES", "a forward at once (8)"},
    {"global-batch-size", OPTION_INT, AT(global_batch), 1, MANY, "SAMPLES", "a step of all ranks together (32)"},
    {"train-iters", OPTION_INT, AT(iterations), 1, MANY, "STEPS", "how many (300)"},
    {"train-samples", OPTION_SIZE, AT(samples), 1, 1e15, "SAMPLES", "the same, said in samples"},
    {"lr", OPTION_REAL, AT(rate), 1e-30, 1e30, "X", "highest learning rate (3e-3)"},
    {"min-lr", OPTION_REAL, AT(lowest_rate), 0, 1e30, "X", "lowest learning rate (3e-4)"},
    {"lr-decay-style", OPTION_CHOICE, AT(decay_style), 0, 0, GPT_LR_STYLES, "(cosine)"},
    {"lr-decay-iters", OPTION_INT, AT(decay_iterations), 1, MANY, "STEPS", "when the decay is over (train-iters)"},
    {"lr-warmup-iters", OPTION_INT, AT(warmup_iterations), 0, MANY, "STEPS", "rise from 0 (0)"},
    {"lr-warmup-fraction", OPTION_REAL, AT(warmup_fraction), 0, 1, "X", "the same, as a share of the decay"},
    {"lr-wsd-decay-style", OPTION_CHOICE, AT(anneal_curve), 0, 0, GPT_LR_CURVES, "how WSD falls (linear)"},
    {"lr-wsd-decay-iters", OPTION_INT, AT(anneal_iterations), 1, MANY, "STEPS", "how long WSD falls"},
    {"weight-decay", OPTION_REAL, AT(weight_decay), 0, 1e30, "X", "of AdamW, not on norms (0.01)"},
    {"clip-grad", OPTION_REAL, AT(clip), 0, 1e30, "X", "longest gradient; 0 = any (1)"},
    {"adam-beta1", OPTION_REAL, AT(beta1), 0, 1, "X", "(0.9)"},
    {"adam-beta2", OPTION_REAL, AT(beta2), 0, 1, "X", "(0.999)"},
    {"adam-eps", OPTION_REAL, AT(epsilon), 0, 1, "X", "(1e-8)"},
    {"bf16", OPTION_FLAG, AT(bf16), 0, 0, NULL, "parameters in bf16; gradients and optimizer stay fp32"},
    {"seed", OPTION_SIZE, AT(seed), 0, 1e18, "N", "of weights and samples (1234)"},

    {"data", OPTION_TEXT, AT(data), 0, 0, "PATH", "text: a file, or a folder (/usr/share/common-licenses)"},
    {"data-path", OPTION_TEXT, AT(data), 0, 0, "PATH", NULL},
    {"mock-data", OPTION_FLAG, AT(mock), 0, 0, NULL, "a made-up text instead"},
    {"tokenizer-type", OPTION_CHOICE, AT(tokenizer), 0, 0, "bytes|NullTokenizer", "tokens are bytes either way"},
    {"split", OPTION_TEXT, AT(split), 0, 0, "A,B[,C]", "parts to train on and to hold out (95,5)"},
    {"log-interval", OPTION_INT, AT(log_interval), 1, MANY, "STEPS", "a line every so many (1)"},
    {"json", OPTION_TEXT, AT(json), 0, 0, "FILE", "write a line of JSON a step, and a summary; - = stdout"},
    {"trace", OPTION_TEXT, AT(trace), 0, 0, "DIR", "write what every operation did"},
    {"overlap", OPTION_CHOICE, AT(overlap), 0, 0, "as-said|compare", "compare: run steps both ways, alternating"},
    {"plan", OPTION_FLAG, AT(plan), 0, 0, NULL, "print groups, sizes and buckets; train nothing"},
    {"world-size", OPTION_INT, AT(world_size), 1, MANY, "RANKS", "of the plan"},

    {"use-mcore-models", OPTION_NOTED, 0, 0, 0, NULL, NO_EFFECT},
    {"transformer-impl", OPTION_NOTED, 0, 0, 0, NULL, NULL},
    {"attention-backend", OPTION_NOTED, 0, 0, 0, NULL, NULL},
    {"use-flash-attn", OPTION_NOTED, 0, 0, 0, NULL, NULL},
    {"tensorboard-dir", OPTION_NOTED, 0, 0, 0, NULL, NO_EFFECT},
    {"log-memory-to-tensorboard", OPTION_NOTED, 0, 0, 0, NULL, NULL},
    {"use-pytorch-profiler", OPTION_NOTED, 0, 0, 0, NULL, NULL},
    {"profile", OPTION_NOTED, 0, 0, 0, NULL, NO_EFFECT},
    {"profile-*", OPTION_NOTED, 0, 0, 0, NULL, NULL},
    {"wandb-*", OPTION_NOTED, 0, 0, 0, NULL, NULL},
    {"ckpt-format", OPTION_NOTED, 0, 0, 0, NULL, NO_EFFECT},
    {"save-interval", OPTION_NOTED, 0, 0, 0, NULL, NULL},
    {"eval-*", OPTION_NOTED, 0, 0, 0, NULL, NULL},
    {"distributed-backend", OPTION_NOTED, 0, 0, 0, NULL, NO_EFFECT},
    {"no-*-fusion", OPTION_NOTED, 0, 0, 0, NULL, NULL},
};
enum { OPTIONS = sizeof table / sizeof *table };

/* Each of these asks for a model that this GPT is not; the word is what it would have to have. */
static const option refused[] = {
    {"fp16", OPTION_NOTED, 0, 0, 0, NULL, "fp16"},
    {"fp8*", OPTION_NOTED, 0, 0, 0, NULL, "fp8"},
    {"fp4*", OPTION_NOTED, 0, 0, 0, NULL, "fp4"},
    {"moe-*", OPTION_NOTED, 0, 0, 0, NULL, "experts"},
    {"expert-*", OPTION_NOTED, 0, 0, 0, NULL, "experts"},
    {"add-qkv-bias", OPTION_NOTED, 0, 0, 0, NULL, "biases"},
    {"add-position-embedding", OPTION_NOTED, 0, 0, 0, NULL, "learned positions"},
    {"qk-layernorm", OPTION_NOTED, 0, 0, 0, NULL, "norms of queries and keys"},
    {"apply-layernorm-1p", OPTION_NOTED, 0, 0, 0, NULL, "norms around 1"},
    {"rotary-percent", OPTION_NOTED, 0, 0, 0, NULL, "partly rotated heads"},
    {"multi-latent-attention", OPTION_NOTED, 0, 0, 0, NULL, "latent attention"},
};

static int other_model(const char *flag, const char *what, gpt_failure *failure)
{
    return gpt_fail(failure, EXIT_USAGE, "%s asks for another model: this GPT has no %s", flag, what);
}

static int refuse_words(int argc, char **argv, gpt_failure *failure)
{
    for (int i = 1; i < argc; i++) {
        const char *value;
        const option *o =
            argv[i][0] == '-' ? options_find(refused, sizeof refused / sizeof *refused, argv[i], &value) : NULL;
        if (o)
            return other_model(argv[i], o->help, failure);
    }
    return 0;
}

static int refuse_values(const gpt_options *o, gpt_failure *failure)
{
    if (o->experts > 1)
        return other_model("--num-experts above 1", "experts", failure);
    if (o->attention_dropout != 0)
        return other_model("--attention-dropout above 0", "dropout", failure);
    if (o->hidden_dropout != 0)
        return other_model("--hidden-dropout above 0", "dropout", failure);
    if (o->context > 1)
        return other_model("--context-parallel-size above 1", "context parallelism", failure);
    return 0;
}

static int conflict(const char *a, const char *b, gpt_failure *failure)
{
    return gpt_fail(failure, EXIT_USAGE, "%s and %s say the same thing: give one of them", a, b);
}

static int complete_model(gpt_options *o, bool groups_given, gpt_failure *failure)
{
    if (groups_given && !o->grouped)
        return gpt_fail(failure, EXIT_USAGE, "--num-query-groups wants --group-query-attention");
    if (!o->grouped)
        o->groups = o->heads;
    if (!o->channels && o->hidden % o->heads)
        return gpt_fail(failure, EXIT_USAGE, "--hidden-size %d does not divide by --num-attention-heads %d", o->hidden,
                        o->heads);
    if (!o->channels)
        o->channels = o->hidden / o->heads;
    if (!o->ffn)
        o->ffn = (int)fmax(64, floor(8.0 * o->hidden / 3 / 64) * 64);
    if (!o->longest_sequence)
        o->longest_sequence = o->sequence;
    if (o->longest_sequence < o->sequence)
        return gpt_fail(failure, EXIT_USAGE, "--seq-length %d is longer than --max-position-embeddings %d", o->sequence,
                        o->longest_sequence);
    return 0;
}

static int complete_pipeline(gpt_options *o, gpt_failure *failure)
{
    if (o->virtual_stages && o->layers_per_virtual_stage)
        return conflict("--num-layers-per-virtual-pipeline-stage", "--num-virtual-stages-per-pipeline-rank", failure);
    if (o->layers_per_virtual_stage) {
        int each = o->layers / o->pipeline;
        if (o->layers % o->pipeline || each % o->layers_per_virtual_stage)
            return gpt_fail(failure, EXIT_USAGE,
                            "--num-layers %d over %d pipeline ranks does not divide by "
                            "--num-layers-per-virtual-pipeline-stage %d",
                            o->layers, o->pipeline, o->layers_per_virtual_stage);
        o->virtual_stages = each / o->layers_per_virtual_stage;
    }
    if (!o->virtual_stages)
        o->virtual_stages = 1;
    if (!o->microbatch_group)
        o->microbatch_group = o->pipeline;
    return 0;
}

static int complete_rate(gpt_options *o, bool iterations_given, gpt_failure *failure)
{
    if (o->samples && iterations_given)
        return conflict("--train-iters", "--train-samples", failure);
    if (o->samples && o->samples / (size_t)o->global_batch > MANY)
        return gpt_fail(failure, EXIT_USAGE, "--train-samples %zu is more than %g steps", o->samples, MANY);
    if (o->samples)
        o->iterations = (int)(o->samples / (size_t)o->global_batch);
    if (o->iterations < 1)
        return gpt_fail(failure, EXIT_USAGE, "--train-samples %zu is less than one --global-batch-size %d", o->samples,
                        o->global_batch);
    if (!o->decay_iterations)
        o->decay_iterations = o->iterations;
    if (o->warmup_iterations && o->warmup_fraction > 0)
        return conflict("--lr-warmup-iters", "--lr-warmup-fraction", failure);
    if (o->lowest_rate > o->rate)
        return gpt_fail(failure, EXIT_USAGE, "--min-lr %g is above --lr %g", o->lowest_rate, o->rate);
    if (o->decay_style == GPT_LR_STABLE && !o->anneal_iterations)
        return gpt_fail(failure, EXIT_USAGE, "--lr-decay-style WSD wants --lr-wsd-decay-iters");
    return 0;
}

/* Two or three parts, the first not 0. */
static bool read_parts(const char *text, double part[3])
{
    for (int i = 0; i < 3; i++) {
        char *end;
        part[i] = strtod(text, &end);
        if (end == text || !isfinite(part[i]) || part[i] < 0)
            return false;
        if (!*end)
            return part[0] > 0;
        if (*end != ',')
            return false;
        text = end + 1;
    }
    return false;
}

static int complete_split(gpt_options *o, gpt_failure *failure)
{
    double part[3] = {0};
    if (!read_parts(o->split, part))
        return gpt_fail(failure, EXIT_USAGE, "--split is '%s', not parts such as 95,5", o->split);
    o->held_out = 1 - part[0] / (part[0] + part[1] + part[2]);
    return 0;
}

options_result gpt_options_read(gpt_options *options, int argc, char **argv, gpt_failure *failure)
{
    int rest;
    *failure = (gpt_failure){0};
    *options = defaults;
    if (refuse_words(argc, argv, failure))
        return OPTIONS_WRONG;
    options_result result = options_read(usage, table, OPTIONS, argc, argv, options, &rest);
    if (result != OPTIONS_GO)
        return result;
    bool groups_given = options_given("num-query-groups", argc, argv);
    bool iterations_given = options_given("train-iters", argc, argv);
    if (rest < argc)
        gpt_fail(failure, EXIT_USAGE, "'%s' is no option (see --help)", argv[rest]);
    else if (!refuse_values(options, failure) && !complete_model(options, groups_given, failure) &&
             !complete_pipeline(options, failure) && !complete_rate(options, iterations_given, failure))
        complete_split(options, failure);
    return failure->code ? OPTIONS_WRONG : OPTIONS_GO;
}

static void print_default(const option *o, const void *field, FILE *out)
{
    if (o->kind == OPTION_INT && *(const int *)field > 0)
        fprintf(out, " --%s %d", o->name, *(const int *)field);
    else if (o->kind == OPTION_SIZE && *(const size_t *)field > 0)
        fprintf(out, " --%s %zu", o->name, *(const size_t *)field);
    else if (o->kind == OPTION_REAL && *(const double *)field > 0)
        fprintf(out, " --%s %g", o->name, *(const double *)field);
    else if (o->kind == OPTION_TEXT && *(const char *const *)field)
        fprintf(out, " --%s %s", o->name, *(const char *const *)field);
}

void gpt_options_note(const gpt_options *options, int argc, char **argv, FILE *out)
{
    const char *lead = "weft: without effect here:";
    for (int i = 1; i < argc; i++) {
        const char *value;
        const option *o = argv[i][0] == '-' ? options_find(table, OPTIONS, argv[i], &value) : NULL;
        if (o && o->kind == OPTION_NOTED) {
            fprintf(out, "%s %s", lead, argv[i]);
            lead = "";
        }
    }
    fprintf(out, "%sweft: defaults:", *lead ? "" : "\n");
    for (const option *o = table; o < table + OPTIONS; o++)
        if (o->kind != OPTION_NOTED && o->help && !options_given(o->name, argc, argv))
            print_default(o, (const char *)options + o->field, out);
    fprintf(out, "\n");
    if (!options->sharded_optimizer)
        fprintf(out, "weft: the optimizer is sharded, also without --use-distributed-optimizer\n");
}

int gpt_options_shape(const gpt_options *o, gpt_shape *shape, gpt_failure *failure)
{
    *shape = (gpt_shape){
        .layers = (size_t)o->layers,
        .hidden = (size_t)o->hidden,
        .ffn = (size_t)o->ffn,
        .heads = (size_t)o->heads,
        .groups = (size_t)o->groups,
        .channels = (size_t)o->channels,
        .sequence = (size_t)o->sequence,
        .vocabulary = (size_t)o->vocabulary,
        .vocabulary_multiple = (size_t)o->vocabulary_multiple,
        .micro_batch = (size_t)o->micro_batch,
        .norm_epsilon = (float)o->norm_epsilon,
        .rotary_base = (float)o->rotary_base,
        .init_deviation = (float)o->init_deviation,
        .tied = !o->untied,
        .dtype = o->bf16 ? WEFT_BF16 : WEFT_FP32,
        .tensor = (size_t)o->tensor,
        .sequence_parallel = o->sequence_parallel,
        .pipeline = (size_t)o->pipeline,
        .virtual_stages = (size_t)o->virtual_stages,
    };
    return gpt_shape_complete(shape, failure);
}

gpt_lr gpt_options_lr(const gpt_options *o)
{
    uint64_t batch = (uint64_t)o->global_batch, decay = (uint64_t)o->decay_iterations * batch;
    return (gpt_lr){
        .style = (gpt_lr_style)o->decay_style,
        .highest = o->rate,
        .lowest = o->lowest_rate,
        .warmup = o->warmup_fraction > 0 ? (uint64_t)(o->warmup_fraction * (double)decay)
                                         : (uint64_t)o->warmup_iterations * batch,
        .decay = decay,
        .curve = (gpt_lr_curve)o->anneal_curve,
        .anneal = (uint64_t)o->anneal_iterations * batch,
    };
}
