/* SPDX-License-Identifier: Apache-2.0 */
/* A comm over NCCL is connected when it is made: nothing is connected late, and what is not connected is refused. */
#include "gpu_comm.h"

#include <stdlib.h>
#include <unistd.h>
#include <weft/nccl.h>

enum { RANKS = 3, LARGE = 3 << 20 };

/* All that a rank could be made to wait in: every kind, with what multicast carries and what it does not, of sizes that
 * NCCL carries in different ways. */
static void start_all(weft_comm *comm, float *x, float *y, weft_stream s)
{
    static const size_t counts[] = {1, 100, 1000, 5000, 30000, 100000};
    static const weft_reduction reductions[] = {WEFT_SUM, WEFT_PRODUCT, WEFT_AVERAGE};
    size_t ranks = (size_t)weft_comm_size(comm);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        size_t count = counts[i], part = count < ranks ? 1 : count / ranks;
        for (size_t k = 0; k < sizeof reductions / sizeof *reductions; k++) {
            OK(weft_all_reduce_run(comm, x, x, count, WEFT_FP32, reductions[k], s));
            OK(weft_reduce_scatter_run(comm, x, y, part, WEFT_FP32, reductions[k], s));
        }
        OK(weft_all_gather_run(comm, x, y, part, WEFT_FP32, s));
        OK(weft_broadcast_run(comm, x, x, count, WEFT_FP32, 1, s));
    }
    OK(weft_all_reduce_run(comm, x, x, LARGE, WEFT_FP32, WEFT_SUM, s));
    OK(weft_all_to_all_run(comm, x, y, 7, WEFT_FP32, s));
}

/* The others come only when rank 0 has started it all. */
static void start_alone(weft_world *world, void *argument)
{
    enum { ROOM = WEFT_P2P_BATCH_MAX < 16 ? WEFT_P2P_BATCH_MAX : 16 };
    (void)argument;
    int rank = weft_world_rank(world), ranks = weft_world_size(world);
    use_gpu(world);
    weft_comm_config on_host = WEFT_COMM_CONFIG_INIT;
    weft_comm *comm = gpu_comm(world, "alone"), *host = all_ranks(world, "host", &on_host);
    cudaStream_t stream = new_stream();
    float *x = new_floats(world, LARGE + 1), *y = new_floats(world, LARGE + 1);
    weft_stream s = weft_cuda_stream(stream);
    weft_p2p messages[ROOM];
    for (int r = 0; r < ranks; r++) {
        messages[2 * r] = (weft_p2p){.kind = WEFT_SEND, .peer = r, .dtype = WEFT_FP32, .buffer = x, .count = 1};
        messages[2 * r + 1] = (weft_p2p){.kind = WEFT_RECV, .peer = r, .dtype = WEFT_FP32, .buffer = y + r, .count = 1};
    }
    weft_p2p_batch batch = WEFT_P2P_BATCH_INIT;
    batch.messages = messages, batch.count = 2 * (size_t)ranks;
    if (rank > 0)
        OK(weft_barrier_run(host, WEFT_STREAM_HOST));
    start_all(comm, x, y, s);
    OK(weft_p2p_run(comm, &batch, s));
    if (rank == 0)
        OK(weft_barrier_run(host, WEFT_STREAM_HOST));
    OK(weft_world_check(world, s));
    weft_comm_destroy(comm);
    weft_comm_destroy(host);
    CHECK_INT(standin_races(), 0);
}

TEST(no_start_waits_for_another_rank)
{
    ranks_both_ways(RANKS, start_alone, NULL);
}

TEST(nor_do_large_ones_of_several_hosts)
{
    ranks_as_threads(4, NULL, start_alone, NULL);
}

TEST(nor_where_nccl_connects_at_once)
{
    setenv("NCCL_RUNTIME_CONNECT", "0", 1);
    ranks_as_threads(4, NULL, start_alone, NULL);
}

static void begin_and_wait(weft_world *world, void *argument)
{
    (void)argument;
    use_gpu(world);
    weft_comm_config config = WEFT_COMM_CONFIG_INIT;
    config.device = WEFT_DEVICE_CUDA;
    weft_comm *comm;
    OK(weft_comm_create_start(world, "late", NULL, 0, &config, &comm));
    if (weft_world_rank(world) != 1) {
        CHECK_INT(weft_comm_create_finish(comm), WEFT_E_TIMEOUT);
        CHECK_HAS(weft_last_error(), "comm late: backend nccl did not connect its 3 members; not come to connect: 1");
    } else { /* it has met them, and does something else */
        CHECK_INT(usleep(1500000), 0);
    }
    weft_comm_destroy(comm);
}

TEST(who_does_not_come_to_connect_is_named)
{
    weft_world_config config = WEFT_WORLD_CONFIG_INIT;
    config.rendezvous_timeout_ms = 600;
    ranks_as_threads(RANKS, &config, begin_and_wait, NULL);
}

static void name_peers(weft_world *world, void *argument)
{
    (void)argument;
    int rank = weft_world_rank(world), next = (rank + 1) % 2;
    use_gpu(world);
    weft_comm_config config = WEFT_COMM_CONFIG_INIT;
    config.device = WEFT_DEVICE_CUDA;
    config.p2p_peers = &next; /* rank 2 names nobody */
    config.p2p_peer_count = rank < 2;
    weft_comm *comm = all_ranks(world, "pairs", &config);
    float *x = new_floats(world, 2);
    weft_p2p message = {
        .kind = rank ? WEFT_RECV : WEFT_SEND, .peer = next, .dtype = WEFT_FP32, .buffer = x, .count = 1};
    weft_p2p_batch batch = WEFT_P2P_BATCH_INIT;
    batch.messages = &message, batch.count = 1;
    if (rank < 2)
        OK(weft_p2p_run(comm, &batch, WEFT_STREAM_HOST));
    message.peer = rank < 2 ? 2 : 0;
    CHECK_INT(weft_p2p_run(comm, &batch, WEFT_STREAM_HOST), WEFT_E_INVALID);
    CHECK_HAS(weft_last_error(), "which weft_comm_config.p2p_peers does not name");
    config.p2p_peers = (const int[]){0, 0}, config.p2p_peer_count = 2;
    weft_comm *none;
    CHECK_INT(weft_comm_create(world, "twice", NULL, 0, &config, &none), WEFT_E_INVALID);
    CHECK_HAS(weft_last_error(), "p2p_peers names member 0 twice");
    OK(weft_barrier_run(comm, WEFT_STREAM_HOST));
    weft_comm_destroy(comm);
}

TEST(pairs_that_are_not_named_exchange_nothing)
{
    ranks_as_threads(RANKS, NULL, name_peers, NULL);
}

static void name_one_way(weft_world *world, void *argument)
{
    (void)argument;
    int rank = weft_world_rank(world);
    use_gpu(world);
    weft_comm_config config = WEFT_COMM_CONFIG_INIT;
    config.device = WEFT_DEVICE_CUDA;
    const int others[] = {(rank + 1) % RANKS, (rank + 2) % RANKS};
    config.p2p_peers = rank == 1 ? &others[1] : others; /* rank 1 names rank 0 alone, and rank 2 names that too */
    config.p2p_peer_count = rank == 1 ? 1 : 2;
    weft_comm *comm;
    CHECK_INT(weft_comm_create(world, "one way", NULL, 0, &config, &comm), WEFT_E_MISMATCH);
    CHECK_HAS(weft_last_error(), "comm one way: p2p_peers of rank 2 names rank 1, but not the reverse");
}

TEST(pairs_that_only_one_of_them_names_are_told)
{
    ranks_both_ways(RANKS, name_one_way, NULL);
}

enum { MANY = 65 };

static weft_result exchange(weft_comm *comm, float *x)
{
    weft_p2p messages[] = {{.kind = WEFT_SEND, .peer = 1, .dtype = WEFT_FP32, .buffer = x, .count = 1},
                           {.kind = WEFT_RECV, .peer = 1, .dtype = WEFT_FP32, .buffer = x + 1, .count = 1}};
    messages[0].peer = messages[1].peer = (weft_comm_rank(comm) + 1) % weft_comm_size(comm);
    return run_messages(comm, messages, 2);
}

static void ask_for_what_is_not_connected(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm_config config = WEFT_COMM_CONFIG_INIT;
    config.device = WEFT_DEVICE_CUDA;
    use_gpu(world);
    bool many = weft_world_size(world) == MANY;
    config.flags = many ? 0 : WEFT_COMM_NO_P2P;
    weft_comm *comm = all_ranks(world, "apart", &config);
    float *x = new_floats(world, 2 * MANY), *y = x + MANY;
    CHECK_INT(weft_all_to_all_run(comm, x, y, 1, WEFT_FP32, WEFT_STREAM_HOST), WEFT_E_UNSUPPORTED);
    CHECK_HAS(weft_last_error(), "an all-to-all wants every pair of them connected, as it is in comms with p2p "
                                 "channels of up to 64 members");
    CHECK_INT(exchange(comm, x), WEFT_E_UNSUPPORTED);
    if (many)
        CHECK_HAS(weft_last_error(), "comm apart: of 65 members, more than 64, only those are connected");
    OK(weft_all_reduce_run(comm, x, x, 1, WEFT_FP32, WEFT_SUM, WEFT_STREAM_HOST)); /* the comm is as it was */
    weft_comm_destroy(comm);
    weft_memory_free(world, x);
}

TEST(what_is_not_connected_is_refused_and_the_comm_goes_on)
{
    ranks_both_ways(2, ask_for_what_is_not_connected, NULL);
}

TEST(in_large_comms_too)
{
    if (getenv("WEFT_TEST_SLOWDOWN"))
        test_skip("it takes seconds");
    setenv("NCCL_RUNTIME_CONNECT", "0", 1);
    setenv("STANDIN_DEVICES", "65", 1); /* ranks that share a GPU would wait for each other */
    ranks_as_threads(MANY, NULL, ask_for_what_is_not_connected, NULL);
}

static void limit_ctas(weft_world *world, void *argument)
{
    (void)argument;
    use_gpu(world);
    weft_comm_config config = WEFT_COMM_CONFIG_INIT;
    config.device = WEFT_DEVICE_CUDA;
    config.least_ctas = 2;
    weft_comm *comm = all_ranks(world, "few", &config);
    ncclComm_t native;
    int least, most;
    OK(weft_nccl_native(comm, &native));
    standin_nccl_ctas(native, &least, &most);
    CHECK_INT(least, 2);
    CHECK_INT(most, 6); /* of the environment */
    OK(weft_comm_config_get(comm, &config));
    CHECK_INT(config.most_ctas, 6);
    config.least_ctas = 7;
    config.backend = NULL;
    weft_comm *none;
    CHECK_INT(weft_comm_create(world, "wrong", NULL, 0, &config, &none), WEFT_E_INVALID);
    CHECK_HAS(weft_last_error(), "least_ctas is 7, more than most_ctas, which is 6");
    weft_comm_destroy(comm);
}

TEST(nccl_is_told_what_it_may_take_of_a_gpu)
{
    setenv("WEFT_MOST_CTAS", "6", 1);
    ranks_as_threads(2, NULL, limit_ctas, NULL);
}
