/* SPDX-License-Identifier: Apache-2.0 */
/* The table of what `weft gpt` can be told, with the defaults; reads the options by it, and says what was left open. */
#include "gpt/options.h"

#include <string.h>

static const char usage[] =
    "usage: weft gpt [options]\n\n"
    "Train a GPT on text or tokens, alone or as one rank of `weft run`. The world's ranks are shared out over tensor,\n"
    "data and pipeline parallelism; any layout gives the losses of one process. With --plan nothing is started.\n\n"
    "Exit code: 0 trained; 1 failed; 2 wrong options; 4 a deadline passed; 7 replicas do not have the same weights.";

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
    .lowest_rate = -1, /* follows from the highest */
    .weight_decay = 0.01,
    .clip = 1,
    .beta1 = 0.9,
    .beta2 = 0.999,
    .epsilon = 1e-8,
    .data = "/usr/share/common-licenses",
    .split = "95,5",
    .compute = "real",
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
    {"overlap", OPTION_CHOICE, AT(overlap), 0, 0, "on|off|compare",
     "communicate while computing; compare: steps of both kinds in turn (on)"},
    {"overlap-grad-reduce", OPTION_FLAG, AT(switched_on[GPT_GRAD_REDUCE]), 0, 0, NULL,
     "reduce a full bucket while the last backward goes on"},
    {"no-overlap-grad-reduce", OPTION_FLAG, AT(switched_off[GPT_GRAD_REDUCE]), 0, 0, NULL, "... all of them behind it"},
    {"overlap-optimizer", OPTION_FLAG, AT(switched_on[GPT_OPTIMIZER]), 0, 0, NULL,
     "gather a bucket while the next is updated"},
    {"no-overlap-optimizer", OPTION_FLAG, AT(switched_off[GPT_OPTIMIZER]), 0, 0, NULL, "... when all are updated"},
    {"overlap-param-gather", OPTION_FLAG, AT(switched_on[GPT_PARAM_GATHER]), 0, 0, NULL,
     "the forward waits for each bucket where it uses it"},
    {"no-overlap-param-gather", OPTION_FLAG, AT(switched_off[GPT_PARAM_GATHER]), 0, 0, NULL,
     "... the step for all of them"},
    {"overlap-tensor", OPTION_FLAG, AT(switched_on[GPT_TENSOR]), 0, 0, NULL,
     "tensor parallel operations of the backward run beside its products"},
    {"no-overlap-tensor", OPTION_FLAG, AT(switched_off[GPT_TENSOR]), 0, 0, NULL, "... by themselves"},
    {"overlap-receives", OPTION_FLAG, AT(switched_on[GPT_RECEIVES]), 0, 0, NULL,
     "receives between stages are posted one computation early"},
    {"no-overlap-receives", OPTION_FLAG, AT(switched_off[GPT_RECEIVES]), 0, 0, NULL, "... when they are needed"},
    {"overlap-sends", OPTION_FLAG, AT(switched_on[GPT_SENDS]), 0, 0, NULL,
     "a stage computes while it sends to another"},
    {"no-overlap-sends", OPTION_FLAG, AT(switched_off[GPT_SENDS]), 0, 0, NULL, "... waits for each send"},
    {"overlap-run-ahead", OPTION_FLAG, AT(switched_on[GPT_RUN_AHEAD]), 0, 0, NULL,
     "1F1B starts with more forwards, so that messages have time; takes activations"},
    {"no-overlap-run-ahead", OPTION_FLAG, AT(switched_off[GPT_RUN_AHEAD]), 0, 0, NULL,
     "... with no more (so unless said)"},
    {"overlap-bubble", OPTION_FLAG, AT(switched_on[GPT_BUBBLE]), 0, 0, NULL,
     "a stage reduces its gradients in its bubble"},
    {"no-overlap-bubble", OPTION_FLAG, AT(switched_off[GPT_BUBBLE]), 0, 0, NULL, "... when stage 0 does"},
    {"ddp-bucket-size", OPTION_SIZE, AT(bucket_elements), 1, 1e15, "ELEMENTS",
     "close a bucket at this many (40 000 000, or 1 000 000 a data parallel rank)"},
    {"last-bucket-size", OPTION_SIZE, AT(last_bucket_elements), 1, 1e15, "ELEMENTS",
     "how many may wait for the gradient that comes last, without its own (as many as come)"},
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
    {"min-lr", OPTION_REAL, AT(lowest_rate), 0, 1e30, "X", "lowest learning rate (a tenth of lr)"},
    {"lr-decay-style", OPTION_CHOICE, AT(decay_style), 0, 0, GPT_LR_STYLES, "(cosine)"},
    {"lr-decay-iters", OPTION_INT, AT(decay_iterations), 1, MANY, "STEPS", "when the decay is over (train-iters)"},
    {"lr-warmup-iters", OPTION_INT, AT(warmup_iterations), 0, MANY, "STEPS", "rise from 0 (0)"},
    {"lr-warmup-fraction", OPTION_REAL, AT(warmup_fraction), 0, 1, "X", "the same, as a share of the decay"},
    {"lr-wsd-decay-style", OPTION_CHOICE, AT(anneal_curve), 0, 0, GPT_LR_CURVES, "how WSD falls (linear)"},
    {"lr-wsd-decay-iters", OPTION_INT, AT(anneal_iterations), 1, MANY, "STEPS", "how long WSD falls"},
    {"weight-decay", OPTION_REAL, AT(weight_decay), 0, 1e30, "X", "of AdamW, not on norms (0.01)"},
    {"clip-grad", OPTION_REAL, AT(clip), 0, 1e30, "X", "longest gradient; 0 = any (1)"},
    {"adam-beta1", OPTION_REAL, AT(beta1), 1e-9, 1 - 1e-6, "X", "(0.9)"},
    {"adam-beta2", OPTION_REAL, AT(beta2), 1e-9, 1 - 1e-6, "X", "(0.999)"},
    {"adam-eps", OPTION_REAL, AT(epsilon), 1e-30, 1, "X", "(1e-8)"},
    {"bf16", OPTION_FLAG, AT(bf16), 0, 0, NULL, "parameters in bf16; gradients and optimizer stay fp32"},
    {"seed", OPTION_SIZE, AT(seed), 0, 1e18, "N", "of weights and samples (1234)"},

    {"data|data-path", OPTION_TEXT, AT(data), 0, 0, "PATH",
     "text, Megatron's .bin/.idx, llm.c's .bin (/usr/share/common-licenses)"},
    {"make-data", OPTION_TEXT, AT(make_data), 0, 0, "OUT", "only write the data as OUT.bin and OUT.idx of Megatron"},
    {"mock-data", OPTION_FLAG, AT(mock), 0, 0, NULL, "a made-up text instead"},
    {"tokenizer-type", OPTION_CHOICE, AT(tokenizer), 0, 0, "bytes|NullTokenizer",
     "text is its bytes, tokens stay what they are"},
    {"split", OPTION_TEXT, AT(split), 0, 0, "A,B[,C]", "parts to train on and to hold out (95,5)"},
    {"log-interval", OPTION_INT, AT(log_interval), 1, MANY, "STEPS", "a line every so many (1)"},
    {"json", OPTION_FILE, AT(json), 0, 0, "FILE",
     "a line of JSON a step, and a summary, or the plan; - = standard output, with nothing else"},
    {"html", OPTION_FILE, AT(html), 0, 0, "FILE", "a page with the loss curve and the time at the end; - = stdout"},
    {"trace", OPTION_TEXT, AT(trace), 0, 0, "DIR", "write what every operation did"},
    {"compute", OPTION_TEXT, AT(compute), 0, 0, "real|timed:F[,B[,S]]",
     "timed: sleep F ms for a forward of a microbatch through a chunk, B for its backward (2 F), S for the optimizer "
     "(0); losses mean nothing then (real)"},

    {"device", OPTION_CHOICE, AT(device), 0, 0, "host|cuda", "where to compute; cuda: a GPU for each rank (host)"},
    {"attention-backend", OPTION_CHOICE, AT(attention), 0, 0, "auto|flash|fused|unfused|local",
     "of a GPU: unfused and local are blocks of queries, the others one kernel where it fits: bf16, heads of 64 or 128 "
     "channels (auto)"},

    {"plan", OPTION_FLAG, AT(plan), 0, 0, NULL,
     "say what a training would take and send, start nothing, and write no --html or --trace"},
    {"world-size", OPTION_INT, AT(world_size), 1, 1 << 20, "RANKS",
     "with --plan: ranks there would be (tensor times pipeline parallel ranks)"},
    {"show-defaults", OPTION_FLAG, AT(show_defaults), 0, 0, NULL,
     "say on standard error what all options are that were not given, as options"},
    {"plan-rank", OPTION_INT, AT(plan_rank), 0, 1 << 20, "RANK", "with --plan: whose buckets and bytes (0)"},

    {"use-mcore-models|transformer-impl|use-flash-attn", OPTION_NOTED, 0, 0, 0, NULL, NO_EFFECT},
    {"tensorboard-dir|log-memory-to-tensorboard|use-pytorch-profiler", OPTION_NOTED, 0, 0, 0, NULL, NO_EFFECT},
    {"profile|profile-*|wandb-*", OPTION_NOTED, 0, 0, 0, NULL, NO_EFFECT},
    {"ckpt-format|save-interval|eval-*", OPTION_NOTED, 0, 0, 0, NULL, NO_EFFECT},
    {"distributed-backend|no-*-fusion", OPTION_NOTED, 0, 0, 0, NULL, NO_EFFECT},
};
enum { OPTIONS = sizeof table / sizeof *table };
_Static_assert((int)OPTIONS <= (int)GPT_OPTIONS_MOST, "as many as the header says");

/* Each of these asks for a model that this GPT is not; the word is what it would have to have. */
static const option refused[] = {
    {"fp16", OPTION_NOTED, 0, 0, 0, NULL, "fp16"},
    {"fp8*", OPTION_NOTED, 0, 0, 0, NULL, "fp8"},
    {"fp4*", OPTION_NOTED, 0, 0, 0, NULL, "fp4"},
    {"moe-*|expert-*", OPTION_NOTED, 0, 0, 0, NULL, "experts"},
    {"add-qkv-bias", OPTION_NOTED, 0, 0, 0, NULL, "biases"},
    {"add-position-embedding", OPTION_NOTED, 0, 0, 0, NULL, "learned positions"},
    {"qk-layernorm", OPTION_NOTED, 0, 0, 0, NULL, "norms of queries and keys"},
    {"apply-layernorm-1p", OPTION_NOTED, 0, 0, 0, NULL, "norms around 1"},
    {"rotary-percent", OPTION_NOTED, 0, 0, 0, NULL, "partly rotated heads"},
    {"multi-latent-attention", OPTION_NOTED, 0, 0, 0, NULL, "latent attention"},
};

static int refuse_words(int argc, char **argv, gpt_failure *failure)
{
    for (int i = 1; i < argc; i++) {
        const char *value;
        const option *o =
            argv[i][0] == '-' ? options_find(refused, sizeof refused / sizeof *refused, argv[i], &value) : NULL;
        if (o)
            return gpt_options_other_model(argv[i], o->help, failure);
    }
    return 0;
}

int gpt_options_read(gpt_options *options, int argc, char **argv, gpt_failure *failure)
{
    int rest;
    *failure = (gpt_failure){0};
    *options = defaults;
    if (refuse_words(argc, argv, failure))
        return failure->code;
    complain_into(failure->text, sizeof failure->text);
    int code = options_read(usage, table, OPTIONS, argc, argv, options, &rest);
    complain_into(NULL, 0);
    if (code != OPTIONS_GO)
        return failure->code = code;
    bool groups_given = options_given("num-query-groups", argc, argv);
    bool iterations_given = options_given("train-iters", argc, argv);
    if (rest < argc)
        gpt_fail(failure, EXIT_USAGE, "'%s' is no option (see --help)", argv[rest]);
    else
        gpt_options_complete(options, groups_given, iterations_given, failure);
    return failure->code ? failure->code : OPTIONS_GO;
}

static void print_default(const option *o, const void *field, FILE *out)
{
    int name_length, length;
    const char *name = options_word(o->name, 0, &name_length);
    if (o->kind == OPTION_INT && *(const int *)field > 0)
        fprintf(out, " --%.*s %d", name_length, name, *(const int *)field);
    else if (o->kind == OPTION_SIZE && *(const size_t *)field > 0)
        fprintf(out, " --%.*s %zu", name_length, name, *(const size_t *)field);
    else if (o->kind == OPTION_REAL && *(const double *)field > 0)
        fprintf(out, " --%.*s %g", name_length, name, *(const double *)field);
    else if (o->kind == OPTION_CHOICE) {
        const char *word = options_word(o->shown, *(const int *)field, &length);
        fprintf(out, " --%.*s %.*s", name_length, name, length, word);
    } else if (o->kind == OPTION_TEXT && *(const char *const *)field)
        fprintf(out, " --%.*s %s", name_length, name, *(const char *const *)field);
}

static bool is_without_effect(const gpt_options *options, const option *o)
{
    return o->kind == OPTION_NOTED || (o->field == AT(attention) && options->device == GPT_ON_HOST);
}

static void print_defaults(const gpt_options *options, int argc, char **argv, FILE *out)
{
    fprintf(out, "weft: defaults:");
    for (const option *o = table; o < table + OPTIONS; o++)
        if (!is_without_effect(options, o) && !options_given(o->name, argc, argv))
            print_default(o, (const char *)options + o->field, out);
    fprintf(out, "\n");
}

void gpt_options_note(const gpt_options *options, int argc, char **argv, FILE *out)
{
    const char *lead = "weft: without effect here:";
    for (int i = 1; i < argc; i++) {
        const char *value;
        const option *o = argv[i][0] == '-' ? options_find(table, OPTIONS, argv[i], &value) : NULL;
        if (o && is_without_effect(options, o)) {
            fprintf(out, "%s %s", lead, argv[i]);
            lead = "";
        }
    }
    if (!*lead)
        fprintf(out, "\n");
    if (options->show_defaults)
        print_defaults(options, argc, argv, out);
    if (!options->sharded_optimizer)
        fprintf(out, "weft: the optimizer is sharded, also without --use-distributed-optimizer\n");
}

static uint64_t number_of(const option *o, const void *field)
{
    uint64_t number = 0;
    switch (o->kind) {
    case OPTION_INT:
    case OPTION_CHOICE:
        return (uint64_t) * (const int *)field;
    case OPTION_SIZE:
        return *(const size_t *)field;
    case OPTION_REAL:
        memcpy(&number, field, sizeof number);
        return number;
    case OPTION_FLAG:
    case OPTION_UNFLAG:
        return *(const bool *)field;
    case OPTION_TEXT:
    case OPTION_TEXTS:
    case OPTION_FILE:
    case OPTION_NOTED:
        break;
    }
    return 0;
}

size_t gpt_options_numbers(const gpt_options *options, uint64_t numbers[GPT_OPTIONS_MOST])
{
    for (size_t i = 0; i < OPTIONS; i++)
        numbers[i] = number_of(&table[i], (const char *)options + table[i].field);
    return OPTIONS;
}

const char *gpt_options_name(size_t index)
{
    return table[index].name;
}
