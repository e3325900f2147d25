/* SPDX-License-Identifier: Apache-2.0 */
/* Worlds and comms that cannot be opened on one rank: all ranks are told why, at once, and nothing is left. Deadlines
 * are a minute, limits of the tests are far below. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/memory.h"
#include "harness/ranks.h"

enum { DEADLINE_MS = 60000, LIMIT_S = 20 };

/* ------------------------------------------------------------------------------------------- one bad rank */

typedef struct trouble {
    weft_result result;
    const char *says;
    weft_world_config config; /* what the bad rank is told */
    const char *variable, *value;
} trouble;

static weft_world_config config_of(const trouble *t, int rank, int ranks, int bad)
{
    weft_world_config config = WEFT_WORLD_CONFIG_INIT;
    if (rank == bad)
        config = t->config;
    config.size = sizeof config;
    config.rank = rank;
    config.ranks = ranks;
    config.rendezvous_timeout_ms = DEADLINE_MS;
    return config;
}

static void expect_refused(const weft_world_config *config, weft_result want, int bad, const char *says)
{
    char text[128];
    snprintf(text, sizeof text, "rank %d", bad);
    weft_world *world = (weft_world *)(uintptr_t)1;
    CHECK_RESULT(weft_world_open(config, &world), want);
    CHECK(world == NULL);
    CHECK_MSG(strncmp(weft_last_error(), text, strlen(text)) == 0, "'%s' does not name rank %d", weft_last_error(),
              bad);
    CHECK_HAS(weft_last_error(), says);
}

typedef struct attempt {
    const trouble *trouble;
    int ranks, bad;
    char rendezvous[64];
} attempt;

static void open_as_process(int rank, void *argument)
{
    const attempt *a = argument;
    const trouble *t = a->trouble;
    if (rank == a->bad && t->variable)
        setenv(t->variable, t->value, 1);
    weft_world_config config = config_of(t, rank, a->ranks, a->bad);
    config.rendezvous = a->rendezvous;
    expect_refused(&config, t->result, a->bad, t->says);
}

static void as_processes(const trouble *t, int ranks, int bad)
{
    static int counter;
    attempt a = {.trouble = t, .ranks = ranks, .bad = bad};
    snprintf(a.rendezvous, sizeof a.rendezvous, "unix://@weft-test-open-%d-%d", (int)getpid(), counter++);
    rank_group group = ranks_fork(ranks, open_as_process, &a);
    ranks_expect_all(&group);
}

typedef struct team_rank {
    weft_world_config config;
    const trouble *trouble;
    int bad;
} team_rank;

static void *open_in_team(void *argument)
{
    const team_rank *r = argument;
    expect_refused(&r->config, r->trouble->result, r->bad, r->trouble->says);
    return NULL;
}

static void as_threads(const trouble *t, int ranks, int bad)
{
    weft_team *team;
    pthread_t threads[8];
    team_rank each[8];
    CHECK_OK(weft_team_create(ranks, &team));
    for (int r = 0; r < ranks; r++) {
        each[r] = (team_rank){config_of(t, r, ranks, bad), t, bad};
        each[r].config.team = team;
        CHECK(pthread_create(&threads[r], NULL, open_in_team, &each[r]) == 0);
    }
    for (int r = 0; r < ranks; r++)
        pthread_join(threads[r], NULL);
    weft_team_destroy(team);
}

#define LONG "a-host-id-that-is-longer-than-sixty-three-bytes-and-so-does-not-fit-anywhere"

TEST_LIMIT(what_one_rank_is_told_wrongly_all_are_told_at_once, LIMIT_S)
{
    static const trouble troubles[] = {
        {WEFT_E_INVALID, "flags has unknown bits: 0x8", {.flags = 8}},
        {WEFT_E_INVALID, "host id 'a-host-id", {.host_id = LONG}},
        {WEFT_E_NOT_FOUND, "there is no backend 'a-backend-of-no", {.backend = "a-backend-of-nobody"}},
        {WEFT_E_SYSTEM, "'/dev/null/trace': Not a directory", {.trace = "/dev/null/trace"}},
        {WEFT_E_INVALID, "trace_records is 3, not a power of two", {.trace_records = 3}},
        {WEFT_E_INVALID, "WEFT_TIMEOUT_MS is 'soon'", .variable = "WEFT_TIMEOUT_MS", .value = "soon"},
        {WEFT_E_INVALID, "weft_world_config.device is 'gpu3', not cuda or cuda:N", {.device = "gpu3"}},
        {WEFT_E_INVALID, "WEFT_DEVICE is 'foo', not cuda or cuda:N", .variable = "WEFT_DEVICE", .value = "foo"},
        {WEFT_E_INVALID, "WEFT_DEVICE is 'cuda:-1'", .variable = "WEFT_DEVICE", .value = "cuda:-1"},
        {WEFT_E_SYSTEM, "'/dev/null/trace': Not a directory", .variable = "WEFT_TRACE", .value = "/dev/null/trace"},
    };
    quiet();
    for (size_t i = 0; i < sizeof troubles / sizeof *troubles; i++)
        for (int bad = 0; bad < 3; bad++) {
            as_processes(&troubles[i], 3, bad);
            if (!troubles[i].variable)
                as_threads(&troubles[i], 3, bad);
        }
}

/* As in the environment, where an empty variable is none. */
TEST(an_empty_name_of_the_folder_of_traces_is_none)
{
    weft_world *world;
    weft_world_config config = WEFT_WORLD_CONFIG_INIT;
    config.rank = 0, config.ranks = 1;
    config.trace = "";
    CHECK_OK(weft_world_open(&config, &world));
    weft_world_close(world);
    setenv("WEFT_TRACE", "/dev/null/trace", 1);
    CHECK_OK(weft_world_open(&config, &world));
    weft_world_close(world);
}

TEST_LIMIT(a_thread_that_does_not_know_its_rank_ends_its_team, LIMIT_S)
{
    quiet();
    weft_team *team;
    CHECK_OK(weft_team_create(2, &team));
    trouble t = {WEFT_E_RANGE, "rank 7 of a team of 2"};
    team_rank r = {config_of(&t, 0, 2, 1), &t, 7};
    r.config.team = team;
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, open_in_team, &r) == 0);
    weft_world_config config = r.config;
    config.rank = 7;
    weft_world *world;
    CHECK_RESULT(weft_world_open(&config, &world), WEFT_E_RANGE);
    pthread_join(thread, NULL);
    weft_team_destroy(team);
}

/* ---- threads that do not start ---- */

static atomic_int threads_started, thread_that_fails;

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*function)(void *),
                          void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*function)(void *),
                          void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*function)(void *),
                          void *argument)
{
    if (atomic_fetch_add(&threads_started, 1) + 1 == atomic_load(&thread_that_fails))
        return EAGAIN;
    return __real_pthread_create(thread, attributes, function, argument);
}

static weft_result use_world(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm = all_ranks(world, "all", NULL);
    weft_result result = weft_barrier_run(comm, WEFT_STREAM_HOST);
    weft_comm_destroy(comm);
    return result;
}

/* Those of the ranks come first, then their engines. */
TEST_LIMIT(a_thread_that_does_not_start_ends_all_ranks, LIMIT_S)
{
    enum { RANKS = 3 };
    quiet();
    weft_world_config config = WEFT_WORLD_CONFIG_INIT;
    config.rendezvous_timeout_ms = DEADLINE_MS;
    for (int n = 1; n <= 2 * RANKS; n++) {
        char want[64] = "cannot start a thread: ";
        if (n <= RANKS)
            snprintf(want, sizeof want, "cannot start a thread for rank %d: ", n - 1);
        atomic_store(&threads_started, 0);
        atomic_store(&thread_that_fails, n);
        CHECK_RESULT(weft_team_run(RANKS, &config, use_world, NULL), WEFT_E_SYSTEM);
        CHECK_HAS(weft_last_error(), want);
        if (n > RANKS)
            CHECK(strncmp(weft_last_error(), "rank ", 5) == 0);
    }
    atomic_store(&thread_that_fails, 0);
    CHECK_OK(weft_team_run(RANKS, &config, use_world, NULL));
}

/* ------------------------------------------------------------------------------------------- want of memory */

static weft_result only_open(weft_world *world, void *argument)
{
    (void)world, (void)argument;
    return WEFT_OK;
}

static weft_result open_with(const weft_world_config *config, int ranks)
{
    return ranks > 1 ? weft_team_run(ranks, config, only_open, NULL) : weft_world_run(config, only_open, NULL);
}

static long starve_opening(int ranks)
{
    weft_world_config config = WEFT_WORLD_CONFIG_INIT;
    config.rendezvous_timeout_ms = DEADLINE_MS;
    config.host_id = "h", config.backend = ranks > 1 ? "local" : "self";
    CHECK_OK(open_with(&config, ranks)); /* the first measures the caches, which it may do without */
    for (long n = 1;; n++) {
        weft__alloc_fail_at(n);
        weft_result result = open_with(&config, ranks);
        bool failed = weft__alloc_count() >= n;
        weft__alloc_fail_at(0);
        CHECK_RESULT(result, failed ? WEFT_E_NO_MEMORY : WEFT_OK);
        if (!failed)
            return n - 1;
        CHECK_HAS(weft_last_error(), "no memory for");
    }
}

TEST_LIMIT(a_world_of_one_survives_every_want_of_memory, LIMIT_S)
{
    quiet();
    long count = starve_opening(1);
    CHECK_MSG(count >= 8, "only %ld allocations", count);
}

TEST_LIMIT(a_team_survives_every_want_of_memory, LIMIT_S)
{
    quiet();
    long count = starve_opening(2);
    CHECK_MSG(count >= 20, "only %ld allocations", count);
}

/* The want is on rank 1 alone (as processes), or on whoever comes to it (as threads). */
static void starve_comm(weft_world *world, void *argument)
{
    bool processes = *(bool *)argument;
    int rank = weft_world_rank(world), size = weft_world_size(world), ranks[2] = {0, 1};
    weft_comm *steady = all_ranks(world, "steady", NULL);
    long n = 1;
    for (bool failed = true; failed; n++) {
        if (rank == (processes ? size - 1 : 0))
            weft__alloc_fail_at(n);
        CHECK_OK(weft_barrier_run(steady, WEFT_STREAM_HOST));
        weft_comm *comm;
        weft_result result = weft_comm_create(world, "starved", ranks, size, NULL, &comm);
        CHECK((result == WEFT_OK) == (comm != NULL));
        if (result != WEFT_OK)
            CHECK_HAS(weft_last_error(), "no memory for");
        failed = weft_comm_agree(steady, result, NULL) != WEFT_OK;
        CHECK_INT(result, failed ? WEFT_E_NO_MEMORY : WEFT_OK); /* on all, or on none */
        if (comm)
            CHECK_OK(weft_barrier_run(comm, WEFT_STREAM_HOST));
        weft_comm_destroy(comm);
    }
    weft__alloc_fail_at(0);
    CHECK_MSG(n - 2 >= 5, "only %ld allocations", n - 2);
    weft_comm_destroy(steady);
}

TEST_LIMIT(a_comm_survives_every_want_of_memory_on_all_members_alike, LIMIT_S)
{
    quiet();
    weft_world_config config = WEFT_WORLD_CONFIG_INIT;
    config.rendezvous_timeout_ms = DEADLINE_MS;
    bool processes = false;
    ranks_as_threads(1, &config, starve_comm, &processes);
    ranks_as_threads(2, &config, starve_comm, &processes);
    processes = true;
    ranks_as_processes(2, &config, starve_comm, &processes);
}

/* A config that only one member has: the others do not wait for it. */
static void refuse_comm(weft_world *world, void *argument)
{
    (void)argument;
    int rank = weft_world_rank(world);
    weft_comm_config config = WEFT_COMM_CONFIG_INIT;
    config.p2p_channels = rank == 2 ? 65 : 0;
    weft_comm *comm;
    CHECK_RESULT(weft_comm_create(world, "refused", (int[]){0, 1, 2}, 3, &config, &comm), WEFT_E_INVALID);
    CHECK_HAS(weft_last_error(), "p2p_channels is 65, more than 64");
    if (rank != 2)
        CHECK_HAS(weft_last_error(),
                  "comm refused: weft_comm_config.p2p_channels is 65, more than 64 [told by rank 2]");
    CHECK_OK(weft_comm_create(world, "refused", (int[]){0, 1, 2}, 3, NULL, &comm));
    CHECK_OK(weft_barrier_run(comm, WEFT_STREAM_HOST));
    weft_comm_destroy(comm);
}

TEST_LIMIT(a_member_that_cannot_make_a_comm_tells_the_others, LIMIT_S)
{
    quiet();
    weft_world_config config = WEFT_WORLD_CONFIG_INIT;
    config.rendezvous_timeout_ms = DEADLINE_MS;
    ranks_as_threads(3, &config, refuse_comm, NULL);
    ranks_as_processes(3, &config, refuse_comm, NULL);
}
