/* SPDX-License-Identifier: Apache-2.0 */
/* However ranks share a training, it is the one that a single process makes. */
#include "harness/test.h"
#include "training.h"

#define TP      "--tensor-model-parallel-size "
#define PP      "--pipeline-model-parallel-size "
#define VP      "--num-virtual-stages-per-pipeline-rank "
#define SP      "--sequence-parallel "
#define UNTIED  "--untie-embeddings-and-output-weights "
#define OVERLAP "--overlap-grad-reduce --overlap-param-gather "

static const struct {
    int ranks;
    const char *layout, *flags;
} layouts[] = {
    {2, "tp2", TP "2"},
    {2, "tp2 sp", TP "2 " SP},
    {2, "pp2", PP "2"},
    {2, "dp2", ""},
    {8, "tp2 pp2 dp2", TP "2 " PP "2"},
    {8, "tp2 pp2 dp2 sp", TP "2 " PP "2 " SP},
    {4, "pp4", PP "4"},
    {2, "pp2 vp2", PP "2 " VP "2"},
    {8, "tp4 dp2 sp", TP "4 " SP},
    {8, "dp8", ""},
    {2, "pp2", PP "2 " UNTIED},
    {8, "tp2 pp2 vp2 dp2 sp", TP "2 " PP "2 " VP "2 " SP OVERLAP "--ddp-bucket-size 1000"},
    {8, "pp2 vp2 dp4", PP "2 --num-layers-per-virtual-pipeline-stage 1 --ddp-average-in-collective " OVERLAP},
    {8, "tp2 pp4", TP "2 " PP "4 --use-tp-pp-dp-mapping --micro-batch-size 1"},
    {4, "pp2 dp2", PP "2 " UNTIED "--use-tp-pp-dp-mapping --micro-batch-size 4"},
    {8, "tp2 pp2 vp2 dp2", TP "2 " PP "2 " VP "2 " UNTIED "--microbatch-group-size-per-virtual-pipeline-stage 4"},
};
enum { LAYOUTS = sizeof layouts / sizeof *layouts };

/* Long trainings run no code that short ones do not: what they learn is looked at where it takes seconds. */
static void only_where_all_is_fast(void)
{
    if (test_is_slow())
        test_skip("it takes long here");
}

/* Not all of them where all takes long. */
static bool is_left_out(int layout)
{
    return test_is_slow() && layout % 12 != 11;
}

static bool is_untied(int layout)
{
    return strstr(layouts[layout].flags, UNTIED);
}

static void check_alike(const char *what, const double *got, const double *want, int steps)
{
    for (int i = 0; i < steps; i++)
        CHECK_MSG(fabs(got[i] - want[i]) <= 1e-4 * fabs(want[i]), "step %d: the %s is %.9g, not %.9g", i + 1, what,
                  got[i], want[i]);
}

TEST_LIMIT(every_layout_gives_the_losses_and_norms_of_one_process, 300)
{
    training alone[2] = {training_on_threads(1, ""), training_on_threads(1, UNTIED)};
    CHECK(alone[0].loss[0] - alone[0].loss[19] > 1); /* the weights do change */
    for (int i = 0; i < LAYOUTS; i++) {
        if (is_left_out(i))
            continue;
        const training *want = &alone[is_untied(i)];
        training got = training_on_threads(layouts[i].ranks, layouts[i].flags);
        test_note("%s", layouts[i].layout);
        CHECK_INT(got.code, 0);
        CHECK_INT(got.steps, 20);
        CHECK_STR(training_text(&got, "layout"), layouts[i].layout);
        check_alike("loss", got.loss, want->loss, 20);
        check_alike("norm", got.norm, want->norm, 20);
        CHECK_NEAR(training_number(&got, "loss_held_out"), training_number(want, "loss_held_out"), 1e-4);
        CHECK_INT(training_number(&got, "params_total"), training_number(want, "params_total"));
        training_forget(&got);
    }
    training_forget(&alone[0]);
    training_forget(&alone[1]);
}

/* A rate that moves no weight leaves them as they begin. */
TEST_LIMIT(every_layout_begins_with_the_same_weights, 300)
{
    enum { FLAGS = 400 };
#define STILL " --train-iters 1 --lr 1e-30 --min-lr 0 --lr-warmup-iters 0"
    training alone[2] = {training_on_threads(1, STILL), training_on_threads(1, UNTIED STILL)};
    CHECK(strcmp(training_text(&alone[0], "weights_hash"), training_text(&alone[1], "weights_hash")) != 0);
    for (int i = 0; i < LAYOUTS; i++) {
        char flags[FLAGS];
        if (is_left_out(i))
            continue;
        snprintf(flags, sizeof flags, "%s" STILL, layouts[i].flags);
        training got = training_on_threads(layouts[i].ranks, flags);
        CHECK_STR(training_text(&got, "weights_hash"), training_text(&alone[is_untied(i)], "weights_hash"));
        training_forget(&got);
    }
    training other = training_on_threads(1, "--seed 4321" STILL);
    CHECK(strcmp(training_text(&other, "weights_hash"), training_text(&alone[0], "weights_hash")) != 0);
    training_forget(&other);
    training_forget(&alone[0]);
    training_forget(&alone[1]);
}

TEST_LIMIT(sixteen_bit_parameters_train_about_as_well, 120)
{
    only_where_all_is_fast();
    training want = training_on_threads(1, "--train-iters 60");
    training got = training_on_threads(4, "--train-iters 60 --bf16 " TP "2 " SP OVERLAP);
    test_note("loss %.3f to %.3f, in fp32 to %.3f", got.loss[0], training_number(&got, "loss_last10"),
              training_number(&want, "loss_last10"));
    CHECK_NEAR(got.loss[0], want.loss[0], 0.01);
    CHECK_NEAR(training_number(&got, "loss_last10"), training_number(&want, "loss_last10"), 0.05);
    CHECK(got.loss[0] - training_number(&got, "loss_last10") > 2);
    training_forget(&want);
    training_forget(&got);
}

/* Value, fp32 gradient, and over the data parallel ranks: two moments, and a master if the value is none. */
TEST(the_state_has_the_promised_size)
{
    static const struct {
        int ranks;
        const char *flags;
        double bytes;
    } cases[] = {
        {1, "", 8 + 8},         {2, "", 8 + 8 / 2.0},         {8, PP "2", 8 + 8 / 4.0},
        {1, "--bf16 ", 6 + 12}, {4, "--bf16 ", 6 + 12 / 4.0}, {8, "--bf16 " TP "2 " PP "2 ", 6 + 12 / 2.0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char flags[200];
        snprintf(flags, sizeof flags, "--train-iters 1 %s", cases[i].flags);
        training got = training_on_threads(cases[i].ranks, flags);
        CHECK_NEAR(training_number(&got, "state_bytes_per_param"), cases[i].bytes, 1e-9);
        training_forget(&got);
    }
}

TEST_LIMIT(ranks_learn_words, 120)
{
    only_where_all_is_fast();
    training t = training_on_threads(4, "--train-iters 150 --lr-warmup-iters 10 " TP "2 " PP "2 " SP);
    test_note("loss %.3f to %.3f", t.loss[0], training_number(&t, "loss_last10"));
    /* It begins with no idea. One of six words by chance is ln 6 nats for six letters, 0.3 a byte, and a sample
     * begins in the middle of a word. */
    CHECK_NEAR(t.loss[0], 5.545, 0.15);
    CHECK(training_number(&t, "loss_last10") < 0.6);
    CHECK(training_number(&t, "loss_held_out") < 0.6);
    training_forget(&t);
}
