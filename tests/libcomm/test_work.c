/* SPDX-License-Identifier: Apache-2.0 */
/* Works: started once, finished once, in any order and from any thread. */
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "harness/ranks.h"

static void pause_ms(int ms)
{
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000L}, NULL);
}

static void stale_works(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm = all_ranks(world, "stale", NULL);
    float in = 1, out;
    weft_work work, copy;
    CHECK_OK(weft_all_reduce_start(comm, &in, &out, 1, WEFT_FP32, WEFT_SUM, WEFT_STREAM_HOST, &work));
    copy = work;
    CHECK_OK(weft_work_order(work, WEFT_STREAM_HOST));
    CHECK_OK(weft_work_order(copy, WEFT_STREAM_HOST));
    CHECK_OK(weft_work_test(work));
    CHECK_OK(weft_work_finish(copy, WEFT_STREAM_HOST));
    CHECK_RESULT(weft_work_finish(work, WEFT_STREAM_HOST), WEFT_E_TWICE);
    CHECK_RESULT(weft_work_test(work), WEFT_E_TWICE);
    CHECK_RESULT(weft_work_order(work, WEFT_STREAM_HOST), WEFT_E_TWICE);
    CHECK_RESULT(weft_work_finish(WEFT_WORK_NONE, WEFT_STREAM_HOST), WEFT_E_INVALID);
    /* The slot is used again, many times: the old value stays stale, and touches nothing of the new work. */
    for (int i = 0; i < 1000; i++) {
        weft_work fresh;
        CHECK_OK(weft_barrier_start(comm, WEFT_STREAM_HOST, &fresh));
        CHECK_RESULT(weft_work_finish(work, WEFT_STREAM_HOST), WEFT_E_TWICE);
        CHECK_OK(weft_work_finish(fresh, WEFT_STREAM_HOST));
    }
    CHECK_OK(weft_barrier_start(comm, WEFT_STREAM_HOST, &work));
    CHECK_OK(weft_work_order(work, WEFT_STREAM_HOST));
    weft_comm_destroy(comm); /* reported: it was not finished */
    CHECK_RESULT(weft_work_finish(work, WEFT_STREAM_HOST), WEFT_E_TWICE);
}

static void nothing(void *cookie, weft_log_level level, const char *line)
{
    (void)cookie, (void)level, (void)line;
}

TEST(a_stale_work_is_refused_and_touches_nothing)
{
    weft_log_set(WEFT_LOG_ERROR, nothing, NULL);
    ranks_as_threads(1, NULL, stale_works, NULL);
    ranks_both_ways(2, stale_works, NULL);
}

/* All works of one comm are held by a peer that has not come; another comm does a thousand operations meanwhile. */
static void all_slots_held(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *held = all_ranks(world, "held", NULL), *other = all_ranks(world, "other", NULL);
    int rank = weft_world_rank(world);
    enum { SLOTS = 64 };
    static float buffers[2][SLOTS][2000];
    weft_work works[SLOTS], one_more;
    float in = 1, out;
    for (int i = 0; i < SLOTS && rank == 0; i++) {
        for (int j = 0; j < 2000; j++)
            buffers[rank][i][j] = (float)i;
        CHECK_OK(weft_all_reduce_start(held, buffers[rank][i], buffers[rank][i], 2000, WEFT_FP32, WEFT_SUM,
                                       WEFT_STREAM_HOST, &works[i]));
    }
    if (rank == 0) {
        CHECK_RESULT(weft_barrier_start(held, WEFT_STREAM_HOST, &one_more), WEFT_E_BUSY);
        CHECK_HAS(weft_last_error(), "all 64 works are in flight");
    }
    for (int i = 0; i < 1000; i++)
        CHECK_OK(weft_all_reduce_run(other, &in, &out, 1, WEFT_FP32, WEFT_SUM, WEFT_STREAM_HOST));
    for (int i = 0; i < SLOTS && rank == 1; i++) {
        for (int j = 0; j < 2000; j++)
            buffers[rank][i][j] = (float)(2 * i);
        CHECK_OK(weft_all_reduce_start(held, buffers[rank][i], buffers[rank][i], 2000, WEFT_FP32, WEFT_SUM,
                                       WEFT_STREAM_HOST, &works[i]));
    }
    for (int i = SLOTS - 1; i >= 0; i--) {
        CHECK_OK(weft_work_finish(works[i], WEFT_STREAM_HOST));
        CHECK(buffers[rank][i][1999] == (float)(3 * i));
    }
    weft_comm_destroy(held);
    weft_comm_destroy(other);
}

TEST(a_comm_whose_works_are_all_held_does_not_hold_up_another)
{
    weft_log_set(WEFT_LOG_ERROR, nothing, NULL);
    ranks_both_ways(2, all_slots_held, NULL);
}

/* reduce-scatter on one comm, all-gather of its result on another, chained: nobody waits in between. */
static void chained(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *first = all_ranks(world, "first", NULL), *second = all_ranks(world, "second", NULL);
    int ranks = weft_world_size(world), rank = weft_world_rank(world);
    enum { PART = 3000 };
    void *memory;
    CHECK_OK(weft_memory_alloc(world, (size_t)ranks * PART * 8, &memory));
    float *in = memory, *out = in + ranks * PART;
    for (int round = 0; round < 50; round++) {
        for (int i = 0; i < ranks * PART; i++)
            in[i] = (float)(i % 100 + rank + round);
        weft_collective reduce = WEFT_COLLECTIVE_INIT, gather = WEFT_COLLECTIVE_INIT;
        reduce.kind = WEFT_REDUCE_SCATTER;
        gather.kind = WEFT_ALL_GATHER;
        reduce.send = in;
        reduce.recv = in + rank * PART;
        gather.send = reduce.recv;
        gather.recv = out;
        reduce.count = gather.count = PART;
        weft_work reduced, gathered;
        if (round % ranks == rank)
            pause_ms(2);
        CHECK_OK(weft_collective_start(first, &reduce, WEFT_STREAM_HOST, &reduced));
        gather.after = reduced;
        CHECK_OK(weft_collective_start(second, &gather, WEFT_STREAM_HOST, &gathered));
        /* Either order of finishing. */
        CHECK_OK(weft_work_finish(round % 2 ? reduced : gathered, WEFT_STREAM_HOST));
        CHECK_OK(weft_work_finish(round % 2 ? gathered : reduced, WEFT_STREAM_HOST));
        for (int i = 0; i < ranks * PART; i++)
            CHECK_MSG(out[i] == (float)(ranks * (i % 100 + round) + ranks * (ranks - 1) / 2), "round %d element %d",
                      round, i);
        gather.after = reduced;
        CHECK_RESULT(weft_collective_start(second, &gather, WEFT_STREAM_HOST, &gathered), WEFT_E_TWICE);
    }
    weft_memory_free(world, memory);
    weft_comm_destroy(first);
    weft_comm_destroy(second);
}

TEST(a_work_may_run_after_one_of_another_comm)
{
    weft_log_set(WEFT_LOG_ERROR, nothing, NULL);
    ranks_as_threads(1, NULL, chained, NULL);
    ranks_both_ways(3, chained, NULL);
}

/* Works started by one thread and finished by others. */
typedef struct finisher {
    weft_work works[32];
    int count;
} finisher;

static void *finish_all(void *argument)
{
    finisher *f = argument;
    for (int i = f->count - 1; i >= 0; i--)
        CHECK_OK(weft_work_finish(f->works[i], WEFT_STREAM_HOST));
    return NULL;
}

static void finished_by_others(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comms[2] = {all_ranks(world, "a", NULL), all_ranks(world, "b", NULL)};
    for (int round = 0; round < 20; round++) {
        float values[64], sums[64];
        finisher f[2] = {{.count = 32}, {.count = 32}};
        for (int i = 0; i < 64; i++) {
            values[i] = (float)i;
            CHECK_OK(weft_all_reduce_start(comms[i % 2], &values[i], &sums[i], 1, WEFT_FP32, WEFT_SUM, WEFT_STREAM_HOST,
                                           &f[i / 32].works[i % 32]));
        }
        pthread_t threads[2];
        for (int t = 0; t < 2; t++)
            CHECK_INT(pthread_create(&threads[t], NULL, finish_all, &f[t]), 0);
        for (int t = 0; t < 2; t++)
            pthread_join(threads[t], NULL);
        for (int i = 0; i < 64; i++)
            CHECK(sums[i] == (float)(i * weft_world_size(world)));
    }
    weft_comm_destroy(comms[0]);
    weft_comm_destroy(comms[1]);
}

TEST(any_thread_may_finish)
{
    ranks_both_ways(2, finished_by_others, NULL);
}

/* A thread for each comm, all at once. */
typedef struct hammer {
    weft_comm *comm;
} hammer;

static void *hammer_main(void *argument)
{
    hammer *h = argument;
    for (int i = 0; i < 500; i++) {
        float in[300], out[300];
        for (int j = 0; j < 300; j++)
            in[j] = (float)(i + j);
        CHECK_OK(weft_all_reduce_run(h->comm, in, out, 300, WEFT_FP32, WEFT_SUM, WEFT_STREAM_HOST));
        CHECK(out[299] == (float)((i + 299) * weft_comm_size(h->comm)));
    }
    return NULL;
}

static void threads_on_comms(weft_world *world, void *argument)
{
    (void)argument;
    hammer hammers[3];
    pthread_t threads[3];
    for (int t = 0; t < 3; t++) {
        char name[16];
        snprintf(name, sizeof name, "comm %d", t);
        hammers[t].comm = all_ranks(world, name, NULL);
    }
    for (int t = 0; t < 3; t++)
        CHECK_INT(pthread_create(&threads[t], NULL, hammer_main, &hammers[t]), 0);
    for (int t = 0; t < 3; t++) {
        pthread_join(threads[t], NULL);
        weft_comm_destroy(hammers[t].comm);
    }
}

TEST(threads_may_work_on_comms_of_their_own)
{
    ranks_both_ways(2, threads_on_comms, NULL);
}
