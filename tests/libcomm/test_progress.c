/* SPDX-License-Identifier: Apache-2.0 */
/* The seat and the engine: operations go on while callers compute, nobody's wake is lost, and a steady step allocates
 * and locks nothing. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "harness/ranks.h"
#include "harness/steady.h"
#include "world.h"

static void compute_ms(double ms)
{
    uint64_t end = weft__now_ns() + (uint64_t)(ms * 1e6);
    while (weft__now_ns() < end)
        ;
}

/* ------------------------------------------------------------------------------------------- asking */

static _Thread_local int yields;

int __real_sched_yield(void);
int __wrap_sched_yield(void);
int __wrap_sched_yield(void)
{
    yields++;
    return __real_sched_yield();
}

/* Rank 0 asks for a barrier that rank 1 comes to when it has asked. */
static void asks_again_and_again(weft_world *world, void *argument)
{
    enum { TIMES = 10 };
    _Atomic int *asked = argument;
    weft_comm *comm = all_ranks(world, "asked for", NULL);
    for (int crowded = 0; crowded < 2; crowded++) {
        if (weft_world_rank(world) == 1) {
            ranks_await(asked, 1);
            CHECK_OK(weft_barrier_run(comm, WEFT_STREAM_HOST));
            continue;
        }
        weft_work work;
        CHECK_OK(weft_barrier_start(comm, WEFT_STREAM_HOST, &work));
        world->progress.crowded = crowded;
        yields = 0;
        for (int i = 0; i < TIMES; i++)
            CHECK_INT(weft_work_test(work), WEFT_PENDING);
        CHECK_INT(yields, crowded ? TIMES : 0);
        atomic_fetch_add(asked, 1);
        CHECK_OK(weft_work_finish(work, WEFT_STREAM_HOST));
        yields = 0;
        CHECK_RESULT(weft_work_test(work), WEFT_E_TWICE);
        CHECK_INT(yields, 0);
    }
    weft_comm_destroy(comm);
}

TEST(who_asks_again_and_again_lets_others_run_where_cores_are_few)
{
    ranks_as_threads(2, NULL, asks_again_and_again, ranks_counter());
}

/* ------------------------------------------------------------------------------------------- the engine */

/* Rank 0 starts, computes without a call, and finds the operation done by its engine; the peers come late, so that
 * there was nothing to do at the start. */
static void engine_carries_on(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm = all_ranks(world, "engine", NULL), *other = all_ranks(world, "other", NULL);
    enum { COUNT = 300000 };
    void *memory;
    CHECK_OK(weft_memory_alloc(world, COUNT * 4, &memory));
    /* Where nobody waits for this rank, it may be told of the end as late as when its engine looks round: once a
     * second. That is tried once. */
    for (int i = 0; i < 10; i++) {
        int watched = i == 0 ? 3 : 1;
        weft_work a, b, c;
        if (weft_world_rank(world) != 0)
            compute_ms(5);
        CHECK_OK(weft_all_reduce_start(comm, memory, memory, COUNT, WEFT_FP32, WEFT_SUM, WEFT_STREAM_HOST, &a));
        CHECK_OK(weft_barrier_start(comm, WEFT_STREAM_HOST, &b));
        CHECK_OK(weft_barrier_start(other, WEFT_STREAM_HOST, &c));
        weft__work *works[] = {weft__work_find(a), weft__work_find(b), weft__work_find(c)};
        uint64_t limit = weft__now_ns() + 10000000000u;
        for (int k = 0; k < watched; k++)
            while (!weft__work_ended(works[k])) /* no call of weft: this looks at memory only */
                CHECK_MSG(weft__now_ns() < limit, "work %d did not go on while its caller computed", k);
        CHECK_OK(weft_work_finish(a, WEFT_STREAM_HOST));
        CHECK_OK(weft_work_finish(b, WEFT_STREAM_HOST));
        CHECK_OK(weft_work_finish(c, WEFT_STREAM_HOST));
    }
    CHECK_INT(atomic_load(&world->progress.lost_wakes), 0);
    weft_memory_free(world, memory);
    weft_comm_destroy(comm);
    weft_comm_destroy(other);
}

TEST(operations_go_on_while_the_caller_computes)
{
    ranks_both_ways(2, engine_carries_on, NULL);
    ranks_both_ways(4, engine_carries_on, NULL);
}

/* Callers that come back again and again with small operations are left to move a large one along, and then they stay
 * away; or each small one ends at once, so that nobody ever waits in the seat. */
static void return_often(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *large = all_ranks(world, "large", NULL), *small = all_ranks(world, "small", NULL);
    enum { TIMES = 5 };
    size_t count = test_is_slow() ? 1 << 18 : 4 << 20;
    int rank = weft_world_rank(world), expected = 0;
    float number = 1, *memory;
    CHECK_OK(weft_memory_alloc(world, sizeof(float) * count, (void **)&memory));
    for (int i = 0; i < TIMES; i++) {
        weft_work work;
        CHECK_OK(weft_all_reduce_start(large, memory, memory, count, WEFT_FP32, WEFT_MAX, WEFT_STREAM_HOST, &work));
        const weft__work *slot = weft__work_find(work);
        for (int k = 0; k < 50 && i > 0; k++) {
            if (i % 2)
                CHECK_OK(weft_all_reduce_run(small, &number, &number, 1, WEFT_FP32, WEFT_MAX, WEFT_STREAM_HOST));
            else if (rank == 0)
                CHECK_OK(run_messages(small, &(weft_p2p){WEFT_SEND, 1, 0, WEFT_FP32, &number, 1, 0}, 1));
            else if (rank == 1)
                CHECK_OK(run_messages(small, &(weft_p2p){WEFT_RECV, 0, 0, WEFT_FP32, &number, 1, 0}, 1));
        }
        expected += world->progress.callers_return;
        uint64_t limit = weft__now_ns() + 10000000000u;
        while (__atomic_load_n(&slot->op.result, __ATOMIC_ACQUIRE) == WEFT_PENDING) /* no call of weft */
            CHECK_MSG(weft__now_ns() < limit, "the large operation was left alone");
        CHECK_OK(weft_work_finish(work, WEFT_STREAM_HOST));
    }
    CHECK_OK(weft_barrier_run(small, WEFT_STREAM_HOST));
    if (rank == 0)
        test_note("callers were expected in %d of %d rounds", expected, TIMES);
    CHECK_INT(atomic_load(&world->progress.lost_wakes), 0);
    weft_memory_free(world, memory);
    weft_comm_destroy(small);
    weft_comm_destroy(large);
}

TEST(what_callers_who_return_leave_behind_goes_on)
{
    ranks_both_ways(2, return_often, NULL);
    ranks_as_processes(4, NULL, return_often, NULL);
}

/* As long as they return they move it along, so that it ends before they do. */
static void return_until_it_has_ended(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *large = all_ranks(world, "large", NULL), *small = all_ranks(world, "small", NULL);
    enum { COUNT = 4 << 20 };
    int rank = weft_world_rank(world);
    float ended = 0, *memory;
    weft_work work;
    CHECK_OK(weft_memory_alloc(world, sizeof(float) * COUNT, (void **)&memory));
    CHECK_OK(weft_all_reduce_start(large, memory, memory, COUNT, WEFT_FP32, WEFT_MAX, WEFT_STREAM_HOST, &work));
    weft__work *slot = weft__work_find(work);
    uint64_t limit = weft__now_ns() + 10000000000u;
    while (ended == 0) { /* only such as end at once but for the last look */
        for (int k = 0; k < 100 && rank == 0; k++)
            CHECK_OK(run_messages(small, &(weft_p2p){WEFT_SEND, 1, 0, WEFT_FP32, &ended, 1, 0}, 1));
        for (int k = 0; k < 100 && rank == 1; k++)
            CHECK_OK(run_messages(small, &(weft_p2p){WEFT_RECV, 0, 0, WEFT_FP32, &ended, 1, 0}, 1));
        ended = weft__work_ended(slot);
        CHECK_OK(weft_all_reduce_run(small, &ended, &ended, 1, WEFT_FP32, WEFT_MIN, WEFT_STREAM_HOST));
        CHECK_MSG(weft__now_ns() < limit, "callers return, and the large operation does not go on");
    }
    CHECK_OK(weft_work_finish(work, WEFT_STREAM_HOST));
    weft_memory_free(world, memory);
    weft_comm_destroy(small);
    weft_comm_destroy(large);
}

TEST(callers_who_return_move_along_what_nobody_waits_for)
{
    ranks_both_ways(2, return_until_it_has_ended, NULL);
}

/* The slot of a work that has ended may live again at once, written by a thread that is not in the seat. */
static void leave_alone(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm = all_ranks(world, "alone", NULL);
    for (int i = 0; i < 100; i++) {
        weft_work work;
        CHECK_OK(weft_barrier_start(comm, WEFT_STREAM_HOST, &work));
        const weft__work *slot = weft__work_find(work);
        CHECK_OK(weft_work_finish(work, WEFT_STREAM_HOST));
        CHECK(!atomic_load(&slot->taken_up));
    }
    weft_comm_destroy(comm);
}

TEST(the_watchdog_leaves_works_that_have_ended_alone)
{
    ranks_both_ways(2, leave_alone, NULL);
}

/* ------------------------------------------------------------------------------------------- sleeping */

static void bind_to_first_core(void)
{
    cpu_set_t allowed, one;
    CPU_ZERO(&one);
    CHECK(sched_getaffinity(0, sizeof allowed, &allowed) == 0);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &allowed)) {
            CPU_SET(cpu, &one);
            break;
        }
    CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
}

/* Every wait goes to sleep at once. Small and large operations, on ranks that share a core or not. */
static void sleep_often(weft_world *world, void *argument)
{
    const int *how = argument;
    if (how[1])
        bind_to_first_core();
    weft_comm *comm = all_ranks(world, "sleep", NULL);
    world->progress.yields = 0;
    world->progress.spin_ticks = 0;
    float in[2] = {1, 2}, out[2];
    for (int i = 0; i < how[0]; i++)
        CHECK_OK(weft_all_reduce_run(comm, in, out, 2, WEFT_FP32, WEFT_SUM, WEFT_STREAM_HOST));
    if (weft_world_rank(world) == 0)
        test_note("%llu sleeps in %d operations", (unsigned long long)atomic_load(&world->progress.sleeps), how[0]);
    CHECK_INT(atomic_load(&world->progress.lost_wakes), 0);
    weft_comm_destroy(comm);
}

TEST_LIMIT(no_wake_is_lost_in_a_million_sleeps, 300)
{
    int alone[2] = {100000, 0}, together[2] = {450000, 1};
    if (test_is_slow())
        alone[0] = together[0] = 20000;
    ranks_as_processes(2, NULL, sleep_often, alone);
    ranks_as_threads(2, NULL, sleep_often, together);
    ranks_as_processes(2, NULL, sleep_often, together);
}

/* A thread that leaves the seat looks round for the last time, and is held up there. Meanwhile a peer publishes,
 * rings, and the engine wakes, finds the seat taken and sleeps again. Who leaves must notice, or nobody does for a
 * second. */
static struct {
    weft_world *world; /* of the rank that is held up */
    pthread_t caller;
    weft_backend table; /* what it has for its backend */
    unsigned (*progress)(void *state, uint64_t slice_ticks);
    _Atomic int wants, open; /* the round in which to be held up; and that it is */
} trap;

static unsigned held_up(void *state, uint64_t slice_ticks)
{
    unsigned answer = trap.progress(state, slice_ticks);
    int round = atomic_load(&trap.wants);
    bool last_look = atomic_load(&trap.world->own->header->asleep) == WEFT__ENGINE_SLEEPS;
    if (round > atomic_load(&trap.open) && last_look && pthread_equal(pthread_self(), trap.caller)) {
        atomic_store(&trap.open, round);
        compute_ms(5);
    }
    return answer;
}

static void publish_into_the_gap(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm = all_ranks(world, "gap", NULL);
    enum { COUNT = 300000, ROUNDS = 10 };
    void *memory;
    CHECK_OK(weft_memory_alloc(world, COUNT * 4, &memory));
    if (weft_world_rank(world) == 0) {
        trap.world = world;
        trap.caller = pthread_self();
        for (int i = 0; i < world->backend_count; i++) {
            weft__backend_instance *b = &world->backends[i];
            if (strcmp(b->table->name, "local") != 0)
                continue;
            trap.progress = b->table->progress;
            trap.table = *b->table;
            trap.table.progress = held_up;
            b->table = &trap.table;
        }
    }
    for (int round = 1; round <= ROUNDS; round++) {
        weft_work work;
        if (weft_world_rank(world) == 0)
            atomic_store(&trap.wants, round);
        else
            while (atomic_load(&trap.open) < round)
                ;
        CHECK_OK(weft_all_reduce_start(comm, memory, memory, COUNT, WEFT_FP32, WEFT_SUM, WEFT_STREAM_HOST, &work));
        while (weft_world_rank(world) == 0 && atomic_load(&trap.open) < round) /* the engine was in the seat */
            CHECK(weft_work_test(work) == WEFT_PENDING);
        while (!weft__work_ended(weft__work_find(work)))
            sched_yield(); /* no call of weft */
        CHECK_OK(weft_work_finish(work, WEFT_STREAM_HOST));
    }
    CHECK_INT(atomic_load(&trap.open), ROUNDS);
    CHECK_INT(atomic_load(&world->progress.lost_wakes), 0);
    weft_memory_free(world, memory);
    weft_comm_destroy(comm);
}

TEST(no_wake_is_lost_while_the_seat_is_left)
{
    ranks_as_threads(2, NULL, publish_into_the_gap, NULL);
}

/* Operations of every kind, small and large, out of memory that others reach and out of memory they do not. */
static void sleep_in_everything(weft_world *world, void *argument)
{
    int rounds = *(const int *)argument;
    weft_comm *comm = all_ranks(world, "all", NULL);
    world->progress.yields = 0;
    world->progress.spin_ticks = 0;
    enum { LARGE = 40000, RANKS = 3 };
    int rank = weft_world_rank(world);
    void *heap;
    CHECK_OK(weft_memory_alloc(world, sizeof(float) * 2 * RANKS * LARGE, &heap));
    float *plain = calloc(2 * RANKS * LARGE, sizeof *plain);
    for (int i = 0; i < rounds; i++) {
        weft_collective c = WEFT_COLLECTIVE_INIT;
        float *memory = (i >> 1 & 1) ^ (i % 5 == rank) ? plain : heap;
        c.count = i & 1 ? LARGE : 3;
        c.kind = (weft_collective_kind)(i % WEFT_COLLECTIVE_KINDS);
        c.root = i % RANKS;
        c.send = memory;
        c.recv = c.kind == WEFT_ALL_TO_ALL && i & 4 ? memory : memory + RANKS * LARGE;
        c.reduction = WEFT_MAX;
        CHECK_OK(weft_collective_run(comm, &c, WEFT_STREAM_HOST));
        for (int k = 0; k < 20 && i % 10 == 0; k++) /* the root comes to wait for a slot */
            CHECK_OK(weft_broadcast_run(comm, memory, memory, 3, WEFT_FP32, i % RANKS, WEFT_STREAM_HOST));
        weft_p2p m[] = {{WEFT_SEND, (rank + 1) % RANKS, 0, WEFT_FP32, memory, c.count, 0},
                        {WEFT_RECV, (rank + RANKS - 1) % RANKS, 0, WEFT_FP32, memory + LARGE, c.count, 0}};
        CHECK_OK(run_messages(comm, m, 2));
        for (int k = 0; k < 40 && i % 10 == 0; k++) /* and a sender for its lane */
            if (rank < 2)
                CHECK_OK(run_messages(
                    comm, &(weft_p2p){rank ? WEFT_RECV : WEFT_SEND, !rank, 1, WEFT_FP32, plain, 900, 0}, 1));
    }
    CHECK_OK(weft_barrier_run(comm, WEFT_STREAM_HOST));
    CHECK_INT(atomic_load(&world->progress.lost_wakes), 0);
    free(plain);
    weft_memory_free(world, heap);
    weft_comm_destroy(comm);
}

TEST(no_wake_is_lost_in_operations_of_any_kind)
{
    int rounds = test_is_slow() ? 300 : 3000;
    ranks_both_ways(3, sleep_in_everything, &rounds);
}

/* ------------------------------------------------------------------------------------------- waking */

static _Atomic long rings;
void __real_weft__segment_ring(const weft__segment *segment, uint32_t who);
void __wrap_weft__segment_ring(const weft__segment *segment, uint32_t who);
void __wrap_weft__segment_ring(const weft__segment *segment, uint32_t who)
{
    atomic_fetch_add(&rings, 1);
    __real_weft__segment_ring(segment, who);
}

/* The ranks come one after the other, each asleep when the next one comes. */
static void come_one_by_one(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm = all_ranks(world, "queue", NULL);
    int rank = weft_world_rank(world), ranks = weft_world_size(world);
    world->progress.yields = 0;
    world->progress.spin_ticks = 0;
    enum { TIMES = 20 };
    float in[2] = {1, 2}, out[2 * 8];
    CHECK_OK(weft_barrier_run(comm, WEFT_STREAM_HOST));
    compute_ms(20);
    long before = atomic_load(&rings);
    for (int i = 0; i < TIMES; i++) {
        usleep((useconds_t)rank * 3000);
        if (i % 3 == 0)
            CHECK_OK(weft_barrier_run(comm, WEFT_STREAM_HOST));
        else if (i % 3 == 1)
            CHECK_OK(weft_all_reduce_run(comm, in, out, 2, WEFT_FP32, WEFT_SUM, WEFT_STREAM_HOST));
        else
            CHECK_OK(weft_all_gather_run(comm, in, out, 2, WEFT_FP32, WEFT_STREAM_HOST));
    }
    if (rank == ranks - 1) { /* the last one of all: nobody rings any more for these */
        long rung = atomic_load(&rings) - before;
        CHECK_MSG(rung <= TIMES * (ranks - 1), "%d operations of %d ranks rang %ld bells", TIMES, ranks, rung);
        test_note("%d operations of %d ranks rang %ld bells", TIMES, ranks, rung);
    }
    CHECK_OK(weft_barrier_run(comm, WEFT_STREAM_HOST));
    CHECK_INT(atomic_load(&world->progress.lost_wakes), 0);
    weft_comm_destroy(comm);
}

TEST(a_small_operation_rings_each_sleeper_once_at_most)
{
    ranks_as_threads(4, NULL, come_one_by_one, NULL);
}

/* ------------------------------------------------------------------------------------------- hot paths */

/* Over that backend. */
static void steady_steps(weft_world *world, void *argument)
{
    weft_comm_config config = WEFT_COMM_CONFIG_INIT;
    config.backend = argument;
    weft_comm *comm = all_ranks(world, "steady", &config), *second = all_ranks(world, "second", &config);
    int rank = weft_world_rank(world), ranks = weft_world_size(world);
    void *memory;
    CHECK_OK(weft_memory_alloc(world, 2 << 20, &memory));
    weft_comm *both[2] = {comm, second};
    long allocations = 0, locks = 0;
    for (int step = 0; step < 110; step++) {
        if (step == 10) { /* steady from here */
            CHECK_OK(weft_barrier_run(comm, WEFT_STREAM_HOST));
            allocations = steady_allocations(), locks = steady_locks();
            CHECK(allocations > 0 && locks > 0); /* the counting works */
            CHECK_OK(weft_barrier_run(comm, WEFT_STREAM_HOST));
        }
        weft_work works[8];
        for (int k = 0; k < 2; k++) {
            float *v = (float *)memory + k * 250000, *w = v + 100000;
            CHECK_OK(weft_reduce_scatter_start(both[k], v, v + 1000 * rank, 1000, WEFT_FP32, WEFT_MAX, WEFT_STREAM_HOST,
                                               &works[k]));
            CHECK_OK(weft_all_reduce_start(both[k], w, w, 40000, WEFT_FP32, WEFT_MAX, WEFT_STREAM_HOST, &works[2 + k]));
            weft_p2p m[] = {{WEFT_SEND, (rank + 1) % ranks, 0, WEFT_FP32, v + 20000, 3000, 0},
                            {WEFT_RECV, (rank + ranks - 1) % ranks, 0, WEFT_FP32, v + 30000, 3000, 0}};
            CHECK_OK(start_messages(both[k], m, 2, &works[4 + k]));
            CHECK_OK(weft_all_reduce_start(both[k], v, v, 3, WEFT_FP32, WEFT_MAX, WEFT_STREAM_HOST, &works[6 + k]));
            uint64_t span = weft_span_begin(world, 0, (uint64_t)step);
            compute_ms(0.02);
            weft_span_end(world, span);
        }
        for (int k = 0; k < 8; k++)
            CHECK_OK(weft_work_finish(works[k], WEFT_STREAM_HOST));
    }
    CHECK_OK(weft_barrier_run(comm, WEFT_STREAM_HOST));
    if (rank == 0) {
        CHECK_INT(steady_allocations() - allocations, 0);
        CHECK_INT(steady_locks() - locks, 0);
    }
    CHECK_OK(weft_barrier_run(comm, WEFT_STREAM_HOST));
    weft_memory_free(world, memory);
    weft_comm_destroy(comm);
    weft_comm_destroy(second);
}

TEST(a_hundred_steady_steps_allocate_and_lock_nothing)
{
    ranks_as_threads(2, NULL, steady_steps, "local");
    ranks_as_threads(4, NULL, steady_steps, "local");
}

TEST(a_hundred_steady_steps_over_sockets_allocate_and_lock_nothing)
{
    ranks_as_threads(2, NULL, steady_steps, "tcp");
    ranks_as_threads(4, NULL, steady_steps, "tcp");
}
