/* SPDX-License-Identifier: Apache-2.0 */
/* When a stage fails, is late beyond the deadline, or dies, no other hangs, and each is told who. */
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "trainer.h"

/* Errors are expected, but for a comm that is left with works. */
static void look_for_works(void *cookie, weft_log_level level, const char *line)
{
    (void)cookie, (void)level;
    CHECK_MSG(!strstr(line, "not finished"), "%s", line);
}

static void expect_errors(void)
{
    weft_log_set(WEFT_LOG_ERROR, look_for_works, NULL);
}

/* ---- callbacks ---- */

typedef struct failure {
    int stage;
    weft_action_kind kind;
    uint32_t microbatch;
    weft_result sync, finalize, release;
    const char *says; /* on the stage that fails */
    bool all;         /* every other stage still needs it */
} failure;

static const failure failures[] = {
    {0, WEFT_ACTION_F, 0, 0, 0, 0, "stage 0: the trainer's F 0.0 returned E_NOT_FOUND", true},
    {1, WEFT_ACTION_F, 2, 0, 0, 0, "stage 1: the trainer's F 2.0 returned E_NOT_FOUND", true},
    {2, WEFT_ACTION_F, 3, 0, 0, 0, "stage 2: the trainer's F 3.0 returned E_NOT_FOUND", true},
    {2, WEFT_ACTION_B, 0, 0, 0, 0, "stage 2: the trainer's B 0.0 returned E_NOT_FOUND", true},
    {1, WEFT_ACTION_B, 1, 0, 0, 0, "stage 1: the trainer's B 1.0 returned E_NOT_FOUND", true},
    {0, WEFT_ACTION_B, 1, 0, 0, 0, "stage 0: the trainer's B 1.0 returned E_NOT_FOUND", false},
    {2, WEFT_ACTION_W, 1, 0, 0, 0, "stage 2: the trainer's W 1.0 returned E_NOT_FOUND", false},
    {2, WEFT_ACTION_SYNC, 0, WEFT_E_NOT_FOUND, 0, 0, "stage 2: the trainer's SYNC of chunk 0 returned E_NOT_FOUND",
     false},
    {0, WEFT_ACTION_SYNC, 0, 0, WEFT_E_NOT_FOUND, 0, "stage 0: the trainer's finalize returned E_NOT_FOUND", false},
    {1, WEFT_ACTION_SYNC, 0, 0, 0, WEFT_E_NOT_FOUND, "stage 1: the trainer's release of F 0.0 returned E_NOT_FOUND",
     false},
};

static void callback_fails(weft_world *world, void *argument)
{
    const failure *f = argument;
    expect_errors();
    weft_comm *comm = all_ranks(world, "fails", NULL);
    bool own = weft_world_rank(world) == f->stage;
    weft_schedule *s = make(WEFT_POLICY_1F1B, 3, 4, 1, 0), *split = split_backwards(s);
    trainer t = {.count = 5000, .grad_count = 5000};
    trainer_open(&t, comm, f->kind == WEFT_ACTION_W ? split : s);
    trainer_check(&t);
    if (own) {
        t.fail_kind = f->kind;
        t.fail_microbatch = f->microbatch;
        t.fail_with = WEFT_E_NOT_FOUND;
        t.fail_sync = f->sync, t.fail_finalize = f->finalize, t.fail_release = f->release;
    }
    weft_result result = trainer_run(&t);
    if (own) {
        CHECK_INT(result, WEFT_E_NOT_FOUND);
        CHECK_STR(weft_last_error(), f->says);
    } else if (f->all || result != WEFT_OK) {
        CHECK_INT(result, WEFT_E_ABORTED);
        char says[128];
        snprintf(says, sizeof says, "comm fails was aborted by rank %d: %s", f->stage, f->says);
        CHECK_HAS(weft_last_error(), says);
    }
    result = trainer_run(&t);
    CHECK_INT(result, WEFT_E_ABORTED);
    CHECK_HAS(weft_last_error(), "comm fails was aborted");
    trainer_close(&t);
    CHECK_HAS(weft_last_error(), "comm fails was aborted");
    weft_schedule_destroy(s);
    weft_schedule_destroy(split);
    weft_comm_destroy(comm);
}

TEST(a_callback_that_fails_ends_the_run_of_every_stage_that_needs_it)
{
    for (size_t i = 0; i < sizeof failures / sizeof *failures; i++)
        ranks_both_ways(3, callback_fails, (void *)(uintptr_t)&failures[i]);
}

static void fail_inside(trainer *t, const weft_pipeline_task *task)
{
    if (task->kind == t->fail_kind && task->microbatch == t->fail_microbatch)
        (void)weft__fail(WEFT_E_NOT_FOUND, "no such %s", (const char *)t->shared);
}

TEST(a_callback_may_say_why_it_failed)
{
    expect_errors();
    weft_schedule *s = make(WEFT_POLICY_GPIPE, 1, 3, 1, 0);
    trainer t = {.count = 3, .grad_count = 3, .before = fail_inside, .shared = "file"};
    t.fail_kind = WEFT_ACTION_B, t.fail_microbatch = 2, t.fail_with = WEFT_E_NOT_FOUND;
    trainer_open(&t, NULL, s);
    CHECK_INT(trainer_run(&t), WEFT_E_NOT_FOUND);
    CHECK_STR(weft_last_error(), "stage 0: the trainer's B 2.0 returned E_NOT_FOUND: no such file");
    /* What was said before the run is not its reason. */
    t.before = NULL;
    CHECK_INT(trainer_run(&t), WEFT_E_NOT_FOUND);
    CHECK_STR(weft_last_error(), "stage 0: the trainer's B 2.0 returned E_NOT_FOUND");
    /* Only WEFT_OK is fine. */
    t.fail_with = WEFT_PENDING;
    CHECK_INT(trainer_run(&t), WEFT_E_INVALID);
    CHECK_STR(weft_last_error(), "stage 0: the trainer's B 2.0 returned PENDING");
    t.fail_with = WEFT_OK;
    trainer_check(&t); /* without a comm the next window is whole again */
    trainer_close(&t);
    weft_schedule_destroy(s);
}

/* ---- late and dead ---- */

static void one_is_missing(weft_world *world, void *argument)
{
    _Atomic int *given_up = argument;
    expect_errors();
    weft_comm_config config = WEFT_COMM_CONFIG_INIT;
    config.timeout_ms = 500;
    weft_comm *comm = all_ranks(world, "missing", &config);
    weft_schedule *s = make(WEFT_POLICY_1F1B, 3, 4, 1, 0);
    trainer t = {.count = 5000, .grad_count = 5000};
    trainer_open(&t, comm, s);
    trainer_check(&t);
    if (t.stage == 1)
        ranks_await(given_up, 2);
    weft_result result = trainer_run(&t);
    CHECK_INT(result, WEFT_E_TIMEOUT);
    CHECK_HAS(weft_last_error(), "on comm missing did not end in");
    CHECK_HAS(weft_last_error(), "rank 1");
    if (t.stage != 1)
        atomic_fetch_add(given_up, 1);
    trainer_close(&t);
    weft_schedule_destroy(s);
    weft_comm_destroy(comm);
}

TEST(a_stage_that_does_not_come_is_named_at_the_deadline)
{
    ranks_both_ways(3, one_is_missing, ranks_counter());
}

static void die_in(trainer *t, const weft_pipeline_task *task)
{
    if (t->stage == 1 && task->kind == WEFT_ACTION_B && task->microbatch == 1)
        kill(getpid(), SIGKILL);
}

static void one_dies(weft_world *world, void *argument)
{
    (void)argument;
    expect_errors();
    weft_comm *comm = all_ranks(world, "dies", NULL);
    weft_schedule *s = make(WEFT_POLICY_1F1B, 3, 4, 1, 0);
    trainer t = {.count = 5000, .grad_count = 5000, .before = die_in};
    trainer_open(&t, comm, s);
    CHECK_RESULT(trainer_run(&t), WEFT_E_PEER_LOST);
    CHECK_HAS(weft_last_error(), "rank 1 has ended");
    trainer_close(&t);
    weft_schedule_destroy(s);
    weft_comm_destroy(comm);
}

TEST(a_stage_that_dies_is_named)
{
    rank_group group = ranks_start(3, NULL, one_dies, NULL);
    ranks_wait(&group, 1);
    CHECK(WIFSIGNALED(group.status[1]) && WTERMSIG(group.status[1]) == SIGKILL);
    ranks_expect_passed(&group, 0);
    ranks_expect_passed(&group, 2);
}

/* ---- tags ---- */

/* Stage 0 runs the window of another pipeline than stage 1. */
static void other_pipeline(weft_world *world, void *argument)
{
    (void)argument;
    expect_errors();
    weft_comm *comm = all_ranks(world, "tags", NULL), *end = all_ranks(world, "end", NULL);
    weft_schedule *a = make(WEFT_POLICY_GPIPE, 2, 2, 1, 0);
    weft_schedule *b = from_text("stage 0: F1.0 SEND_F1.0 F0.0 SEND_F0.0 RECV_B1.0 B1.0 RECV_B0.0 B0.0\n"
                                 "stage 1: RECV_F1.0 F1.0 RECV_F0.0 F0.0 B1.0 SEND_B1.0 B0.0 SEND_B0.0\n");
    trainer first = {.count = 5000, .grad_count = 5000}, second = first;
    trainer_open(&first, comm, a);
    trainer_open(&second, comm, b);
    trainer_check(&first);
    trainer_check(&second);
    CHECK_RESULT(trainer_run(weft_comm_rank(comm) ? &first : &second), WEFT_E_MISMATCH);
    CHECK_HAS(weft_last_error(), "rank 0 sends tag 0x8000000100000001, rank 1 receives 0x8000000100000000");
    CHECK_OK(
        weft_barrier_run(end, WEFT_STREAM_HOST)); /* who destroys the comm first would be the verdict of the other */
    weft_comm_destroy(end);
    trainer_close(&first);
    trainer_close(&second);
    weft_schedule_destroy(a);
    weft_schedule_destroy(b);
    weft_comm_destroy(comm);
}

TEST(a_tensor_of_another_microbatch_is_refused)
{
    ranks_both_ways(2, other_pipeline, NULL);
}
