/* SPDX-License-Identifier: Apache-2.0 */
/* What only says when and how something is sent changes not one bit of what is trained. */
#include "harness/test.h"
#include "training.h"

#define LAYOUT "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --sequence-parallel "

static void check_same(const char *how, const char *flags, const char *want)
{
    char line[256];
    snprintf(line, sizeof line, LAYOUT "%s", flags);
    training got = training_by_command(how, line);
    CHECK_INT(got.code, 0);
    CHECK_MSG(strcmp(training_text(&got, "weights_hash"), want) == 0, "%s %s: the weights are %s, not %s", how, flags,
              training_text(&got, "weights_hash"), want);
    training_forget(&got);
}

TEST_LIMIT(buckets_overlap_threads_and_processes_change_no_bit, 300)
{
    static const struct {
        const char *how, *flags;
    } variants[] = {
        {"-n 8", ""},
        {"-n 8 --threads", ""},
        {"-n 8", "--ddp-bucket-size 1"},
        {"-n 8", "--ddp-bucket-size 700 --overlap-grad-reduce"},
        {"-n 8", "--ddp-bucket-size 3000 --overlap-param-gather"},
        {"-n 8", "--ddp-bucket-size 700 --overlap-grad-reduce --overlap-param-gather"},
        {"-n 8 --threads", "--ddp-bucket-size 1 --overlap-grad-reduce --overlap-param-gather"},
        {"-n 8 --bind core", "--overlap-grad-reduce --overlap-param-gather"},
    };
    training first = training_by_command("-n 8", LAYOUT);
    CHECK_INT(first.code, 0);
    CHECK(first.norm[9] > 0.8); /* it was clipped */
    const char *want = training_text(&first, "weights_hash");
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++)
        check_same(variants[i].how, variants[i].flags, want);

    training other = training_by_command("-n 8", LAYOUT "--clip-grad 0.8000001");
    CHECK(strcmp(training_text(&other, "weights_hash"), want) != 0); /* a bit does change the number */
    training_forget(&other);
    training_forget(&first);
}
