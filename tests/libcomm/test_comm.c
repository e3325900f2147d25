/* SPDX-License-Identifier: Apache-2.0 */
/* Making comms: names that are used again, by the same ranks or by others, after success or in vain, and aborts on the
 * way. */
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "harness/ranks.h"
#include "world.h"

static void pause_ms(int ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}, NULL);
}

/* The sum of the world ranks of the members. */
static void check_sum(weft_comm *comm)
{
    int32_t sum = weft_comm_world_rank(comm, weft_comm_rank(comm)), want = 0;
    for (int i = 0; i < weft_comm_size(comm); i++)
        want += weft_comm_world_rank(comm, i);
    CHECK_OK(weft_all_reduce_run(comm, &sum, &sum, 1, WEFT_INT32, WEFT_SUM, WEFT_STREAM_HOST));
    CHECK_INT(sum, want);
}

/* ---- all ranks ---- */

static void all_of_them(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm, *none;
    CHECK_OK(weft_comm_create(world, "all", NULL, 0, NULL, &comm));
    CHECK_INT(weft_comm_size(comm), weft_world_size(world));
    CHECK_INT(weft_comm_rank(comm), weft_world_rank(world));
    check_sum(comm);
    weft_comm_destroy(comm);
    CHECK_RESULT(weft_comm_create(world, "none", NULL, 1, NULL, &none), WEFT_E_INVALID);
    CHECK_RESULT(weft_comm_create(world, "none", (int[]){0}, 0, NULL, &none), WEFT_E_INVALID);
}

TEST(without_a_list_a_comm_has_all_ranks)
{
    quiet();
    ranks_as_threads(1, NULL, all_of_them, NULL);
    ranks_both_ways(3, all_of_them, NULL);
}

/* ---- names ---- */

/* Every pair of four ranks makes "pair" in turn, some more often than others. */
static void pairs_in_turn(weft_world *world, void *argument)
{
    (void)argument;
    int rank = weft_world_rank(world);
    for (int i = 0; i < 40; i++) {
        int a = i % 4, b = (a + 1 + i / 4 % 3) % 4, pair[2] = {a, b};
        if (rank != a && rank != b)
            continue;
        weft_comm *comm;
        CHECK_OK(weft_comm_create(world, "pair", pair, 2, NULL, &comm));
        check_sum(comm);
        weft_comm_destroy(comm);
    }
}

TEST(a_name_may_be_used_by_one_set_of_ranks_after_another)
{
    ranks_both_ways(4, pairs_in_turn, NULL);
}

static int names_kept(const weft_world *world)
{
    int count = 0;
    for (const weft__name_use *use = world->names; use; use = use->next)
        count++;
    return count;
}

/* Ranks 0 and 1 have forgotten names by the time at which all make comms of such names again; rank 2 has not. */
static void many_names(weft_world *world, void *argument)
{
    (void)argument;
    enum { NAMES = 700, ROUNDS = 3 };
    char name[16];
    weft_comm *comm, *kept;
    for (int round = 0; round < ROUNDS; round++) {
        CHECK_OK(weft_comm_create(world, "kept", NULL, 0, NULL, &kept));
        for (int n = 0; n < NAMES; n++) {
            snprintf(name, sizeof name, "name %d", n);
            if (weft_world_rank(world) == 2)
                break;
            CHECK_OK(weft_comm_create(world, name, (int[]){0, 1}, 2, NULL, &comm));
            weft_comm_destroy(comm);
        }
        CHECK_MSG(names_kept(world) <= NAMES / 2, "%d names are kept", names_kept(world));
        for (int n = 0; n < NAMES; n += 100) {
            snprintf(name, sizeof name, "name %d", n);
            CHECK_OK(weft_comm_create(world, name, NULL, 0, NULL, &comm));
            check_sum(comm);
            weft_comm_destroy(comm);
        }
        check_sum(kept);
        CHECK_RESULT(weft_comm_create(world, "kept", NULL, 0, NULL, &comm), WEFT_E_INVALID);
        weft_comm_destroy(kept);
    }
}

TEST(names_are_forgotten_when_there_are_too_many)
{
    quiet();
    ranks_both_ways(3, many_names, NULL);
}

/* Rank 1 fails to come twice, for reasons that the others do not see; then all come. */
static void in_vain(weft_world *world, void *argument)
{
    int timeout_ms = *(int *)argument, rank = weft_world_rank(world);
    weft_comm *comm;
    for (int i = 0; i < 2 && rank != 1; i++) {
        CHECK_RESULT(weft_comm_create(world, "vain", NULL, 0, NULL, &comm), WEFT_E_TIMEOUT);
        CHECK_HAS(weft_last_error(), "missing: 1");
    }
    if (rank == 1) {
        pause_ms(2 * timeout_ms + 200);
        CHECK_RESULT(weft_comm_create(world, "vain", (int[]){0, 9}, 2, NULL, &comm), WEFT_E_RANGE);
    }
    weft_result result;
    do { /* ranks may have given up just when the others came */
        result = weft_comm_create(world, "vain", NULL, 0, NULL, &comm);
    } while (result == WEFT_E_TIMEOUT);
    CHECK_OK(result);
    check_sum(comm);
    weft_comm_destroy(comm);
}

TEST(ranks_that_have_tried_in_vain_meet_when_all_come)
{
    quiet();
    weft_world_config config = WEFT_WORLD_CONFIG_INIT;
    int timeout_ms = test_is_slow() ? 1500 : 300;
    config.rendezvous_timeout_ms = (uint32_t)timeout_ms;
    ranks_as_threads(3, &config, in_vain, &timeout_ms);
    ranks_as_processes(3, &config, in_vain, &timeout_ms);
}

/* A rank may make and destroy a comm before the others have looked. */
static void hasty(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm;
    for (int i = 0; i < 300; i++) {
        CHECK_OK(weft_comm_create(world, "hasty", NULL, 0, NULL, &comm));
        weft_comm_destroy(comm);
    }
}

TEST(a_comm_that_others_have_left_already_is_still_made)
{
    ranks_both_ways(3, hasty, NULL);
}

/* More comms than there are cards, one after another and never made by all. */
static void give_up_often(weft_world *world, void *argument)
{
    (void)argument;
    if (weft_world_rank(world) == 0)
        for (int i = 0; i < 600; i++) {
            char name[32];
            weft_comm *comm;
            snprintf(name, sizeof name, "given up %d", i);
            CHECK_OK(weft_comm_create_start(world, name, NULL, 0, NULL, &comm));
            weft_comm_destroy(comm);
        }
    check_sum(all_ranks(world, "made", NULL));
    weft_comm *late;
    if (weft_world_rank(world) == 1) {
        CHECK_RESULT(weft_comm_create(world, "given up 599", NULL, 0, NULL, &late), WEFT_E_ABORTED);
        CHECK_HAS(weft_last_error(), "rank 0 gave up making it");
    }
}

TEST(what_was_given_up_makes_room_and_is_told_to_those_who_come_late)
{
    quiet();
    ranks_both_ways(2, give_up_often, NULL);
}

/* What went wrong is still said when what it went wrong on has been cleared away. */
static void clear_away(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm = all_ranks(world, "cleared", NULL), *left = all_ranks(world, "left", NULL);
    weft_work work;
    if (weft_world_rank(world) == 0)
        CHECK_OK(weft_barrier_start(left, WEFT_STREAM_HOST, &work));
    float v = 0;
    CHECK_RESULT(weft_broadcast_run(comm, &v, &v, 1, WEFT_FP32, 9, WEFT_STREAM_HOST), WEFT_E_RANGE);
    char said[512];
    snprintf(said, sizeof said, "%s", weft_last_error());
    CHECK_HAS(said, "cleared");
    CHECK_OK(weft_barrier_run(comm, WEFT_STREAM_HOST)); /* the other has been told so, too */
    CHECK_OK(weft_comm_abort(comm));
    CHECK_STR(weft_last_error(), said);
    weft_comm_destroy(comm);
    weft_comm_destroy(left); /* with a work in flight on rank 0 */
    CHECK_STR(weft_last_error(), said);
}

TEST(an_error_is_still_said_when_its_comm_is_gone)
{
    quiet();
    ranks_both_ways(2, clear_away, NULL);
}

/* ---- aborts on the way ---- */

typedef struct abort_case {
    bool world; /* else the comm */
} abort_case;

/* Rank 1 does not come; rank 0 waits for it, and is told at once of what rank 1 says or its own other thread. */
static void aborted_on_the_way(weft_world *world, void *argument)
{
    const abort_case *how = argument;
    int rank = weft_world_rank(world);
    weft_comm *comm;
    if (rank == 1) {
        pause_ms(100);
        if (how->world)
            CHECK_OK(weft_world_abort(world, WEFT_E_NO_MEMORY, "rank 1 has no room for its plans"));
        return;
    }
    CHECK_OK(weft_comm_create_start(world, "way", (int[]){0, 1}, 2, NULL, &comm));
    if (!how->world)
        CHECK_OK(weft_comm_abort(comm));
    uint64_t begin = weft__now_ns();
    CHECK_RESULT(weft_comm_create_finish(comm), how->world ? WEFT_E_NO_MEMORY : WEFT_E_ABORTED);
    CHECK_HAS(weft_last_error(), how->world ? "no room for its plans" : "aborted by rank 0");
    CHECK(weft__now_ns() - begin < 20000000000u); /* the deadline is two minutes */
    weft_comm_destroy(comm);
}

TEST(an_abort_reaches_those_who_are_making_a_comm)
{
    quiet();
    for (int i = 0; i < 2; i++)
        ranks_both_ways(2, aborted_on_the_way, &(abort_case){.world = i});
}

/* Rank 1 gives up once more, for another reason, after rank 0 has heard of the first. Who begins later hears nothing of
 * what was before. */
static void aborted_again(weft_world *world, void *argument)
{
    static const struct {
        weft_result result;
        const char *why;
    } aborts[] = {{WEFT_E_NO_MEMORY, "no room for its plans"}, {WEFT_E_NO_DEVICE, "its device is gone"}};
    int rank = weft_world_rank(world), made = 0;
    (void)argument;
    weft_comm *gate = all_ranks(world, "gate", NULL), *comm;
    for (int i = 0; i < 2; i++) {
        CHECK_OK(weft_barrier_run(gate, WEFT_STREAM_HOST));
        if (rank == 1) {
            pause_ms(100);
            CHECK_OK(weft_world_abort(world, aborts[i].result, aborts[i].why));
        } else {
            uint64_t begin = weft__now_ns();
            CHECK_RESULT(weft_comm_create(world, "again", NULL, 0, NULL, &comm), aborts[i].result);
            CHECK_HAS(weft_last_error(), aborts[i].why);
            CHECK(weft__now_ns() - begin < 20000000000u); /* the deadline is two minutes */
        }
        weft_comm_destroy(gate); /* it has failed too */
        gate = all_ranks(world, "gate", NULL);
        CHECK_OK(weft_broadcast_run(gate, &made, &made, 1, WEFT_INT32, 0, WEFT_STREAM_HOST));
    }
    weft_comm_destroy(gate);
}

TEST(each_abort_of_a_world_reaches_those_who_are_making_a_comm)
{
    quiet();
    ranks_both_ways(2, aborted_again, NULL);
}

/* Rank 0 begins to make a comm, posts what it has to say, and is no more. The others come later. */
enum how { DIES, LEAVES, ABORTS_WORLD, ABORTS_COMM };

static void ended_on_the_way(weft_world *world, void *argument)
{
    const enum how *how = argument;
    weft_comm *comm, *gate = all_ranks(world, "gate", NULL);
    if (weft_world_rank(world) == 0) {
        CHECK_OK(weft_comm_create_start(world, "ended", NULL, 0, NULL, &comm));
        CHECK_OK(weft_barrier_run(gate, WEFT_STREAM_HOST));
        pause_ms(100); /* the others have begun, or are about to */
        if (*how == DIES)
            raise(SIGKILL);
        if (*how == LEAVES)
            exit(0);
        if (*how == ABORTS_WORLD)
            CHECK_OK(weft_world_abort(world, WEFT_E_NO_DEVICE, "no device for rank 0"));
        if (*how == ABORTS_COMM)
            CHECK_OK(weft_comm_abort(comm));
        pause_ms(2000); /* alive, and not destroying what it began */
        weft_comm_destroy(comm);
        weft_comm_destroy(gate);
        return;
    }
    CHECK_OK(weft_barrier_run(gate, WEFT_STREAM_HOST));
    pause_ms(weft_world_rank(world) == 1 ? 300 : 0);
    uint64_t begin = weft__now_ns();
    weft_result result = weft_comm_create(world, "ended", NULL, 0, NULL, &comm);
    if (result == WEFT_OK)
        result = weft_barrier_run(comm, WEFT_STREAM_HOST);
    static const weft_result wanted[] = {WEFT_E_PEER_LOST, WEFT_E_PEER_LOST, WEFT_E_NO_DEVICE, WEFT_E_ABORTED};
    CHECK_MSG(result == wanted[*how], "%s (%s)", weft_result_string(result), weft_last_error());
    CHECK(weft__now_ns() - begin < 20000000000u); /* the deadlines are minutes */
    weft_comm_destroy(comm);
    weft_comm_destroy(gate);
}

TEST(a_member_that_ends_while_it_makes_a_comm_is_told_to_all)
{
    quiet();
    for (enum how how = DIES; how <= ABORTS_COMM; how++) {
        rank_group group = ranks_start(3, NULL, ended_on_the_way, &how);
        ranks_expect_passed(&group, 1);
        ranks_expect_passed(&group, 2);
        ranks_wait(&group, 0);
    }
}

/* Rank 0 gives up with a reason, and is done with it; rank 1 waits for rank 2, which does not come. */
static void gives_up_with_a_reason(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm, *gate = all_ranks(world, "gate", NULL);
    CHECK_OK(weft_barrier_run(gate, WEFT_STREAM_HOST));
    if (weft_world_rank(world) == 0) {
        CHECK_OK(weft_comm_create_start(world, "reason", NULL, 0, NULL, &comm));
        pause_ms(50);
        CHECK_OK(weft_comm_abort_because(comm, "no device here"));
        weft_comm_destroy(comm);
    } else if (weft_world_rank(world) == 1) {
        uint64_t begin = weft__now_ns();
        CHECK_RESULT(weft_comm_create(world, "reason", NULL, 0, NULL, &comm), WEFT_E_ABORTED);
        CHECK_HAS(weft_last_error(), "no device here");
        CHECK(weft__now_ns() - begin < 20000000000u); /* the deadline is two minutes */
    }
    CHECK_OK(weft_barrier_run(gate, WEFT_STREAM_HOST));
    weft_comm_destroy(gate);
}

TEST(who_gives_up_making_a_comm_says_why_though_others_are_missing)
{
    quiet();
    ranks_both_ways(3, gives_up_with_a_reason, NULL);
}

/* A comm that is aborted and destroyed at once, while another is busy, still tells its members. */
static void aborts_beside_a_busy_one(weft_world *world, void *argument)
{
    (void)argument;
    enum { COUNT = 1 << 22 };
    weft_comm *quiet_one = all_ranks(world, "quiet", NULL), *busy = all_ranks(world, "busy", NULL);
    void *memory;
    weft_work work;
    CHECK_OK(weft_memory_alloc(world, COUNT * sizeof(float), &memory));
    for (int round = 0; round < 3; round++) {
        weft_comm *ends = all_ranks(world, "ends", NULL);
        CHECK_OK(weft_barrier_run(quiet_one, WEFT_STREAM_HOST));
        CHECK_OK(weft_all_reduce_start(busy, memory, memory, COUNT, WEFT_FP32, WEFT_SUM, WEFT_STREAM_HOST, &work));
        if (weft_world_rank(world) == 0) {
            CHECK_OK(weft_comm_abort_because(ends, "a callback failed"));
        } else {
            CHECK_RESULT(weft_barrier_run(ends, WEFT_STREAM_HOST), WEFT_E_ABORTED);
            CHECK_HAS(weft_last_error(), "a callback failed");
        }
        weft_comm_destroy(ends);
        CHECK_OK(weft_work_finish(work, WEFT_STREAM_HOST));
    }
    weft_memory_free(world, memory);
    weft_comm_destroy(busy);
    weft_comm_destroy(quiet_one);
}

TEST(a_comm_that_is_aborted_and_destroyed_beside_a_busy_one_tells_why)
{
    quiet();
    ranks_both_ways(2, aborts_beside_a_busy_one, NULL);
}
