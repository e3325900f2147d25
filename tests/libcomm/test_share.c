/* SPDX-License-Identifier: Apache-2.0 */
/* Who waits does the work of those who have arrived and do not come to it: with the same values, and no further than a
 * failure. Ranks that do nothing are processes that have stopped. */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "harness/ranks.h"

enum { COUNT = 600001, BIG = 1 << 23 }; /* elements: several parts and a rest; so many that they take a while */

static void pause_us(long us)
{
    nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
}

/* ------------------------------------------------------------------------------------------- values */

typedef struct trial {
    weft_collective_kind kind;
    bool in_place;
    size_t count;
} trial;

/* Whole numbers, so that any order of a sum would do; what there is in the wrong place is no sum. */
static float value(int rank, size_t i, unsigned salt)
{
    return (float)((i * 7 + (size_t)rank * 13 + salt) % 1000);
}

static size_t parts(const trial *t, bool of_send, int ranks)
{
    bool many = of_send ? t->kind == WEFT_REDUCE_SCATTER || t->kind == WEFT_ALL_TO_ALL
                        : t->kind == WEFT_ALL_GATHER || t->kind == WEFT_ALL_TO_ALL;
    return many ? (size_t)ranks : 1;
}

static weft_collective asked(const trial *t, int rank, int ranks, float *memory)
{
    weft_collective c = WEFT_COLLECTIVE_INIT;
    float *recv = memory + parts(t, true, ranks) * t->count, *send = memory;
    if (t->in_place)
        send = recv = memory;
    if (t->in_place && t->kind == WEFT_REDUCE_SCATTER)
        recv = memory + (size_t)rank * t->count;
    if (t->in_place && t->kind == WEFT_ALL_GATHER)
        send = memory + (size_t)rank * t->count;
    c.kind = t->kind;
    c.count = t->count;
    c.root = ranks - 1;
    c.send = send;
    c.recv = recv;
    return c;
}

static void fill(const trial *t, int rank, int ranks, unsigned salt, const weft_collective *c)
{
    float *send = (float *)(uintptr_t)c->send;
    for (size_t i = 0; i < parts(t, true, ranks) * t->count; i++)
        send[i] = value(rank, i, salt);
}

static float wanted(const trial *t, int rank, int ranks, unsigned salt, size_t i)
{
    float sum = 0;
    if (t->kind == WEFT_ALL_GATHER)
        return value((int)(i / t->count), i % t->count, salt);
    if (t->kind == WEFT_ALL_TO_ALL)
        return value((int)(i / t->count), (size_t)rank * t->count + i % t->count, salt);
    for (int r = 0; r < ranks; r++)
        sum += value(r, t->kind == WEFT_REDUCE_SCATTER ? (size_t)rank * t->count + i : i, salt);
    return sum;
}

static void check(const trial *t, int rank, int ranks, unsigned salt, const weft_collective *c)
{
    const float *recv = c->recv;
    if (t->kind == WEFT_REDUCE && rank != c->root)
        return;
    for (size_t i = 0; i < parts(t, false, ranks) * t->count; i++)
        CHECK_MSG(recv[i] == wanted(t, rank, ranks, salt, i), "rank %d: %s%s: element %zu is %g, not %g", rank,
                  weft_collective_string(t->kind), t->in_place ? " in place" : "", i, (double)recv[i],
                  (double)wanted(t, rank, ranks, salt, i));
}

/* ------------------------------------------------------------------------------------------- stopping */

typedef struct scene {
    const trial *trial;
    volatile pid_t *pids; /* [2 * ranks]: of ranks that are about to stop; and who is done */
} scene;

static scene set_up(const trial *t)
{
    void *pids = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(pids != MAP_FAILED);
    return (scene){t, pids};
}

static bool has_stopped(pid_t pid)
{
    char path[64], text[256] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    const char *end = got > 0 ? strrchr(text, ')') : NULL;
    return end && end[1] == ' ' && end[2] == 'T';
}

static void stop_here(const scene *s, int rank)
{
    s->pids[rank] = getpid();
    raise(SIGSTOP);
}

static void wait_until_stopped(const scene *s, int rank)
{
    while (!s->pids[rank] || !has_stopped(s->pids[rank]))
        pause_us(1000);
}

/* ------------------------------------------------------------------------------------------- one does nothing */

/* The last rank arrives first and stops; the others are done nevertheless, and it finds its result when it goes on. */
static void last_one_stops(weft_world *world, void *argument)
{
    const scene *s = argument;
    int rank = weft_world_rank(world), ranks = weft_world_size(world), last = ranks - 1;
    weft_comm *comm = all_ranks(world, "share", NULL);
    void *memory;
    weft_work work;
    CHECK_OK(weft_memory_alloc(world, 2 * (size_t)ranks * s->trial->count * sizeof(float), &memory));
    weft_collective c = asked(s->trial, rank, ranks, memory);
    fill(s->trial, rank, ranks, 5, &c);
    CHECK_OK(weft_barrier_run(comm, WEFT_STREAM_HOST));
    if (rank != last)
        wait_until_stopped(s, last);
    CHECK_OK(weft_collective_start(comm, &c, WEFT_STREAM_HOST, &work));
    if (rank == last)
        stop_here(s, rank);
    CHECK_OK(weft_work_finish(work, WEFT_STREAM_HOST));
    check(s->trial, rank, ranks, 5, &c);
    s->pids[ranks + rank] = 1; /* is done */
    for (int r = 1; rank == 0 && r < last; r++)
        while (!s->pids[ranks + r])
            pause_us(1000);
    if (rank == 0)
        kill(s->pids[last], SIGCONT);
    CHECK_OK(weft_barrier_run(comm, WEFT_STREAM_HOST));
    weft_memory_free(world, memory);
    weft_comm_destroy(comm);
}

static void check_all_kinds(int ranks)
{
    static const trial trials[] = {
        {WEFT_REDUCE_SCATTER, true, COUNT}, {WEFT_REDUCE_SCATTER, false, COUNT}, {WEFT_ALL_REDUCE, true, COUNT},
        {WEFT_ALL_REDUCE, false, COUNT},    {WEFT_ALL_GATHER, true, COUNT},      {WEFT_REDUCE, false, COUNT},
    };
    for (size_t i = 0; i < sizeof trials / sizeof *trials; i++) {
        scene s = set_up(&trials[i]);
        rank_group group = ranks_start(ranks, NULL, last_one_stops, &s);
        ranks_expect_all(&group);
        munmap((void *)(uintptr_t)s.pids, 4096);
    }
}

TEST(who_waits_does_all_that_a_stopped_rank_has_to_do)
{
    check_all_kinds(2);
}

TEST(several_who_wait_share_it)
{
    check_all_kinds(3);
}

/* ------------------------------------------------------------------------------------------- all at once */

/* Everybody computes for a while, now and then, and writes over its memory as soon as it can. */
static void hurry(weft_world *world, void *argument)
{
    static const trial trials[] = {
        {WEFT_REDUCE_SCATTER, true, 280000}, {WEFT_ALL_REDUCE, false, 599999}, {WEFT_ALL_GATHER, false, 266667},
        {WEFT_ALL_TO_ALL, false, 280000},    {WEFT_ALL_REDUCE, true, 540000},  {WEFT_ALL_GATHER, true, 300000},
    };
    enum { KINDS = sizeof trials / sizeof *trials };
    (void)argument;
    unsigned rounds = test_is_slow() ? 1 : 3;
    int rank = weft_world_rank(world), ranks = weft_world_size(world);
    weft_comm *comm = all_ranks(world, "share", NULL);
    void *memory;
    CHECK_OK(weft_memory_alloc(world, 2 * (size_t)ranks * 600000 * sizeof(float), &memory));
    for (unsigned i = 0; i < KINDS * rounds; i++) {
        const trial *t = &trials[i % KINDS];
        weft_collective c = asked(t, rank, ranks, memory);
        weft_work work;
        fill(t, rank, ranks, i, &c);
        CHECK_OK(weft_collective_start(comm, &c, WEFT_STREAM_HOST, &work));
        if ((i / KINDS + (unsigned)rank) % 3 == 0)
            pause_us(300);
        CHECK_OK(weft_work_finish(work, WEFT_STREAM_HOST));
        check(t, rank, ranks, i, &c);
        memset(memory, 0xff, 2 * (size_t)ranks * t->count * sizeof(float));
    }
    weft_memory_free(world, memory);
    weft_comm_destroy(comm);
}

TEST(results_are_right_whoever_does_what)
{
    ranks_both_ways(2, hurry, NULL);
    ranks_both_ways(4, hurry, NULL);
}

/* ------------------------------------------------------------------------------------------- failures */

/* Rank 0 is killed while it does the work of rank 1, or shortly before or after. */
static void helper_dies(weft_world *world, void *argument)
{
    const scene *s = argument;
    int rank = weft_world_rank(world), ranks = weft_world_size(world);
    weft_comm *comm = all_ranks(world, "share", NULL);
    void *memory;
    weft_work work;
    CHECK_OK(weft_memory_alloc(world, 2 * (size_t)ranks * s->trial->count * sizeof(float), &memory));
    weft_collective c = asked(s->trial, rank, ranks, memory);
    fill(s->trial, rank, ranks, 1, &c);
    CHECK_OK(weft_barrier_run(comm, WEFT_STREAM_HOST));
    if (rank == 0) {
        wait_until_stopped(s, 1);
        setitimer(ITIMER_REAL, &(struct itimerval){.it_value.tv_usec = 3000}, NULL);
    }
    CHECK_OK(weft_collective_start(comm, &c, WEFT_STREAM_HOST, &work));
    if (rank == 1)
        stop_here(s, 1);
    weft_result result = weft_work_finish(work, WEFT_STREAM_HOST);
    while (rank == 0)
        pause();
    if (result == WEFT_OK) /* it was done before */
        check(s->trial, rank, ranks, 1, &c);
    else
        CHECK_RESULT(result, WEFT_E_PEER_LOST);
    weft_memory_free(world, memory);
    weft_comm_destroy(comm);
}

TEST(a_helper_that_dies_fails_the_comm)
{
    static const trial t = {WEFT_REDUCE_SCATTER, true, BIG};
    weft_log_set(WEFT_LOG_ERROR, NULL, NULL);
    scene s = set_up(&t);
    rank_group group = ranks_start(2, NULL, helper_dies, &s);
    ranks_wait(&group, 0);
    CHECK(WIFSIGNALED(group.status[0]) && WTERMSIG(group.status[0]) == SIGALRM);
    kill(s.pids[1], SIGCONT);
    ranks_wait(&group, 1);
    ranks_expect_passed(&group, 1);
}
