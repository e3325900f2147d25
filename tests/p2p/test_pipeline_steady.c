/* SPDX-License-Identifier: Apache-2.0 */
/* A steady window allocates and locks nothing. The program is linked so that both are counted. */
#include <pthread.h>
#include <stdatomic.h>

#include "base/memory.h"
#include "trainer.h"

static _Atomic long locks, mallocs;

int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
    atomic_fetch_add(&locks, 1);
    return __real_pthread_mutex_lock(mutex);
}

void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes)
{
    atomic_fetch_add(&mallocs, 1);
    return __real_malloc(bytes);
}

static void steady_windows(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm = all_ranks(world, "steady", NULL);
    uint32_t stages = (uint32_t)weft_comm_size(comm);
    weft_schedule *s = make(WEFT_POLICY_INTERLEAVED, stages, 2 * stages, 2, 0);
    trainer t = {.count = 3000, .grad_count = 3000};
    trainer_open(&t, comm, s);
    for (int window = 0; window < 55; window++) {
        if (window == 5) { /* steady from here */
            CHECK_OK(weft_barrier_run(comm, WEFT_STREAM_HOST));
            if (t.stage == 0)
                atomic_store(&locks, 0), atomic_store(&mallocs, 0), weft__alloc_fail_at(0);
            CHECK_OK(weft_barrier_run(comm, WEFT_STREAM_HOST));
        }
        CHECK_OK(trainer_run(&t));
    }
    CHECK_OK(weft_barrier_run(comm, WEFT_STREAM_HOST));
    if (t.stage == 0) {
        CHECK_INT(atomic_load(&mallocs), 0);
        CHECK_INT(weft__alloc_count(), 0);
        CHECK_INT(atomic_load(&locks), 0);
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
