/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks of several machines that disagree, give up, come late or die: who waits is told who and why, and no close
 * hangs. */
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "host.h"

/* ------------------------------------------------------------------------------------------- disagreement */

/* What rank `other` asks for, and all others. */
typedef struct quarrel {
    weft_collective theirs, ours;
    unsigned others; /* bits: ranks that ask for `theirs` */
    const char *said[2];
} quarrel;

static float buffers[2][4096];

static void quarrels(weft_world *world, void *argument)
{
    const quarrel *q = argument;
    weft_comm *comm = comm_of(world, "quarrel", NULL, 0, "host");
    weft_result result = weft_barrier_run(comm, WEFT_STREAM_HOST);
    weft_collective c = q->others >> weft_world_rank(world) & 1 ? q->theirs : q->ours;
    c.size = sizeof c;
    c.send = buffers[0];
    c.recv = buffers[1];
    if (result == WEFT_OK) /* others may quarrel before it has ended here */
        result = weft_collective_run(comm, &c, WEFT_STREAM_HOST);
    CHECK_INT(result, WEFT_E_MISMATCH);
    CHECK_HAS(weft_last_error(), "comm quarrel");
    CHECK_HAS(weft_last_error(), "rank ");
    for (int i = 0; i < 2; i++)
        CHECK_HAS(weft_last_error(), q->said[i]);
    weft_comm_destroy(comm);
}

#define SUM(n)                              \
    {                                       \
        .kind = WEFT_ALL_REDUCE, .count = n \
    }

TEST(ranks_that_ask_for_different_things_are_named)
{
    static quarrel all[] = {
        {SUM(5), SUM(6), 1, {"all_reduce of 5 fp32, sum", "all_reduce of 6 fp32, sum"}},
        {SUM(4000), SUM(5), 3, {"all_reduce of 4000 fp32, sum", "all_reduce of 5 fp32, sum"}},
        {SUM(0), SUM(5), 12, {"all_reduce of 0 fp32, sum", "all_reduce of 5 fp32, sum"}},
        {{.kind = WEFT_REDUCE, .count = 5, .root = 1}, SUM(5), 4, {"reduce of 5 fp32, sum, root 1", "all_reduce of 5"}},
        {{.kind = WEFT_REDUCE, .count = 5, .root = 1},
         {.kind = WEFT_REDUCE, .count = 5, .root = 0},
         5,
         {"reduce of 5 fp32, sum, root 1", "reduce of 5 fp32, sum, root 0"}},
        {{.kind = WEFT_BROADCAST, .count = 5, .root = 0},
         {.kind = WEFT_BROADCAST, .count = 5, .root = 2},
         3,
         {"broadcast of 5 fp32, root 0", "broadcast of 5 fp32, root 2"}},
        {{.kind = WEFT_ALL_REDUCE, .count = 5, .dtype = WEFT_BF16},
         SUM(5),
         10,
         {"all_reduce of 5 bf16, sum", "all_reduce of 5 fp32, sum"}},
        {{.kind = WEFT_ALL_REDUCE, .count = 5, .reduction = WEFT_AVERAGE},
         SUM(5),
         10,
         {"all_reduce of 5 fp32, average", "all_reduce of 5 fp32, sum"}},
        {{.kind = WEFT_ALL_GATHER, .count = 5}, {.kind = WEFT_BARRIER}, 3, {"all_gather of 5 fp32", "barrier"}},
    };
    quiet();
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        run_on((shape){2, 2}, quarrels, &all[i]);
}

/* ------------------------------------------------------------------------------------------- giving up */

enum { LARGE = 3000000 };

static void aborts_at_work(weft_world *world, void *argument)
{
    int who = *(const int *)argument;
    weft_comm *comm = comm_of(world, "given up", NULL, 0, "host"), *well = comm_of(world, "well", NULL, 0, "host");
    float *buffer = calloc(LARGE, sizeof *buffer);
    weft_work works[4];
    for (int i = 0; i < 3; i++)
        CHECK_OK(weft_all_reduce_start(comm, buffer, buffer, LARGE, WEFT_FP32, WEFT_SUM, WEFT_STREAM_HOST, &works[i]));
    weft_p2p m = {.kind = WEFT_RECV, .peer = 1, .buffer = &(float){0}, .count = 1}; /* nobody sends it */
    if (weft_world_rank(world) != 1)
        CHECK_OK(start_messages(comm, &m, 1, &works[3]));
    CHECK_OK(weft_barrier_run(well, WEFT_STREAM_HOST)); /* all have started theirs */
    if (weft_world_rank(world) == who)
        CHECK_OK(weft_comm_abort_because(comm, "tired"));
    for (int i = 0; i < 3; i++) {
        weft_result result = weft_work_finish(works[i], WEFT_STREAM_HOST);
        CHECK(result == WEFT_OK || result == WEFT_E_ABORTED);
    }
    if (weft_world_rank(world) != 1)
        CHECK_RESULT(weft_work_finish(works[3], WEFT_STREAM_HOST), WEFT_E_ABORTED);
    memset(buffer, 0xff, LARGE * sizeof *buffer); /* it is ours again */
    float v = 1;
    CHECK_INT(weft_all_reduce_run(comm, &v, &v, 1, WEFT_FP32, WEFT_SUM, WEFT_STREAM_HOST) < 0, 1);
    char text[256], want[64];
    CHECK_INT(weft_comm_error(comm, text, sizeof text), WEFT_E_ABORTED);
    snprintf(want, sizeof want, "comm given up was aborted by rank %d: tired", who);
    CHECK_HAS(text, want);
    free(buffer);
    weft_comm_destroy(comm);
    float one = 1; /* another comm of the same ranks goes on */
    CHECK_OK(weft_all_reduce_run(well, &one, &one, 1, WEFT_FP32, WEFT_SUM, WEFT_STREAM_HOST));
    CHECK_INT(one, 4);
    weft_comm_destroy(well);
}

TEST(an_aborted_comm_ends_on_all_machines_and_others_go_on)
{
    quiet();
    for (int who = 0; who < 4; who += 3)
        run_on((shape){2, 2}, aborts_at_work, &who);
}

/* Nobody finishes what was started. */
static void destroys_at_work(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm = comm_of(world, "left", NULL, 0, "host"), *well = comm_of(world, "well", NULL, 0, "host");
    float *buffer = calloc(LARGE, sizeof *buffer);
    weft_work works[4];
    weft_p2p m = {.kind = WEFT_RECV, .peer = (weft_world_rank(world) + 1) % 4, .buffer = &(float){0}, .count = 1};
    weft_result result = start_messages(comm, &m, 1, &works[3]);
    for (int i = 0; i < 3 && result == WEFT_OK; i++) /* another may have given up already */
        result = weft_all_reduce_start(comm, buffer, buffer, LARGE, WEFT_FP32, WEFT_SUM, WEFT_STREAM_HOST, &works[i]);
    CHECK(result == WEFT_OK || result == WEFT_E_ABORTED);
    CHECK_OK(weft_comm_abort(comm));
    weft_comm_destroy(comm);
    CHECK_OK(weft_barrier_run(well, WEFT_STREAM_HOST)); /* those that have not given up may read it until they do */
    free(buffer);
    weft_comm_destroy(well);
}

TEST(a_comm_is_destroyed_with_operations_under_way)
{
    quiet();
    for (int i = 0; i < 5; i++)
        run_on((shape){2, 2}, destroys_at_work, NULL);
}

/* The comms inside machines are made by then. */
static void cannot_be_made(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm;
    CHECK_RESULT(weft_comm_create(world, "unmade", NULL, 0, NULL, &comm), WEFT_E_SYSTEM);
    CHECK_HAS(weft_last_error(), "out of paper");
    CHECK(comm == NULL);
    comm = comm_of(world, "made", NULL, 0, "host");
    CHECK_OK(weft_barrier_run(comm, WEFT_STREAM_HOST));
    weft_comm_destroy(comm);
}

TEST(a_comm_that_is_half_made_is_left_before_it_is_destroyed)
{
    quiet();
    run_on((shape){2, 2}, cannot_be_made, NULL);
}

/* ------------------------------------------------------------------------------------------- coming late */

static void waits_in_vain(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm_config config = WEFT_COMM_CONFIG_INIT;
    config.timeout_ms = 500;
    weft_comm *comm = all_ranks(world, "late", &config);
    float v = 1;
    int rank = weft_world_rank(world);
    if (rank != 3) {
        weft_result result = weft_all_reduce_run(comm, &v, &v, 1, WEFT_FP32, WEFT_SUM, WEFT_STREAM_HOST);
        CHECK_INT(result, WEFT_E_TIMEOUT);
        CHECK_HAS(weft_last_error(), "all_reduce 1 on comm late did not end");
        bool names_it = strstr(weft_last_error(), "not arrived: 3") ||
                        strstr(weft_last_error(), "ranks of its machine may not have arrived");
        CHECK_MSG(names_it || strstr(weft_last_error(), "rank 3"), "%s", weft_last_error());
        atomic_fetch_add(stage_counter(), 1);
    }
    while (rank == 3 && atomic_load(stage_counter()) < 3)
        pause_ms(1);
    weft_comm_destroy(comm);
}

TEST(a_deadline_says_who_has_not_arrived)
{
    quiet();
    run_on((shape){2, 2}, waits_in_vain, NULL);
}

/* ------------------------------------------------------------------------------------------- dying */

typedef struct death {
    int who, when_ms;
} death;

static void dies_at_work(weft_world *world, void *argument)
{
    const death *d = argument;
    weft_comm *comm = comm_of(world, "mourning", NULL, 0, "host");
    float *buffer = calloc(LARGE, sizeof *buffer);
    weft_result result = weft_barrier_run(comm, WEFT_STREAM_HOST);
    if (weft_world_rank(world) == d->who) {
        struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL};
        timer_t timer;
        CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
        struct itimerspec once = {.it_value = {.tv_nsec = d->when_ms * 1000000L + 1}};
        CHECK(timer_settime(timer, 0, &once, NULL) == 0);
    }
    while (result == WEFT_OK)
        result = weft_all_reduce_run(comm, buffer, buffer, LARGE, WEFT_FP32, WEFT_SUM, WEFT_STREAM_HOST);
    CHECK_INT(result, WEFT_E_PEER_LOST);
    CHECK_HAS(weft_last_error(), "rank");
    memset(buffer, 0xff, LARGE * sizeof *buffer);
    free(buffer);
    weft_comm_destroy(comm);
}

TEST(a_rank_that_dies_at_any_time_ends_the_comm_everywhere)
{
    quiet();
    for (int i = 0; i < 4; i++) {
        death d = {.who = i % 2 ? 3 : 0, .when_ms = i * 15};
        rank_group group = start_on((shape){2, 2}, NULL, dies_at_work, &d);
        for (int r = 0; r < 4; r++)
            if (r != d.who)
                ranks_expect_passed(&group, r);
        ranks_wait(&group, d.who);
    }
}
