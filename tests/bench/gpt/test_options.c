/* SPDX-License-Identifier: Apache-2.0 */
/* What flags make of a training, and what is said of flags that do not go. */
#include <stdlib.h>

#include "gpt/options.h"
#include "harness/test.h"

enum { MOST = 32 };

/* The words of a line, behind the command's name. */
static int split(const char *line, char **argv)
{
    static char words[1024];
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
    check_refused("--lr 1e-4", "--min-lr 0.0003 is above --lr 0.0001");
    check_refused("--lr-decay-style WSD", "wants --lr-wsd-decay-iters");
    check_refused("--split 1,x", "--split is '1,x'");
    check_refused("--split 0,1", "--split is '0,1'");
    check_refused("--split 1,1,1,1", "--split is '1,1,1,1'");
    check_refused("--split 1,", "--split is '1,'");
    check_refused("--split 1e308,1e308", "--split is '1e308,1e308'");
    check_refused("more", "'more' is no option");
    check_refused("--hidden-size 1000000 --num-attention-heads 1000000 --kv-channels 1000000", "more than this can");
}

TEST(an_unknown_flag_and_a_wrong_value_are_named)
{
    check_refused("--no-such-thing", "'--no-such-thing'");
    check_refused("--overlap compare", "'--overlap'");
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
    int argc = split("--use-flash-attn --wandb-project mine --no-rope-fusion --hidden-size 64 --eval-iters 10", argv);
    CHECK_INT(gpt_options_read(&o, argc, argv, &failure), OPTIONS_GO);
    FILE *out = fmemopen(text, sizeof text, "w");
    gpt_options_note(&o, argc, argv, out);
    fclose(out);
    CHECK_HAS(text, "weft: without effect here: --use-flash-attn --wandb-project --no-rope-fusion --eval-iters\n");
    CHECK_HAS(text, "weft: defaults: --num-layers 4 --ffn-hidden-size 128 ");
    CHECK(!strstr(text, "--hidden-size 64"));
    CHECK_HAS(text, "--use-distributed-optimizer\n");
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
