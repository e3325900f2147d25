/* SPDX-License-Identifier: Apache-2.0 */
/* Steady steps between machines allocate and lock nothing. */
#include "harness/steady.h"
#include "host.h"

enum { STEPS = 20, ROUNDS = 3, WARM = 10, COUNT = 20000, LATE = 4 };

static void step(weft_comm *comm, float *v)
{
    int rank = weft_comm_rank(comm), ranks = weft_comm_size(comm);
    weft_work works[LATE];
    float *w = v + COUNT, *x = w + COUNT;
    weft_p2p m[] = {{WEFT_SEND, (rank + 1) % ranks, 0, WEFT_FP32, x, 3000, 0},
                    {WEFT_RECV, (rank + ranks - 1) % ranks, 0, WEFT_FP32, x + 3000, 3000, 0}};
    CHECK_OK(
        weft_reduce_scatter_start(comm, v, v + 1000 * rank, 1000, WEFT_FP32, WEFT_MAX, WEFT_STREAM_HOST, &works[0]));
    CHECK_OK(weft_all_reduce_start(comm, w, w, COUNT, WEFT_FP32, WEFT_MAX, WEFT_STREAM_HOST, &works[1]));
    CHECK_OK(start_messages(comm, m, 2, &works[2]));
    CHECK_OK(weft_all_reduce_start(comm, v, v, 3, WEFT_BF16, WEFT_MAX, WEFT_STREAM_HOST, &works[3]));
    for (int i = 0; i < LATE; i++)
        CHECK_OK(weft_work_finish(works[i], WEFT_STREAM_HOST));
}

/* What a step takes it takes in every round; a step that is a second late, on a machine that is busy, tells others so
 * in a letter, and that takes a lock. */
static void steady_steps(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm = comm_of(world, "steady", NULL, 0, "host");
    float *v = calloc(3 * COUNT, sizeof *v);
    long least_allocations = -1, least_locks = -1;
    for (int i = 0; i < WARM; i++)
        step(comm, v);
    for (int round = 0; round < ROUNDS; round++) {
        long allocations = steady_allocations(), locks = steady_locks();
        CHECK(allocations > 0 && locks > 0); /* the counting works */
        for (int i = 0; i < STEPS; i++)
            step(comm, v);
        allocations = steady_allocations() - allocations;
        locks = steady_locks() - locks;
        least_allocations = round == 0 || allocations < least_allocations ? allocations : least_allocations;
        least_locks = round == 0 || locks < least_locks ? locks : least_locks;
    }
    CHECK_INT(least_allocations, 0);
    CHECK_INT(least_locks, 0);
    free(v);
    weft_comm_destroy(comm);
}

TEST(steady_steps_between_machines_allocate_and_lock_nothing)
{
    run_on((shape){.machines = 2, .per_machine = 2}, steady_steps, NULL);
}
