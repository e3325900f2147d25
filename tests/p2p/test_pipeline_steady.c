/* SPDX-License-Identifier: Apache-2.0 */
/* A steady window allocates and locks nothing. */
#include "harness/steady.h"
#include "trainer.h"

static void steady_windows(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm = all_ranks(world, "steady", NULL);
    uint32_t stages = (uint32_t)weft_comm_size(comm);
    weft_schedule *s = make(WEFT_POLICY_INTERLEAVED, stages, 2 * stages, 2, 0);
    trainer t = {.count = 3000, .grad_count = 3000};
    trainer_open(&t, comm, s);
    long allocations = 0, locks = 0;
    for (int window = 0; window < 55; window++) {
        if (window == 5) { /* steady from here */
            CHECK_OK(weft_barrier_run(comm, WEFT_STREAM_HOST));
            allocations = steady_allocations(), locks = steady_locks();
            CHECK(allocations > 0 && locks > 0); /* the counting works */
            CHECK_OK(weft_barrier_run(comm, WEFT_STREAM_HOST));
        }
        CHECK_OK(trainer_run(&t));
    }
    CHECK_OK(weft_barrier_run(comm, WEFT_STREAM_HOST));
    if (t.stage == 0) {
        CHECK_INT(steady_allocations() - allocations, 0);
        CHECK_INT(steady_locks() - locks, 0);
    }
    CHECK_OK(weft_barrier_run(comm, WEFT_STREAM_HOST));
    trainer_close(&t);
    weft_schedule_destroy(s);
    weft_comm_destroy(comm);
}

TEST(fifty_steady_windows_allocate_and_lock_nothing)
{
    ranks_as_threads(1, NULL, steady_windows, NULL);
    ranks_as_threads(2, NULL, steady_windows, NULL);
    ranks_as_threads(4, NULL, steady_windows, NULL);
}
