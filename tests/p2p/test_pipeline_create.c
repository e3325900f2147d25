/* SPDX-License-Identifier: Apache-2.0 */
/* What is wrong is refused before the first step, on all stages, with a message that names it; the comm lives on. */
#include <stdlib.h>

#include "base/memory.h"
#include "trainer.h"

static uint32_t batches_started(weft_world *world)
{
    static _Thread_local weft_trace_record records[256];
    uint32_t count = 0;
    size_t n = weft_trace_read(world, 0, records, 256, NULL);
    for (size_t i = 0; i < n; i++)
        count += records[i].kind == WEFT_TRACE_P2P;
    return count;
}

/* Make a pipeline that must be refused. */
static void check_refused(weft_comm *comm, const weft_schedule *s, const weft_pipeline_config *config, weft_result want,
                          const char *says)
{
    weft_pipeline *p = (weft_pipeline *)(uintptr_t)1;
    CHECK_RESULT(weft_pipeline_create(comm, s, config, &p), want);
    CHECK(p == NULL);
    CHECK_HAS(weft_last_error(), says);
    if (comm)
        CHECK_INT(batches_started(weft_comm_world(comm)), 0);
}

/* After all refusals the same comm carries a pipeline. */
static void check_usable(weft_comm *comm)
{
    weft_schedule *s = make(WEFT_POLICY_1F1B, (uint32_t)weft_comm_size(comm), 3, 1, 0);
    trainer t = {.count = 4, .grad_count = 4};
    trainer_open(&t, comm, s);
    trainer_check(&t);
    trainer_close(&t);
    weft_schedule_destroy(s);
}

static trainer small(const weft_comm *comm)
{
    return (trainer){.count = 4, .grad_count = 4, .stage = comm ? (uint32_t)weft_comm_rank(comm) : 0};
}

/* ---- schedules ---- */

static void sends_before_receives(weft_world *world, void *argument)
{
    (void)argument;
    mute();
    weft_comm *comm = all_ranks(world, "first", NULL);
    weft_schedule *s =
        from_text("stage 0: F0.0 SEND_F0.0 F1.0 SEND_F1.0 RECV_F0.1 RECV_F1.1 F0.1 SEND_F0.1 F1.1 SEND_F1.1\n"
                  "stage 1: RECV_F0.0 F0.0 SEND_F0.0 RECV_F1.0 F1.0 SEND_F1.0 RECV_F0.1 F0.1 RECV_F1.1 F1.1\n");
    trainer t = small(comm);
    weft_pipeline_config config = trainer_config(&t, s);
    check_refused(
        comm, s, &config, WEFT_E_INVALID,
        "deadlock: stage 0 action 3 (SEND_F 1.0 to stage 1) waits for stage 1 action 3 (RECV_F 1.0 from stage 0)");
    check_usable(comm);
    weft_schedule_destroy(s);
    weft_comm_destroy(comm);
}

TEST(a_schedule_that_sends_before_it_receives_is_refused_before_a_message)
{
    ranks_both_ways(2, sends_before_receives, NULL);
}

/* Fine in queues of their own, and so here; refused where there is only one. */
static void hand_written(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm = all_ranks(world, "hand", NULL);
    weft_schedule *s =
        from_text("stage 0: RECV_B0.0#1 RECV_B1.0#0 F0.0 SEND_F0.0#3 F1.0 SEND_F1.0#0 B0.0 SYNC.0 B1.0\n"
                  "stage 1: RECV_F0.0#2 RECV_F1.0#1 F0.0 F1.0 B0.0 SEND_B0.0#0 SYNC.0 B1.0 SEND_B1.0#0\n");
    trainer t = small(comm);
    CHECK_INT(weft_comm_queues(comm), WEFT_QUEUES_DIRECTION);
    trainer_open(&t, comm, s);
    trainer_check(&t);
    trainer_check(&t);
    trainer_close(&t);
    weft_schedule_destroy(s);
    weft_comm_destroy(comm);
}

TEST(a_schedule_with_numbers_of_its_own_is_run_as_it_stands)
{
    ranks_as_threads(2, NULL, hand_written, NULL);
}

static void one_differs(weft_world *world, void *argument)
{
    (void)argument;
    mute();
    weft_comm *comm = all_ranks(world, "pipe", NULL);
    uint32_t stage = (uint32_t)weft_comm_rank(comm);
    weft_schedule *s = make(stage == 2 ? WEFT_POLICY_GPIPE : WEFT_POLICY_1F1B, 4, 4, 1, 0);
    weft_schedule *same = make(WEFT_POLICY_1F1B, 4, 4, 1, 0);
    weft_schedule *batched = lower(same, WEFT_QUEUES_ONE, stage == 1 ? WEFT_BATCHING_STEP : WEFT_BATCHING_EXCHANGE, 0);
    trainer t = small(comm);
    weft_pipeline_config config = trainer_config(&t, s);
    check_refused(comm, s, &config, WEFT_E_MISMATCH,
                  "comm pipe: stage 2 (rank 2) has another schedule than stage 0 (rank 0)");
    check_refused(comm, batched, &config, WEFT_E_MISMATCH, "stage 1 (rank 1) has another schedule");
    config.count = stage == 3 ? 5 : 4;
    check_refused(
        comm, same, &config, WEFT_E_MISMATCH,
        "stage 3 (rank 3) sends 5 int64 with gradients of 4 int32, stage 0 (rank 0) 4 int64 with gradients of 4 int32");
    config.count = 4;
    config.grad_dtype = stage == 0 ? WEFT_FP32 : WEFT_INT32;
    check_refused(comm, same, &config, WEFT_E_MISMATCH, "stage 1 (rank 1) sends 4 int64 with gradients of 4 int32");
    check_usable(comm);
    weft_schedule_destroy(s);
    weft_schedule_destroy(same);
    weft_schedule_destroy(batched);
    weft_comm_destroy(comm);
}

TEST(a_stage_with_another_schedule_or_shape_is_named_everywhere)
{
    ranks_both_ways(4, one_differs, NULL);
}

/* Stage numbers are those of the comm; the rank that is named is that of the world. */
static void reversed(weft_world *world, void *argument)
{
    (void)argument;
    mute();
    int ranks[] = {2, 1, 0};
    weft_comm *comm;
    CHECK_OK(weft_comm_create(world, "reversed", ranks, 3, NULL, &comm));
    weft_schedule *s = make(weft_world_rank(world) == 0 ? WEFT_POLICY_GPIPE : WEFT_POLICY_1F1B, 3, 3, 1, 0);
    trainer t = small(comm);
    weft_pipeline_config config = trainer_config(&t, s);
    check_refused(comm, s, &config, WEFT_E_MISMATCH, "stage 2 (rank 0) has another schedule than stage 0 (rank 2)");
    check_usable(comm);
    weft_schedule_destroy(s);
    weft_comm_destroy(comm);
}

TEST(the_order_of_the_comm_is_the_order_of_stages)
{
    ranks_as_threads(3, NULL, reversed, NULL);
}

/* ---- configs ---- */

static void one_fails(weft_world *world, void *argument)
{
    (void)argument;
    mute();
    weft_comm *comm = all_ranks(world, "one", NULL);
    bool own = weft_comm_rank(comm) == 1;
    weft_schedule *s = make(WEFT_POLICY_1F1B, 3, 4, 1, 0);
    trainer t = small(comm);
    weft_pipeline_config good = trainer_config(&t, s), config = good;
    config.backward = own ? NULL : good.backward;
    check_refused(comm, s, &config, WEFT_E_INVALID,
                  "rank 1: stage 1 action 2 (B 0.0) needs the callback backward: it is NULL");
    check_refused(comm, s, own ? NULL : &good, WEFT_E_INVALID, "rank 1: a pipeline needs a config");
    check_refused(comm, own ? NULL : s, &good, WEFT_E_INVALID, "rank 1: a pipeline needs a schedule");
    config = good;
    config.count = own ? SIZE_MAX / 8 : 4;
    check_refused(comm, s, &config, WEFT_E_RANGE, "elements of int64");
    config.count = own ? (size_t)1 << 55 : 4;
    check_refused(comm, s, &config, WEFT_E_NO_MEMORY, "are wanted");
    check_usable(comm);
    weft_schedule_destroy(s);
    weft_comm_destroy(comm);
}

TEST(if_one_stage_fails_all_do_and_the_comm_lives)
{
    ranks_both_ways(3, one_fails, NULL);
}

static void wrong_comms(weft_world *world, void *argument)
{
    (void)argument;
    mute();
    weft_comm_config few = WEFT_COMM_CONFIG_INIT;
    few.p2p_channels = 1;
    weft_comm *comm = all_ranks(world, "full", NULL), *narrow = all_ranks(world, "narrow", &few);
    weft_schedule *three = make(WEFT_POLICY_1F1B, 3, 3, 1, 0), *two = make(WEFT_POLICY_1F1B, 2, 3, 1, 0);
    trainer t = small(comm);
    weft_pipeline_config config = trainer_config(&t, two);
    check_refused(comm, three, &config, WEFT_E_INVALID, "a schedule of 3 stages is run by 2 ranks of comm full");
    check_refused(narrow, two, &config, WEFT_E_INVALID, "comm narrow has 1 p2p channel, a pipeline needs 2");
    weft_schedule_destroy(three);
    weft_schedule_destroy(two);
    weft_comm_destroy(comm);
    weft_comm_destroy(narrow);
}

TEST(a_comm_of_another_size_or_with_too_few_channels_is_refused)
{
    ranks_as_threads(2, NULL, wrong_comms, NULL);
}

/* 70 receives are posted before anything else: more than a comm has works. */
static void many_receives(weft_world *world, void *argument)
{
    (void)argument;
    mute();
    char text[20000];
    size_t n = (size_t)snprintf(text, sizeof text, "stage 0:");
    for (int m = 0; m < 70; m++)
        n += (size_t)snprintf(text + n, sizeof text - n, " F%d.0 SEND_F%d.0", m, m);
    n += (size_t)snprintf(text + n, sizeof text - n, "\nstage 1:");
    for (int m = 0; m < 70; m++)
        n += (size_t)snprintf(text + n, sizeof text - n, " RECV_F%d.0", m);
    for (int m = 0; m < 70; m++)
        n += (size_t)snprintf(text + n, sizeof text - n, " F%d.0", m);
    weft_comm_config more = WEFT_COMM_CONFIG_INIT;
    more.works = 70;
    weft_comm *comm = all_ranks(world, "usual", NULL), *large = all_ranks(world, "large", &more);
    weft_schedule *s;
    CHECK_OK(weft_schedule_read(text, n, &s));
    weft_pipeline_config config = WEFT_PIPELINE_CONFIG_INIT;
    trainer t = small(comm);
    weft_schedule *other = make(WEFT_POLICY_1F1B, 2, 2, 1, 0);
    config = trainer_config(&t, other);
    check_refused(comm, s, &config, WEFT_E_INVALID,
                  "rank 1: stage 1 has up to 70 batches under way at a time, comm usual 64 works");
    weft_pipeline *p;
    CHECK_OK(weft_pipeline_create(large, s, &config, &p));
    weft_pipeline_destroy(p);
    weft_schedule_destroy(s);
    weft_schedule_destroy(other);
    weft_comm_destroy(comm);
    weft_comm_destroy(large);
}

TEST(more_batches_under_way_than_the_comm_has_works_are_refused)
{
    ranks_as_threads(2, NULL, many_receives, NULL);
}

TEST(wrong_configs_are_refused_and_name_what_is_wrong)
{
    mute();
    weft_schedule *s = make(WEFT_POLICY_1F1B, 1, 2, 1, 0), *split = split_backwards(s);
    weft_schedule *two = make(WEFT_POLICY_1F1B, 2, 2, 1, 0), *chunks = make(WEFT_POLICY_INTERLEAVED, 1, 2, 2, 0);
    weft_schedule *forwards = make_forward_only(WEFT_POLICY_1F1B, 1, 2, 1, 0);
    trainer t = small(NULL);
    weft_pipeline_config good = trainer_config(&t, s), config = good;
    CHECK_RESULT(weft_pipeline_create(NULL, s, &good, NULL), WEFT_E_INVALID);
    CHECK_RESULT(weft_pipeline_run(NULL), WEFT_E_INVALID);
    weft_pipeline_destroy(NULL);
    config.size = 0;
    check_refused(NULL, s, &config, WEFT_E_INVALID, "weft_pipeline_config.size is 0");
    config = good, config.flags = 4;
    check_refused(NULL, s, &config, WEFT_E_INVALID, "flags 0x4");
    config = good, config.count = 0;
    check_refused(NULL, two, &config, WEFT_E_INVALID, "a pipeline of 2 parts, but weft_pipeline_config.count is 0");
    weft_schedule *none = make(WEFT_POLICY_NONE, 1, 2, 1, 0);
    check_refused(NULL, none, &good, WEFT_E_INVALID, "the schedule is empty: policy is none");
    weft_schedule_destroy(none);
    config = good, config.lower_flags = 12;
    check_refused(NULL, s, &config, WEFT_E_INVALID, "0xc for lowering");
    config = good, config.dtype = (weft_dtype)99;
    check_refused(NULL, s, &config, WEFT_E_INVALID, "dtype 99");
    config = good, config.grad_dtype = (weft_dtype)-1;
    check_refused(NULL, s, &config, WEFT_E_INVALID, "gradients of -1");
    config = good, config.forward = NULL;
    check_refused(NULL, s, &config, WEFT_E_INVALID, "stage 0 action 0 (F 0.0) needs the callback forward");
    config = good, config.weight_grad = NULL;
    check_refused(NULL, split, &config, WEFT_E_INVALID, "(W 0.0) needs the callback weight_grad");
    check_refused(NULL, two, &good, WEFT_E_INVALID, "a schedule of 2 stages is run by 1 ranks: there is no comm");
    check_refused(NULL, chunks, &good, WEFT_E_INVALID, "needs a comm");
    /* What a schedule has no use for may be missing. */
    config = (weft_pipeline_config)WEFT_PIPELINE_CONFIG_INIT;
    config.cookie = &t;
    config.forward = trainer_config(&t, forwards).forward;
    CHECK_OK(weft_pipeline_create(NULL, forwards, &config, &t.pipeline));
    CHECK_OK(trainer_run(&t));
    CHECK_STR(t.events, "F0.0 F1.0");
    trainer_close(&t);
    weft_schedule_destroy(s);
    weft_schedule_destroy(split);
    weft_schedule_destroy(two);
    weft_schedule_destroy(chunks);
    weft_schedule_destroy(forwards);
}

/* ---- memory ---- */

/* Rank 0 has no memory for its first allocation, then for its second, ... */
static void out_of_memory(weft_world *world, void *argument)
{
    (void)argument;
    mute();
    weft_comm *comm = all_ranks(world, "memory", NULL);
    weft_schedule *s = make(WEFT_POLICY_INTERLEAVED, 2, 2, 2, 0);
    trainer t = small(comm);
    weft_pipeline_config config = trainer_config(&t, s);
    weft_result result = WEFT_E_NO_MEMORY;
    long number = 0;
    while (result == WEFT_E_NO_MEMORY) {
        weft__alloc_fail_at(t.stage == 0 ? ++number : 0);
        result = weft_pipeline_create(comm, s, &config, &t.pipeline);
        weft__alloc_fail_at(0);
        CHECK((result == WEFT_OK) == (t.pipeline != NULL));
        if (result != WEFT_OK)
            CHECK_HAS(weft_last_error(), "rank 0: no memory for");
    }
    CHECK_INT(result, WEFT_OK);
    CHECK_MSG(t.stage != 0 || number > 20, "only %ld allocations", number);
    trainer_check(&t);
    trainer_close(&t);
    weft_schedule_destroy(s);
    weft_comm_destroy(comm);
}

TEST(every_failed_allocation_is_an_error_on_all_stages_and_leaves_nothing)
{
    ranks_as_processes(2, NULL, out_of_memory, NULL);
}
