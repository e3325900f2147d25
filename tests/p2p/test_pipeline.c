/* SPDX-License-Identifier: Apache-2.0 */
/* Pipelines compute what one process does, in the order of their lists, whatever the policy, shape, batching and
 * timing; messages go on behind computing. */
#include <dirent.h>
#include <stdatomic.h>
#include <time.h>

#include "trainer.h"

/* ---- values ---- */

typedef struct how {
    weft_batching batching;
    uint32_t flags, pipeline_flags;
} how;

static const how hows[] = {{WEFT_BATCHING_AUTO, 0},
                           {WEFT_BATCHING_NONE, 0},
                           {WEFT_BATCHING_NONE, WEFT_LOWER_NO_LOOKAHEAD},
                           {WEFT_BATCHING_NONE, WEFT_LOWER_ALIGN_SYNC},
                           {WEFT_BATCHING_NONE, 0, WEFT_PIPELINE_WAIT_SENDS},
                           {WEFT_BATCHING_NONE, WEFT_LOWER_NO_LOOKAHEAD, WEFT_PIPELINE_WAIT_SENDS},
                           {WEFT_BATCHING_EXCHANGE, 0},
                           {WEFT_BATCHING_EXCHANGE, WEFT_LOWER_ALIGN_SYNC},
                           {WEFT_BATCHING_EXCHANGE, 0, WEFT_PIPELINE_WAIT_SENDS},
                           {WEFT_BATCHING_STEP, 0}};
enum { HOWS = sizeof hows / sizeof *hows };

/* Activations, gradients. */
static const size_t shapes[][2] = {{1, 1}, {3, 5}, {5, 3}, {16, 16}, {1, 4}, {1000, 999}, {513, 9001}, {4097, 1}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static weft_schedule *any_policy(weft_policy policy, uint32_t p, uint32_t m, uint32_t v, bool forward_only)
{
    weft_schedule_config config = WEFT_SCHEDULE_CONFIG_INIT;
    config.policy = policy;
    config.stages = p;
    config.microbatches = m;
    config.chunks = v;
    config.flags = forward_only ? WEFT_SCHEDULE_FORWARD_ONLY : 0;
    weft_schedule *s;
    return weft_schedule_create(&config, &s) == WEFT_OK ? s : NULL; /* some shapes do not go */
}

/* Two windows of one schedule. */
static void check_schedule(weft_comm *comm, const weft_schedule *s, size_t shape, uint32_t flags)
{
    trainer t = {.count = shapes[shape % SHAPES][0], .grad_count = shapes[shape % SHAPES][1], .flags = flags};
    trainer_open(&t, comm, s);
    trainer_check(&t);
    trainer_check(&t);
    trainer_close(&t);
}

static void check_policy(weft_comm *comm, weft_policy policy, uint32_t m, uint32_t v, int *done)
{
    uint32_t p = (uint32_t)weft_comm_size(comm);
    weft_schedule *s = any_policy(policy, p, m, v, false);
    for (int i = 0; s && i < HOWS; i++) {
        weft_schedule *lowered = lower(s, WEFT_QUEUES_DIRECTION, hows[i].batching, hows[i].flags);
        if (verify(lowered, WEFT_QUEUES_DIRECTION) == WEFT_OK)
            check_schedule(comm, lowered, (size_t)(*done)++, hows[i].pipeline_flags);
        else /* not every schedule goes with messages in pairs */
            CHECK(v > 1 && hows[i].batching == WEFT_BATCHING_EXCHANGE);
        weft_schedule_destroy(lowered);
    }
    weft_schedule_destroy(s);
}

static void all_policies(weft_world *world, void *argument)
{
    (void)argument;
    mute();
    weft_comm *comm = all_ranks(world, "values", NULL);
    int done = weft_world_size(world);
    for (uint32_t m = 1; m <= 8; m += test_is_slow() ? 3 : 1) {
        for (weft_policy policy = next_policy(WEFT_POLICY_NONE); policy; policy = next_policy(policy))
            for (uint32_t v = chunks_of(policy, 2); v <= chunks_of(policy, 3); v++)
                check_policy(comm, policy, m, v, &done);
    }
    weft_comm_destroy(comm);
}

TEST_LIMIT(every_policy_shape_and_batching_computes_what_one_process_does, 300)
{
    for (int p = 1; p <= 5; p++)
        ranks_as_threads(p, NULL, all_policies, NULL);
}

TEST_LIMIT(processes_compute_the_same, 300)
{
    for (int p = 2; p <= (test_is_slow() ? 3 : 5); p++)
        ranks_as_processes(p, NULL, all_policies, NULL);
}

static void others(weft_world *world, void *argument)
{
    (void)argument;
    mute();
    weft_comm *comm = all_ranks(world, "others", NULL);
    uint32_t p = (uint32_t)weft_comm_size(comm);
    for (uint32_t v = 1; v <= 2; v++) {
        weft_schedule *s = make(v == 1 ? WEFT_POLICY_1F1B : WEFT_POLICY_INTERLEAVED, p, 2 * p, v, 0);
        check_schedule(comm, s, v, 0); /* as the policy wrote it */
        weft_schedule *split = split_backwards(s);
        check_schedule(comm, split, v + 1, 0);
        weft_schedule *forwards = make_forward_only(WEFT_POLICY_INTERLEAVED, p, 2 * p, v, 0);
        check_schedule(comm, forwards, v + 2, 0);
        weft_schedule_destroy(s);
        weft_schedule_destroy(split);
        weft_schedule_destroy(forwards);
    }
    weft_schedule_config ahead = WEFT_SCHEDULE_CONFIG_INIT;
    ahead.policy = WEFT_POLICY_1F1B, ahead.stages = p, ahead.microbatches = 2 * p + 1;
    ahead.flags = WEFT_SCHEDULE_RUN_AHEAD;
    weft_schedule *s;
    CHECK_OK(weft_schedule_create(&ahead, &s));
    check_schedule(comm, s, p, 0);
    check_schedule(comm, s, p + 1, WEFT_PIPELINE_WAIT_SENDS);
    weft_schedule_destroy(s);
    weft_comm_destroy(comm);
}

TEST(schedules_that_only_compute_are_lowered_and_split_or_forward_only_ones_run)
{
    for (int p = 1; p <= 4; p++)
        ranks_as_threads(p, NULL, others, NULL);
    ranks_as_processes(3, NULL, others, NULL);
}

TEST(one_stage_runs_without_a_comm)
{
    for (uint32_t m = 1; m <= 5; m++) {
        weft_schedule *s = make(WEFT_POLICY_1F1B, 1, m, 1, 0), *split = split_backwards(s);
        check_schedule(NULL, s, m, 0);
        check_schedule(NULL, split, m, 0);
        weft_schedule_destroy(s);
        weft_schedule_destroy(split);
    }
}

/* With two stages the one before is the one behind: activations and gradients of one size must not be swapped. */
static void two_stages(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm = all_ranks(world, "two", NULL);
    static const uint32_t chunks[] = {1, 2, 3};
    for (int k = 0; k < 3; k++)
        for (size_t n = 3; n <= 5; n += 2) {
            weft_schedule *s = make(k ? WEFT_POLICY_INTERLEAVED : WEFT_POLICY_1F1B, 2, 4, chunks[k], 0);
            weft_schedule *batched = lower(s, WEFT_QUEUES_ONE, WEFT_BATCHING_AUTO, 0);
            trainer t = {.count = 3, .grad_count = 2 * n}; /* 24 bytes and 24, or 40 */
            trainer_open(&t, comm, batched);
            for (int i = 0; i < 5; i++)
                trainer_check(&t);
            trainer_close(&t);
            weft_schedule_destroy(s);
            weft_schedule_destroy(batched);
        }
    weft_comm_destroy(comm);
}

TEST(two_stages_do_not_swap_activations_and_gradients)
{
    ranks_both_ways(2, two_stages, NULL);
}

/* ---- repeats ---- */

static int open_files(void)
{
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");
    CHECK(folder);
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

/* The buffers that tasks have seen. */
typedef struct seen {
    const void *memory[64];
    uint32_t count;
} seen;

static void see(seen *s, const void *memory)
{
    for (uint32_t i = 0; i < s->count; i++)
        if (s->memory[i] == memory)
            return;
    CHECK(s->count < 64);
    if (memory)
        s->memory[s->count++] = memory;
}

static void see_task(trainer *t, const weft_pipeline_task *task)
{
    see(t->shared, task->input);
    see(t->shared, task->output);
    see(t->shared, task->output_grad);
    see(t->shared, task->input_grad);
}

static uint32_t total_buffers(const weft_stage_needs *needs)
{
    return needs->receives[0] + needs->receives[1] + needs->sends[0] + needs->sends[1];
}

typedef struct repeats {
    int windows;
    uint32_t late_percent;
    bool alone; /* in its process */
} repeats;

static void repeat(weft_world *world, void *argument)
{
    const repeats *wanted = argument;
    weft_comm *comm = all_ranks(world, "repeat", NULL);
    weft_schedule *s = make(WEFT_POLICY_INTERLEAVED, 4, 8, 2, 0);
    weft_schedule *lowered = lower(s, weft_comm_queues(comm), WEFT_BATCHING_AUTO, 0);
    weft_stage_needs needs[4];
    CHECK_OK(weft_schedule_verify(lowered, NULL, needs));
    seen buffers = {.count = 0};
    trainer t = {.count = 3000,
                 .grad_count = 3000,
                 .late_percent = wanted->late_percent,
                 .random = (uint32_t)weft_world_rank(world) + 7,
                 .before = see_task,
                 .shared = &buffers};
    trainer_open(&t, comm, lowered);
    trainer_check(&t);
    int files = open_files();
    uint32_t count = buffers.count;
    CHECK(count <= total_buffers(&needs[t.stage]));
    for (int i = 0; i < wanted->windows; i++)
        trainer_check(&t);
    if (wanted->alone)
        CHECK_INT(open_files(), files);
    CHECK_INT(buffers.count, count);
    trainer_close(&t);
    weft_schedule_destroy(s);
    weft_schedule_destroy(lowered);
    weft_comm_destroy(comm);
}

TEST(a_hundred_windows_open_nothing_and_use_the_same_buffers)
{
    ranks_as_processes(4, NULL, repeat, &(repeats){.windows = test_is_slow() ? 20 : 100, .alone = true});
}

TEST(a_hundred_windows_on_threads_do_not_hang)
{
    ranks_as_threads(4, NULL, repeat, &(repeats){.windows = test_is_slow() ? 20 : 100});
}

TEST(stages_may_be_late_at_random)
{
    ranks_both_ways(4, repeat, &(repeats){.windows = 10, .late_percent = 5});
}

/* ---- order ---- */

static void sync_on_own_last(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm = all_ranks(world, "order", NULL);
    weft_schedule *s = make(WEFT_POLICY_1F1B, 2, 2, 1, 0);
    trainer t = {.count = 4, .grad_count = 4};
    trainer_open(&t, comm, s);
    for (int i = 0; i < 2; i++) {
        trainer_check(&t);
        CHECK_STR(t.events, t.stage == 0 ? "F0.0 F1.0 B0.0 sync0 B1.0 final0" : "F0.0 B0.0 F1.0 sync0 B1.0 final0");
    }
    CHECK_INT(weft_pipeline_activations(t.pipeline, 0), t.stage == 0 ? 2 : 1);
    CHECK_INT(weft_pipeline_activations(t.pipeline, 1), 0);
    trainer_close(&t);
    weft_schedule_destroy(s);
    weft_comm_destroy(comm);
}

TEST(each_stage_syncs_on_its_own_last_backward)
{
    ranks_both_ways(2, sync_on_own_last, NULL);
}

static void syncs_together(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm = all_ranks(world, "order", NULL);
    weft_schedule *s = make(WEFT_POLICY_INTERLEAVED, 2, 2, 2, 0);
    weft_schedule *aligned = lower(s, WEFT_QUEUES_ONE, WEFT_BATCHING_AUTO, WEFT_LOWER_ALIGN_SYNC);
    trainer t = {.count = 4, .grad_count = 4};
    trainer_open(&t, comm, aligned);
    trainer_check(&t);
    CHECK_STR(t.events, t.stage == 0 ? "F0.0 F1.0 F0.1 F1.1 B0.1 sync1 B1.1 B0.0 sync0 B1.0 final0"
                                     : "F0.0 F1.0 F0.1 B0.1 F1.1 B1.1 sync1 B0.0 B1.0 sync0 final0");
    trainer_close(&t);
    weft_schedule_destroy(s);
    weft_schedule_destroy(aligned);
    weft_comm_destroy(comm);
}

TEST(aligned_syncs_come_when_the_first_stage_has_its_own)
{
    ranks_as_threads(2, NULL, syncs_together, NULL);
}

/* ---- messages behind computing ---- */

static void wait_until(_Atomic int *value, int at_least)
{
    struct timespec begin, now;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    while (atomic_load(value) < at_least) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        CHECK_MSG(now.tv_sec - begin.tv_sec < 20, "stage 0 waits in forward %d", atomic_load(value));
    }
}

static void count_forwards(trainer *t, const weft_pipeline_task *task)
{
    if (t->stage == 0 && task->kind == WEFT_ACTION_F)
        atomic_store((_Atomic int *)t->shared, (int)task->microbatch + 1);
}

/* Stage 1 does nothing until stage 0 is in its second forward, so the first send cannot have been waited for. */
static void late_waits(weft_world *world, void *argument)
{
    weft_comm *comm = all_ranks(world, "late", NULL);
    weft_schedule *s = make(WEFT_POLICY_GPIPE, 2, 4, 1, 0);
    trainer t = {.count = 50000, .grad_count = 1, .before = count_forwards, .shared = argument};
    trainer_open(&t, comm, s);
    if (t.stage == 1)
        wait_until(argument, 2);
    trainer_check(&t);
    trainer_close(&t);
    weft_schedule_destroy(s);
    weft_comm_destroy(comm);
}

TEST(sends_go_on_while_their_stage_computes)
{
    _Atomic int forwards = 0;
    ranks_as_threads(2, NULL, late_waits, (void *)&forwards);
}

/* Every send has ended, and was waited for, before the computation behind it began. */
static void waits_at_once(weft_world *world, void *argument)
{
    (void)argument;
    static _Thread_local weft_trace_record records[512];
    weft_comm *comm = all_ranks(world, "waits", NULL);
    weft_schedule *s = make(WEFT_POLICY_1F1B, 2, 6, 1, 0);
    trainer t = {.count = 50000, .grad_count = 50000, .flags = WEFT_PIPELINE_WAIT_SENDS};
    trainer_open(&t, comm, s);
    trainer_check(&t);
    size_t count = weft_trace_read(world, 0, records, 512, NULL), sends = 0;
    for (size_t i = 0, next; i < count; i++) {
        if (strncmp(weft_trace_label_text(world, records[i].label), "SEND", 4) != 0)
            continue;
        for (next = i; next < count && records[next].kind != WEFT_TRACE_SPAN; next++)
            ;
        CHECK(records[i].go && records[i].go >= records[i].last);
        CHECK(next == count || records[i].go <= records[next].start);
        sends++;
    }
    CHECK_INT(sends, 6);
    trainer_close(&t);
    weft_schedule_destroy(s);
    weft_comm_destroy(comm);
}

TEST(sends_are_waited_for_at_once_if_told)
{
    ranks_as_threads(2, NULL, waits_at_once, NULL);
}

/* In its first forward stage 1 waits until stage 0 is in its fourth, for which the second send must have ended: so its
 * receive was posted before that forward. */
static void wait_in_first(trainer *t, const weft_pipeline_task *task)
{
    count_forwards(t, task);
    if (t->stage == 1 && task->kind == WEFT_ACTION_F && task->microbatch == 0)
        wait_until(t->shared, 4);
}

static void looks_ahead(weft_world *world, void *argument)
{
    weft_comm *comm = all_ranks(world, "ahead", NULL);
    weft_schedule *s = make(WEFT_POLICY_GPIPE, 2, 5, 1, 0);
    trainer t = {.count = 50000, .grad_count = 1, .before = wait_in_first, .shared = argument};
    trainer_open(&t, comm, s);
    trainer_check(&t);
    trainer_close(&t);
    weft_schedule_destroy(s);
    weft_comm_destroy(comm);
}

TEST(receives_are_posted_a_computation_ahead)
{
    _Atomic int forwards = 0;
    ranks_as_threads(2, NULL, looks_ahead, (void *)&forwards);
}

/* ---- trace ---- */

static uint32_t count_spans(weft_world *world, const char *label, uint64_t *numbers)
{
    static _Thread_local weft_trace_record records[256];
    uint32_t count = 0;
    size_t n = weft_trace_read(world, 0, records, 256, NULL);
    for (size_t i = 0; i < n; i++) {
        if (records[i].kind != WEFT_TRACE_SPAN || strcmp(weft_trace_label_text(world, records[i].label), label) != 0)
            continue;
        CHECK(records[i].last >= records[i].start);
        *numbers |= (uint64_t)1 << records[i].number;
        count++;
    }
    return count;
}

static uint32_t count_batches(weft_world *world, const char *label)
{
    static _Thread_local weft_trace_record records[256];
    uint32_t count = 0;
    size_t n = weft_trace_read(world, 0, records, 256, NULL);
    for (size_t i = 0; i < n; i++)
        count +=
            records[i].kind == WEFT_TRACE_P2P && strcmp(weft_trace_label_text(world, records[i].label), label) == 0;
    return count;
}

static void spans(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm = all_ranks(world, "spans", NULL);
    weft_schedule *s = make(WEFT_POLICY_INTERLEAVED, 2, 4, 2, 0);
    trainer t = {.count = 4, .grad_count = 4, .stage = (uint32_t)weft_comm_rank(comm)};
    weft_pipeline_config config = trainer_config(&t, s);
    for (int marked = 0; marked < 2; marked++) {
        config.flags = marked ? 0 : WEFT_PIPELINE_NO_SPANS;
        CHECK_OK(weft_pipeline_create(comm, s, &config, &t.pipeline));
        trainer_check(&t);
        trainer_close(&t);
        static const char *const labels[] = {"F0", "F1", "B0", "B1"};
        for (int i = 0; i < 4; i++) {
            uint64_t numbers = 0;
            CHECK_INT(count_spans(world, labels[i], &numbers), marked ? 4 : 0);
            CHECK_INT(numbers, marked ? 15 : 0);
        }
        uint32_t sent = t.stage == 0 ? 8 : 4; /* stage 1 has the last part */
        CHECK_INT(count_batches(world, "SEND_F"), sent * (1 + (uint32_t)marked));
        CHECK_INT(count_batches(world, "RECV_F"), (12 - sent) * (1 + (uint32_t)marked));
    }
    weft_schedule_destroy(s);
    weft_comm_destroy(comm);
}

TEST(computations_and_batches_are_marked_in_the_trace)
{
    ranks_as_threads(2, NULL, spans, NULL);
}
