/* SPDX-License-Identifier: Apache-2.0 */
/* Worlds that span machines, and a rank that is stopped: nobody is held up, and what it is told meanwhile is kept, but
 * takes no memory without end. */
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "between.h"
#include "control.h"

/* Ranks on a machine each. Rank 1 is stopped once it has reached stage 1, which the others hear by stage 2, and goes on
 * when they have reached stage 3. */
static void expect_all_with_one_stopped(int ranks, void (*body)(weft_world *world, void *argument))
{
    quiet();
    rank_group group = machines_start(ranks, (int[]){0, 1, 2}, NULL, body, NULL);
    stage_wait(1);
    kill(group.pid[1], SIGSTOP);
    CHECK(waitpid(group.pid[1], &group.status[1], WUNTRACED) == group.pid[1]);
    stage_reach(2);
    stage_wait(3);
    kill(group.pid[1], SIGCONT);
    ranks_expect_all(&group);
}

/* Rank 1 is stopped. What it is told meanwhile is more than its socket takes: it is kept, and heard in the end. */
static void one_is_stopped(weft_world *world, void *argument)
{
    (void)argument;
    enum { COMMS = 400 };
    int rank = weft_world_rank(world);
    weft_comm_config bad = WEFT_COMM_CONFIG_INIT;
    bad.backend = "nosuch";
    weft_comm *comm;
    if (rank == 1) {
        stage_reach(1);
        stage_wait(2); /* stopped in here */
    } else {
        stage_wait(2);
        for (int i = 0; i < COMMS; i++) {
            char name[32];
            snprintf(name, sizeof name, "refused by %d, %d", rank, i); /* a card for rank 1, each */
            CHECK_RESULT(weft_comm_create(world, name, NULL, 0, &bad, &comm), WEFT_E_NOT_FOUND);
            if (i % 40)
                continue;
            comm = comm_of(world, "others", (int[]){0, 2}, 2);
            CHECK_OK(barrier(comm));
            weft_comm_destroy(comm);
        }
        if (atomic_fetch_add(stage_counter(), 1) == 1)
            stage_reach(3);
    }
    comm = all_ranks(world, "all", NULL);
    CHECK_OK(barrier(comm));
    weft_comm_destroy(comm);
    if (rank == 1) {
        char last[32];
        snprintf(last, sizeof last, "refused by 2, %d", COMMS - 1);
        CHECK_RESULT(weft_comm_create(world, last, NULL, 0, NULL, &comm), WEFT_E_NOT_FOUND);
    }
    comm = all_ranks(world, "end", NULL);
    weft_comm_destroy(comm);
}

TEST(a_stopped_rank_holds_up_nobody_else)
{
    expect_all_with_one_stopped(3, one_is_stopped);
}

/* Rank 1 is stopped, and the comm that it is on says a hundred thousand times that it is stuck. */
static void one_repeats_itself(weft_world *world, void *argument)
{
    (void)argument;
    enum { TIMES = 100000, MOST_KB = 16 << 10 };
    weft_comm *comm = all_ranks(world, "all", NULL);
    CHECK_OK(barrier(comm));
    if (weft_world_rank(world) == 1) {
        stage_reach(1);
        stage_wait(3); /* stopped in here */
        weft__card_view card;
        CHECK(weft__board_look(world->boards[0], comm->key, comm->use->count, &card));
        while (card.terms.stuck.number != TIMES) /* the last word comes */
            CHECK(weft__board_look(world->boards[0], comm->key, comm->use->count, &card));
    } else {
        stage_wait(2);
        struct rusage before, after;
        CHECK(getrusage(RUSAGE_SELF, &before) == 0);
        for (uint64_t i = 1; i <= TIMES; i++) {
            comm->terms.stuck.number = i;
            weft__board_renew(comm->card, &comm->terms);
            weft__control_tell_card(world, comm->card, &comm->terms, comm->ranks, comm->size);
        }
        CHECK(getrusage(RUSAGE_SELF, &after) == 0);
        CHECK_MSG(after.ru_maxrss - before.ru_maxrss < MOST_KB, "%ld KiB of letters wait",
                  after.ru_maxrss - before.ru_maxrss);
        stage_reach(3);
    }
    CHECK_OK(barrier(comm));
    weft_comm_destroy(comm);
}

TEST(what_a_stopped_rank_is_told_again_and_again_takes_no_more_memory)
{
    expect_all_with_one_stopped(2, one_repeats_itself);
}
