/* SPDX-License-Identifier: Apache-2.0 */
/* Worlds that span machines: their ranks make comms, differ, come late and close in every order. What goes wrong in
 * them is in test_control_fail.c. */
#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#include "harness/machines.h"
#include "world.h"

/* Anything that is an error in the log fails the test: for those in which nothing goes wrong. */
static void on_error(void *cookie, weft_log_level level, const char *line)
{
    (void)cookie;
    if (level == WEFT_LOG_ERROR)
        FAIL("logged: %s", line);
}

static void strict(void)
{
    weft_log_set(WEFT_LOG_ERROR, on_error, NULL);
}

static void pause_ms(int ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}, NULL);
}

static weft_result make(weft_world *world, const char *name, const int *ranks, int count, weft_comm **comm_out)
{
    return weft_comm_create(world, name, ranks, count, NULL, comm_out);
}

/* Every member says @p mine + 1000 * its world rank, and hears all. */
static void exchange(weft_world *world, weft_comm *comm, int mine)
{
    double in = mine + 1000 * weft_world_rank(world), out[MACHINE_RANKS];
    CHECK_OK(weft_all_gather_run(comm, &in, out, 1, WEFT_FP64, WEFT_STREAM_HOST));
    for (int i = 0; i < weft_comm_size(comm); i++)
        CHECK_INT(out[i], mine + 1000 * weft_comm_world_rank(comm, i));
}

/* ------------------------------------------------------------------------------------------- who is where */

static void look_around(weft_world *world, void *argument)
{
    const int *machine_of = argument;
    int rank = weft_world_rank(world);
    for (int r = 0; r < weft_world_size(world); r++) {
        CHECK_INT(world->segments[r] != NULL, machine_of[r] == machine_of[rank]);
        CHECK_INT(weft_world_host(world, r), machine_of[r]);
    }
    weft_comm *all = all_ranks(world, "all", NULL);
    CHECK_STR(weft_comm_backend(all), "testwire");
    exchange(world, all, 7);
    weft_comm_destroy(all);
}

TEST(ranks_of_several_machines_make_one_world)
{
    strict();
    machines_run(2, (int[]){0, 1}, NULL, look_around, (int[]){0, 1});
    machines_run(3, (int[]){0, 1, 2}, NULL, look_around, (int[]){0, 1, 2});
    machines_run(5, (int[]){0, 1, 0, 2, 1}, NULL, look_around, (int[]){0, 1, 0, 2, 1});
}

/* ------------------------------------------------------------------------------------------- comms */

static const int two_and_three[] = {0, 1, 0, 2, 1}; /* ranks 0 and 2, 1 and 4 share a machine; 3 is alone */

static bool has(const int *ranks, int count, int rank)
{
    for (int i = 0; i < count; i++)
        if (ranks[i] == rank)
            return true;
    return false;
}

/* If this rank is one of them. */
static void make_and_use(weft_world *world, const char *name, const int *ranks, int count, const char *backend)
{
    if (!has(ranks, count, weft_world_rank(world)))
        return;
    weft_comm *comm;
    CHECK_OK(make(world, name, ranks, count, &comm));
    CHECK_STR(weft_comm_backend(comm), backend);
    if (strcmp(backend, "testwire") == 0)
        exchange(world, comm, count);
    else
        CHECK_OK(weft_barrier_run(comm, WEFT_STREAM_HOST));
    weft_comm_destroy(comm);
}

static void all_kinds(weft_world *world, void *argument)
{
    (void)argument;
    make_and_use(world, "across", (int[]){0, 1}, 2, "testwire");
    make_and_use(world, "across without rank 0", (int[]){4, 3}, 2, "testwire");
    make_and_use(world, "inside", (int[]){0, 2}, 2, "local");
    make_and_use(world, "inside the other", (int[]){4, 1}, 2, "local");
    make_and_use(world, "mixed", (int[]){4, 2, 1, 3}, 4, "testwire");
    for (int i = 0; i < 50; i++) /* the same name again and again, */
        make_and_use(world, "again", (int[]){0, 1, 2, 3, 4}, 5, "testwire");
    for (int i = 0; i < 20; i++) { /* and for other ranks */
        make_and_use(world, "again", (int[]){3, 1, 2}, 3, "testwire");
        make_and_use(world, "again", (int[]){1, 2, 3}, 3, "testwire");
        make_and_use(world, "again", (int[]){0, 4}, 2, "testwire");
    }
}

TEST(comms_are_made_across_machines_and_inside_them)
{
    strict();
    machines_run(5, two_and_three, NULL, all_kinds, NULL);
}

/* Two halves each: even ranks finish the comms in their order, odd ones in the other. */
static void many_at_once(weft_world *world, void *argument)
{
    int count = *(int *)argument, rank = weft_world_rank(world);
    weft_comm *comms[64];
    for (int i = 0; i < count; i++) {
        int which = rank % 2 ? count - 1 - i : i;
        char name[16];
        snprintf(name, sizeof name, "c%d", which);
        CHECK_OK(weft_comm_create_start(world, name, NULL, 0, NULL, &comms[which]));
    }
    for (int i = 0; i < count; i++)
        CHECK_OK(weft_comm_create_finish(comms[rank % 2 ? i : count - 1 - i]));
    for (int i = 0; i < count; i++)
        exchange(world, comms[i], i);
    for (int i = 0; i < count; i++)
        weft_comm_destroy(comms[i]);
}

TEST(comms_are_made_in_any_order)
{
    strict();
    machines_run(3, (int[]){0, 1, 1}, NULL, many_at_once, &(int){2});
    machines_run(4, (int[]){0, 1, 1, 2}, NULL, many_at_once, &(int){64});
}

/* ------------------------------------------------------------------------------------------- differences */

static void configs_differ(weft_world *world, void *argument)
{
    int odd = *(int *)argument, rank = weft_world_rank(world);
    weft_comm_config config = WEFT_COMM_CONFIG_INIT;
    config.p2p_channels = rank == odd ? 3 : 4;
    weft_comm *comm;
    CHECK_RESULT(weft_comm_create(world, "channels", NULL, 0, &config, &comm), WEFT_E_MISMATCH);
    CHECK(comm == NULL);
    CHECK_HAS(weft_last_error(), "p2p_channels");
    char name[16];
    snprintf(name, sizeof name, "rank %d", odd);
    CHECK_HAS(weft_last_error(), name);
    comm = all_ranks(world, "channels", NULL);
    exchange(world, comm, 1);
    weft_comm_destroy(comm);
}

TEST(members_that_ask_for_different_things_are_named_everywhere)
{
    quiet();
    for (int odd = 0; odd < 4; odd++)
        machines_run(4, (int[]){0, 1, 1, 0}, NULL, configs_differ, &odd);
}

static void lists_differ(weft_world *world, void *argument)
{
    (void)argument;
    int rank = weft_world_rank(world);
    weft_comm *comm;
    CHECK_RESULT(make(world, "order", rank ? (int[]){1, 0} : (int[]){0, 1}, 2, &comm), WEFT_E_MISMATCH);
    CHECK_HAS(weft_last_error(), "0, 1");
    CHECK_HAS(weft_last_error(), "1, 0");
    comm = all_ranks(world, "next", NULL);
    exchange(world, comm, 1);
    weft_comm_destroy(comm);
}

TEST(members_that_list_different_ranks_are_named)
{
    quiet();
    machines_run(2, (int[]){0, 1}, NULL, lists_differ, NULL);
}

/* ------------------------------------------------------------------------------------------- giving up */

static void one_refuses(weft_world *world, void *argument)
{
    int who = *(int *)argument, rank = weft_world_rank(world);
    weft_comm_config config = WEFT_COMM_CONFIG_INIT;
    weft_comm *comm;
    config.backend = rank == who ? "nosuch" : NULL;
    CHECK_RESULT(weft_comm_create(world, "refused", NULL, 0, &config, &comm), WEFT_E_NOT_FOUND);
    CHECK_HAS(weft_last_error(), "there is no backend 'nosuch'");
    if (rank != who) {
        char teller[32];
        snprintf(teller, sizeof teller, "told by rank %d", who);
        CHECK_HAS(weft_last_error(), "comm refused");
        CHECK(strstr(weft_last_error(), teller) || strstr(weft_last_error(), "told by rank "));
    }
    comm = all_ranks(world, "refused", NULL);
    exchange(world, comm, 2);
    weft_comm_destroy(comm);
}

TEST(a_refusal_is_told_on_all_machines)
{
    quiet();
    for (int who = 0; who < 4; who++)
        machines_run(4, (int[]){0, 1, 1, 0}, NULL, one_refuses, &who);
}

/* It may give up before the others look at its card, or when they have connected already. */
static void one_gives_up(weft_world *world, void *argument)
{
    int who = *(int *)argument, rank = weft_world_rank(world);
    weft_comm *comm;
    CHECK_OK(weft_comm_create_start(world, "given up", NULL, 0, NULL, &comm));
    if (rank != who) {
        char wanted[48];
        snprintf(wanted, sizeof wanted, "rank %d gave up making it", who);
        weft_result result = weft_comm_create_finish(comm);
        if (result == WEFT_OK)
            result = weft_barrier_run(comm, WEFT_STREAM_HOST);
        CHECK_INT(result, WEFT_E_ABORTED);
        CHECK_HAS(weft_last_error(), wanted);
    }
    weft_comm_destroy(comm);
    comm = all_ranks(world, "next", NULL);
    exchange(world, comm, 2);
    weft_comm_destroy(comm);
}

TEST(a_member_that_gives_up_is_named_on_all_machines)
{
    quiet();
    for (int who = 0; who < 3; who++)
        machines_run(3, (int[]){0, 1, 1}, NULL, one_gives_up, &who);
}

static void one_does_not_come(weft_world *world, void *argument)
{
    int who = *(int *)argument, rank = weft_world_rank(world), size = weft_world_size(world);
    weft_comm *comm;
    if (rank != who) {
        char wanted[32];
        snprintf(wanted, sizeof wanted, "missing: %d", who);
        CHECK_RESULT(make(world, "lonely", NULL, 0, &comm), WEFT_E_TIMEOUT);
        CHECK_HAS(weft_last_error(), wanted);
        atomic_fetch_add(stage_counter(), 1);
    } else {
        while (atomic_load(stage_counter()) < size - 1)
            pause_ms(1);
    }
}

TEST(a_member_of_another_machine_that_does_not_come_is_named)
{
    quiet();
    weft_world_config config = WEFT_WORLD_CONFIG_INIT;
    config.rendezvous_timeout_ms = 800;
    for (int who = 0; who < 2; who++)
        machines_run(3, (int[]){0, 1, 1}, &config, one_does_not_come, &who);
}

/* Rank 0 has tried this comm, and so many others since that nothing of that can be seen any more. Its second attempt is
 * the first one that rank 1 hears of. */
static void one_is_ahead(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm_config config = WEFT_COMM_CONFIG_INIT;
    config.backend = "nosuch";
    weft_comm *comm;
    for (int i = 0; i < 300 && weft_world_rank(world) == 0; i++) {
        char name[16];
        snprintf(name, sizeof name, "c%d", i);
        CHECK_RESULT(weft_comm_create(world, name, NULL, 0, &config, &comm), WEFT_E_NOT_FOUND);
    }
    comm = all_ranks(world, "all that was before has been heard of", NULL);
    weft_comm_destroy(comm);
    for (int i = 0; i < 2; i++) {
        comm = all_ranks(world, "c0", NULL);
        exchange(world, comm, i);
        weft_comm_destroy(comm);
    }
}

TEST(a_member_that_has_tried_before_is_met_all_the_same)
{
    quiet();
    machines_run(3, (int[]){0, 1, 1}, NULL, one_is_ahead, NULL);
}

/* ------------------------------------------------------------------------------------------- closing */

static void close_in_turn(weft_world *world, void *argument)
{
    const int *order = argument; /* order[rank]: when it closes its world */
    weft_comm *comm = all_ranks(world, "all", NULL);
    exchange(world, comm, 0);
    weft_comm_destroy(comm);
    int turn = order[weft_world_rank(world)];
    while (atomic_load(stage_counter()) < turn)
        pause_ms(1);
    pause_ms(10); /* the one before is on its way; any moment is right */
    atomic_fetch_add(stage_counter(), 1);
}

TEST(worlds_are_closed_in_any_order)
{
    strict();
    static int orders[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {2, 0, 1}, {1, 2, 0}, {2, 1, 0}};
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++)
        machines_run(3, (int[]){0, 1, i % 2 ? 1 : 2}, NULL, close_in_turn, orders[i]);
}

/* Rank 0 has nothing more to do while the others still make comms: it stays, and passes on. */
static void rank_0_goes_first(weft_world *world, void *argument)
{
    (void)argument;
    if (weft_world_rank(world) == 0)
        return;
    for (int i = 0; i < 30; i++) {
        weft_comm *comm;
        CHECK_OK(make(world, "without 0", (int[]){1, 2}, 2, &comm));
        exchange(world, comm, i);
        weft_comm_destroy(comm);
        pause_ms(2);
    }
    weft_comm *comm;
    CHECK_RESULT(make(world, "with 0", NULL, 0, &comm), WEFT_E_PEER_LOST);
    CHECK_HAS(weft_last_error(), "rank 0 has ended");
}

TEST(rank_0_stays_while_others_make_comms)
{
    quiet();
    machines_run(3, (int[]){0, 1, 2}, NULL, rank_0_goes_first, NULL);
    machines_run(3, (int[]){0, 0, 2}, NULL, rank_0_goes_first, NULL);
}

/* Not for ever: who still makes comms after that is told why it cannot. */
static void rank_0_has_gone(weft_world *world, void *argument)
{
    pid_t *root = argument;
    int rank = weft_world_rank(world);
    weft_comm *comm, *kept = NULL;
    if (rank == 0) {
        atomic_store((_Atomic pid_t *)root, 0);
        return;
    }
    CHECK_OK(make(world, "kept", (int[]){1, 2}, 2, &kept));
    stage_wait(1); /* its process has ended */
    exchange(world, kept, 1);
    weft_result result = WEFT_OK;
    while ((result = make(world, "late", (int[]){1, 2}, 2, &comm)) == WEFT_OK) { /* until the end was heard of */
        weft_comm_destroy(comm);
        pause_ms(5);
    }
    CHECK_INT(result, WEFT_E_PEER_LOST);
    CHECK_HAS(weft_last_error(), "is on another machine, and rank 0, which passes on what it says, has ended");
    exchange(world, kept, 2);
    CHECK_OK(weft_comm_error(kept, NULL, 0));
    weft_comm_destroy(kept);
}

TEST(comms_go_on_when_rank_0_has_gone)
{
    quiet();
    pid_t root;
    weft_world_config config = WEFT_WORLD_CONFIG_INIT;
    config.rendezvous_timeout_ms = 4000; /* that long it stays */
    rank_group group = machines_start(3, (int[]){0, 1, 2}, &config, rank_0_has_gone, &root);
    ranks_expect_passed(&group, 0);
    stage_reach(1);
    ranks_expect_passed(&group, 1);
    ranks_expect_passed(&group, 2);
}

/* ------------------------------------------------------------------------------------------- idleness */

static double cpu_s(void)
{
    struct rusage use;
    CHECK(getrusage(RUSAGE_SELF, &use) == 0);
    return (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
           (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) * 1e-6;
}

static void does_nothing(weft_world *world, void *argument)
{
    (void)argument;
    if (weft_world_rank(world) == 2)
        return; /* a closed link must not keep rank 0 awake */
    weft_comm *comm;
    CHECK_OK(make(world, "idle", (int[]){0, 1}, 2, &comm));
    exchange(world, comm, 1);
    double begin = cpu_s();
    pause_ms(300);
    CHECK_MSG(cpu_s() - begin < 0.1, "%.3f s of 0.3 s", cpu_s() - begin);
    exchange(world, comm, 1);
    weft_comm_destroy(comm);
}

TEST(an_idle_world_uses_no_processor)
{
    strict();
    machines_run(3, (int[]){0, 1, 1}, NULL, does_nothing, NULL);
}
