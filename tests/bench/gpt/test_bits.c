/* SPDX-License-Identifier: Apache-2.0 */
/* What only says when and how something is sent changes not one bit of what is trained. */
#include "harness/test.h"
#include "training.h"

#define LAYOUT "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --sequence-parallel "

#define OVERLAP "--overlap-grad-reduce --overlap-param-gather "

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
        {"-n 8", "--ddp-bucket-size 700 --overlap-grad-reduce"},
        {"-n 8", "--ddp-bucket-size 3000 --overlap-param-gather"},
        {"-n 8", "--ddp-bucket-size 700 " OVERLAP},
        {"-n 8 --threads", "--ddp-bucket-size 1 " OVERLAP},
        {"-n 8 --bind core", OVERLAP},
    };
    check_variants("", variants, sizeof variants / sizeof *variants);
}

/* Other products, and messages of another type. */
TEST_LIMIT(nor_do_they_in_bf16, 300)
{
    static const variant variants[] = {
        {"-n 8", ""},
        {"-n 8 --threads", "--ddp-bucket-size 700 " OVERLAP},
        {"-n 8 --bind core", "--ddp-bucket-size 1 --overlap-grad-reduce"},
    };
    check_variants("--bf16 ", variants, sizeof variants / sizeof *variants);
}
