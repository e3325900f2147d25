/* SPDX-License-Identifier: Apache-2.0 */
/* Messages over a network: in order for each peer and channel, of any size, and each of these on its own. */
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/mount.h>

#include "net.h"

static weft_p2p message(weft_p2p_kind kind, int peer, uint32_t channel, void *buffer, size_t count)
{
    return (weft_p2p){
        .kind = kind, .peer = peer, .channel = channel, .dtype = WEFT_INT32, .buffer = buffer, .count = count};
}

static int32_t value(int from, int to, size_t n, size_t i)
{
    return (int32_t)(n * 1000003u + i * 7u + (size_t)from * 31u + (size_t)to);
}

/* ------------------------------------------------------------------------------------------- order and sizes */

static const size_t sizes[] = {0, 1, 3, 1000, 16336, 16337, 70000, 0, 2, 300001};
enum { SIZES = sizeof sizes / sizeof *sizes, LARGEST = 300001 };

static void fill(int32_t *buffer, int from, int to, size_t n)
{
    for (size_t i = 0; i < sizes[n]; i++)
        buffer[i] = value(from, to, n, i);
}

static void check(const int32_t *buffer, int from, int to, size_t n)
{
    for (size_t i = 0; i < sizes[n]; i++)
        if (buffer[i] != value(from, to, n, i))
            FAIL("message %zu from %d to %d: element %zu is %d", n, from, to, i, (int)buffer[i]);
}

/* Everybody sends everybody messages of all sizes, itself included, in one batch each. */
static void all_to_all(weft_world *world, void *argument)
{
    (void)argument;
    int ranks = weft_world_size(world), rank = weft_world_rank(world);
    weft_comm *comm = comm_over(world, carrier(), "sizes");
    int32_t *out[SIZES][4], *in[SIZES][4];
    weft_work works[SIZES];
    for (size_t n = 0; n < SIZES; n++) {
        weft_p2p batch[8];
        for (int peer = 0; peer < ranks; peer++) {
            out[n][peer] = malloc(LARGEST * sizeof(int32_t));
            in[n][peer] = malloc(LARGEST * sizeof(int32_t));
            fill(out[n][peer], rank, peer, n);
            batch[2 * peer] = message(WEFT_RECV, peer, n % 2, in[n][peer], sizes[n]);
            batch[2 * peer + 1] = message(WEFT_SEND, peer, n % 2, out[n][peer], sizes[n]);
        }
        CHECK_OK(start_messages(comm, batch, 2 * (size_t)ranks, &works[n]));
    }
    for (size_t n = 0; n < SIZES; n++) {
        CHECK_OK(weft_work_finish(works[n], WEFT_STREAM_HOST));
        for (int peer = 0; peer < ranks; peer++) {
            check(in[n][peer], peer, rank, n);
            free(in[n][peer]);
            free(out[n][peer]);
        }
    }
    weft_comm_destroy(comm);
}

TEST(messages_of_all_sizes_arrive_in_order)
{
    need_carrier();
    ranks_as_processes(4, NULL, all_to_all, NULL);
    ranks_as_threads(3, NULL, all_to_all, NULL);
}

/* Many small ones: the sender is far ahead of the receiver. */
static void many_small(weft_world *world, void *argument)
{
    (void)argument;
    enum { MESSAGES = 20000 };
    weft_comm *comm = comm_over(world, carrier(), "small");
    int rank = weft_world_rank(world);
    for (int32_t n = 0; n < MESSAGES; n++) {
        int32_t v = rank ? -1 : n;
        weft_p2p m = message(rank ? WEFT_RECV : WEFT_SEND, 1 - rank, 0, &v, 1);
        CHECK_OK(run_messages(comm, &m, 1));
        CHECK_INT(v, n);
        if (rank == 1 && n % 5000 == 0)
            pause_ms(10);
    }
    weft_comm_destroy(comm);
}

TEST(many_small_messages_arrive_in_order)
{
    need_carrier();
    ranks_as_processes(2, NULL, many_small, NULL);
}

/* ------------------------------------------------------------------------------------------- independence */

/* What nobody receives yet holds up nothing else: not the other channel, nor the way back, nor collectives. */
static void one_waits(weft_world *world, void *argument)
{
    (void)argument;
    enum { LARGE = 4000000 };
    weft_comm *comm = comm_over(world, carrier(), "apart"), *other = comm_over(world, carrier(), "other");
    int rank = weft_world_rank(world);
    int32_t *large = calloc(LARGE, sizeof *large), small = rank ? -1 : 7, back = rank ? 8 : -1;
    weft_work held = WEFT_WORK_NONE;
    if (rank == 0) {
        large[LARGE - 1] = 99;
        weft_p2p m = message(WEFT_SEND, 1, 0, large, LARGE);
        CHECK_OK(start_messages(comm, &m, 1, &held));
    }
    weft_p2p there = message(rank ? WEFT_RECV : WEFT_SEND, 1 - rank, 1, &small, 1);
    CHECK_OK(run_messages(comm, &there, 1));
    CHECK_INT(small, 7);
    weft_p2p here = message(rank ? WEFT_SEND : WEFT_RECV, 1 - rank, 0, &back, 1);
    CHECK_OK(run_messages(comm, &here, 1));
    CHECK_INT(back, 8);
    CHECK_OK(weft_barrier_run(comm, WEFT_STREAM_HOST));
    CHECK_OK(weft_barrier_run(other, WEFT_STREAM_HOST));
    if (rank == 0) {
        CHECK_RESULT(weft_work_test(held), WEFT_PENDING);
    } else {
        weft_p2p m = message(WEFT_RECV, 0, 0, large, LARGE);
        CHECK_OK(start_messages(comm, &m, 1, &held));
    }
    CHECK_OK(weft_work_finish(held, WEFT_STREAM_HOST));
    CHECK_INT(large[LARGE - 1], 99);
    free(large);
    weft_comm_destroy(comm);
    weft_comm_destroy(other);
}

TEST(a_message_that_nobody_receives_holds_up_nothing_else)
{
    need_carrier();
    ranks_as_processes(2, NULL, one_waits, NULL);
}

/* Two ranks exchange before a third has said anything. */
static void two_of_three(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm = comm_over(world, carrier(), "three");
    int rank = weft_world_rank(world);
    int32_t v = rank == 0 ? 5 : -1;
    weft_p2p m = message(rank ? WEFT_RECV : WEFT_SEND, 1 - rank, 0, &v, 1);
    if (rank < 2)
        CHECK_OK(run_messages(comm, &m, 1));
    CHECK_INT(v, rank == 2 ? -1 : 5);
    CHECK_OK(weft_barrier_run(comm, WEFT_STREAM_HOST));
    weft_comm_destroy(comm);
}

TEST(two_ranks_need_nobody_else)
{
    need_carrier();
    ranks_as_processes(3, NULL, two_of_three, NULL);
}

/* Ranks may finish making comms in any order. */
static void other_way_round(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm_config config = WEFT_COMM_CONFIG_INIT;
    config.backend = carrier();
    weft_comm *comms[2];
    int rank = weft_world_rank(world);
    CHECK_OK(weft_comm_create_start(world, "first", NULL, 0, &config, &comms[0]));
    CHECK_OK(weft_comm_create_start(world, "second", NULL, 0, &config, &comms[1]));
    for (int i = 0; i < 2; i++) {
        CHECK_OK(weft_comm_create_finish(comms[rank ^ i]));
        int32_t v = 5;
        weft_p2p m = message(WEFT_SEND, 1 - rank, 0, &v, 1); /* it comes before the other has finished this one */
        CHECK_OK(run_messages(comms[rank ^ i], &m, 1));
    }
    for (int i = 0; i < 2; i++) {
        int32_t v = -1;
        weft_p2p m = message(WEFT_RECV, 1 - rank, 0, &v, 1);
        CHECK_OK(run_messages(comms[i], &m, 1));
        CHECK_INT(v, 5);
        weft_comm_destroy(comms[i]);
    }
}

TEST(comms_may_be_finished_in_any_order)
{
    need_carrier();
    ranks_as_processes(2, NULL, other_way_round, NULL);
}

/* ------------------------------------------------------------------------------------------- small containers */

/* From here on this process and its children have a /dev/shm of a page. */
static void shrink_shared_memory(void)
{
    if (unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
        test_skip("namespaces of mounts are not permitted: %s", strerror(errno));
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "size=4k") != 0)
        test_skip("cannot mount a small /dev/shm: %s", strerror(errno));
}

TEST(ranks_without_room_in_dev_shm_reach_each_other)
{
    need_carrier();
    if (strcmp(carrier(), "ucx") != 0)
        test_skip("only UCX has memory there");
    shrink_shared_memory();
    ranks_as_processes(2, NULL, all_to_all, NULL);
}
