/* SPDX-License-Identifier: Apache-2.0 */
/* The table of a step's times, and their sums and means. */
#include "gpt/times.h"
#include "harness/test.h"

static gpt_times rank(double computing_only, double hidden, double exposed, double idle)
{
    return (gpt_times){.ms = {[GPT_TIME_STEP] = computing_only + hidden + exposed + idle,
                              [GPT_TIME_COMPUTING_ONLY] = computing_only,
                              [GPT_TIME_HIDDEN] = hidden,
                              [GPT_TIME_EXPOSED] = exposed,
                              [GPT_TIME_IDLE] = idle}};
}

/* Rank 1 computes 90 of 100 ms, nearly all of it with operations under way; rank 0 only 60, but none of it so. */
TEST(the_slowest_rank_is_the_one_that_computed_longest_hidden_communication_or_not)
{
    const gpt_times ranks[] = {rank(60, 0, 40, 0), rank(10, 80, 5, 5), rank(50, 30, 10, 10)};
    CHECK_INT(gpt_times_slowest(ranks, 3), 1);
    CHECK_INT(gpt_times_slowest(ranks, 1), 0);
}

TEST(every_time_is_added_and_divided)
{
    gpt_times sum = {.ms = {0}}, all;
    for (int i = 0; i < GPT_TIMES; i++)
        all.ms[i] = 10 + i;
    gpt_times_add(&sum, &all);
    gpt_times_add(&sum, &all);
    gpt_times mean = gpt_times_divide(&sum, 4);
    for (int i = 0; i < GPT_TIMES; i++)
        CHECK_NEAR(mean.ms[i], (10 + i) / 2.0, 1e-12);
    gpt_times times = rank(1, 2, 4, 8);
    CHECK_NEAR(gpt_times_communicating(&times), 6, 0);
}

TEST(every_time_has_a_key_and_is_shown_somewhere)
{
    for (int i = 0; i < GPT_TIMES; i++) {
        const gpt_time_shown *shown = &gpt_times_shown[i];
        CHECK(shown->key && (shown->in_step || shown->line || shown->column));
    }
}
