/* SPDX-License-Identifier: Apache-2.0 */
/* What only says when and how something is sent changes not one bit of what is trained. */
#include "gpt/switches.h"
#include "harness/test.h"
#include "training.h"

#define LAYOUT "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --sequence-parallel "

typedef struct variant {
    const char *how, *flags;
} variant;

static training train(const char *how, const char *all, const char *flags)
{
    char line[320];
    snprintf(line, sizeof line, LAYOUT "%s%s", all, flags);
    training got = training_by_command(how, line);
    CHECK_INT(got.code, 0);
    return got;
}

static void check_variants(const char *all, const variant *variants, size_t count)
{
    training first = train("-n 8", all, "");
    CHECK(first.norm[9] > 0.8); /* it was clipped */
    const char *want = training_text(&first, "weights_hash");
    for (size_t i = 0; i < count; i++) {
        training got = train(variants[i].how, all, variants[i].flags);
        CHECK_MSG(strcmp(training_text(&got, "weights_hash"), want) == 0, "%s %s%s: the weights are %s, not %s",
                  variants[i].how, all, variants[i].flags, training_text(&got, "weights_hash"), want);
        training_forget(&got);
    }
    training other = train("-n 8", all, "--clip-grad 0.8000001");
    CHECK(strcmp(training_text(&other, "weights_hash"), want) != 0); /* a bit does change the number */
    training_forget(&other);
    training_forget(&first);
}

TEST_LIMIT(buckets_overlap_threads_and_processes_change_no_bit, 300)
{
    static const variant variants[] = {
        {"-n 8", ""},
        {"-n 8 --threads", ""},
        {"-n 8", "--ddp-bucket-size 1"},
        {"-n 8", "--ddp-bucket-size 700 --overlap off"},
        {"-n 8", "--ddp-bucket-size 3000 --last-bucket-size 500"},
        {"-n 8 --threads", "--ddp-bucket-size 1 --overlap compare"},
        {"-n 8 --bind core", ""},
    };
    check_variants("", variants, sizeof variants / sizeof *variants);
}

static const char *const switch_names[GPT_SWITCHES] = {
    [GPT_GRAD_REDUCE] = "grad-reduce", [GPT_OPTIMIZER] = "optimizer", [GPT_PARAM_GATHER] = "param-gather",
    [GPT_TENSOR] = "tensor",           [GPT_RECEIVES] = "receives",   [GPT_SENDS] = "sends",
    [GPT_RUN_AHEAD] = "run-ahead",     [GPT_BUBBLE] = "bubble",
};

static bool is_odd(unsigned bits)
{
    bool odd = false;
    for (; bits; bits &= bits - 1)
        odd = !odd;
    return odd;
}

static void check_switches(const char *how, const char *all)
{
    enum { ROWS = 16 };
    char line[512], want[32] = "";
    _Static_assert((int)GPT_SWITCHES < (int)ROWS, "each switch has a column of its own");
    for (unsigned row = 0; row < ROWS; row++) {
        int used = snprintf(line, sizeof line, "--overlap off %s", all);
        for (unsigned i = 0; i < GPT_SWITCHES; i++)
            if (is_odd(row & (i + 1)))
                used += snprintf(line + used, sizeof line - (size_t)used, " --overlap-%s", switch_names[i]);
        training got = training_by_command(how, line);
        CHECK_INT(got.code, 0);
        if (row == 0)
            snprintf(want, sizeof want, "%s", training_text(&got, "weights_hash"));
        CHECK_MSG(strcmp(training_text(&got, "weights_hash"), want) == 0, "%s: the weights are %s, not %s", line,
                  training_text(&got, "weights_hash"), want);
        training_forget(&got);
    }
}

/* In 16 rows any two switches are on and off in all four ways. */
TEST_LIMIT(no_switch_of_the_overlap_changes_a_bit_whatever_the_others_are, 300)
{
    check_switches("-n 8 --threads", LAYOUT "--ddp-bucket-size 700");
}

TEST_LIMIT(nor_with_several_chunks_on_a_stage_and_untied_embeddings, 300)
{
    check_switches("-n 4 --threads",
                   "--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2 --ddp-bucket-size 700 "
                   "--untie-embeddings-and-output-weights --last-bucket-size 100");
}

/* Other products, and messages of another type. */
TEST_LIMIT(nor_do_they_in_bf16, 300)
{
    static const variant variants[] = {
        {"-n 8", ""},
        {"-n 8 --threads", "--ddp-bucket-size 700 --overlap off"},
        {"-n 8 --bind core", "--ddp-bucket-size 1"},
    };
    check_variants("--bf16 ", variants, sizeof variants / sizeof *variants);
}
