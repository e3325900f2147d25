/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and closing worlds: one rank, many, strangers at the door, and nothing left behind. */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "harness/ranks.h"

static int count_entries(const char *folder)
{
    int count = 0;
    DIR *dir = opendir(folder);
    CHECK(dir != NULL);
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

TEST(a_world_of_one_rank_opens_no_descriptor_and_starts_no_thread)
{
    int descriptors = count_entries("/proc/self/fd"), threads = count_entries("/proc/self/task");
    weft_world *world;
    CHECK_OK(weft_world_open(NULL, &world));
    CHECK_INT(weft_world_rank(world), 0);
    CHECK_INT(weft_world_size(world), 1);
    CHECK_INT(weft_world_local_rank(world), 0);
    CHECK_INT(weft_world_host(world, 0), 0);
    CHECK_INT(weft_world_host(world, 1), -1);
    weft_comm *comm = all_ranks(world, "one", NULL);
    CHECK_STR(weft_comm_backend(comm), "self");
    float in[3] = {1, 2, 3}, out[3];
    CHECK_OK(weft_all_reduce_run(comm, in, out, 3, WEFT_FP32, WEFT_AVERAGE, WEFT_STREAM_HOST));
    CHECK(memcmp(in, out, sizeof in) == 0);
    CHECK_OK(weft_barrier_run(comm, WEFT_STREAM_HOST));
    void *memory;
    CHECK_OK(weft_memory_alloc(world, 100, &memory));
    CHECK((uintptr_t)memory % 256 == 0);
    weft_memory_free(world, memory);
    CHECK_INT(count_entries("/proc/self/fd"), descriptors);
    CHECK_INT(count_entries("/proc/self/task"), threads);
    weft_comm_destroy(comm);
    weft_world_close(world);
}

static void looks_around(weft_world *world, void *argument)
{
    int ranks = *(int *)argument;
    CHECK_INT(weft_world_size(world), ranks);
    CHECK_INT(weft_world_local_rank(world), weft_world_rank(world));
    weft_comm *comm = all_ranks(world, "all", NULL);
    CHECK_STR(weft_comm_backend(comm), "local");
    CHECK_STR(weft_comm_name(comm), "all");
    CHECK(weft_comm_world(comm) == world);
    CHECK_INT(weft_comm_world_rank(comm, ranks - 1), ranks - 1);
    CHECK_INT(weft_comm_world_rank(comm, ranks), -1);
    CHECK_OK(weft_barrier_run(comm, WEFT_STREAM_HOST));
    CHECK_OK(weft_world_check(world, WEFT_STREAM_HOST));
    weft_comm_destroy(comm);
}

TEST(worlds_of_several_ranks_open_and_leave_nothing_behind)
{
    int descriptors = count_entries("/proc/self/fd"), shm = count_entries("/dev/shm");
    for (int ranks = 2; ranks <= 8; ranks *= 2)
        ranks_both_ways(ranks, looks_around, &ranks);
    CHECK_INT(count_entries("/proc/self/fd"), descriptors);
    CHECK_INT(count_entries("/dev/shm"), shm);
}

/* Subsets, in any order of creation, each comm by its members alone. */
static void subsets(weft_world *world, void *argument)
{
    (void)argument;
    int rank = weft_world_rank(world);
    int pair[2] = {rank & ~1, rank | 1}, column[2] = {rank & 1, (rank & 1) + 2};
    weft_comm *a, *b, *all;
    if (rank % 3 == 0) {
        CHECK_OK(weft_comm_create_start(world, rank < 2 ? "pair 0" : "pair 1", pair, 2, NULL, &a));
        CHECK_OK(weft_comm_create_start(world, rank % 2 ? "column 1" : "column 0", column, 2, NULL, &b));
        CHECK_OK(weft_comm_create_finish(b));
        CHECK_OK(weft_comm_create_finish(a));
    } else {
        CHECK_OK(weft_comm_create_start(world, rank % 2 ? "column 1" : "column 0", column, 2, NULL, &b));
        CHECK_OK(weft_comm_create_start(world, rank < 2 ? "pair 0" : "pair 1", pair, 2, NULL, &a));
        CHECK_OK(weft_comm_create_finish(a));
        CHECK_OK(weft_comm_create_finish(b));
    }
    CHECK_OK(weft_comm_create(world, "backwards", (int[]){3, 2, 1, 0}, 4, NULL, &all));
    CHECK_INT(weft_comm_rank(all), 3 - rank);
    CHECK_INT(weft_comm_rank(a), rank & 1);
    float v = (float)(1 << rank), sum, gathered[4];
    CHECK_OK(weft_all_reduce_run(a, &v, &sum, 1, WEFT_FP32, WEFT_SUM, WEFT_STREAM_HOST));
    CHECK(sum == (float)((1 << pair[0]) + (1 << pair[1])));
    CHECK_OK(weft_all_reduce_run(b, &v, &sum, 1, WEFT_FP32, WEFT_SUM, WEFT_STREAM_HOST));
    CHECK(sum == (float)((1 << column[0]) + (1 << column[1])));
    CHECK_OK(weft_all_gather_run(all, &v, gathered, 1, WEFT_FP32, WEFT_STREAM_HOST));
    CHECK(gathered[0] == 8 && gathered[3] == 1);
    weft_comm_destroy(a);
    weft_comm_destroy(b);
    weft_comm_destroy(all);
}

TEST(comms_of_any_ranks_are_made_by_their_members_in_any_order)
{
    ranks_both_ways(4, subsets, NULL);
}

static void many_comms(weft_world *world, void *argument)
{
    (void)argument;
    for (int i = 0; i < 600; i++) { /* more than a rank can have at once: those that are gone make room */
        weft_comm *comm = all_ranks(world, i % 2 ? "odd" : "even", NULL);
        CHECK_OK(weft_barrier_run(comm, WEFT_STREAM_HOST));
        weft_comm_destroy(comm);
    }
}

TEST(comms_come_and_go)
{
    ranks_both_ways(3, many_comms, NULL);
}

/* ------------------------------------------------------------------------------------------- at the door */

static pid_t start_rank(int rank, int ranks, const char *rendezvous, uint32_t timeout_ms, weft_result want,
                        const char *part)
{
    pid_t child = fork();
    if (child)
        return child;
    quiet();
    weft_world_config config = WEFT_WORLD_CONFIG_INIT;
    config.rank = rank;
    config.ranks = ranks;
    config.rendezvous = rendezvous;
    config.rendezvous_timeout_ms = timeout_ms;
    weft_world *world;
    CHECK_RESULT(weft_world_open(&config, &world), want);
    if (part)
        CHECK_HAS(weft_last_error(), part);
    weft_world_close(world);
    exit(0);
}

static void expect_zero(pid_t child)
{
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
    CHECK_INT(WEXITSTATUS(status), 0);
}

static int connect_stranger(const char *name)
{
    struct sockaddr_un where = {.sun_family = AF_UNIX};
    memcpy(where.sun_path + 1, name, strlen(name));
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    socklen_t length = (socklen_t)(sizeof(sa_family_t) + 1 + strlen(name));
    for (int i = 0; connect(fd, (struct sockaddr *)&where, length) != 0; i++) {
        CHECK_MSG(i < 500, "nobody listens: %s", strerror(errno));
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    return fd;
}

TEST(strangers_at_the_door_disturb_nobody)
{
    pid_t first = start_rank(0, 2, "unix://@weft-test-door", 20000, WEFT_OK, NULL);
    int closes = connect_stranger("weft-test-door"), stays = connect_stranger("weft-test-door");
    int talks = connect_stranger("weft-test-door");
    close(closes);
    CHECK(write(stays, "abc", 3) == 3);
    char junk[64];
    memset(junk, 0x5a, sizeof junk);
    CHECK(write(talks, junk, sizeof junk) == sizeof junk);
    pid_t second = start_rank(1, 2, "unix://@weft-test-door", 20000, WEFT_OK, NULL);
    expect_zero(first);
    expect_zero(second);
    close(stays);
    close(talks);
}

/* More connections of another user than there is room for strangers; they say nothing, and stay. */
TEST_LIMIT(other_users_take_up_no_room_at_the_door, 20)
{
    if (geteuid() != 0)
        test_skip("only root can be another user");
    pid_t first = start_rank(0, 2, "unix://@weft-test-users", 60000, WEFT_OK, NULL);
    int connected[2];
    CHECK(pipe(connected) == 0);
    pid_t other = fork();
    if (other == 0) {
        CHECK(setuid(65534) == 0);
        for (int i = 0; i < 100; i++)
            connect_stranger("weft-test-users");
        CHECK(write(connected[1], "x", 1) == 1);
        pause();
    }
    char byte;
    CHECK(read(connected[0], &byte, 1) == 1);
    pid_t second = start_rank(1, 2, "unix://@weft-test-users", 60000, WEFT_OK, NULL);
    expect_zero(first);
    expect_zero(second);
    kill(other, SIGKILL);
    waitpid(other, NULL, 0);
}

TEST(two_processes_with_one_number_are_told_apart)
{
    pid_t ranks[] = {
        start_rank(0, 3, "unix://@weft-test-two", 20000, WEFT_E_MISMATCH, "two processes say that they are rank 1"),
        start_rank(1, 3, "unix://@weft-test-two", 20000, WEFT_E_MISMATCH, "rank 1"),
        start_rank(1, 3, "unix://@weft-test-two", 20000, WEFT_E_MISMATCH, "rank 1")};
    for (int i = 0; i < 3; i++)
        expect_zero(ranks[i]);
}

TEST(ranks_that_count_differently_are_told)
{
    pid_t ranks[] = {
        start_rank(0, 2, "unix://@weft-test-size", 20000, WEFT_E_MISMATCH, "rank 1 was told of 3 ranks, rank 0 of 2"),
        start_rank(1, 3, "unix://@weft-test-size", 20000, WEFT_E_MISMATCH, "rank 1 was told of 3 ranks, rank 0 of 2")};
    for (int i = 0; i < 2; i++)
        expect_zero(ranks[i]);
}

TEST(those_who_came_hear_who_is_missing)
{
    pid_t ranks[] = {
        start_rank(0, 4, "unix://@weft-test-missing", 700, WEFT_E_TIMEOUT, "2 of 4 ranks came; missing: 1, 3"),
        start_rank(2, 4, "unix://@weft-test-missing", 700, WEFT_E_TIMEOUT, "2 of 4 ranks came; missing: 1, 3")};
    for (int i = 0; i < 2; i++)
        expect_zero(ranks[i]);
}

static void heap_use(weft_world *world, void *argument)
{
    (void)argument;
    void *blocks[40];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 40; i++) {
            size_t bytes = (size_t)1 << (i % 20);
            CHECK_OK(weft_memory_alloc(world, bytes, &blocks[i]));
            CHECK((uintptr_t)blocks[i] % 256 == 0);
            for (size_t k = 0; k < bytes; k++)
                CHECK(((unsigned char *)blocks[i])[k] == 0);
            memset(blocks[i], 0xff, bytes);
        }
        for (int i = 0; i < 40; i++)
            weft_memory_free(world, blocks[(i * 7) % 40]);
    }
    void *huge = &huge;
    CHECK_RESULT(weft_memory_alloc(world, (size_t)1 << 50, &huge), WEFT_E_NO_MEMORY);
    CHECK(huge == NULL);
    CHECK_RESULT(weft_memory_alloc(world, SIZE_MAX, &huge), WEFT_E_NO_MEMORY);
}

TEST(memory_is_zeroed_aligned_and_used_again)
{
    quiet();
    ranks_as_threads(1, NULL, heap_use, NULL);
    ranks_both_ways(2, heap_use, NULL);
}

static void fake_hosts(weft_world *world, void *argument)
{
    (void)argument;
    static const int hosts[] = {0, 1, 0, 1};
    for (int r = 0; r < 4; r++)
        CHECK_INT(weft_world_host(world, r), hosts[r]);
    CHECK_INT(weft_world_local_rank(world), weft_world_rank(world) / 2);
    weft_comm *comm = all_ranks(world, "hosts", NULL); /* the memory can still be shared */
    CHECK_OK(weft_barrier_run(comm, WEFT_STREAM_HOST));
    weft_comm_destroy(comm);
}

static void open_on_host(int rank, void *argument)
{
    weft_world_config config = rank_config(NULL, rank, 4, "unix://@weft-test-hosts");
    config.host_id = rank % 2 ? "B" : "A";
    rank_live(&config, fake_hosts, argument);
}

TEST(hosts_can_be_faked_for_placement)
{
    rank_group group = ranks_fork(4, open_on_host, NULL);
    ranks_expect_all(&group);
}

static weft_result run_body(weft_world *world, void *argument)
{
    __atomic_fetch_add((int *)argument, 1 + weft_world_size(world) * 100, __ATOMIC_SEQ_CST);
    return weft_world_rank(world) == 1 ? WEFT_E_RANGE : WEFT_OK;
}

TEST(one_call_runs_a_function_as_the_ranks_of_this_process)
{
    int sum = 0;
    CHECK_OK(weft_world_run(NULL, run_body, &sum));
    CHECK_INT(sum, 101);
    setenv("WEFT_THREADS", "3", 1);
    sum = 0;
    CHECK_RESULT(weft_world_run(NULL, run_body, &sum), WEFT_E_RANGE);
    CHECK_INT(sum, 903);
}

/* Ranks 0 and 2 wait on comms of their own with rank 1, which takes part in neither. */
static void one_gives_up(weft_world *world, void *argument)
{
    (void)argument;
    int rank = weft_world_rank(world), pairs[2][2] = {{0, 1}, {1, 2}};
    weft_comm *comms[2] = {NULL, NULL}, *late;
    for (int i = 0; i < 2; i++)
        if (rank == pairs[i][0] || rank == pairs[i][1])
            CHECK_OK(weft_comm_create(world, i ? "second" : "first", pairs[i], 2, NULL, &comms[i]));
    for (int i = 0; i < 2; i++) { /* all have made theirs */
        char made = 1;
        weft_p2p m = {.kind = rank == 1 ? WEFT_RECV : WEFT_SEND, .dtype = WEFT_UINT8, .buffer = &made, .count = 1};
        m.peer = pairs[i][0] == rank;
        if (comms[i])
            CHECK_OK(run_messages(comms[i], &m, 1));
    }
    if (rank == 1)
        CHECK_OK(weft_world_abort(world, WEFT_E_NO_MEMORY, "rank 1 has no room for its plans"));
    for (int i = 0; i < 2; i++)
        if (comms[i]) {
            CHECK_RESULT(weft_barrier_run(comms[i], WEFT_STREAM_HOST), WEFT_E_NO_MEMORY);
            CHECK_HAS(weft_last_error(), "rank 1 has no room for its plans");
            weft_comm_destroy(comms[i]);
        }
    CHECK_RESULT(weft_world_check(world, WEFT_STREAM_HOST), WEFT_E_NO_MEMORY);
    late = all_ranks(world, "late", NULL); /* the world itself goes on */
    CHECK_OK(weft_barrier_run(late, WEFT_STREAM_HOST));
    weft_comm_destroy(late);
    CHECK_RESULT(weft_world_abort(world, WEFT_OK, "nothing"), WEFT_E_INVALID);
}

TEST(who_gives_up_ends_all_that_wait_and_says_why)
{
    quiet();
    ranks_both_ways(3, one_gives_up, NULL);
}

static void alone_gives_up(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm = all_ranks(world, "alone", NULL);
    CHECK_OK(weft_world_abort(world, WEFT_E_TIMEOUT, "too late"));
    CHECK_RESULT(weft_barrier_run(comm, WEFT_STREAM_HOST), WEFT_E_TIMEOUT);
    weft_comm_destroy(comm);
}

TEST(a_world_of_one_can_give_up)
{
    quiet();
    ranks_as_threads(1, NULL, alone_gives_up, NULL);
}

static weft_result no_body(weft_world *world, void *argument)
{
    (void)argument;
    return weft_world_size(world) == 2 ? WEFT_OK : WEFT_E_RANGE;
}

TEST(a_config_is_read_no_further_than_its_size)
{
    quiet();
    weft_world *world;
    struct {
        weft_world_config config;
        uint64_t later;
    } given = {.config = WEFT_WORLD_CONFIG_INIT};
    weft_world_config *config = &given.config;
    config->ranks = 1;
    config->rendezvous = config->backend = (const char *)1; /* nobody may look there */
    config->flags = 0x10;
    config->size = offsetof(weft_world_config, rendezvous);
    CHECK_OK(weft_world_open(config, &world));
    weft_world_close(world);
    CHECK_OK(weft_team_run(2, config, no_body, NULL));
    *config = (weft_world_config)WEFT_WORLD_CONFIG_INIT;
    config->size = sizeof given;
    CHECK_OK(weft_world_open(config, &world));
    weft_world_close(world);
    given.later = 1;
    CHECK_RESULT(weft_world_open(config, &world), WEFT_E_INVALID);
    CHECK_HAS(weft_last_error(), "weft_world_config.size is");
    CHECK_RESULT(weft_team_run(2, config, no_body, NULL), WEFT_E_INVALID);
}
