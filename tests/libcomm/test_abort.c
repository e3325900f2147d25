/* SPDX-License-Identifier: Apache-2.0 */
/* How failures spread, and what they leave alone: nobody writes into, or takes bytes from, memory that was given
 * back. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "harness/ranks.h"

static void pause_us(long us)
{
    nanosleep(&(struct timespec){.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000}, NULL);
}

/* ------------------------------------------------------------------------------------------- abort */

static void one_aborts(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm = all_ranks(world, "abort", NULL), *other = all_ranks(world, "other", NULL);
    int rank = weft_world_rank(world);
    if (rank == 1) {
        pause_us(200000);
        CHECK_OK(weft_comm_abort_because(comm, "no more samples"));
        CHECK_OK(weft_comm_abort(comm)); /* the first verdict stays */
        CHECK_INT(weft_comm_error(comm, NULL, 0), WEFT_E_ABORTED);
    } else {
        enum { COUNT = 100000 };
        void *memory;
        CHECK_OK(weft_memory_alloc(world, COUNT * 4, &memory));
        weft_work a, b;
        CHECK_OK(weft_all_reduce_start(comm, memory, memory, COUNT, WEFT_FP32, WEFT_SUM, WEFT_STREAM_HOST, &a));
        CHECK_OK(weft_barrier_start(comm, WEFT_STREAM_HOST, &b));
        CHECK_RESULT(weft_work_finish(b, WEFT_STREAM_HOST), WEFT_E_ABORTED);
        CHECK_HAS(weft_last_error(), "comm abort was aborted by rank 1: no more samples");
        CHECK_RESULT(weft_work_finish(a, WEFT_STREAM_HOST), WEFT_E_ABORTED);
        weft_memory_free(world, memory);
    }
    CHECK_RESULT(weft_barrier_run(comm, WEFT_STREAM_HOST), WEFT_E_ABORTED);
    CHECK_OK(weft_barrier_run(other, WEFT_STREAM_HOST));
    weft_comm_destroy(comm);
    weft_comm_destroy(other);
}

TEST(an_abort_reaches_everybody_and_no_other_comm)
{
    quiet();
    ranks_both_ways(3, one_aborts, NULL);
}

/* A failed operation fails those chained behind it, on their own comms. */
static void chain_fails(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *first = all_ranks(world, "first", NULL), *second = all_ranks(world, "second", NULL);
    float v = 0, w;
    weft_work before, after;
    weft_collective c = WEFT_COLLECTIVE_INIT;
    c.kind = WEFT_ALL_REDUCE;
    c.send = &v;
    c.recv = &w;
    c.count = 1;
    if (weft_world_rank(world) == 0) {
        CHECK_OK(weft_barrier_start(first, WEFT_STREAM_HOST, &before));
        c.after = before;
        CHECK_OK(weft_collective_start(second, &c, WEFT_STREAM_HOST, &after));
        CHECK_INT(weft_work_test(after), WEFT_PENDING);
        CHECK_OK(weft_comm_abort(first));
        CHECK_RESULT(weft_work_finish(after, WEFT_STREAM_HOST), WEFT_E_ABORTED);
        CHECK_HAS(weft_last_error(), "what failed first: comm first was aborted by rank 0");
        CHECK_RESULT(weft_work_finish(before, WEFT_STREAM_HOST), WEFT_E_ABORTED);
    } else {
        CHECK_RESULT(weft_collective_run(second, &c, WEFT_STREAM_HOST), WEFT_E_ABORTED);
    }
    weft_comm_destroy(first);
    weft_comm_destroy(second);
}

TEST(a_failure_passes_along_a_chain)
{
    quiet();
    ranks_both_ways(2, chain_fails, NULL);
}

/* What failed before has nothing to do with it. */
static void chain_fails_after_another(weft_world *world, void *argument)
{
    weft_comm *other = all_ranks(world, "other", NULL);
    if (weft_world_rank(world) == 0)
        CHECK_OK(weft_comm_abort(other));
    else
        CHECK_RESULT(weft_barrier_run(other, WEFT_STREAM_HOST), WEFT_E_ABORTED);
    chain_fails(world, argument);
    weft_comm_destroy(other);
}

TEST(a_failure_along_a_chain_names_its_own_cause)
{
    quiet();
    ranks_both_ways(2, chain_fails_after_another, NULL);
}

/* The work before is lost with its comm, which has not failed. */
static void chain_is_cut(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *other = all_ranks(world, "other", NULL), *first = all_ranks(world, "first", NULL);
    weft_comm *second = all_ranks(world, "second", NULL);
    weft_work before, after;
    weft_collective c = WEFT_COLLECTIVE_INIT;
    c.kind = WEFT_BARRIER;
    if (weft_world_rank(world) == 0) {
        CHECK_OK(weft_comm_abort(other));
        CHECK_OK(weft_barrier_start(first, WEFT_STREAM_HOST, &before));
        c.after = before;
        CHECK_OK(weft_collective_start(second, &c, WEFT_STREAM_HOST, &after));
        weft_comm_destroy(first);
        CHECK_RESULT(weft_work_finish(after, WEFT_STREAM_HOST), WEFT_E_ABORTED);
        CHECK_HAS(weft_last_error(), "what failed first: its comm was destroyed before it had ended");
    } else {
        CHECK_RESULT(weft_barrier_run(second, WEFT_STREAM_HOST), WEFT_E_ABORTED);
        weft_comm_destroy(first);
    }
    weft_comm_destroy(other);
    weft_comm_destroy(second);
}

TEST(what_runs_after_a_lost_work_says_so)
{
    quiet();
    ranks_both_ways(2, chain_is_cut, NULL);
}

/* ------------------------------------------------------------------------------------------- whose failure */

static void fail_and_check(weft_world *world, void *argument)
{
    (void)argument;
    enum { A, B, C, COMMS };
    weft_comm *comms[COMMS];
    static const char *const names[COMMS] = {"a", "b", "c"};
    for (int i = 0; i < COMMS; i++)
        CHECK_OK(weft_comm_create(world, names[i], (int[]){weft_world_rank(world)}, 1, NULL, &comms[i]));
    CHECK_OK(weft_world_check(world, WEFT_STREAM_HOST));
    CHECK_OK(weft_comm_abort(comms[B]));
    CHECK_OK(weft_comm_abort(comms[A]));
    for (int i = 0; i < 2; i++) { /* as long as it is there */
        CHECK_RESULT(weft_world_check(world, WEFT_STREAM_HOST), WEFT_E_ABORTED);
        CHECK_HAS(weft_last_error(), "comm b was aborted");
    }
    weft_comm_destroy(comms[B]);
    CHECK_RESULT(weft_world_check(world, WEFT_STREAM_HOST), WEFT_E_ABORTED);
    CHECK_HAS(weft_last_error(), "comm a was aborted");
    weft_comm_destroy(comms[A]);
    CHECK_OK(weft_world_check(world, WEFT_STREAM_HOST)); /* both were told of */

    /* Not told of before they went: once, the first of them. */
    CHECK_OK(weft_comm_create(world, "a", (int[]){weft_world_rank(world)}, 1, NULL, &comms[A]));
    CHECK_OK(weft_comm_create(world, "b", (int[]){weft_world_rank(world)}, 1, NULL, &comms[B]));
    CHECK_OK(weft_comm_abort(comms[A]));
    CHECK_OK(weft_comm_abort(comms[B]));
    CHECK_OK(weft_comm_abort(comms[C]));
    weft_comm_destroy(comms[B]);
    weft_comm_destroy(comms[A]);
    CHECK_RESULT(weft_world_check(world, WEFT_STREAM_HOST), WEFT_E_ABORTED);
    CHECK_HAS(weft_last_error(), "comm a was aborted");
    CHECK_RESULT(weft_world_check(world, WEFT_STREAM_HOST), WEFT_E_ABORTED);
    CHECK_HAS(weft_last_error(), "comm c was aborted");
    weft_comm_destroy(comms[C]);
    CHECK_OK(weft_world_check(world, WEFT_STREAM_HOST));
}

TEST(a_world_tells_of_failed_comms_that_exist_and_once_of_those_that_are_gone)
{
    quiet();
    ranks_both_ways(1, fail_and_check, NULL);
    ranks_both_ways(2, fail_and_check, NULL);
}

/* ------------------------------------------------------------------------------------------- writers */

enum { PATTERN = 0x5a, LARGE = 16 << 20 /* elements: several milliseconds */ };

static size_t large(void)
{
    return test_is_slow() ? LARGE / 4 : LARGE;
}

static float *large_buffer(weft_world *world)
{
    void *memory;
    CHECK_OK(weft_memory_alloc(world, large() * sizeof(float), &memory));
    memset(memory, 0, large() * sizeof(float));
    return memory;
}

static bool holds_pattern(const float *buffer)
{
    const unsigned char *bytes = (const unsigned char *)buffer;
    return bytes[0] == PATTERN && memcmp(bytes, bytes + 1, large() * sizeof(float) - 1) == 0;
}

/* Who a rank is to the others, whether they are threads or processes. */
typedef struct who {
    pid_t process;
    pthread_t thread;
} who;

static who tell_who(weft_comm *comm)
{
    who all[2], self = {getpid(), pthread_self()};
    CHECK_OK(weft_all_gather_run(comm, &self, all, sizeof self, WEFT_UINT8, WEFT_STREAM_HOST));
    return all[1];
}

static void stand_still(int number)
{
    (void)number;
    pause_us(300000);
}

static void make_stand_still(who other)
{
    if (other.process == getpid())
        CHECK_INT(pthread_kill(other.thread, SIGUSR1), 0);
    else
        CHECK_INT(kill(other.process, SIGUSR1), 0);
}

/* Both write into the buffer of the other. */
static weft_collective large_one(float *buffer, int round)
{
    weft_collective c = WEFT_COLLECTIVE_INIT;
    c.kind = round % 2 ? WEFT_ALL_TO_ALL : WEFT_ALL_REDUCE;
    c.send = c.recv = buffer;
    c.count = round % 2 ? large() / 2 : large();
    return c;
}

/* Rank 1 stands still somewhere in a large operation, as if it had lost its core; rank 0 aborts, and uses its buffer
 * for something else once it has it back. */
static void abort_amid_writes(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *guard = all_ranks(world, "guard", NULL);
    int rank = weft_world_rank(world), aborted = 0;
    float *buffer = large_buffer(world);
    signal(SIGUSR1, stand_still);
    who other = tell_who(guard);
    srand(7);
    for (int round = 0; round < 6; round++) {
        weft_comm *comm = all_ranks(world, "writes", NULL);
        weft_collective c = large_one(buffer, round);
        CHECK_OK(weft_barrier_run(guard, WEFT_STREAM_HOST));
        weft_result result;
        if (rank == 1) {
            result = weft_collective_run(comm, &c, WEFT_STREAM_HOST);
        } else {
            weft_work work;
            CHECK_OK(weft_collective_start(comm, &c, WEFT_STREAM_HOST, &work));
            pause_us(rand() % 3000);
            make_stand_still(other);
            pause_us(200);
            CHECK_OK(weft_comm_abort(comm));
            result = weft_work_finish(work, WEFT_STREAM_HOST);
            memset(buffer, PATTERN, large() * sizeof *buffer);
        }
        CHECK_MSG(result == WEFT_OK || result == WEFT_E_ABORTED, "it ended with %s", weft_result_string(result));
        aborted += result != WEFT_OK;
        CHECK_OK(weft_barrier_run(guard, WEFT_STREAM_HOST));
        if (rank == 0)
            CHECK_MSG(holds_pattern(buffer), "the buffer was written into after its operation had ended (round %d)",
                      round);
        weft_comm_destroy(comm);
    }
    if (rank == 0)
        test_note("%d of 6 were aborted on the way", aborted);
    weft_memory_free(world, buffer);
    weft_comm_destroy(guard);
}

TEST(nobody_writes_into_a_buffer_after_its_operation_was_aborted)
{
    quiet();
    ranks_both_ways(2, abort_amid_writes, NULL);
}

static bool is_stopped(pid_t process)
{
    char path[64], line[256] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", (int)process);
    FILE *file = fopen(path, "r");
    CHECK(file && fgets(line, sizeof line, file));
    fclose(file);
    const char *end = strrchr(line, ')');
    return end && end[2] == 'T';
}

/* Rank 1 is stopped while it has a slice to write. The answers of the two: E_STUCK, unless it was stopped too late. */
static weft_result stop_amid_writes(weft_comm *comm, weft_comm *guard, float *buffer, who other)
{
    int rank = weft_comm_rank(comm);
    weft_work work;
    CHECK_OK(weft_barrier_run(guard, WEFT_STREAM_HOST));
    if (rank == 1)
        pause_us(20000); /* so that it can write at once */
    CHECK_OK(weft_all_reduce_start(comm, buffer, buffer, large(), WEFT_FP32, WEFT_SUM, WEFT_STREAM_HOST, &work));
    if (rank == 1) {
        raise(SIGSTOP);
        return weft_work_finish(work, WEFT_STREAM_HOST);
    }
    while (!is_stopped(other.process))
        pause_us(1000);
    CHECK_OK(weft_comm_abort(comm));
    weft_result result = weft_work_finish(work, WEFT_STREAM_HOST);
    if (result == WEFT_E_STUCK) {
        CHECK_HAS(weft_last_error(), "comm stuck, operation 1: rank 1 may still write into the buffer of rank 0");
        CHECK_INT(weft_comm_error(comm, NULL, 0), WEFT_E_ABORTED);
    }
    CHECK_INT(kill(other.process, SIGCONT), 0);
    return result;
}

static void writer_is_stopped(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm_config config = WEFT_COMM_CONFIG_INIT;
    config.timeout_ms = 1000;
    weft_comm *guard = all_ranks(world, "guard", NULL);
    float *buffer = large_buffer(world);
    who other = tell_who(guard);
    int32_t stuck = 0;
    for (int attempt = 0; attempt < 20 && !stuck; attempt++) {
        weft_comm *comm = all_ranks(world, "stuck", &config);
        stuck = stop_amid_writes(comm, guard, buffer, other) == WEFT_E_STUCK;
        CHECK_OK(weft_broadcast_run(guard, &stuck, &stuck, 1, WEFT_INT32, 0, WEFT_STREAM_HOST));
        weft_comm_destroy(comm);
    }
    CHECK(stuck);
    weft_memory_free(world, buffer);
    weft_comm_destroy(guard);
}

TEST(a_writer_that_does_not_stop_is_named_and_its_buffer_not_given_back)
{
    quiet();
    ranks_as_processes(2, NULL, writer_is_stopped, NULL);
}

/* ------------------------------------------------------------------------------------------- destroyed in flight */

enum left { SEND, RECEIVE, BROADCAST, REDUCE, WAYS };

static weft_result use(weft_comm *comm, enum left way, float *buffer, weft_work *work_out)
{
    bool first = weft_comm_rank(comm) == 0;
    weft_work work;
    if (way == BROADCAST || way == REDUCE) {
        weft_collective c = WEFT_COLLECTIVE_INIT;
        c.kind = way == BROADCAST ? WEFT_BROADCAST : WEFT_ALL_REDUCE;
        c.send = c.recv = buffer;
        c.count = large() / 4;
        CHECK_OK(weft_collective_start(comm, &c, WEFT_STREAM_HOST, &work));
    } else {
        weft_p2p m = {.kind = (way == SEND) == first ? WEFT_SEND : WEFT_RECV, .peer = first};
        m.buffer = buffer;
        m.count = large() / 4;
        CHECK_OK(start_messages(comm, &m, 1, &work));
    }
    *work_out = work;
    return first ? WEFT_OK : weft_work_finish(work, WEFT_STREAM_HOST);
}

/* Rank 0 starts an operation, gives the comm up, and uses the buffer for something else. */
static void leave_in_flight(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *guard = all_ranks(world, "guard", NULL);
    float *buffer = large_buffer(world);
    for (enum left way = 0; way < WAYS; way++) {
        weft_comm *comm = all_ranks(world, "left", NULL);
        weft_work work;
        if (weft_world_rank(world) == 0) {
            CHECK_OK(use(comm, way, buffer, &work));
            weft_comm_destroy(comm);
            memset(buffer, PATTERN, large() * sizeof *buffer);
            CHECK_RESULT(weft_work_finish(work, WEFT_STREAM_HOST), WEFT_E_TWICE);
        }
        CHECK_OK(weft_barrier_run(guard, WEFT_STREAM_HOST));
        if (weft_world_rank(world) == 1) {
            CHECK_INT(use(comm, way, buffer, &work), WEFT_E_ABORTED);
            CHECK_HAS(weft_last_error(), "rank 0 has destroyed comm left with operations in flight");
            weft_comm_destroy(comm);
        }
        CHECK_OK(weft_barrier_run(guard, WEFT_STREAM_HOST));
        CHECK(weft_world_rank(world) == 1 || holds_pattern(buffer));
    }
    weft_memory_free(world, buffer);
    weft_comm_destroy(guard);
}

TEST(operations_of_a_comm_that_a_rank_has_given_up_do_not_end_well_elsewhere)
{
    quiet();
    ranks_both_ways(2, leave_in_flight, NULL);
}
