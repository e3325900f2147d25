/* SPDX-License-Identifier: Apache-2.0 */
/* Works: started once, finished once, in any order and from any thread. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "harness/ranks.h"
#include "work.h"

static void pause_ms(int ms)
{
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000L}, NULL);
}

/* A value is a place and a life: both come back, wherever a machine puts its memory. */
TEST(a_value_has_room_for_addresses_of_48_bits)
{
    static const uint64_t ends[] = {1ull << 30, 1ull << 47, 1ull << 48};
    static const uint64_t generations[] = {1, 12345678, (1ull << WEFT__WORK_GENERATION_BITS) - 1};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        for (size_t k = 0; k < sizeof generations / sizeof *generations; k++) {
            uint64_t last = ends[i] - WEFT__WORK_ALIGN;
            weft_work work = weft__work_pack(last, generations[k]);
            CHECK(work.value != 0);
            CHECK(weft__work_fits(ends[i]));
            CHECK(weft__work_address(work) == last);
            CHECK(weft__work_generation(work) == generations[k]);
        }
    CHECK(!weft__work_fits((1ull << 48) + 1));
    CHECK(!weft__work_fits(1ull << 52));
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

TEST(a_stale_work_is_refused_and_touches_nothing)
{
    quiet();
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
        CHECK_HAS(weft_last_error(), "64 works were started and not finished, the oldest all_reduce 1 on comm held: "
                                     "finish one first");
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
    quiet();
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
    quiet();
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

/* ---- works that run after others ---- */

/* A comm that does all at once keeps its order too: the second copy is of what the first one brings, once the peer of
 * the work that it waits for has come. */
static void in_order(weft_world *world, void *argument)
{
    (void)argument;
    int rank = weft_world_rank(world);
    weft_comm *pair = all_ranks(world, "pair", NULL), *own;
    CHECK_OK(weft_comm_create(world, rank ? "own 1" : "own 0", &rank, 1, NULL, &own));
    for (int round = 0; round < 20; round++) {
        float one = 1, two, a = (float)round + 1, b = -1, c = -1;
        weft_work first, second, third;
        if (rank == round % 2)
            pause_ms(2);
        CHECK_OK(weft_all_reduce_start(pair, &one, &two, 1, WEFT_FP32, WEFT_SUM, WEFT_STREAM_HOST, &first));
        weft_collective copy = WEFT_COLLECTIVE_INIT;
        copy.kind = WEFT_ALL_REDUCE;
        copy.count = 1;
        copy.send = &a;
        copy.recv = &b;
        copy.after = first;
        CHECK_OK(weft_collective_start(own, &copy, WEFT_STREAM_HOST, &second));
        CHECK_OK(weft_all_reduce_start(own, &b, &c, 1, WEFT_FP32, WEFT_SUM, WEFT_STREAM_HOST, &third));
        CHECK_OK(weft_work_finish(third, WEFT_STREAM_HOST));
        CHECK(c == a);
        CHECK_OK(weft_work_finish(second, WEFT_STREAM_HOST));
        CHECK_OK(weft_work_finish(first, WEFT_STREAM_HOST));
        CHECK_OK(weft_all_reduce_run(own, &a, &c, 1, WEFT_FP32, WEFT_SUM, WEFT_STREAM_HOST));
    }
    weft_comm_destroy(own);
    weft_comm_destroy(pair);
}

TEST(what_is_done_at_once_keeps_its_order_too)
{
    ranks_both_ways(2, in_order, NULL);
}

/* One thread starts works after one that another thread finishes at the same time. */
typedef struct tug {
    weft_comm *comm;
    _Atomic uint64_t value;
    _Atomic int round;
} tug;

static void *finish_at_once(void *argument)
{
    tug *t = argument;
    for (int round = 1;; round++) {
        while (atomic_load(&t->round) < round)
            ;
        weft_work work = {atomic_load(&t->value)};
        if (!work.value)
            return NULL;
        CHECK_OK(weft_work_finish(work, WEFT_STREAM_HOST));
        atomic_store(&t->round, -round);
    }
}

static void pull(weft_world *world, void *argument)
{
    (void)argument;
    enum { ROUNDS = 3000, SLOTS = 64 };
    weft_comm *first = all_ranks(world, "first", NULL), *second = all_ranks(world, "second", NULL);
    weft_comm *comms[] = {first, second};
    tug t = {.comm = first};
    pthread_t thread;
    CHECK_INT(pthread_create(&thread, NULL, finish_at_once, &t), 0);
    int held = 0;
    for (int round = 1; round <= ROUNDS; round++) {
        weft_work work, after;
        weft_collective barrier = WEFT_COLLECTIVE_INIT;
        barrier.kind = WEFT_BARRIER;
        CHECK_OK(weft_barrier_start(first, WEFT_STREAM_HOST, &work));
        barrier.after = work;
        atomic_store(&t.value, work.value);
        atomic_store(&t.round, round);
        for (int i = 0; i < round % 40; i++)
            atomic_load(&t.value);
        weft_result result = weft_collective_start(second, &barrier, WEFT_STREAM_HOST, &after);
        CHECK(result == WEFT_OK || result == WEFT_E_TWICE);
        held += result == WEFT_OK;
        if (result == WEFT_OK)
            CHECK_OK(weft_work_finish(after, WEFT_STREAM_HOST));
        while (atomic_load(&t.round) != -round)
            ;
    }
    atomic_store(&t.value, 0);
    atomic_store(&t.round, ROUNDS + 1);
    pthread_join(thread, NULL);
    test_note("%d of %d were held in time", held, ROUNDS);
    for (int c = 0; c < 2; c++) { /* every slot is free again, once */
        weft_work works[SLOTS], one_more;
        for (int i = 0; i < SLOTS; i++)
            CHECK_OK(weft_barrier_start(comms[c], WEFT_STREAM_HOST, &works[i]));
        CHECK_RESULT(weft_barrier_start(comms[c], WEFT_STREAM_HOST, &one_more), WEFT_E_BUSY);
        for (int i = 0; i < SLOTS; i++)
            CHECK_OK(weft_work_finish(works[i], WEFT_STREAM_HOST));
    }
    weft_comm_destroy(first);
    weft_comm_destroy(second);
}

TEST(who_runs_after_a_work_and_who_finishes_it_do_not_hurt_each_other)
{
    quiet();
    ranks_as_threads(1, NULL, pull, NULL);
}

/* A work waits behind another one for a work that was finished and whose comm is gone; its slot is used again. */
static void gone_meanwhile(weft_world *world, void *argument)
{
    (void)argument;
    int rank = weft_world_rank(world);
    weft_comm *late = all_ranks(world, "late", NULL), *queue = all_ranks(world, "queue", NULL);
    for (int round = 0; round < 20; round++) {
        weft_comm *gone = all_ranks(world, "gone", NULL);
        weft_work first, second, behind, waits;
        weft_collective barrier = WEFT_COLLECTIVE_INIT;
        barrier.kind = WEFT_BARRIER;
        if (rank == 0)
            CHECK_OK(weft_barrier_start(late, WEFT_STREAM_HOST, &first));
        CHECK_OK(weft_barrier_start(gone, WEFT_STREAM_HOST, &second));
        if (rank == 0) {
            barrier.after = first;
            CHECK_OK(weft_collective_start(queue, &barrier, WEFT_STREAM_HOST, &behind));
            barrier.after = second;
            CHECK_OK(weft_collective_start(queue, &barrier, WEFT_STREAM_HOST, &waits));
        }
        CHECK_OK(weft_work_finish(second, WEFT_STREAM_HOST));
        weft_comm_destroy(gone);
        gone = all_ranks(world, "again", NULL);
        weft_work many[64];
        for (int i = 0; i < 64; i++)
            CHECK_OK(weft_barrier_start(gone, WEFT_STREAM_HOST, &many[i]));
        if (rank == 1) {
            CHECK_OK(weft_barrier_run(late, WEFT_STREAM_HOST));
            CHECK_OK(weft_barrier_start(queue, WEFT_STREAM_HOST, &behind));
            CHECK_OK(weft_barrier_start(queue, WEFT_STREAM_HOST, &waits));
        } else {
            CHECK_OK(weft_work_finish(first, WEFT_STREAM_HOST));
        }
        CHECK_OK(weft_work_finish(waits, WEFT_STREAM_HOST));
        CHECK_OK(weft_work_finish(behind, WEFT_STREAM_HOST));
        for (int i = 0; i < 64; i++)
            CHECK_OK(weft_work_finish(many[i], WEFT_STREAM_HOST));
        weft_comm_destroy(gone);
    }
    weft_comm_destroy(late);
    weft_comm_destroy(queue);
}

TEST(a_work_may_wait_for_one_whose_comm_is_gone)
{
    ranks_both_ways(2, gone_meanwhile, NULL);
}

/* What was to run after an unfinished work of a comm that is destroyed, or aborted, or its own, ends; the rest goes
 * on. */
static void let_go(weft_world *world, void *argument)
{
    const bool *abort_own = argument;
    int rank = weft_world_rank(world);
    weft_comm *slow = all_ranks(world, "slow", NULL), *waits = all_ranks(world, "waits", NULL),
              *other = all_ranks(world, "other", NULL);
    weft_work first, second;
    if (rank == 0) {
        weft_collective barrier = WEFT_COLLECTIVE_INIT;
        barrier.kind = WEFT_BARRIER;
        CHECK_OK(weft_barrier_start(slow, WEFT_STREAM_HOST, &first));
        barrier.after = first;
        CHECK_OK(weft_collective_start(waits, &barrier, WEFT_STREAM_HOST, &second));
        if (*abort_own)
            CHECK_OK(weft_comm_abort(waits));
        else
            weft_comm_destroy(slow);
        CHECK_RESULT(weft_work_finish(second, WEFT_STREAM_HOST), WEFT_E_ABORTED);
    }
    CHECK_OK(weft_barrier_run(other, WEFT_STREAM_HOST));
    if (*abort_own && rank == 0)
        CHECK_OK(weft_work_finish(first, WEFT_STREAM_HOST));
    else if (*abort_own)
        CHECK_OK(weft_barrier_run(slow, WEFT_STREAM_HOST));
    if (*abort_own || rank == 1)
        weft_comm_destroy(slow);
    weft_comm_destroy(waits);
    weft_comm_destroy(other);
}

TEST(what_waits_for_a_work_is_let_go_when_either_comm_ends)
{
    quiet();
    for (int i = 0; i < 2; i++)
        ranks_both_ways(2, let_go, &(bool){i == 1});
}

/* A comm that is always busy does not keep another from its deadline. */
typedef struct busy {
    weft_comm *comm;
    _Atomic bool done;
} busy;

static void *be_busy(void *argument)
{
    busy *b = argument;
    float in, sum;
    do {
        in = atomic_load(&b->done) ? 0 : 1;
        CHECK_OK(weft_all_reduce_run(b->comm, &in, &sum, 1, WEFT_FP32, WEFT_MIN, WEFT_STREAM_HOST));
    } while (sum > 0);
    return NULL;
}

static void late_while_busy(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm_config config = WEFT_COMM_CONFIG_INIT;
    config.timeout_ms = 300;
    weft_comm *silent = all_ranks(world, "silent", &config);
    busy b = {.comm = all_ranks(world, "busy", NULL)};
    pthread_t thread;
    CHECK_INT(pthread_create(&thread, NULL, be_busy, &b), 0);
    if (weft_world_rank(world) == 0) {
        CHECK_RESULT(weft_barrier_run(silent, WEFT_STREAM_HOST), WEFT_E_TIMEOUT);
        atomic_store(&b.done, true);
    }
    pthread_join(thread, NULL);
    weft_comm_destroy(silent);
    weft_comm_destroy(b.comm);
}

TEST(a_deadline_passes_though_other_comms_are_busy)
{
    quiet();
    ranks_both_ways(2, late_while_busy, NULL);
}
