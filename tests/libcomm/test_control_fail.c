/* SPDX-License-Identifier: Apache-2.0 */
/* Worlds that span machines in trouble: ranks give up, die, stop, or say what makes no sense. Whoever has to do with
 * them is told, by name; the others go on. */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"
#include "bootstrap/link.h"
#include "control.h"
#include "harness/machines.h"
#include "seat.h"
#include "watchdog.h"

static void nothing(void *cookie, weft_log_level level, const char *line)
{
    (void)cookie, (void)level, (void)line;
}

static void quiet(void)
{
    weft_log_set(WEFT_LOG_ERROR, nothing, NULL);
}

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

static weft_comm *comm_of(weft_world *world, const char *name, const int *ranks, int count)
{
    weft_comm *comm;
    CHECK_OK(weft_comm_create(world, name, ranks, count, NULL, &comm));
    return comm;
}

static weft_result barrier(weft_comm *comm)
{
    return weft_barrier_run(comm, WEFT_STREAM_HOST);
}

/* Four ranks: 0 and 3 on this machine, 1 and 2 on another. */
static const int two_and_two[] = {0, 1, 1, 0};

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

/* ------------------------------------------------------------------------------------------- stopped ranks */

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
    quiet();
    rank_group group = machines_start(3, (int[]){0, 1, 2}, NULL, one_is_stopped, NULL);
    stage_wait(1);
    kill(group.pid[1], SIGSTOP);
    CHECK(waitpid(group.pid[1], &group.status[1], WUNTRACED) == group.pid[1]);
    stage_reach(2);
    stage_wait(3);
    kill(group.pid[1], SIGCONT);
    ranks_expect_all(&group);
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
    quiet();
    rank_group group = machines_start(2, (int[]){0, 1}, NULL, one_repeats_itself, NULL);
    stage_wait(1);
    kill(group.pid[1], SIGSTOP);
    CHECK(waitpid(group.pid[1], &group.status[1], WUNTRACED) == group.pid[1]);
    stage_reach(2);
    stage_wait(3);
    kill(group.pid[1], SIGCONT);
    ranks_expect_all(&group);
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
    for (int r = 0; r < 3; r++) /* the others tell what they were told */
        while (r != rank && !atomic_load(&world->boards[r]->reasons))
            pause_ms(1);
    CHECK_OK(barrier(kept));
    weft__progress_enter(world);
    for (int round = 0; round < 2; round++) { /* it is noticed, and counts in the next one */
        (void)weft__seat_once(world);
        weft__watchdog_carry_out(world);
    }
    CHECK_INT(world->reasons, 2);
    for (int r = 0; r < 3; r++) {
        CHECK_INT(world->said[r].count, r != rank);
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

/* ------------------------------------------------------------------------------------------- nonsense */

/* The socket of this rank's link to rank 0: the one whose other end has a path. */
static int find_link(void)
{
    for (int fd = 0; fd < 200; fd++) {
        struct sockaddr_un peer;
        socklen_t bytes = sizeof peer;
        if (getpeername(fd, (struct sockaddr *)&peer, &bytes) == 0 && peer.sun_family == AF_UNIX &&
            bytes > sizeof peer.sun_family && strncmp(peer.sun_path, "/tmp/weft-test-", 15) == 0)
            return fd;
    }
    FAIL("there is no link");
}

typedef struct nonsense {
    const char *what;
    uint32_t kind;
    int32_t from, addressees;
    uint32_t content[16];
    uint32_t words, bytes; /* of content; bytes: those the head says, 0 = as many */
    int to[4];
} nonsense;

enum { EVERYBODY = -1, CARD = 1, BOARD = 2, LOST = 3 };

static const nonsense all_nonsense[] = {
    {.what = "a head that is too short", .kind = CARD, .from = 2, .bytes = 4},
    {.what = "a head that is too long", .kind = CARD, .from = 2, .bytes = 1u << 30},
    {.what = "an unknown kind", .kind = 77, .from = 2},
    {.what = "another sender", .kind = BOARD, .from = 1, .words = 66},
    {.what = "a sender that is no rank", .kind = BOARD, .from = 99, .words = 66},
    {.what = "a negative sender", .kind = BOARD, .from = -5, .words = 66},
    {.what = "a loss that rank 0 alone tells", .kind = LOST, .from = 2, .addressees = 1, .to = {EVERYBODY}},
    {.what = "addressees that are no ranks", .kind = BOARD, .from = 2, .addressees = 2, .to = {1, 4}, .words = 66},
    {.what = "everybody twice", .kind = BOARD, .from = 2, .addressees = 2, .to = {-1, -1}, .words = 66},
    {.what = "a board that is too short", .kind = BOARD, .from = 2, .addressees = 1, .to = {EVERYBODY}, .words = 2},
    {.what = "a card that is too short", .kind = CARD, .from = 2, .addressees = 1, .to = {EVERYBODY}, .words = 3},
    {.what = "a card without terms", .kind = CARD, .from = 2, .addressees = 1, .to = {1}, .words = 8},
    {.what = "a slot that is none",
     .kind = CARD,
     .from = 2,
     .addressees = 1,
     .to = {EVERYBODY},
     .words = 8,
     .content = {256, 1, 1}},
    {.what = "a way to leave that is none",
     .kind = CARD,
     .from = 2,
     .addressees = 1,
     .to = {EVERYBODY},
     .words = 8,
     .content = {0, 1, 4}},
    {.what = "a state that is none",
     .kind = BOARD,
     .from = 2,
     .addressees = 1,
     .to = {EVERYBODY},
     .words = 66,
     .content = {2}},
    {.what = "an abort that is no failure",
     .kind = BOARD,
     .from = 2,
     .addressees = 1,
     .to = {EVERYBODY},
     .words = 66,
     .content = {0, 5}},
};

static void say_nonsense(const nonsense *n)
{
    static _Alignas(8) unsigned char bytes[4096];
    weft__letter head = {.kind = n->kind, .from = n->from, .addressees = n->addressees};
    size_t to = (size_t)n->addressees * sizeof *n->to, all = sizeof head + to + n->words * 4;
    head.bytes = n->bytes ? n->bytes : (uint32_t)all;
    memcpy(bytes, &head, sizeof head);
    memcpy(bytes + sizeof head, n->to, to);
    memcpy(bytes + sizeof head + to, n->content, n->words * 4 < sizeof n->content ? n->words * 4 : sizeof n->content);
    CHECK(send(find_link(), bytes, all, MSG_NOSIGNAL) == (ssize_t)all);
}

/* Rank 2 says it: rank 0 hears of it no more, and for the others it has ended. They go on. */
static void one_talks_nonsense(weft_world *world, void *argument)
{
    int rank = weft_world_rank(world);
    weft_comm *all = all_ranks(world, "all", NULL), *rest = NULL;
    if (rank != 2)
        rest = comm_of(world, "rest", (int[]){0, 1, 3}, 3);
    CHECK_OK(barrier(all));
    if (rank == 2)
        say_nonsense(argument);
    weft_result result = WEFT_OK;
    while (result == WEFT_OK) /* until it was heard of; the sender hears that its link has ended */
        result = barrier(all);
    CHECK_MSG(result == WEFT_E_PEER_LOST, "after %s: %s", ((nonsense *)argument)->what, weft_last_error());
    CHECK_HAS(weft_last_error(), rank == 2 ? "rank 0 has ended" : "rank 2 has ended");
    if (rank != 2) {
        CHECK_OK(barrier(rest));
        weft_comm *later = comm_of(world, "later", (int[]){3, 1, 0}, 3);
        CHECK_OK(barrier(later));
        weft_comm_destroy(later);
    }
    weft_comm_destroy(all);
    weft_comm_destroy(rest);
}

TEST(a_rank_that_talks_nonsense_is_heard_no_more)
{
    quiet();
    for (size_t i = 0; i < sizeof all_nonsense / sizeof *all_nonsense; i++) {
        nonsense one = all_nonsense[i];
        machines_run(4, two_and_two, NULL, one_talks_nonsense, &one);
    }
}

/* Letters by chance, from all sides: whatever comes of it, rank 0 and those who behave go on together. */
static void one_talks_at_random(weft_world *world, void *argument)
{
    int rank = weft_world_rank(world);
    weft_comm *rest = rank == 2 ? NULL : comm_of(world, "rest", (int[]){0, 1, 3}, 3);
    uint64_t seed = *(uint64_t *)argument;
    if (rank == 2) {
        unsigned char bytes[512];
        int fd = dup(find_link()); /* its engine closes its own when rank 0 has had enough */
        for (int i = 0; i < 200; i++) {
            for (size_t b = 0; b < sizeof bytes; b++) {
                seed = seed * 6364136223846793005u + 1442695040888963407u;
                bytes[b] = (unsigned char)(seed >> 56) & (b < 16 ? 3 : 255);
            }
            weft__letter head = {
                .bytes = (uint32_t)(16 + seed % 120 * 4), .kind = 1 + seed / 256 % 2, .from = 2, .addressees = 1};
            memcpy(bytes, &head, sizeof head);
            memcpy(bytes + sizeof head, &(int){seed % 3 ? EVERYBODY : 1}, sizeof(int));
            if (send(fd, bytes, head.bytes, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
                break;
        }
        close(fd);
    }
    for (int i = 0; i < 10 && rank != 2; i++) {
        weft_comm *later = comm_of(world, "later", (int[]){3, 1, 0}, 3);
        CHECK_OK(barrier(later));
        CHECK_OK(barrier(rest));
        weft_comm_destroy(later);
    }
    weft_comm_destroy(rest);
}

TEST(a_rank_that_talks_at_random_disturbs_nobody)
{
    quiet();
    for (uint64_t seed = 1; seed <= 20; seed++)
        machines_run(4, two_and_two, NULL, one_talks_at_random, &seed);
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
    if (bad && weft__alloc_count() < w->number)
        stage_reach(1); /* all that there is has failed */
    weft__alloc_fail_at(0);
    CHECK(result == WEFT_OK || result == WEFT_E_NO_MEMORY || result == WEFT_E_TIMEOUT || result == WEFT_E_PEER_LOST);
    if (result == WEFT_OK)
        atomic_fetch_add(stage_counter(), 1);
    weft_world_close(world);
}

/* All have a world in the end, or none. */
TEST(want_of_memory_on_one_rank_ends_the_opening_on_all_machines)
{
    quiet();
    weft_world_config config = WEFT_WORLD_CONFIG_INIT;
    config.rendezvous_timeout_ms = 400;
    config.heap_bytes = 1 << 20;
    for (int rank = 0; rank < 2; rank++) {
        bool all = false;
        for (long number = 1; !all; number++) {
            want w = {rank, number};
            rank_group group = machines_fork(3, (int[]){0, 1, 1}, &config, open_without_memory, &w);
            ranks_expect_all(&group);
            int opened = atomic_load(stage_counter());
            CHECK_MSG(opened == 0 || opened == 3, "allocation %ld of rank %d: %d ranks have a world", number, rank,
                      opened);
            all = stage_has_come(1);
            CHECK(!all || opened == 3);
        }
    }
}
