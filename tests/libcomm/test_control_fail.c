/* SPDX-License-Identifier: Apache-2.0 */
/* Worlds that span machines in trouble: ranks give up, die, or have no memory. Whoever has to do with them is told, by
 * name; the others go on. */
#include <signal.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"
#include "between.h"
#include "control.h"
#include "seat.h"
#include "watchdog.h"

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

/* ------------------------------------------------------------------------------------------- abort */

typedef struct who {
    int rank, size;
} who;

/* The others make a comm with it, or wait for it in an operation. Who comes later is told as well. */
static void one_aborts_the_world(weft_world *world, void *argument)
{
    int bad = *(int *)argument, rank = weft_world_rank(world);
    weft_comm *used = all_ranks(world, "used", NULL), *made;
    CHECK_OK(barrier(used));
    if (rank == bad) {
        while (atomic_load(stage_counter()) < 3) /* all are on their way */
            pause_ms(1);
        CHECK_OK(weft_world_abort(world, WEFT_E_NO_MEMORY, "no room for layer 7"));
        weft_comm_destroy(used);
        return;
    }
    weft_comm *half;
    CHECK_OK(weft_comm_create_start(world, "made", NULL, 0, NULL, &half));
    atomic_fetch_add(stage_counter(), 1);
    if (rank % 2) {
        CHECK_RESULT(weft_comm_create_finish(half), WEFT_E_NO_MEMORY);
        CHECK_HAS(weft_last_error(), "no room for layer 7");
    }
    CHECK_RESULT(barrier(used), WEFT_E_NO_MEMORY);
    CHECK_HAS(weft_last_error(), "no room for layer 7");
    CHECK_RESULT(weft_comm_create(world, "late", (int[]){bad, rank}, 2, NULL, &made), WEFT_E_NO_MEMORY);
    CHECK_HAS(weft_last_error(), "no room for layer 7");
    weft_comm_destroy(used);
    if (atomic_fetch_add(stage_counter(), 1) == 5)
        stage_reach(1);
    stage_wait(1); /* else it would be named by those who look at it first */
    weft_comm_destroy(half);
}

TEST(a_world_that_is_aborted_ends_all_machines)
{
    quiet();
    for (int bad = 0; bad < 4; bad++)
        machines_run(4, two_and_two, NULL, one_aborts_the_world, &bad);
}

/* The one that aborts destroys the comm at once, so that there is hardly a moment at which the comm has just failed. */
static void one_aborts_a_comm(weft_world *world, void *argument)
{
    int bad = *(int *)argument;
    for (int i = 0; i < 10; i++) {
        weft_comm *comm = all_ranks(world, "aborted", NULL);
        weft_comm *other = all_ranks(world, "other", NULL);
        if (weft_world_rank(world) == bad) {
            pause_ms(i % 3);
            CHECK_OK(weft_comm_abort_because(comm, "of the weather"));
        } else {
            double begin = now_s();
            CHECK_RESULT(barrier(comm), WEFT_E_ABORTED);
            CHECK_HAS(weft_last_error(), "of the weather");
            CHECK(now_s() - begin < 5);
        }
        weft_comm_destroy(comm);
        CHECK_OK(barrier(other));
        weft_comm_destroy(other);
    }
}

TEST(a_comm_that_is_aborted_ends_on_all_machines)
{
    quiet();
    for (int bad = 0; bad < 4; bad++)
        machines_run(4, two_and_two, NULL, one_aborts_a_comm, &bad);
}

/* ------------------------------------------------------------------------------------------- death */

/* All wait for it; those that have nothing to do with it go on, and make new comms while rank 0 lives. */
static void one_is_killed(weft_world *world, void *argument)
{
    const who *bad = argument;
    int rank = weft_world_rank(world), rest[4], count = 0;
    for (int r = 0; r < 4; r++)
        if (r != bad->rank)
            rest[count++] = r;
    weft_comm *all = all_ranks(world, "all", NULL), *fresh = all_ranks(world, "fresh", NULL);
    weft_comm *survivors = rank == bad->rank ? NULL : comm_of(world, "survivors", rest, count);
    CHECK_OK(barrier(all));
    if (rank == bad->rank) {
        stage_reach(1);
        pause_ms(100000);
    }
    char wanted[32];
    snprintf(wanted, sizeof wanted, "rank %d has ended", bad->rank);
    double begin = now_s();
    CHECK_RESULT(barrier(all), WEFT_E_PEER_LOST);
    CHECK_HAS(weft_last_error(), wanted);
    CHECK_RESULT(barrier(fresh), WEFT_E_PEER_LOST);
    CHECK(now_s() - begin < 10);
    for (int i = 0; i < 20; i++)
        CHECK_OK(barrier(survivors));
    weft_comm *never;
    CHECK_RESULT(weft_comm_create(world, "never", NULL, 0, NULL, &never), WEFT_E_PEER_LOST);
    CHECK_HAS(weft_last_error(), "has ended");
    if (bad->rank != 0) {
        weft_comm *later = comm_of(world, "later", rest, count);
        CHECK_OK(barrier(later));
        weft_comm_destroy(later);
    } else if (rank == 1 || rank == 2) { /* of one machine: nobody needs to pass on anything */
        weft_comm *later = comm_of(world, "later", (int[]){2, 1}, 2);
        CHECK_OK(barrier(later));
        weft_comm_destroy(later);
    }
    CHECK_OK(barrier(survivors));
    CHECK_OK(weft_comm_error(survivors, NULL, 0));
    weft_comm_destroy(all);
    weft_comm_destroy(fresh);
    weft_comm_destroy(survivors);
}

static void kill_one(int rank)
{
    who bad = {rank, 4};
    rank_group group = machines_start(4, two_and_two, NULL, one_is_killed, &bad);
    stage_wait(1);
    kill(group.pid[rank], SIGKILL);
    for (int r = 0; r < 4; r++)
        if (r != rank)
            ranks_expect_passed(&group, r);
    ranks_wait(&group, rank);
}

TEST(a_rank_that_is_killed_is_named_on_all_machines)
{
    quiet();
    kill_one(1);
    kill_one(3);
}

TEST(rank_0_may_be_killed_too)
{
    quiet();
    kill_one(0);
}

/* Its child holds what it had open, and lives on. */
static void parent_is_killed(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm = all_ranks(world, "all", NULL);
    CHECK_OK(barrier(comm));
    if (weft_world_rank(world) == 1) {
        if (fork() == 0) {
            stage_reach(1);
            pause_ms(100000);
        }
        pause_ms(100000);
    }
    CHECK_RESULT(barrier(comm), WEFT_E_PEER_LOST);
    CHECK_HAS(weft_last_error(), "rank 1 has ended");
    weft_comm_destroy(comm);
}

TEST(a_killed_rank_whose_child_lives_on_is_named)
{
    quiet();
    rank_group group = machines_start(3, (int[]){0, 1, 2}, NULL, parent_is_killed, NULL);
    stage_wait(1);
    kill(group.pid[1], SIGKILL);
    ranks_expect_passed(&group, 0);
    ranks_expect_passed(&group, 2);
}

/* ------------------------------------------------------------------------------------------- what has changed */

/* Whoever says why a comm failed is looked at once for each comm, and nobody else is. */
static void one_says_why(weft_world *world, void *argument)
{
    (void)argument;
    int rank = weft_world_rank(world);
    weft_comm *kept = all_ranks(world, "kept", NULL), *bad = all_ranks(world, "bad", NULL);
    CHECK_OK(barrier(kept));
    CHECK_INT(world->reasons, 0);
    CHECK_OK(barrier(kept));
    if (rank == 2)
        CHECK_OK(weft_comm_abort(bad));
    while (barrier(bad) == WEFT_OK)
        ;
    while (rank != 2 && !atomic_load(&world->boards[2]->reasons))
        pause_ms(1);
    CHECK_OK(barrier(kept));
    weft__progress_enter(world);
    for (int round = 0; round < 2; round++) { /* it is noticed, and counts in the next one */
        (void)weft__seat_once(world);
        weft__watchdog_carry_out(world);
    }
    CHECK_INT(world->reasons, rank != 2); /* the others do not tell what they were told */
    for (int r = 0; r < 3; r++) {
        CHECK_INT(world->said[r].count, r != rank && r == 2);
        CHECK(world->said[r].last <= kept->reasons);
    }
    weft__progress_leave(world);
    weft_comm_destroy(bad);
    weft_comm_destroy(kept);
}

TEST(only_who_has_said_why_is_looked_at)
{
    quiet();
    machines_run(3, (int[]){0, 1, 2}, NULL, one_says_why, NULL);
}

/* ------------------------------------------------------------------------------------------- want of memory */

typedef struct want {
    int rank;
    long number; /* of the allocation that fails */
} want;

static void open_without_memory(const weft_world_config *config, void *argument)
{
    const want *w = argument;
    bool bad = config->rank == w->rank;
    weft__alloc_fail_at(bad ? w->number : 0);
    weft_world *world;
    weft_result result = weft_world_open(config, &world);
    if (bad && weft__alloc_count() < w->number && result == WEFT_OK)
        stage_reach(1); /* all that there is has failed */
    weft__alloc_fail_at(0);
    CHECK(result == WEFT_OK || result == WEFT_E_NO_MEMORY || result == WEFT_E_TIMEOUT || result == WEFT_E_PEER_LOST);
    if (result == WEFT_OK)
        atomic_fetch_add(stage_counter(), 1);
    weft_world_close(world);
}

/* All have a world in the end, or none. True: they have, and want was not met. */
static bool opens(const want *w, uint32_t timeout_ms, int *opened_out)
{
    weft_world_config config = WEFT_WORLD_CONFIG_INIT;
    config.rendezvous_timeout_ms = timeout_ms;
    config.heap_bytes = 1 << 20;
    want copy = *w;
    rank_group group = machines_fork(3, (int[]){0, 1, 1}, &config, open_without_memory, &copy);
    ranks_expect_all(&group);
    *opened_out = atomic_load(stage_counter());
    return stage_has_come(1);
}

/* Who has no memory to tell the others lets them wait, so the time is short; a machine that is busy may need more. */
enum { SOON_MS = 400, LATE_MS = 20000 };

TEST(want_of_memory_on_one_rank_ends_the_opening_on_all_machines)
{
    quiet();
    for (int rank = 0; rank < 2; rank++) {
        bool all = false;
        for (long number = 1; !all; number++) {
            want w = {rank, number};
            int opened;
            all = opens(&w, SOON_MS, &opened);
            if (opened != 0 && opened != 3)
                all = opens(&w, LATE_MS, &opened);
            CHECK_MSG(opened == 0 || opened == 3, "allocation %ld of rank %d: %d ranks have a world", number, rank,
                      opened);
            CHECK(!all || opened == 3);
        }
    }
}
