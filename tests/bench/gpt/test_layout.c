/* SPDX-License-Identifier: Apache-2.0 */
/* Which ranks share what for the flags given, and what does not divide. */
#include "gpt/layout.h"
#include "harness/test.h"

static gpt_options options(void)
{
    return (gpt_options){
        .tensor = 2, .pipeline = 2, .virtual_stages = 1, .microbatch_group = 2, .micro_batch = 4, .global_batch = 48};
}

static gpt_layout plan(const gpt_options *o, int ranks)
{
    gpt_layout layout;
    gpt_failure failure = {0};
    CHECK_MSG(gpt_layout_plan(&layout, o, ranks, &failure) == 0, "%s", failure.text);
    return layout;
}

static void check_refused(const gpt_options *o, int ranks, const char *says)
{
    gpt_layout layout;
    gpt_failure failure = {0};
    CHECK_INT(gpt_layout_plan(&layout, o, ranks, &failure), EXIT_USAGE);
    CHECK_HAS(failure.text, says);
}

TEST(ranks_that_are_left_are_data_parallel)
{
    gpt_options o = options();
    gpt_layout layout = plan(&o, 12);
    CHECK_INT(layout.data, 3);
    CHECK_INT(layout.microbatches, 4); /* 48 samples, 3 replicas, 4 at once */
    layout = plan(&o, 4);
    CHECK_INT(layout.data, 1);
    CHECK_INT(layout.microbatches, 12);
}

TEST(what_does_not_divide_is_named)
{
    gpt_options o = options();
    check_refused(&o, 10,
                  "--tensor-model-parallel-size 2 times --pipeline-model-parallel-size 2 is 4: it does not "
                  "divide a world of 10 ranks");
    check_refused(&o, 20, "--global-batch-size 48 does not divide by --micro-batch-size 4 times 5 data parallel ranks");
    o.tensor = o.pipeline = 1000000000;
    check_refused(&o, 8, "is 1000000000000000000: it does not divide");
    o = options();
    o.virtual_stages = 2, o.microbatch_group = 1;
    check_refused(&o, 4, "no schedule for this pipeline");
}

TEST(a_layout_is_told_by_what_it_has)
{
    char text[64], brief[8];
    gpt_options o = options();
    gpt_layout layout = plan(&o, 12);
    CHECK_STR(gpt_layout_text(&layout, &o, text, sizeof text), "tp2 pp2 dp3");
    o.sequence_parallel = true, o.virtual_stages = 2;
    CHECK_STR(gpt_layout_text(&layout, &o, text, sizeof text), "tp2 pp2 vp2 dp3 sp");
    CHECK_STR(gpt_layout_text(&layout, &o, brief, sizeof brief), "tp2 pp2");
    o = (gpt_options){.tensor = 1, .pipeline = 1, .virtual_stages = 1, .micro_batch = 1, .global_batch = 1};
    o.sequence_parallel = true; /* of one rank: none */
    layout = plan(&o, 1);
    CHECK_STR(gpt_layout_text(&layout, &o, text, sizeof text), "1");
}
