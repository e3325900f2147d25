/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks over a network that disagree, give up, leave or die: who waits is told who and why, and no close hangs. */
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "net.h"

static void quiet_if_carried(void)
{
    need_carrier();
    quiet();
}

/* ------------------------------------------------------------------------------------------- disagreement */

static void counts_differ(weft_world *world, void *argument)
{
    size_t count = *(size_t *)argument;
    weft_comm *comm = comm_over(world, carrier(), "counts");
    int rank = weft_world_rank(world);
    float *buffer = calloc(count + 1, sizeof *buffer);
    char want[64];
    CHECK_OK(weft_barrier_run(comm, WEFT_STREAM_HOST));
    weft_result result =
        weft_all_reduce_run(comm, buffer, buffer, count + (rank == 0), WEFT_FP32, WEFT_SUM, WEFT_STREAM_HOST);
    CHECK_INT(result, WEFT_E_MISMATCH);
    CHECK_HAS(weft_last_error(), "comm counts, operation 2: rank ");
    CHECK_HAS(weft_last_error(), "rank 0 ");
    snprintf(want, sizeof want, "all_reduce of %zu fp32, sum", count + 1);
    CHECK_HAS(weft_last_error(), want);
    snprintf(want, sizeof want, "all_reduce of %zu fp32, sum", count);
    CHECK_HAS(weft_last_error(), want);
    free(buffer);
    weft_comm_destroy(comm);
}

TEST(ranks_that_ask_for_different_counts_are_named)
{
    quiet_if_carried();
    size_t counts[] = {0, 15, 300000};
    for (int i = 0; i < 3; i++)
        ranks_as_processes(3, NULL, counts_differ, &counts[i]);
}

static void operations_differ(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm = comm_over(world, carrier(), "operations");
    float a[8] = {0}, b[8];
    weft_result result = weft_world_rank(world)
                             ? weft_all_gather_run(comm, a, b, 4, WEFT_FP32, WEFT_STREAM_HOST)
                             : weft_reduce_scatter_run(comm, a, b, 4, WEFT_FP32, WEFT_SUM, WEFT_STREAM_HOST);
    CHECK_INT(result, WEFT_E_MISMATCH);
    CHECK_HAS(weft_last_error(), "reduce_scatter of 4 fp32, sum");
    CHECK_HAS(weft_last_error(), "all_gather of 4 fp32");
    weft_comm_destroy(comm);
}

TEST(ranks_that_ask_for_different_operations_are_named)
{
    quiet_if_carried();
    ranks_as_processes(2, NULL, operations_differ, NULL);
}

/* Two roots: one of them receives what it does not expect, before or after it has begun. */
static void roots_differ(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm = comm_over(world, carrier(), "roots");
    int rank = weft_world_rank(world);
    float v = 1;
    if (rank)
        pause_ms(20);
    weft_result result = weft_broadcast_run(comm, &v, &v, 1, WEFT_FP32, rank, WEFT_STREAM_HOST);
    if (result == WEFT_OK) /* a root waits for nobody */
        result = weft_barrier_run(comm, WEFT_STREAM_HOST);
    CHECK_INT(result, WEFT_E_MISMATCH);
    CHECK_HAS(weft_last_error(), "broadcast of 1 fp32, root ");
    CHECK_HAS(weft_last_error(), "peration 1"); /* one of them may be at its second by then */
    CHECK_HAS(weft_last_error(), "rank 0 ");
    CHECK_HAS(weft_last_error(), "rank 1 ");
    weft_comm_destroy(comm);
}

TEST(two_roots_are_told_from_one)
{
    quiet_if_carried();
    ranks_as_processes(2, NULL, roots_differ, NULL);
}

static void sizes_differ(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm = comm_over(world, carrier(), "messages");
    int rank = weft_world_rank(world);
    float v[4] = {0};
    weft_p2p m = {
        .kind = rank ? WEFT_RECV : WEFT_SEND, .peer = 1 - rank, .channel = 1, .buffer = v, .count = rank ? 3 : 2};
    weft_result result = run_messages(comm, &m, 1);
    if (rank == 0 && result == WEFT_OK) /* it was gone before anybody looked */
        result = weft_barrier_run(comm, WEFT_STREAM_HOST);
    CHECK_INT(result, WEFT_E_MISMATCH);
    CHECK_HAS(weft_last_error(), "comm messages, channel 1: rank 0 sends 8 bytes, rank 1 receives 12 bytes");
    weft_comm_destroy(comm);
}

TEST(messages_of_different_sizes_are_named)
{
    quiet_if_carried();
    ranks_as_processes(2, NULL, sizes_differ, NULL);
}

/* ------------------------------------------------------------------------------------------- giving up */

enum { LARGE = 5000000 };

static void aborts_at_work(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm = comm_over(world, carrier(), "given up"), *well = comm_over(world, carrier(), "well");
    int rank = weft_world_rank(world);
    float *buffer = calloc(LARGE, sizeof *buffer);
    weft_work works[3];
    for (int i = 0; i < 3; i++)
        CHECK_OK(weft_all_reduce_start(comm, buffer, buffer, LARGE, WEFT_FP32, WEFT_SUM, WEFT_STREAM_HOST, &works[i]));
    CHECK_OK(weft_barrier_run(well, WEFT_STREAM_HOST)); /* all have started theirs */
    if (rank == 1)
        CHECK_OK(weft_comm_abort_because(comm, "tired"));
    for (int i = 0; i < 3; i++) {
        weft_result result = weft_work_finish(works[i], WEFT_STREAM_HOST);
        CHECK(result == WEFT_OK || result == WEFT_E_ABORTED);
    }
    float v = 1;
    CHECK_RESULT(weft_all_reduce_run(comm, &v, &v, 1, WEFT_FP32, WEFT_SUM, WEFT_STREAM_HOST), WEFT_E_ABORTED);
    char text[256];
    CHECK_INT(weft_comm_error(comm, text, sizeof text), WEFT_E_ABORTED);
    CHECK_HAS(text, "comm given up was aborted by rank 1: tired");
    free(buffer);
    weft_comm_destroy(comm);
    float one = 1; /* another comm of the same ranks goes on */
    CHECK_OK(weft_all_reduce_run(well, &one, &one, 1, WEFT_FP32, WEFT_SUM, WEFT_STREAM_HOST));
    CHECK_INT(one, 3);
    weft_comm_destroy(well);
}

TEST(an_aborted_comm_ends_everywhere_and_others_go_on)
{
    quiet_if_carried();
    ranks_as_processes(3, NULL, aborts_at_work, NULL);
}

/* ------------------------------------------------------------------------------------------- leaving */

static void leaves_early(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm = comm_over(world, carrier(), "left");
    float v = 1;
    CHECK_OK(weft_barrier_run(comm, WEFT_STREAM_HOST));
    if (weft_world_rank(world) == 0) {
        CHECK_RESULT(weft_all_reduce_run(comm, &v, &v, 1, WEFT_FP32, WEFT_SUM, WEFT_STREAM_HOST), WEFT_E_PEER_LOST);
        CHECK_HAS(weft_last_error(), "rank 1 has destroyed comm left, which others still use");
    }
    weft_comm_destroy(comm);
}

TEST(a_comm_that_a_rank_has_left_is_lost_when_it_is_used)
{
    quiet_if_carried();
    ranks_as_processes(2, NULL, leaves_early, NULL);
}

/* The last thing a rank does is to send; then it is gone. */
static void sends_and_goes(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm = comm_over(world, carrier(), "farewell");
    int rank = weft_world_rank(world);
    float *v = calloc(LARGE, sizeof *v);
    if (rank)
        pause_ms(50);
    v[LARGE - 1] = rank ? 0 : 42;
    weft_p2p m = {.kind = rank ? WEFT_RECV : WEFT_SEND, .peer = 1 - rank, .buffer = v, .count = LARGE};
    CHECK_OK(run_messages(comm, &m, 1));
    CHECK(v[LARGE - 1] == 42);
    free(v);
    weft_comm_destroy(comm);
}

TEST(what_a_rank_sent_before_it_went_arrives)
{
    quiet_if_carried();
    for (int i = 0; i < 3; i++)
        ranks_as_processes(2, NULL, sends_and_goes, NULL);
}

/* Rank 1 is stopped while rank 0 sends, goes, and ends. It reads what it asks for later, and says so on the way. */
enum { UNASKED = 160000 };

static void sends_to_a_stopped_rank(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm = comm_over(world, carrier(), "slow");
    int rank = weft_world_rank(world);
    float *v = calloc(2 * UNASKED, sizeof *v);
    CHECK_OK(weft_barrier_run(comm, WEFT_STREAM_HOST));
    if (rank)
        raise(SIGSTOP);
    else
        pause_ms(200);
    for (int i = 0; i < UNASKED && rank == 0; i++)
        v[i] = v[UNASKED + i] = (float)i;
    weft_p2p m[2];
    for (int i = 0; i < 2; i++)
        m[i] = (weft_p2p){.kind = rank ? WEFT_RECV : WEFT_SEND,
                          .peer = 1 - rank,
                          .channel = (uint32_t)i,
                          .buffer = v + i * UNASKED,
                          .count = UNASKED};
    CHECK_OK(run_messages(comm, m, 2));
    for (int i = 0; i < 2 * UNASKED; i++)
        if (v[i] != (float)(i % UNASKED))
            FAIL("element %d is %g", i, (double)v[i]);
    free(v);
    weft_comm_destroy(comm);
}

TEST(what_a_rank_sent_before_it_went_is_read_by_one_that_was_stopped)
{
    quiet_if_carried();
    rank_group group = ranks_start(2, NULL, sends_to_a_stopped_rank, NULL);
    CHECK(waitpid(group.pid[1], &group.status[1], WUNTRACED) == group.pid[1]);
    CHECK(WIFSTOPPED(group.status[1]));
    pause_ms(2500);
    kill(group.pid[1], SIGCONT);
    ranks_expect_all(&group);
}

/* ------------------------------------------------------------------------------------------- dying */

static void die_in(int ms)
{
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL};
    timer_t timer;
    CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
    struct itimerspec once = {.it_value = {.tv_nsec = ms * 1000000L + 1}};
    CHECK(timer_settime(timer, 0, &once, NULL) == 0);
}

/* Once all ways are made: UCX 1.13 ends the process itself (wireup_ep.c:241) if a peer dies while one is. */
enum { ROUNDS_BEFORE = 3 };

static void dies_at_work(weft_world *world, void *argument)
{
    int when_ms = *(int *)argument;
    weft_comm *comm = comm_over(world, carrier(), "mourning");
    float *buffer = calloc(LARGE, sizeof *buffer);
    weft_result result = WEFT_OK;
    for (int round = 0; result == WEFT_OK; round++) {
        if (round == ROUNDS_BEFORE && weft_world_rank(world) == 1)
            die_in(when_ms);
        result = weft_all_reduce_run(comm, buffer, buffer, LARGE, WEFT_FP32, WEFT_SUM, WEFT_STREAM_HOST);
    }
    CHECK_INT(result, WEFT_E_PEER_LOST);
    CHECK_HAS(weft_last_error(), "rank 1");
    free(buffer);
    double begin = now_s();
    weft_comm_destroy(comm);
    weft_world_close(world);
    CHECK_MSG(now_s() - begin < 10, "closing took %.1f s", now_s() - begin);
    exit(0);
}

TEST(a_rank_that_dies_at_any_time_is_named)
{
    quiet_if_carried();
    for (int when_ms = 0; when_ms <= 60; when_ms += test_is_slow() ? 60 : 20) {
        rank_group group = ranks_start(3, NULL, dies_at_work, &when_ms);
        ranks_expect_passed(&group, 0);
        ranks_expect_passed(&group, 2);
        ranks_wait(&group, 1);
    }
}

/* Its child holds its connections, which look well. */
static void leaves_a_child(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm = comm_over(world, carrier(), "survived");
    CHECK_OK(weft_barrier_run(comm, WEFT_STREAM_HOST));
    if (weft_world_rank(world) == 1) {
        if (fork() == 0) {
            pause_ms(10000);
            _exit(0);
        }
        raise(SIGKILL);
    }
    CHECK_RESULT(weft_barrier_run(comm, WEFT_STREAM_HOST), WEFT_E_PEER_LOST);
    weft_comm_destroy(comm);
    double begin = now_s();
    weft_world_close(world);
    CHECK_MSG(now_s() - begin < 3, "closing took %.1f s", now_s() - begin);
    exit(0);
}

TEST(a_rank_that_is_known_to_be_dead_is_not_waited_for)
{
    quiet_if_carried();
    rank_group group = ranks_start(2, NULL, leaves_a_child, NULL);
    ranks_expect_passed(&group, 0);
    ranks_wait(&group, 1);
}

/* A rank that is stopped holds nothing of the others. */
static void stops(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm = comm_over(world, carrier(), "stopped");
    float *buffer = calloc(LARGE, sizeof *buffer);
    CHECK_OK(weft_barrier_run(comm, WEFT_STREAM_HOST));
    if (weft_world_rank(world) == 1)
        raise(SIGSTOP);
    weft_work work;
    CHECK_OK(weft_all_reduce_start(comm, buffer, buffer, LARGE, WEFT_FP32, WEFT_SUM, WEFT_STREAM_HOST, &work));
    pause_ms(100);
    double begin = now_s();
    CHECK_OK(weft_comm_abort(comm));
    CHECK_RESULT(weft_work_finish(work, WEFT_STREAM_HOST), WEFT_E_ABORTED);
    CHECK_MSG(now_s() - begin < 1, "its buffers came back after %.1f s", now_s() - begin);
    free(buffer);
    weft_comm_destroy(comm);
    weft_world_close(world);
    CHECK_MSG(now_s() - begin < 10, "closing took %.1f s", now_s() - begin);
    exit(0);
}

TEST(an_aborted_comm_does_not_wait_for_a_rank_that_is_stopped)
{
    quiet_if_carried();
    rank_group group = ranks_start(2, NULL, stops, NULL);
    ranks_expect_passed(&group, 0);
    kill(group.pid[1], SIGKILL);
    ranks_wait(&group, 1);
}

/* ------------------------------------------------------------------------------------------- want of descriptors */

typedef struct few {
    const char *rendezvous;
    int descriptors; /* more than there are */
} few;

static void open_with_few(int rank, void *argument)
{
    few *f = argument;
    weft_world_config config = WEFT_WORLD_CONFIG_INIT;
    config.backend = carrier();
    config.rendezvous_timeout_ms = 1500;
    config = rank_config(&config, rank, 2, f->rendezvous);
    int next = dup(0);
    CHECK(next >= 0 && close(next) == 0);
    rlim_t limit = (rlim_t)(next + f->descriptors);
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &(struct rlimit){limit, limit}), 0);
    weft_world *world;
    weft_result result = weft_world_open(&config, &world);
    CHECK_MSG(result == WEFT_OK || *weft_last_error(), "%s without a word", weft_result_string(result));
    CHECK_MSG(result != WEFT_E_UNSUPPORTED, "%s: %s", weft_result_string(result), weft_last_error());
    CHECK_MSG(result != WEFT_OK || f->descriptors > 12, "a world with %d descriptors", f->descriptors);
    weft_world_close(world);
}

/* However few: an error, and no end of the process. */
TEST(want_of_descriptors_is_an_error_of_the_system)
{
    quiet_if_carried();
    for (int descriptors = 12; descriptors <= 36; descriptors += 3) {
        char name[64];
        snprintf(name, sizeof name, "unix://@weft-few-%d-%d", (int)getpid(), descriptors);
        rank_group group = ranks_fork(2, open_with_few, &(few){name, descriptors});
        ranks_expect_all(&group);
    }
}
