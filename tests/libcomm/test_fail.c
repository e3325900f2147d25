/* SPDX-License-Identifier: Apache-2.0 */
/* What happens when ranks disagree, are late, are missing, stop or die. Every wait ends, and says who. */
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "harness/ranks.h"

static void pause_ms(int ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}, NULL);
}

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ------------------------------------------------------------------------------------------- disagreement */

static void counts_differ(weft_world *world, void *argument)
{
    size_t large = *(size_t *)argument;
    weft_comm *comm = all_ranks(world, "counts", NULL);
    int rank = weft_world_rank(world);
    float *buffer = calloc(large + 1, sizeof *buffer);
    CHECK_OK(weft_barrier_run(comm, WEFT_STREAM_HOST));
    weft_result result =
        weft_all_reduce_run(comm, buffer, buffer, large + (rank == 0), WEFT_FP32, WEFT_SUM, WEFT_STREAM_HOST);
    CHECK_INT(result, WEFT_E_MISMATCH);
    char text[256];
    CHECK_INT(weft_comm_error(comm, text, sizeof text), WEFT_E_MISMATCH);
    CHECK_HAS(text, "operation 2");
    CHECK_HAS(text, "rank 0");
    char want[64];
    snprintf(want, sizeof want, "all_reduce of %zu fp32, sum", large + 1);
    CHECK_HAS(text, want);
    snprintf(want, sizeof want, "all_reduce of %zu fp32, sum", large);
    CHECK_HAS(text, want);
    CHECK_RESULT(weft_barrier_run(comm, WEFT_STREAM_HOST), WEFT_E_MISMATCH);
    CHECK_RESULT(weft_world_check(world, WEFT_STREAM_HOST), WEFT_E_MISMATCH);
    free(buffer);
    weft_comm_destroy(comm);
}

TEST(ranks_that_ask_for_different_counts_are_named)
{
    quiet();
    size_t small = 15, large = 30000;
    ranks_both_ways(4, counts_differ, &small);
    ranks_both_ways(4, counts_differ, &large);
}

static void operations_differ(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm = all_ranks(world, "operations", NULL);
    int rank = weft_world_rank(world);
    float a[8] = {0}, b[8];
    weft_result result = rank ? weft_all_gather_run(comm, a, b, 4, WEFT_FP32, WEFT_STREAM_HOST)
                              : weft_reduce_scatter_run(comm, a, b, 4, WEFT_FP32, WEFT_SUM, WEFT_STREAM_HOST);
    CHECK_INT(result, WEFT_E_MISMATCH);
    CHECK_HAS(weft_last_error(), "reduce_scatter of 4 fp32, sum");
    CHECK_HAS(weft_last_error(), "all_gather of 4 fp32");
    weft_comm_destroy(comm);
}

TEST(ranks_that_ask_for_different_operations_are_named)
{
    quiet();
    ranks_both_ways(2, operations_differ, NULL);
}

/* A small broadcast's root waits for nobody. */
static void roots_differ(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm = all_ranks(world, "roots", NULL);
    int rank = weft_world_rank(world);
    float v = 1;
    weft_result result = weft_broadcast_run(comm, &v, &v, 1, WEFT_FP32, rank, WEFT_STREAM_HOST);
    if (result == WEFT_OK)
        result = weft_barrier_run(comm, WEFT_STREAM_HOST);
    CHECK_INT(result, WEFT_E_MISMATCH);
    CHECK_HAS(weft_last_error(), "broadcast of 1 fp32, root 0");
    CHECK_HAS(weft_last_error(), "broadcast of 1 fp32, root 1");
    CHECK_HAS(weft_last_error(), "operation 1");
    weft_comm_destroy(comm);
}

TEST(two_roots_are_told_from_one)
{
    quiet();
    for (int i = 0; i < 20; i++)
        ranks_both_ways(2, roots_differ, NULL);
}

/* What means nothing to an operation may be anything. */
static void what_means_nothing_differs(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm = all_ranks(world, "nothing", NULL);
    int rank = weft_world_rank(world);
    float v = (float)rank, all[2];
    weft_collective c = WEFT_COLLECTIVE_INIT;
    c.kind = WEFT_BROADCAST, c.send = c.recv = &v, c.count = 1, c.dtype = WEFT_FP32;
    c.reduction = rank ? WEFT_MAX : WEFT_SUM, c.root = 1;
    CHECK_OK(weft_collective_run(comm, &c, WEFT_STREAM_HOST));
    CHECK(v == 1);
    c.kind = WEFT_ALL_GATHER, c.recv = all, c.root = rank;
    CHECK_OK(weft_collective_run(comm, &c, WEFT_STREAM_HOST));
    CHECK(all[0] == 1 && all[1] == 1);
    c.kind = WEFT_BARRIER, c.dtype = rank ? WEFT_FP32 : WEFT_FP64, c.count = 0;
    CHECK_OK(weft_collective_run(comm, &c, WEFT_STREAM_HOST));
    weft_comm_destroy(comm);
}

TEST(what_means_nothing_to_an_operation_may_differ)
{
    ranks_both_ways(2, what_means_nothing_differs, NULL);
}

static void comms_differ(weft_world *world, void *argument)
{
    (void)argument;
    int rank = weft_world_rank(world);
    weft_comm *comm;
    weft_comm_config config = WEFT_COMM_CONFIG_INIT;
    config.p2p_channels = rank == 1 ? 3 : 4;
    CHECK_RESULT(weft_comm_create(world, "channels", (int[]){0, 1}, 2, &config, &comm), WEFT_E_MISMATCH);
    CHECK_HAS(weft_last_error(), "p2p_channels");
    CHECK(comm == NULL);
    CHECK_RESULT(weft_comm_create(world, "order", rank ? (int[]){1, 0} : (int[]){0, 1}, 2, NULL, &comm),
                 WEFT_E_MISMATCH);
    CHECK_HAS(weft_last_error(), "lists ranks");
    CHECK_RESULT(weft_comm_create(world, "x", (int[]){0, 7}, 2, NULL, &comm), WEFT_E_RANGE);
    CHECK_RESULT(weft_comm_create(world, "x", (int[]){rank, rank}, 2, NULL, &comm), WEFT_E_INVALID);
    CHECK_RESULT(weft_comm_create(world, "x", (int[]){1 - rank}, 1, NULL, &comm), WEFT_E_INVALID);
    CHECK_RESULT(weft_comm_create(world, "", (int[]){0, 1}, 2, NULL, &comm), WEFT_E_INVALID);
    config.p2p_channels = 0;
    config.backend = "fast";
    CHECK_RESULT(weft_comm_create(world, "x", (int[]){0, 1}, 2, &config, &comm), WEFT_E_NOT_FOUND);
    CHECK_HAS(weft_last_error(), "'fast'; there are: ");
    comm = all_ranks(world, "twice", NULL);
    weft_comm *again;
    CHECK_RESULT(weft_comm_create(world, "twice", (int[]){0, 1}, 2, NULL, &again), WEFT_E_INVALID);
    CHECK_HAS(weft_last_error(), "twice");
    weft_comm_destroy(comm);
    comm = all_ranks(world, "twice", NULL); /* a name may be used again */
    CHECK_OK(weft_barrier_run(comm, WEFT_STREAM_HOST));
    weft_comm_destroy(comm);
}

TEST(members_that_describe_a_comm_differently_are_named)
{
    quiet();
    ranks_both_ways(2, comms_differ, NULL);
}

/* ------------------------------------------------------------------------------------------- late and missing */

static void one_sleeps(weft_world *world, void *argument)
{
    _Atomic int *given_up = argument;
    int rank = weft_world_rank(world);
    weft_comm_config config = WEFT_COMM_CONFIG_INIT;
    config.timeout_ms = 1000;
    weft_comm *comm = all_ranks(world, "sleepy", &config);
    for (int i = 0; i < 3; i++)
        CHECK_OK(weft_barrier_run(comm, WEFT_STREAM_HOST));
    if (rank == 3) {
        ranks_await(given_up, 3);
        CHECK(weft_barrier_run(comm, WEFT_STREAM_HOST) < 0);
    } else {
        weft_collective c = WEFT_COLLECTIVE_INIT;
        c.kind = WEFT_BARRIER;
        c.label = weft_trace_label(world, "reduce bucket 2");
        double begin = now_s();
        CHECK_RESULT(weft_collective_run(comm, &c, WEFT_STREAM_HOST), WEFT_E_TIMEOUT);
        CHECK(now_s() - begin < 10);
        CHECK_HAS(weft_last_error(), "barrier 4 (reduce bucket 2) on comm sleepy");
        CHECK_HAS(weft_last_error(), "not arrived: 3 (last seen in operation 3, barrier");
        atomic_fetch_add(given_up, 1);
    }
    weft_comm_destroy(comm);
}

TEST(a_rank_that_has_not_arrived_is_named_at_the_deadline)
{
    quiet();
    ranks_both_ways(4, one_sleeps, ranks_counter());
}

static void nobody_receives(weft_world *world, void *argument)
{
    (void)argument;
    int rank = weft_world_rank(world);
    weft_comm_config config = WEFT_COMM_CONFIG_INIT;
    config.timeout_ms = 500;
    weft_comm *comm = all_ranks(world, "deaf", &config);
    enum { MIB8 = 2 << 20 };
    void *out;
    CHECK_OK(weft_memory_alloc(world, MIB8 * 4, &out));
    weft_p2p send = {.kind = WEFT_SEND, .peer = 1 - rank, .dtype = WEFT_FP32, .buffer = out, .count = MIB8};
    weft_result result = run_messages(comm, &send, 1); /* on both ranks: neither receives */
    CHECK_INT(result, WEFT_E_TIMEOUT);
    char want[64];
    snprintf(want, sizeof want, "send to rank %d on channel 0 waits", 1 - rank);
    char other[64];
    snprintf(other, sizeof other, "send to rank %d on channel 0 waits", rank);
    CHECK(strstr(weft_last_error(), want) || strstr(weft_last_error(), other));
    CHECK_HAS(weft_last_error(), "last began to send to rank");
    weft_memory_free(world, out);
    weft_comm_destroy(comm);
    float v;
    comm = all_ranks(world, "silent", &config);
    CHECK_RESULT(
        run_messages(comm,
                     &(weft_p2p){.kind = WEFT_RECV, .peer = 1 - rank, .dtype = WEFT_FP32, .buffer = &v, .count = 1}, 1),
        WEFT_E_TIMEOUT);
    weft_comm_destroy(comm);
}

TEST(messages_that_nobody_takes_end_at_the_deadline)
{
    quiet();
    ranks_both_ways(2, nobody_receives, NULL);
}

static void one_does_not_come(weft_world *world, void *argument)
{
    _Atomic int *given_up = argument;
    weft_comm *comm;
    if (weft_world_rank(world) == 2) {
        ranks_await(given_up, 2);
        return;
    }
    CHECK_RESULT(weft_comm_create(world, "lonely", (int[]){0, 1, 2}, 3, NULL, &comm), WEFT_E_TIMEOUT);
    CHECK_HAS(weft_last_error(), "missing: 2");
    atomic_fetch_add(given_up, 1);
}

TEST(a_member_that_does_not_come_to_make_a_comm_is_named)
{
    quiet();
    weft_world_config config = WEFT_WORLD_CONFIG_INIT;
    config.rendezvous_timeout_ms = 600;
    _Atomic int *given_up = ranks_counter();
    ranks_as_threads(3, &config, one_does_not_come, given_up);
    ranks_as_processes(3, &config, one_does_not_come, given_up);
}

TEST(a_rank_that_never_starts_is_named)
{
    quiet();
    weft_world_config config = WEFT_WORLD_CONFIG_INIT;
    config.rank = 0;
    config.ranks = 2;
    config.rendezvous = "unix://@weft-test-never";
    config.rendezvous_timeout_ms = 500;
    weft_world *world;
    CHECK_RESULT(weft_world_open(&config, &world), WEFT_E_TIMEOUT);
    CHECK_HAS(weft_last_error(), "1 of 2 ranks came; missing: 1");
    CHECK(world == NULL);
    config.rank = 1;
    CHECK_RESULT(weft_world_open(&config, &world), WEFT_E_TIMEOUT);
    CHECK_HAS(weft_last_error(), "rank 0 is missing");
}

/* ------------------------------------------------------------------------------------------- death */

enum way { COLLECTIVE, RECEIVE, FIRST_USE, WAYS };

/* How it is heard of; who has left the barrier before it. */
typedef struct death {
    enum way way;
    _Atomic int *left;
} death;

static void one_dies(weft_world *world, void *argument)
{
    const death *d = argument;
    int rank = weft_world_rank(world);
    weft_comm *comm = all_ranks(world, "mortal", NULL), *fresh = all_ranks(world, "fresh", NULL);
    weft_comm *survivors = NULL;
    if (rank != 2)
        CHECK_OK(weft_comm_create(world, "survivors", (int[]){0, 1}, 2, NULL, &survivors));
    CHECK_OK(weft_barrier_run(comm, WEFT_STREAM_HOST));
    if (rank == 2) {
        ranks_await(d->left, 2);
        pause_ms(50); /* by now they most often wait */
        _exit(9);
    }
    atomic_fetch_add(d->left, 1);
    float v = 0, w;
    double begin = now_s();
    weft_result result;
    if (d->way == COLLECTIVE)
        result = weft_all_reduce_run(comm, &v, &w, 1, WEFT_FP32, WEFT_SUM, WEFT_STREAM_HOST);
    else if (d->way == RECEIVE)
        result = run_messages(
            comm, &(weft_p2p){.kind = WEFT_RECV, .peer = 2, .dtype = WEFT_FP32, .buffer = &v, .count = 1}, 1);
    else
        result = weft_barrier_run(fresh, WEFT_STREAM_HOST);
    CHECK_INT(result, WEFT_E_PEER_LOST);
    CHECK_HAS(weft_last_error(), "rank 2 has ended");
    CHECK_MSG(now_s() - begin < 5, "told after %.1f s", now_s() - begin);
    /* Comms without the dead rank go on. */
    v = 1;
    CHECK_OK(weft_all_reduce_run(survivors, &v, &w, 1, WEFT_FP32, WEFT_SUM, WEFT_STREAM_HOST));
    CHECK(w == 2.0f);
    weft_comm *never;
    CHECK_RESULT(weft_comm_create(world, "never", (int[]){0, 1, 2}, 3, NULL, &never), WEFT_E_PEER_LOST);
    weft_comm_destroy(comm);
    weft_comm_destroy(fresh);
    weft_comm_destroy(survivors);
}

TEST(the_death_of_a_rank_reaches_everybody_at_once)
{
    quiet();
    for (enum way way = COLLECTIVE; way < WAYS; way++) {
        rank_group group = ranks_start(3, NULL, one_dies, &(death){way, ranks_counter()});
        ranks_expect_passed(&group, 0);
        ranks_expect_passed(&group, 1);
        ranks_wait(&group, 2);
        CHECK_INT(WEXITSTATUS(group.status[2]), 9);
    }
}

/* Killed in the middle of large operations in which ranks write into each other's buffers: whoever waits is told. */
typedef struct job {
    weft_collective_kind kind;
    _Atomic int *at_work;
} job;

static void killed_at_work(weft_world *world, void *argument)
{
    const job *j = argument;
    weft_comm *comm = all_ranks(world, "work", NULL);
    weft_collective c = WEFT_COLLECTIVE_INIT;
    c.kind = j->kind;
    c.reduction = c.kind == WEFT_ALL_REDUCE ? WEFT_MAX : WEFT_SUM;
    c.count = 1 << 19;
    void *memory;
    CHECK_OK(weft_memory_alloc(world, c.count * sizeof(float) * 3, &memory));
    c.send = c.recv = memory;
    weft_result result = weft_collective_run(comm, &c, WEFT_STREAM_HOST);
    atomic_fetch_add(j->at_work, 1);
    for (int i = 0; i < 100000 && result == WEFT_OK; i++)
        result = weft_collective_run(comm, &c, WEFT_STREAM_HOST);
    CHECK_INT(result, WEFT_E_PEER_LOST);
    CHECK_HAS(weft_last_error(), "rank 1 has ended");
    weft_memory_free(world, memory);
    weft_comm_destroy(comm);
}

TEST(a_rank_killed_in_the_middle_of_an_operation_is_named)
{
    static const weft_collective_kind kinds[] = {WEFT_ALL_REDUCE, WEFT_ALL_TO_ALL};
    quiet();
    for (int i = 0; i < 2; i++) {
        job j = {kinds[i], ranks_counter()};
        rank_group group = ranks_start(3, NULL, killed_at_work, &j);
        ranks_await(j.at_work, 3);
        pause_ms(50);
        kill(group.pid[1], SIGKILL);
        ranks_expect_passed(&group, 0);
        ranks_expect_passed(&group, 2);
        ranks_wait(&group, 1);
    }
}

/* A stopped rank is not dead: it is late, and when it goes on all is well. */
static void stopped_and_continued(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm = all_ranks(world, "stop", NULL);
    for (int i = 0; i < 200; i++) {
        float in = (float)i, out;
        CHECK_OK(weft_all_reduce_run(comm, &in, &out, 1, WEFT_FP32, WEFT_SUM, WEFT_STREAM_HOST));
        CHECK(out == (float)(2 * i));
        pause_ms(5);
    }
    weft_comm_destroy(comm);
}

TEST(a_stopped_rank_is_only_late)
{
    rank_group group = ranks_start(2, NULL, stopped_and_continued, NULL);
    pause_ms(400);
    kill(group.pid[1], SIGSTOP);
    pause_ms(1500);
    kill(group.pid[1], SIGCONT);
    ranks_expect_passed(&group, 0);
    ranks_expect_passed(&group, 1);
}

static void stopped_for_good(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm_config config = WEFT_COMM_CONFIG_INIT;
    config.timeout_ms = 1000;
    weft_comm *comm = all_ranks(world, "stopped", &config);
    CHECK_OK(weft_barrier_run(comm, WEFT_STREAM_HOST));
    if (weft_world_rank(world) == 1)
        raise(SIGSTOP);
    CHECK_RESULT(weft_barrier_run(comm, WEFT_STREAM_HOST), WEFT_E_TIMEOUT);
    CHECK_HAS(weft_last_error(), "not arrived: 1");
    weft_comm_destroy(comm);
}

TEST(a_rank_stopped_for_good_is_named_at_the_deadline)
{
    quiet();
    rank_group group = ranks_start(2, NULL, stopped_for_good, NULL);
    ranks_expect_passed(&group, 0);
    kill(group.pid[1], SIGKILL);
}

/* A rank that leaves in good order is no loss to those who need nothing from it, and named to those who do. */
static void leaves_early(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm = all_ranks(world, "early", NULL);
    float v = 1, w;
    CHECK_OK(weft_all_reduce_run(comm, &v, &w, 1, WEFT_FP32, WEFT_SUM, WEFT_STREAM_HOST));
    if (weft_world_rank(world) == 0) {
        CHECK_RESULT(weft_barrier_run(comm, WEFT_STREAM_HOST), WEFT_E_PEER_LOST);
        CHECK_HAS(weft_last_error(), "rank 1 has destroyed comm early");
    }
    weft_comm_destroy(comm);
}

TEST(a_rank_that_has_left_is_named_to_those_who_wait_for_it)
{
    quiet();
    ranks_both_ways(2, leaves_early, NULL);
}

/* ------------------------------------------------------------------------------------------- fork */

static void forks(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm = all_ranks(world, "fork", NULL);
    float v = 1, w;
    weft_work work;
    if (weft_world_rank(world) == 0)
        pause_ms(50);
    CHECK_OK(weft_all_reduce_start(comm, &v, &w, 1, WEFT_FP32, WEFT_SUM, WEFT_STREAM_HOST, &work));
    void *heap;
    unsigned char present;
    CHECK_OK(weft_memory_alloc(world, 10, &heap));
    void *page = (void *)((uintptr_t)heap & ~(uintptr_t)4095);
    CHECK(mincore(page, 1, &present) == 0);
    pid_t child = fork();
    if (child == 0) {
        void *memory;
        CHECK(mincore(page, 1, &present) != 0); /* the heap is not inherited */
        weft_memory_free(world, heap);
        CHECK_RESULT(weft_work_finish(work, WEFT_STREAM_HOST), WEFT_E_FORKED);
        CHECK_RESULT(weft_work_test(work), WEFT_E_FORKED);
        CHECK_RESULT(weft_barrier_run(comm, WEFT_STREAM_HOST), WEFT_E_FORKED);
        CHECK_RESULT(weft_memory_alloc(world, 10, &memory), WEFT_E_FORKED);
        CHECK_RESULT(weft_comm_abort(comm), WEFT_E_FORKED);
        weft_comm_destroy(comm);
        weft_world_close(world);
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK_INT(WEXITSTATUS(status), 0);
    CHECK(!WIFSIGNALED(status));
    CHECK_OK(weft_work_finish(work, WEFT_STREAM_HOST));
    CHECK(w == 2.0f);
    CHECK_OK(weft_barrier_run(comm, WEFT_STREAM_HOST));
    weft_memory_free(world, heap);
    weft_comm_destroy(comm);
}

TEST(a_child_is_told_that_the_world_is_its_parents)
{
    quiet();
    ranks_as_processes(2, NULL, forks, NULL);
}
