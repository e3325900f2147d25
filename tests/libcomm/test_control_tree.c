/* SPDX-License-Identifier: Apache-2.0 */
/* Worlds that span machines and have more ranks than rank 0 passes letters on to: ranks between them do, and come and
 * go like all others. */
#include <signal.h>
#include <time.h>

#include "between.h"
#include "bootstrap/tree.h"

/* With two children each: 1 stands for 1 ... 4, 5 for 5 ... 8; 2 and 3 are children of 1, 6 and 7 of 5. */
enum { RANKS = 9 };
static const int three_machines[RANKS] = {0, 1, 2, 0, 1, 2, 0, 1, 2};

static void pause_ms(int ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}, NULL);
}

static void make_and_use(weft_world *world, const char *name, const int *ranks, int count)
{
    bool is_member = false;
    for (int i = 0; i < count; i++)
        is_member |= ranks[i] == weft_world_rank(world);
    if (!is_member)
        return;
    weft_comm *comm = comm_of(world, name, ranks, count);
    CHECK_OK(barrier(comm));
    weft_comm_destroy(comm);
}

static void make_many(weft_world *world, void *argument)
{
    (void)argument;
    for (int i = 0; i < 10; i++) {
        weft_comm *all = all_ranks(world, "all", NULL);
        CHECK_OK(barrier(all));
        weft_comm_destroy(all);
        make_and_use(world, "leaves", (int[]){4, 8}, 2);
        make_and_use(world, "odd", (int[]){1, 3, 5, 7}, 4);
        make_and_use(world, "mixed", (int[]){8, 2, 5, 3}, 4);
    }
}

TEST(comms_are_made_along_a_tree)
{
    quiet();
    weft__tree_fan = 2;
    weft_world_config config = WEFT_WORLD_CONFIG_INIT;
    config.backend = "testwire";
    machines_run(RANKS, three_machines, &config, make_many, NULL);
    machines_run(RANKS, (int[RANKS]){0, 0, 0, 1, 1, 1, 2, 2, 2}, &config, make_many, NULL);
}

static void one_is_killed(weft_world *world, void *argument)
{
    int bad = *(int *)argument, rank = weft_world_rank(world), rest[RANKS], count = 0;
    for (int r = 0; r < RANKS; r++)
        if (r != bad)
            rest[count++] = r;
    weft_comm *all = all_ranks(world, "all", NULL);
    CHECK_OK(barrier(all));
    if (rank == bad) {
        stage_reach(1);
        pause_ms(100000);
    }
    char wanted[32];
    snprintf(wanted, sizeof wanted, "rank %d has ended", bad);
    CHECK_RESULT(barrier(all), WEFT_E_PEER_LOST);
    CHECK_HAS(weft_last_error(), wanted);
    for (int i = 0; i < 10; i++)
        make_and_use(world, "rest", rest, count);
    weft_comm_destroy(all);
}

static void kill_one(int bad)
{
    rank_group group = machines_start(RANKS, three_machines, NULL, one_is_killed, &bad);
    stage_wait(1);
    kill(group.pid[bad], SIGKILL);
    for (int r = 0; r < RANKS; r++)
        if (r != bad)
            ranks_expect_passed(&group, r);
    ranks_wait(&group, bad);
}

TEST(the_others_go_on_without_who_passed_on_letters)
{
    quiet();
    weft__tree_fan = 2;
    kill_one(1); /* who has children, */
    kill_one(7); /* and who has none, or one */
}

static void one_aborts(weft_world *world, void *argument)
{
    int bad = *(int *)argument;
    weft_comm *comm = all_ranks(world, "aborted", NULL), *other = all_ranks(world, "other", NULL);
    if (weft_world_rank(world) == bad)
        CHECK_OK(weft_comm_abort_because(comm, "of the weather"));
    weft_result result = WEFT_OK;
    while (result == WEFT_OK)
        result = barrier(comm);
    CHECK_INT(result, WEFT_E_ABORTED);
    CHECK_HAS(weft_last_error(), "of the weather");
    weft_comm_destroy(comm);
    CHECK_OK(barrier(other));
    weft_comm_destroy(other);
}

TEST(a_verdict_reaches_all_of_the_tree)
{
    quiet();
    weft__tree_fan = 2;
    for (int bad = 0; bad < RANKS; bad += 4)
        machines_run(RANKS, three_machines, NULL, one_aborts, &bad);
}

/* Those between close their worlds first, and stay for those below. */
static void leaves_stay(weft_world *world, void *argument)
{
    (void)argument;
    if (weft_world_rank(world) != 4 && weft_world_rank(world) != 8)
        return;
    for (int i = 0; i < 20; i++) {
        make_and_use(world, "late", (int[]){4, 8}, 2);
        pause_ms(2);
    }
}

TEST(ranks_stay_for_those_they_pass_letters_on_to)
{
    quiet();
    weft__tree_fan = 2;
    machines_run(RANKS, three_machines, NULL, leaves_stay, NULL);
}
