/* SPDX-License-Identifier: Apache-2.0 */
/* Fills in what follows from the options that were given, and refuses those that do not fit together. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "complain.h"
#include "gpt/options.h"
#include "out.h"

int gpt_options_other_model(const char *flag, const char *what, gpt_failure *failure)
{
    return gpt_fail(failure, EXIT_USAGE, "%s asks for another model: this GPT has no %s", flag, what);
}

static int refuse_values(const gpt_options *o, gpt_failure *failure)
{
    if (o->experts > 1)
        return gpt_options_other_model("--num-experts above 1", "experts", failure);
    if (o->attention_dropout != 0)
        return gpt_options_other_model("--attention-dropout above 0", "dropout", failure);
    if (o->hidden_dropout != 0)
        return gpt_options_other_model("--hidden-dropout above 0", "dropout", failure);
    if (o->context > 1)
        return gpt_options_other_model("--context-parallel-size above 1", "context parallelism", failure);
    return 0;
}

static int conflict(const char *a, const char *b, gpt_failure *failure)
{
    return gpt_fail(failure, EXIT_USAGE, "%s and %s say the same thing: give one of them", a, b);
}

static int complete_model(gpt_options *o, bool groups_given, gpt_failure *failure)
{
    if (groups_given && !o->grouped && o->groups != o->heads)
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
    if (o->samples / (size_t)o->global_batch > INT_MAX)
        return gpt_fail(failure, EXIT_USAGE, "--train-samples %zu is more than %d steps", o->samples, INT_MAX);
    if (o->samples)
        o->iterations = (int)(o->samples / (size_t)o->global_batch);
    if (o->iterations < 1)
        return gpt_fail(failure, EXIT_USAGE, "--train-samples %zu is less than one --global-batch-size %d", o->samples,
                        o->global_batch);
    if (!o->decay_iterations)
        o->decay_iterations = o->iterations;
    if (o->warmup_iterations && o->warmup_fraction > 0)
        return conflict("--lr-warmup-iters", "--lr-warmup-fraction", failure);
    if (o->lowest_rate < 0)
        o->lowest_rate = o->rate / 10;
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
    if (!read_parts(o->split, part) || !isfinite(part[0] + part[1] + part[2]))
        return gpt_fail(failure, EXIT_USAGE, "--split is '%s', not parts such as 95,5", o->split);
    o->held_out = 1 - part[0] / (part[0] + part[1] + part[2]);
    return 0;
}

static const char *const switch_names[GPT_SWITCHES] = {
    [GPT_GRAD_REDUCE] = "grad-reduce", [GPT_OPTIMIZER] = "optimizer", [GPT_PARAM_GATHER] = "param-gather",
    [GPT_TENSOR] = "tensor",           [GPT_RECEIVES] = "receives",   [GPT_SENDS] = "sends",
    [GPT_RUN_AHEAD] = "run-ahead",     [GPT_BUBBLE] = "bubble",
};

/* --overlap says what holds for all switches, each of them what holds for it. */
static int complete_switches(gpt_options *o, gpt_failure *failure)
{
    if (o->overlap == GPT_OVERLAP_COMPARE && o->iterations < GPT_COMPARE_LEAST)
        return gpt_fail(failure, EXIT_USAGE, "--overlap compare wants --train-iters of at least %d", GPT_COMPARE_LEAST);
    o->switches = o->overlap == GPT_OVERLAP_OFF ? 0 : GPT_FREE_SWITCHES;
    for (int i = 0; i < GPT_SWITCHES; i++) {
        if (o->switched_on[i] && o->switched_off[i])
            return gpt_fail(failure, EXIT_USAGE, "--overlap-%s and --no-overlap-%s: give one of them", switch_names[i],
                            switch_names[i]);
        o->switches |= (gpt_switch_set)o->switched_on[i] << i;
        o->switches &= ~((gpt_switch_set)o->switched_off[i] << i);
    }
    return 0;
}

/* "timed:F[,B[,S]]" */
static bool read_timed(const char *text, gpt_timed *timed)
{
    static const char word[] = "timed:";
    double *const fields[] = {&timed->forward_ms, &timed->backward_ms, &timed->optimizer_ms};
    enum { FIELDS = sizeof fields / sizeof *fields };
    if (strncmp(text, word, sizeof word - 1) != 0)
        return false;
    text += sizeof word - 1;
    timed->backward_ms = -1;
    for (int i = 0; i < FIELDS; i++) {
        char *end;
        *fields[i] = strtod(text, &end);
        if (end == text || !(*fields[i] >= 0 && *fields[i] < 1e9) || (*end && (*end != ',' || i + 1 == FIELDS)))
            return false;
        if (!*end)
            break;
        text = end + 1;
    }
    timed->backward_ms = timed->backward_ms < 0 ? 2 * timed->forward_ms : timed->backward_ms;
    return timed->is_on = true;
}

static int complete_compute(gpt_options *o, gpt_failure *failure)
{
    if (strcmp(o->compute, "real") == 0)
        return 0;
    if (!read_timed(o->compute, &o->timed))
        return gpt_fail(failure, EXIT_USAGE, "--compute is '%s', not real or milliseconds such as timed:10,20",
                        o->compute);
    if (o->device != GPT_ON_HOST)
        return gpt_fail(failure, EXIT_USAGE,
                        "--compute %s computes nothing, and --device cuda nothing but by a GPU: "
                        "say one of them",
                        o->compute);
    return 0;
}

/* No file that is written may be the data: the path, one of Megatron's pair of that name, or a file in that folder. */
static int spare_data(const gpt_options *o)
{
    char read[2][4096], made[2][4096];
    static const char *const endings[] = {".bin", ".idx"};
    size_t length = strlen(o->data);
    bool has_ending =
        length > 4 && (strcmp(o->data + length - 4, endings[0]) == 0 || strcmp(o->data + length - 4, endings[1]) == 0);
    for (int i = 0; i < 2; i++) {
        snprintf(read[i], sizeof read[i], "%.*s%s", (int)(has_ending ? length - 4 : length), o->data, endings[i]);
        snprintf(made[i], sizeof made[i], "%s%s", o->make_data ? o->make_data : "", endings[i]);
    }
    const char *const inputs[] = {o->data, read[0], read[1]};
    const struct {
        const char *option, *path;
    } outs[] = {{"--json", o->json},
                {"--html", o->html},
                {"--make-data", o->make_data ? made[0] : NULL},
                {"--make-data", o->make_data ? made[1] : NULL}};
    int code = out_spare("--trace", o->data, o->trace, "trace.*.weft");
    for (size_t i = 0; i < sizeof outs / sizeof *outs; i++)
        for (size_t k = 0; k < sizeof inputs / sizeof *inputs && code == EXIT_DONE; k++)
            code = out_spare(outs[i].option, outs[i].path, inputs[k], "*");
    return code;
}

static int check_files(const gpt_options *o, gpt_failure *failure)
{
    if (o->plan && o->make_data)
        return gpt_fail(failure, EXIT_USAGE, "--plan and --make-data: give one of them");
    if (o->make_data && !*o->make_data)
        return gpt_fail(failure, EXIT_USAGE, "--make-data wants the beginning of the files' names");
    if (o->json && o->html && strcmp(o->json, o->html) == 0)
        return gpt_fail(failure, EXIT_USAGE, "--json and --html cannot both be %s", out_name(o->json));
    if (o->mock || !o->data)
        return 0;
    complain_into(failure->text, sizeof failure->text);
    failure->code = spare_data(o);
    complain_into(NULL, 0);
    return failure->code;
}

int gpt_options_complete(gpt_options *o, bool groups_given, bool iterations_given, gpt_failure *failure)
{
    if (refuse_values(o, failure) || complete_model(o, groups_given, failure) || complete_pipeline(o, failure) ||
        complete_rate(o, iterations_given, failure) || complete_switches(o, failure) || complete_compute(o, failure))
        return failure->code;
    return complete_split(o, failure) ? failure->code : check_files(o, failure);
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
        .attention = o->attention < GPT_UNFUSED ? GPT_ATTENTION_AUTO : GPT_ATTENTION_BLOCKS,
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
