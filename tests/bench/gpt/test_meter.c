/* SPDX-License-Identifier: Apache-2.0 */
/* How the time of steps is divided into computing, hidden, exposed and idle. */
#include <time.h>

#include "gpt/meter.h"
#include "harness/ranks.h"

static void check_adds_up(gpt_times t)
{
    double sum = 0, step = t.ms[GPT_TIME_STEP];
    for (int i = 0; i < GPT_TIMES; i++) {
        CHECK(t.ms[i] >= 0);
        sum += i == GPT_TIME_STEP ? 0 : t.ms[i];
    }
    CHECK_NEAR(sum, step, 1e-9 * step);
}

static void work_for_a_moment(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
}

/* Rank 0 starts an operation in one lap and finishes it in the next; rank 1 comes to it in between. */
static void one_operation_in_two_laps(weft_world *world, void *argument)
{
    (void)argument;
    gpt_meter meter;
    gpt_failure failure;
    weft_work work;
    float value = 1;
    weft_comm *comm = all_ranks(world, "reduce", NULL), *gate = all_ranks(world, "gate", NULL);
    CHECK(gpt_meter_open(&meter, world, 8192, &failure) == 0);
    if (weft_world_rank(world) == 0) {
        CHECK_OK(weft_all_reduce_start(comm, &value, &value, 1, WEFT_FP32, WEFT_SUM, WEFT_STREAM_HOST, &work));
        work_for_a_moment();
        gpt_times first = gpt_meter_lap(&meter);
        check_adds_up(first);
        CHECK(first.ms[GPT_TIME_STEP] >= 2 && first.ms[GPT_TIME_HIDDEN] >= 2 && first.ms[GPT_TIME_EXPOSED] == 0 &&
              first.ms[GPT_TIME_IDLE] == 0);
        CHECK_OK(weft_barrier_run(gate, WEFT_STREAM_HOST));
        CHECK_OK(weft_work_finish(work, WEFT_STREAM_HOST));
        gpt_times second = gpt_meter_lap(&meter);
        check_adds_up(second);
        CHECK(second.ms[GPT_TIME_HIDDEN] + second.ms[GPT_TIME_EXPOSED] > 0);
        work_for_a_moment();
        gpt_times third = gpt_meter_lap(&meter); /* nothing of the laps before is left */
        check_adds_up(third);
        CHECK(third.ms[GPT_TIME_EXPOSED] == 0 && third.ms[GPT_TIME_HIDDEN] == 0 &&
              third.ms[GPT_TIME_COMPUTING_ONLY] >= 2);
    } else {
        CHECK_OK(weft_barrier_run(gate, WEFT_STREAM_HOST));
        CHECK_OK(weft_all_reduce_run(comm, &value, &value, 1, WEFT_FP32, WEFT_SUM, WEFT_STREAM_HOST));
    }
    CHECK(value == 2);
    gpt_meter_close(&meter);
    weft_comm_destroy(comm);
    weft_comm_destroy(gate);
}

TEST(an_operation_counts_in_every_lap_that_it_touches)
{
    ranks_as_threads(2, NULL, one_operation_in_two_laps, NULL);
}

TEST(the_trace_has_room_for_two_steps)
{
    gpt_options o = {.layers = 4, .virtual_stages = 1, .micro_batch = 1, .global_batch = 8};
    CHECK_INT(gpt_meter_records(&o), 8192); /* the least */
    CHECK_INT(gpt_meter_ring(&o), 8192);
    o.trace = "traces";
    CHECK_INT(gpt_meter_ring(&o), 16 * 8192);
    o.layers = 32, o.global_batch = 64;
    /* A layer of a tensor parallel rank has 4 operations forward and 6 backward. */
    CHECK(gpt_meter_records(&o) >= 2 * 64 * 32 * 10);
    CHECK(gpt_meter_records(&o) < 2 * 2 * 64 * 32 * 16);
    o.global_batch = 1000000000;
    CHECK_INT(gpt_meter_records(&o), 1 << 20); /* the most */
    CHECK_INT(gpt_meter_ring(&o), 1 << 20);
}
