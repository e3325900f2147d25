/* SPDX-License-Identifier: Apache-2.0 */
/* What flags make of a training, and what is said of flags that do not go. */
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gpt/options.h"
#include "harness/test.h"

enum { MOST = 128 };

/* The words of a line, behind the command's name. */
static int split(const char *line, char **argv)
{
    static char words[4096];
    int argc = 0;
    argv[argc++] = (char *)"gpt";
    snprintf(words, sizeof words, "%s", line);
    for (char *word = strtok(words, " "); word && argc < MOST; word = strtok(NULL, " "))
        argv[argc++] = word;
    return argc;
}

static int read_line(const char *line, gpt_options *options, gpt_failure *failure)
{
    char *argv[MOST];
    return gpt_options_read(options, split(line, argv), argv, failure);
}

static void check_refused(const char *line, const char *says)
{
    gpt_options options;
    gpt_failure failure;
    gpt_shape shape;
    int result = read_line(line, &options, &failure);
    if (result == OPTIONS_GO)
        gpt_options_shape(&options, &shape, &failure);
    CHECK_MSG(failure.code == EXIT_USAGE, "'%s' is taken", line);
    CHECK_HAS(failure.text, says);
}

TEST(nothing_said_is_a_small_model_with_tied_embeddings)
{
    gpt_options o;
    gpt_failure failure;
    gpt_shape s;
    CHECK_INT(read_line("", &o, &failure), OPTIONS_GO);
    CHECK(gpt_options_shape(&o, &s, &failure) == 0);
    CHECK_INT(s.layers, 4);
    CHECK_INT(s.hidden, 128);
    CHECK_INT(s.ffn, 320);
    CHECK_INT(s.channels, 32);
    CHECK_INT(s.groups, 4);
    CHECK_INT(s.padded_vocabulary, 256);
    CHECK(s.tied && s.dtype == WEFT_FP32);
    CHECK_NEAR(o.held_out, 0.05, 1e-12);
    /* 4 layers of 4 h^2 + 3 h f + 2 h, the embedding, the last norm */
    CHECK_INT(gpt_shape_parameters(&s), 4 * (4 * 128 * 128 + 3 * 128 * 320 + 2 * 128) + 256 * 128 + 128);
}

TEST(what_is_said_arrives)
{
    gpt_options o;
    gpt_failure failure;
    gpt_shape s;
    CHECK_INT(read_line("--num-layers 8 --hidden-size 64 --num-attention-heads 8 --group-query-attention "
                        "--num-query-groups 2 --kv-channels 16 --ffn-hidden-size 100 --tensor-model-parallel-size 2 "
                        "--pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 2 "
                        "--sequence-parallel --bf16 --vocab-size 300 --untie-embeddings-and-output-weights",
                        &o, &failure),
              OPTIONS_GO);
    CHECK_MSG(gpt_options_shape(&o, &s, &failure) == 0, "%s", failure.text);
    CHECK_INT(s.virtual_stages, 2);
    CHECK_INT(s.chunk_layers, 2);
    CHECK_INT(s.padded_vocabulary, 512);
    CHECK_INT(s.local_vocabulary, 256);
    CHECK_INT(s.rows, s.tokens / 2);
    CHECK_INT(s.qkv_width, (4 + 2) * 16);
    CHECK(!s.tied && s.dtype == WEFT_BF16 && s.sequence_parallel);
    CHECK_INT(o.microbatch_group, 2);
}

TEST(sequence_parallelism_of_one_rank_is_none)
{
    gpt_options o;
    gpt_failure failure;
    gpt_shape s;
    CHECK_INT(read_line("--sequence-parallel", &o, &failure), OPTIONS_GO);
    CHECK(gpt_options_shape(&o, &s, &failure) == 0 && !s.sequence_parallel);
}

TEST(flags_that_ask_for_another_model_are_named)
{
    check_refused("--num-experts 8", "--num-experts above 1 asks for another model: this GPT has no experts");
    check_refused("--context-parallel-size 2", "--context-parallel-size");
    check_refused("--hidden-dropout 0.1", "--hidden-dropout above 0 asks for another model: this GPT has no dropout");
    check_refused("--attention-dropout 0.1", "--attention-dropout");
    check_refused("--fp8-format hybrid", "--fp8-format asks for another model: this GPT has no fp8");
    check_refused("--fp16", "--fp16");
    check_refused("--moe-router-topk 2", "--moe-router-topk");
    check_refused("--add-qkv-bias", "biases");
}

TEST(flags_that_do_not_fit_together_are_named)
{
    check_refused("--num-query-groups 2", "--num-query-groups wants --group-query-attention");
    check_refused("--hidden-size 100 --num-attention-heads 3", "--hidden-size 100 does not divide by");
    check_refused("--group-query-attention --num-query-groups 3", "--num-attention-heads 4 does not divide by "
                                                                  "--num-query-groups 3");
    check_refused("--tensor-model-parallel-size 3", "--num-attention-heads 4 does not divide by "
                                                    "--tensor-model-parallel-size 3");
    check_refused("--group-query-attention --num-query-groups 1 --tensor-model-parallel-size 2",
                  "--num-query-groups 1 does not divide by --tensor-model-parallel-size 2");
    check_refused("--pipeline-model-parallel-size 3",
                  "--num-layers 4 does not divide by the number of pipeline stages");
    check_refused("--num-virtual-stages-per-pipeline-rank 2", "want --pipeline-model-parallel-size above 1");
    check_refused("--num-virtual-stages-per-pipeline-rank 2 --num-layers-per-virtual-pipeline-stage 1",
                  "say the same thing");
    check_refused("--pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 3",
                  "does not divide by --num-layers-per-virtual-pipeline-stage 3");
    check_refused("--sequence-parallel --tensor-model-parallel-size 4 --seq-length 126",
                  "--seq-length 126 does not divide by --tensor-model-parallel-size 4");
    check_refused("--seq-length 128 --max-position-embeddings 64", "is longer than --max-position-embeddings 64");
    check_refused("--kv-channels 3", "--kv-channels 3 does not divide");
    check_refused("--train-iters 5 --train-samples 100", "--train-iters and --train-samples say the same thing");
    check_refused("--train-samples 5", "less than one --global-batch-size");
    check_refused("--lr-warmup-iters 5 --lr-warmup-fraction 0.1", "say the same thing");
    check_refused("--lr 1e-4 --min-lr 3e-4", "--min-lr 0.0003 is above --lr 0.0001");
    check_refused("--lr-decay-style WSD", "wants --lr-wsd-decay-iters");
    check_refused("--split 1,x", "--split is '1,x'");
    check_refused("--split 0,1", "--split is '0,1'");
    check_refused("--split 1,1,1,1", "--split is '1,1,1,1'");
    check_refused("--split 1,", "--split is '1,'");
    check_refused("--split 1e308,1e308", "--split is '1e308,1e308'");
    check_refused("--plan --make-data out", "--plan and --make-data");
    check_refused("--make-data=", "--make-data wants");
    check_refused("--json same --html same", "--json and --html cannot both be same");
    check_refused("more", "'more' is no option");
    check_refused("--overlap compare --train-iters 5", "--overlap compare wants --train-iters of at least 6");
    check_refused("--overlap-sends --no-overlap-sends", "--overlap-sends and --no-overlap-sends");
    check_refused("--compute imagined", "--compute is 'imagined'");
    check_refused("--compute timed:", "--compute is 'timed:'");
    check_refused("--compute timed:1,2,3,4", "--compute is 'timed:1,2,3,4'");
    check_refused("--compute timed:-1", "--compute is 'timed:-1'");
    check_refused("--device cuda --compute timed:1", "--compute timed:1 computes nothing, and --device cuda");
    check_refused("--compute timed:1x", "--compute is 'timed:1x'");
    check_refused("--hidden-size 1000000 --num-attention-heads 1000000 --kv-channels 1000000", "more than this can");
}

/* By whatever name, link, or folder the data is found. */
TEST(the_data_is_not_overwritten)
{
    char folder[] = "/tmp/weft-options-XXXXXX";
    int home = open(".", O_RDONLY | O_DIRECTORY);
    CHECK(home >= 0 && mkdtemp(folder) && chdir(folder) == 0 && mkdir("in", 0777) == 0);
    CHECK(close(creat("a.bin", 0666)) == 0 && symlink("a.bin", "b") == 0 && link("a.bin", "in/trace.3.weft") == 0);
    check_refused("--data a.bin --json a.bin", "--json 'a.bin' would overwrite what is read");
    check_refused("--data a --html b", "--html 'b' would overwrite what is read");
    check_refused("--data . --json b", "--json 'b' would overwrite what is read");
    check_refused("--data b --make-data a", "--make-data 'a.bin' would overwrite what is read");
    check_refused("--data a.bin --trace in", "--trace 'a.bin' would overwrite what is read");
    check_refused("--data a.bin --trace a.bin", "--trace 'a.bin' would overwrite what is read");
    CHECK(unlink("in/trace.3.weft") == 0 && unlink("b") == 0 && unlink("a.bin") == 0 && rmdir("in") == 0);
    CHECK(fchdir(home) == 0 && close(home) == 0 && rmdir(folder) == 0);
}

TEST(an_unknown_flag_and_a_wrong_value_are_named)
{
    check_refused("--no-such-thing", "'--no-such-thing'");
    check_refused("--overlap", "--overlap wants a value");
    check_refused("--overlap maybe", "--overlap is 'maybe'");
    check_refused("--normalization LayerNorm", "--normalization is 'LayerNorm'");
    check_refused("--position-embedding-type learned_absolute", "--position-embedding-type is 'learned_absolute'");
    check_refused("--num-layers 0", "--num-layers is '0'");
    check_refused("--num-layers", "--num-layers wants a value");
    check_refused("--adam-beta1 0", "--adam-beta1 is '0'");
}

TEST(flags_without_effect_and_defaults_are_noted_in_a_line_each)
{
    char *argv[MOST], text[4096] = "";
    gpt_options o;
    gpt_failure failure;
    int argc =
        split("--show-defaults --use-flash-attn --wandb-project mine --no-rope-fusion --hidden-size 64 --eval-iters 10",
              argv);
    CHECK_INT(gpt_options_read(&o, argc, argv, &failure), OPTIONS_GO);
    FILE *out = fmemopen(text, sizeof text, "w");
    gpt_options_note(&o, argc, argv, out);
    fclose(out);
    CHECK_HAS(text, "weft: without effect here: --use-flash-attn --wandb-project --no-rope-fusion --eval-iters\n");
    CHECK_HAS(text, "weft: defaults: --num-layers 4 --ffn-hidden-size 128 ");
    CHECK(!strstr(text, "--hidden-size 64"));
    CHECK_HAS(text, " --lr-decay-style cosine ");
    CHECK_HAS(text, "--use-distributed-optimizer\n");
}

/* Whole numbers, or doubles that were printed with six digits. */
static bool alike(uint64_t a, uint64_t b)
{
    double x, y;
    memcpy(&x, &a, sizeof x);
    memcpy(&y, &b, sizeof y);
    return a == b || fabs(x - y) < 1e-5 * fabs(x);
}

TEST(the_line_of_defaults_can_be_given_as_flags)
{
    char *argv[MOST], text[4096] = "", line[4096];
    gpt_options o, again;
    gpt_failure failure;
    uint64_t numbers[GPT_OPTIONS_MOST], numbers_again[GPT_OPTIONS_MOST];
    CHECK_INT(gpt_options_read(&o, split("--show-defaults", argv), argv, &failure), OPTIONS_GO);
    FILE *out = fmemopen(text, sizeof text, "w");
    gpt_options_note(&o, 1, argv, out);
    fclose(out);
    char *flags = strstr(text, "weft: defaults:") + strlen("weft: defaults:");
    flags[strcspn(flags, "\n")] = 0;
    snprintf(line, sizeof line, "--show-defaults %.4000s", flags);
    CHECK_MSG(read_line(line, &again, &failure) == OPTIONS_GO, "%s", failure.text);
    size_t count = gpt_options_numbers(&o, numbers);
    gpt_options_numbers(&again, numbers_again);
    for (size_t i = 0; i < count; i++)
        CHECK_MSG(alike(numbers[i], numbers_again[i]), "--%s", gpt_options_name(i));
}

static gpt_switch_set switches_of(const char *line)
{
    gpt_options o;
    gpt_failure failure;
    CHECK_MSG(read_line(line, &o, &failure) == OPTIONS_GO, "'%s': %s", line, failure.text);
    return o.switches;
}

TEST(overlap_speaks_for_all_switches_and_each_for_itself)
{
    CHECK_INT(switches_of(""), GPT_FREE_SWITCHES);
    CHECK_INT(switches_of("--overlap compare"), GPT_FREE_SWITCHES);
    CHECK_INT(switches_of("--overlap off"), 0);
    CHECK_INT(switches_of("--overlap-run-ahead"), GPT_ALL_SWITCHES);
    CHECK_INT(switches_of("--overlap off --overlap-tensor"), 1 << GPT_TENSOR);
    CHECK_INT(switches_of("--no-overlap-grad-reduce --overlap-param-gather"),
              GPT_FREE_SWITCHES & ~(1u << GPT_GRAD_REDUCE));
}

TEST(timed_computing_has_backwards_of_two_forwards_unless_said)
{
    gpt_options o;
    gpt_failure failure;
    CHECK_INT(read_line("", &o, &failure), OPTIONS_GO);
    CHECK(!o.timed.is_on);
    CHECK_INT(read_line("--compute timed:2.5", &o, &failure), OPTIONS_GO);
    CHECK(o.timed.is_on && o.timed.forward_ms == 2.5 && o.timed.backward_ms == 5 && o.timed.optimizer_ms == 0);
    CHECK_INT(read_line("--compute timed:1,0,3", &o, &failure), OPTIONS_GO);
    CHECK(o.timed.forward_ms == 1 && o.timed.backward_ms == 0 && o.timed.optimizer_ms == 3);
}

TEST(the_rate_is_told_in_samples)
{
    gpt_options o;
    gpt_failure failure;
    CHECK_INT(read_line("--train-samples 6400 --global-batch-size 64 --lr 1e-3 --min-lr 1e-4 --lr-warmup-fraction 0.1",
                        &o, &failure),
              OPTIONS_GO);
    CHECK_INT(o.iterations, 100);
    gpt_lr lr = gpt_options_lr(&o);
    CHECK_INT(lr.warmup, 640);
    CHECK_INT(lr.decay, 6400);
    CHECK_NEAR(gpt_lr_at(&lr, 320), 0.5e-3, 1e-15);
    CHECK_NEAR(gpt_lr_at(&lr, 6400), 1e-4, 1e-15);
}

TEST(a_rate_alone_has_a_lowest_rate_below_it)
{
    gpt_options o;
    gpt_failure failure;
    CHECK_INT(read_line("--lr 1e-4", &o, &failure), OPTIONS_GO);
    CHECK_NEAR(o.lowest_rate, 1e-5, 1e-18);
    CHECK_INT(read_line("--lr 1e-4 --min-lr 0", &o, &failure), OPTIONS_GO);
    CHECK(o.lowest_rate == 0);
}

/* ---- every flag of a pretrain_gpt.py command line that is understood or noted ---- */

/* A value other than the default, the number it becomes, and what it wants beside it. */
typedef struct understood {
    const char *flag, *value; /* NULL: a flag alone */
    double number;
    const char *with;
} understood;

static const understood taken[] = {
    {"num-layers", "8", 8, ""},
    {"hidden-size", "64", 64, ""},
    {"ffn-hidden-size", "96", 96, ""},
    {"num-attention-heads", "2", 2, ""},
    {"group-query-attention", NULL, 1, ""},
    {"num-query-groups", "2", 2, "--group-query-attention"},
    {"kv-channels", "16", 16, ""},
    {"seq-length", "64", 64, ""},
    {"max-position-embeddings", "4096", 4096, ""},
    {"vocab-size", "1000", 1000, ""},
    {"make-vocab-size-divisible-by", "64", 64, ""},
    {"norm-epsilon", "1e-6", 1e-6, ""},
    {"normalization", "RMSNorm", 0, ""},
    {"swiglu", NULL, 1, ""},
    {"position-embedding-type", "rope", 0, ""},
    {"rotary-base", "500000", 500000, ""},
    {"disable-bias-linear", NULL, 1, ""},
    {"untie-embeddings-and-output-weights", NULL, 1, ""},
    {"init-method-std", "0.0134", 0.0134, ""},
    {"attention-dropout", "0.0", 0, ""},
    {"hidden-dropout", "0.0", 0, ""},
    {"tensor-model-parallel-size", "2", 2, ""},
    {"pipeline-model-parallel-size", "2", 2, ""},
    {"num-layers-per-virtual-pipeline-stage", "1", 1, "--pipeline-model-parallel-size 2"},
    {"num-virtual-stages-per-pipeline-rank", "2", 2, "--pipeline-model-parallel-size 2"},
    {"microbatch-group-size-per-virtual-pipeline-stage", "4", 4, "--pipeline-model-parallel-size 2"},
    {"context-parallel-size", "1", 1, ""},
    {"sequence-parallel", NULL, 1, ""},
    {"use-distributed-optimizer", NULL, 1, ""},
    {"overlap-grad-reduce", NULL, 1, ""},
    {"overlap-param-gather", NULL, 1, ""},
    {"overlap", "compare", 2, ""},
    {"overlap-optimizer", NULL, 1, ""},
    {"no-overlap-optimizer", NULL, 1, ""},
    {"overlap-run-ahead", NULL, 1, ""},
    {"no-overlap-tensor", NULL, 1, ""},
    {"ddp-bucket-size", "10000000", 10000000, ""},
    {"last-bucket-size", "100000", 100000, ""},
    {"ddp-average-in-collective", NULL, 1, ""},
    {"use-tp-pp-dp-mapping", NULL, 1, ""},
    {"distributed-timeout-minutes", "60", 60, ""},
    {"micro-batch-size", "2", 2, ""},
    {"global-batch-size", "256", 256, ""},
    {"train-iters", "500", 500, ""},
    {"train-samples", "64000", 64000, ""},
    {"lr", "3e-4", 3e-4, ""},
    {"min-lr", "1e-5", 1e-5, ""},
    {"lr-decay-style", "linear", 1, ""},
    {"lr-decay-iters", "100", 100, ""},
    {"lr-warmup-iters", "10", 10, ""},
    {"lr-warmup-fraction", "0.1", 0.1, ""},
    {"weight-decay", "0.1", 0.1, ""},
    {"clip-grad", "0.5", 0.5, ""},
    {"adam-beta1", "0.8", 0.8, ""},
    {"adam-beta2", "0.95", 0.95, ""},
    {"adam-eps", "1e-5", 1e-5, ""},
    {"bf16", NULL, 1, ""},
    {"seed", "42", 42, ""},
    {"attention-backend", "unfused", 3, ""},
    {"mock-data", NULL, 1, ""},
    {"tokenizer-type", "NullTokenizer", 1, ""},
    {"log-interval", "10", 10, ""},
};

/* As the table has it: whole numbers, or the bits of a double. */
static bool is_number(uint64_t got, double want)
{
    double real;
    memcpy(&real, &got, sizeof real);
    return (double)got == want || real == want;
}

static void check_taken(const understood *t, const char *between)
{
    char line[256];
    gpt_options o;
    gpt_failure failure;
    uint64_t numbers[GPT_OPTIONS_MOST];
    snprintf(line, sizeof line, "%s --%s%s%s", t->with, t->flag, t->value ? between : "", t->value ? t->value : "");
    CHECK_MSG(read_line(line, &o, &failure) == OPTIONS_GO, "'%s': %s", line, failure.text);
    size_t count = gpt_options_numbers(&o, numbers), i = 0;
    while (i < count && strcmp(gpt_options_name(i), t->flag) != 0)
        i++;
    CHECK_MSG(i < count, "--%s is not in the table", t->flag);
    CHECK_MSG(is_number(numbers[i], t->number), "'%s' does not arrive", line);
}

TEST(every_usual_flag_is_understood_with_its_value_behind_or_attached)
{
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) {
        check_taken(&taken[i], " ");
        check_taken(&taken[i], "=");
    }
    gpt_options o;
    gpt_failure failure;
    CHECK_INT(read_line("--data-path corpus --split 949,50,1", &o, &failure), OPTIONS_GO);
    CHECK_STR(o.data, "corpus");
    CHECK_STR(o.split, "949,50,1");
}

TEST(every_flag_without_effect_is_noted_by_name_with_its_values)
{
    static const char *const noted[] = {
        "--use-mcore-models",
        "--transformer-impl transformer_engine",
        "--attention-backend fused",
        "--use-flash-attn",
        "--tensorboard-dir runs",
        "--log-memory-to-tensorboard",
        "--use-pytorch-profiler",
        "--profile",
        "--profile-step-start 4",
        "--profile-step-end=6",
        "--profile-ranks 0 1 2",
        "--wandb-project mine",
        "--wandb-exp-name first",
        "--ckpt-format torch_dist",
        "--save-interval 1000",
        "--eval-interval 1000",
        "--eval-iters 32",
        "--distributed-backend nccl",
        "--no-gradient-accumulation-fusion",
        "--no-masked-softmax-fusion",
        "--no-rope-fusion",
    };
    for (size_t i = 0; i < sizeof noted / sizeof *noted; i++) {
        char line[256], *argv[MOST], text[4096] = "", name[64], want[128];
        gpt_options o;
        gpt_failure failure;
        snprintf(line, sizeof line, "%s --num-layers 2", noted[i]);
        int argc = split(line, argv);
        CHECK_MSG(gpt_options_read(&o, argc, argv, &failure) == OPTIONS_GO, "'%s': %s", line, failure.text);
        CHECK_INT(o.layers, 2);
        FILE *out = fmemopen(text, sizeof text, "w");
        gpt_options_note(&o, argc, argv, out);
        fclose(out);
        snprintf(name, sizeof name, "%.*s", (int)strcspn(noted[i], " "), noted[i]);
        snprintf(want, sizeof want, "weft: without effect here: %s\n", name);
        CHECK_HAS(text, want);
    }
}

TEST(flags_and_values_of_other_models_are_refused_by_name)
{
    static const char *const refused[] = {
        "--normalization LayerNorm",
        "--position-embedding-type learned_absolute",
        "--num-experts 8",
        "--context-parallel-size 2",
        "--attention-dropout 0.1",
        "--hidden-dropout 0.1",
        "--fp8-format hybrid",
        "--fp16",
        "--moe-router-topk 2",
        "--expert-model-parallel-size 2",
        "--add-qkv-bias",
        "--qk-layernorm",
        "--apply-layernorm-1p",
        "--rotary-percent 0.5",
        "--multi-latent-attention",
        "--lr-decay-style sine",
        "--tokenizer-type GPT2BPETokenizer",
        "--recompute-activations", /* and whatever else there is no name for */
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        char name[64] = "";
        strncat(name, refused[i], strcspn(refused[i], " "));
        check_refused(refused[i], name);
    }
}

TEST(a_whole_command_line_of_a_training_script_is_taken)
{
    gpt_options o;
    gpt_failure failure;
    gpt_shape s;
    static const char script[] =
        "--use-mcore-models --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 "
        "--group-query-attention --num-query-groups 8 --kv-channels 128 --seq-length 8192 "
        "--max-position-embeddings 8192 --position-embedding-type rope --rotary-base 1000000 "
        "--attention-dropout 0.0 --hidden-dropout 0.0 --swiglu --init-method-std 0.0134 --attention-backend fused "
        "--normalization RMSNorm --disable-bias-linear --untie-embeddings-and-output-weights --micro-batch-size 1 "
        "--global-batch-size 128 --train-samples 1953125 --lr 0.00015 --min-lr 0.00001 --lr-decay-style cosine "
        "--clip-grad 1.0 --weight-decay 0.1 --adam-beta1 0.9 --adam-beta2 0.95 --bf16 --seed 42 "
        "--tensor-model-parallel-size 2 --sequence-parallel --use-distributed-optimizer --overlap-grad-reduce "
        "--overlap-param-gather --mock-data --tokenizer-type NullTokenizer --vocab-size 128256 --split 99,1,0 "
        "--log-interval 1 --eval-iters 32 --eval-interval 100 --save-interval 1000 --profile --profile-step-start 4 "
        "--profile-step-end 6 --ckpt-format torch_dist --distributed-timeout-minutes 60 --tensorboard-dir runs";
    CHECK_MSG(read_line(script, &o, &failure) == OPTIONS_GO, "%s", failure.text);
    CHECK_MSG(gpt_options_shape(&o, &s, &failure) == 0, "%s", failure.text);
    CHECK_INT(gpt_shape_parameters(&s),
              32ull * (4096 * 128 * (2 * 32 + 2 * 8) + 3 * 4096 * 14336 + 2 * 4096) + 2 * 128256 * 4096 + 4096);
}
