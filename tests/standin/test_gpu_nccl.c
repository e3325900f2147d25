/* SPDX-License-Identifier: Apache-2.0 */
/* What a comm over NCCL adds to NCCL: nothing is connected late, what ranks ask for is compared before it runs, nothing
 * that NCCL does not let go of stops the program; and its communicators, lent and borrowed. */
#include "gpu_comm.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <weft/info.h>
#include <weft/nccl.h>

enum { RANKS = 3, LARGE = 3 << 20 };

/* ------------------------------------------------------------------------------------------- connecting */

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

/* ------------------------------------------------------------------------------------------- comparing */

typedef struct asks {
    int before;   /* operations that all ask for alike */
    size_t count; /* of the next: rank 1's is another */
    const char *says;
} asks;

static void ask_for_other_things(weft_world *world, void *argument)
{
    const asks *a = argument;
    int rank = weft_world_rank(world);
    use_gpu(world);
    weft_comm *comm = gpu_comm(world, "asks");
    weft_stream s = weft_cuda_stream(new_stream());
    float *x = new_floats(world, RANKS * 100);
    for (int i = 0; i < a->before; i++)
        OK(weft_all_reduce_run(comm, x, x, 100, WEFT_FP32, WEFT_SUM, s));
    weft_work work;
    OK(weft_all_reduce_start(comm, x, x, rank == 1 ? a->count : 100, WEFT_FP32, WEFT_SUM, s, &work));
    OK(weft_work_finish(work, s)); /* nobody waits */
    CHECK_INT(weft_world_check(world, s), WEFT_E_MISMATCH);
    CHECK_HAS(weft_last_error(), a->says);
    weft_comm_destroy(comm);
}

TEST(the_first_operations_are_compared_before_they_run)
{
    asks a = {2, 99,
              "comm asks, operation 3: rank 1 asks for all_reduce of 99 fp32, sum, rank 0 for all_reduce of 100 fp32, "
              "sum"};
    ranks_both_ways(RANKS, ask_for_other_things, &a);
}

TEST(an_operation_of_nothing_is_compared_too)
{
    asks a = {31, 0, "comm asks, operation 32: rank 1 asks for all_reduce of 0 fp32, sum, rank 0"};
    ranks_as_threads(RANKS, NULL, ask_for_other_things, &a);
}

TEST(every_operation_is_compared_if_one_rank_wants_that)
{
    setenv("WEFT_CHECK", "1", 1);
    asks a = {100, 1, "comm asks, operation 101: rank 1 asks for all_reduce of 1 fp32, sum, rank 0"};
    ranks_as_threads(RANKS, NULL, ask_for_other_things, &a);
}

/* The lane of rank 0 stands still until somebody comes to its seat; but what makes memory may wait for the GPU, and so
 * for the others, who start only then. */
static void make_others_while_a_lane_is_held(weft_world *world, void *argument)
{
    (void)argument;
    bool first = weft_world_rank(world) == 0;
    use_gpu(world);
    weft_comm_config config = WEFT_COMM_CONFIG_INIT, on_host = WEFT_COMM_CONFIG_INIT;
    config.device = WEFT_DEVICE_CUDA;
    weft_comm *held = gpu_comm(world, "held"), *host = all_ranks(world, "host", &on_host), *other;
    weft_stream s = weft_cuda_stream(new_stream());
    float *x = new_floats(world, 100), *y = new_floats(world, 100);
    weft_work work;
    if (!first)
        OK(weft_barrier_run(host, WEFT_STREAM_HOST));
    OK(weft_all_reduce_start(held, x, x, first ? 99 : 100, WEFT_FP32, WEFT_SUM, s, &work));
    OK(weft_comm_create_start(world, "other", NULL, 0, &config, &other));
    if (first)
        OK(weft_barrier_run(host, WEFT_STREAM_HOST));
    CHECK_INT(weft_work_finish(work, WEFT_STREAM_HOST), WEFT_E_MISMATCH);
    OK(weft_comm_create_finish(other));
    OK(weft_all_reduce_run(other, y, y, 100, WEFT_FP32, WEFT_SUM, s));
    weft_comm_destroy(held);
    weft_comm_destroy(host);
    weft_comm_destroy(other);
    weft_memory_free(world, x);
    weft_memory_free(world, y);
}

TEST(comms_are_made_while_operations_that_differ_are_held)
{
    ranks_both_ways(RANKS, make_others_while_a_lane_is_held, NULL);
}

/* What is captured would run with the graph; the stand-in runs it at once. */
static void capture_alone(weft_world *world, void *argument)
{
    const int *capturing = argument;
    use_gpu(world);
    weft_comm *comm = gpu_comm(world, "graph");
    cudaStream_t stream = new_stream();
    float *x = new_floats(world, 100);
    bool captures = *capturing < 0 || weft_world_rank(world) == *capturing;
    cudaGraph_t graph;
    weft_work work;
    if (captures)
        CHECK_INT(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    OK(weft_all_reduce_start(comm, x, x, 100, WEFT_FP32, WEFT_SUM, weft_cuda_stream(stream), &work));
    OK(weft_work_finish(work, weft_cuda_stream(stream)));
    if (captures)
        CHECK_INT(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    if (*capturing < 0) {
        OK(weft_all_reduce_run(comm, x, x, 100, WEFT_FP32, WEFT_SUM, WEFT_STREAM_HOST));
    } else {
        while (weft_comm_error(comm, NULL, 0) == WEFT_OK)
            usleep(1000);
        CHECK_INT(weft_comm_error(comm, NULL, 0), WEFT_E_MISMATCH);
        CHECK_INT(weft_world_check(world, WEFT_STREAM_HOST), WEFT_E_MISMATCH);
        CHECK_HAS(weft_last_error(), "comm graph, operation 1: rank 2 captures it into a graph, rank ");
    }
    weft_comm_destroy(comm);
    weft_memory_free(world, x);
}

TEST(an_operation_that_one_rank_captures_and_others_do_not_is_told)
{
    int last = 2;
    ranks_both_ways(RANKS, capture_alone, &last);
}

static void capture_other_things(weft_world *world, void *argument)
{
    (void)argument;
    use_gpu(world);
    weft_comm *comm = gpu_comm(world, "graph");
    cudaStream_t stream = new_stream();
    float *x = new_floats(world, 100);
    cudaGraph_t graph;
    weft_work work;
    CHECK_INT(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    OK(weft_all_reduce_start(comm, x, x, weft_world_rank(world) == 1 ? 99 : 100, WEFT_FP32, WEFT_SUM,
                             weft_cuda_stream(stream), &work));
    OK(weft_work_finish(work, weft_cuda_stream(stream)));
    CHECK_INT(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    while (weft_comm_error(comm, NULL, 0) == WEFT_OK) /* nobody waits for it */
        usleep(1000);
    CHECK_INT(weft_world_check(world, WEFT_STREAM_HOST), WEFT_E_MISMATCH);
    CHECK_HAS(weft_last_error(), "comm graph, operation 1: rank 1 asks for all_reduce of 99 fp32, sum, rank 0 for");
    weft_comm_destroy(comm);
    weft_memory_free(world, x);
}

TEST(captured_operations_that_differ_are_told)
{
    ranks_both_ways(RANKS, capture_other_things, NULL);
}

TEST(operations_that_all_capture_are_compared_too)
{
    int all = -1;
    ranks_both_ways(RANKS, capture_alone, &all);
}

/* ------------------------------------------------------------------------------------------- what does not end */

static _Atomic bool let_go;

static size_t touches_nothing(const void *argument, standin_range *ranges)
{
    (void)argument, (void)ranges;
    return 0;
}

static void never_end(const void *argument)
{
    (void)argument;
    while (!let_go)
        usleep(1000);
}

static const char endless_entry;
static const standin_kernel endless[] = {{&endless_entry, "endless", 4, touches_nothing, never_end}};

static void be_stuck(weft_world *world, void *argument)
{
    (void)argument;
    use_gpu(world);
    weft_comm_config config = WEFT_COMM_CONFIG_INIT;
    config.device = WEFT_DEVICE_CUDA;
    config.timeout_ms = 300; /* and what an abort is given, too */
    weft_comm_config on_host = WEFT_COMM_CONFIG_INIT;
    weft_comm *comm = all_ranks(world, "stuck", &config), *host = all_ranks(world, "host", &on_host);
    cudaStream_t stream = new_stream();
    float *x = new_floats(world, 100);
    int nothing = 0;
    standin_kernels_add(endless, 1);
    CHECK_INT(cudaLaunchKernel(&endless_entry, (dim3){1, 1, 1}, (dim3){1, 1, 1}, (void *[]){&nothing}, 0, stream),
              cudaSuccess);
    weft_work work;
    OK(weft_all_reduce_start(comm, x, x, 100, WEFT_FP32, WEFT_SUM, weft_cuda_stream(stream), &work));
    CHECK_INT(weft_work_finish(work, WEFT_STREAM_HOST), WEFT_E_STUCK);
    CHECK_HAS(weft_last_error(), "comm stuck: NCCL has not ended its operations");
    CHECK_INT(weft_comm_error(comm, NULL, 0), WEFT_E_TIMEOUT);
    weft_comm_destroy(comm);
    OK(weft_barrier_run(host, WEFT_STREAM_HOST));
    weft_comm_destroy(host);
    let_go = true; /* so that the GPU can be given back */
}

TEST(what_a_gpu_never_ends_is_given_up)
{
    ranks_as_processes(2, NULL, be_stuck, NULL);
    ranks_as_threads(2, NULL, be_stuck, NULL); /* the kernel ends for both at once */
}

static void hear_of_an_error(weft_world *world, void *argument)
{
    (void)argument;
    use_gpu(world);
    weft_comm *comm = gpu_comm(world, "error");
    float *x = new_floats(world, 100);
    weft_work work;
    if (weft_world_rank(world) == 0) { /* the other does not come */
        OK(weft_all_reduce_start(comm, x, x, 100, WEFT_FP32, WEFT_SUM, WEFT_STREAM_HOST, &work));
        CHECK_INT(weft_work_finish(work, WEFT_STREAM_HOST), WEFT_E_PEER_LOST);
        CHECK_HAS(weft_last_error(), "comm error: NCCL: remote error");
    } else {
        while (weft_comm_error(comm, NULL, 0) == WEFT_OK)
            usleep(1000);
        CHECK_INT(weft_comm_error(comm, NULL, 0), WEFT_E_PEER_LOST);
    }
    weft_comm_destroy(comm);
}

TEST(an_error_that_nccl_has_later_fails_the_comm_everywhere)
{
    setenv("STANDIN_FAULT", "async:3", 1);
    ranks_both_ways(2, hear_of_an_error, NULL);
}

/* ------------------------------------------------------------------------------------------- communicators */

static void lend_and_borrow(weft_world *world, void *argument)
{
    (void)argument;
    int rank = weft_world_rank(world), count;
    use_gpu(world);
    weft_comm *own = gpu_comm(world, "own"), *adopting, *other;
    cudaStream_t stream = new_stream();
    float *x = new_floats(world, 4), host[4] = {1, 2, 3, 4};
    ncclComm_t native, mine;
    ncclUniqueId id;
    OK(weft_nccl_native(own, &native));
    CHECK_INT(ncclCommCount(native, &count), ncclSuccess);
    CHECK_INT(count, RANKS);
    CHECK_INT(cudaMemcpyAsync(x, host, sizeof host, cudaMemcpyHostToDevice, stream), cudaSuccess);
    CHECK_INT(ncclAllReduce(x, x, 4, ncclFloat32, ncclSum, native, stream), ncclSuccess);
    /* The id travels by a comm of weft's. */
    if (rank == 0)
        CHECK_INT(ncclGetUniqueId(&id), ncclSuccess);
    weft_comm_config on_host = WEFT_COMM_CONFIG_INIT;
    weft_comm *meeting = all_ranks(world, "meeting", &on_host);
    OK(weft_broadcast_run(meeting, &id, &id, sizeof id, WEFT_UINT8, 0, WEFT_STREAM_HOST));
    CHECK_INT(weft_nccl_native(meeting, &mine), WEFT_E_UNSUPPORTED);
    CHECK_INT(ncclCommInitRankConfig(&mine, RANKS, id, rank, NULL), ncclSuccess);

    OK(weft_nccl_adopt(world, "adopting", NULL, 0, NULL, mine, &adopting));
    OK(weft_nccl_native(adopting, &native));
    CHECK(native == mine);
    OK(weft_all_reduce_run(adopting, x, x, 4, WEFT_FP32, WEFT_SUM, weft_cuda_stream(stream)));
    CHECK_INT(cudaMemcpyAsync(host, x, sizeof host, cudaMemcpyDeviceToHost, stream), cudaSuccess);
    OK(weft_world_check(world, weft_cuda_stream(stream)));
    for (int i = 0; i < 4; i++)
        CHECK(host[i] == (float)(RANKS * RANKS * (i + 1)));

    /* It is of all ranks, in their order; and all adopt. */
    CHECK_INT(weft_nccl_adopt(world, "none", NULL, 0, NULL, NULL, &other), WEFT_E_INVALID);
    CHECK_HAS(weft_last_error(), "comm none: there is no communicator to adopt");
    CHECK_INT(weft_nccl_adopt(world, "turned", (const int[]){2, 1, 0}, RANKS, NULL, mine, &other), WEFT_E_INVALID);
    CHECK_HAS(weft_last_error(), " in the given communicator");
    weft_comm_config config = WEFT_COMM_CONFIG_INIT;
    config.device = WEFT_DEVICE_CUDA;
    if (rank)
        CHECK_INT(weft_comm_create(world, "some", NULL, 0, &config, &other), WEFT_E_MISMATCH);
    else
        CHECK_INT(weft_nccl_adopt(world, "some", NULL, 0, NULL, mine, &other), WEFT_E_MISMATCH);
    weft_comm_destroy(adopting);
    CHECK_INT(ncclAllReduce(x, x, 4, ncclFloat32, ncclSum, mine, stream), ncclSuccess); /* it is as it was */
    CHECK_INT(cudaStreamSynchronize(stream), cudaSuccess);
    CHECK_INT(ncclCommDestroy(mine), ncclSuccess);
    weft_comm_destroy(own);
    weft_comm_destroy(meeting);
    weft_memory_free(world, x);
    CHECK_INT(standin_races(), 0);
}

TEST(communicators_are_lent_and_borrowed)
{
    ranks_both_ways(RANKS, lend_and_borrow, NULL);
}

static void *abort_soon(void *comm)
{
    usleep(2000);
    CHECK_INT(weft_comm_abort(comm), WEFT_OK);
    return NULL;
}

static void ask_while_it_is_aborted(weft_world *world, void *argument)
{
    (void)argument;
    use_gpu(world);
    weft_comm *comm = gpu_comm(world, "lent");
    ncclComm_t native;
    pthread_t thread;
    CHECK_INT(pthread_create(&thread, NULL, abort_soon, comm), 0);
    weft_result result;
    while ((result = weft_nccl_native(comm, &native)) == WEFT_OK)
        CHECK(native);
    CHECK_INT(result, WEFT_E_ABORTED);
    CHECK_INT(pthread_join(thread, NULL), 0);
    weft_comm_destroy(comm);
}

TEST(a_communicator_can_be_asked_for_while_its_comm_is_aborted)
{
    ranks_as_threads(2, NULL, ask_while_it_is_aborted, NULL);
}

/* ------------------------------------------------------------------------------------------- settings */

static void find(void *cookie, const weft_info *fact)
{
    char *text = cookie;
    size_t used = strlen(text);
    if (fact->kind == WEFT_INFO_SETTING)
        snprintf(text + used, 2000 - used, "%s=%s\n", fact->name, fact->value);
}

static void tell_settings(weft_world *world, void *argument)
{
    (void)argument;
    char text[2000] = "";
    use_gpu(world);
    weft_comm_destroy(gpu_comm(world, "settings"));
    OK(weft_info_tell(world, find, text));
    CHECK_HAS(text, "NCCL=2.28.9\n");
    CHECK_HAS(text, "NCCL, buffers of buckets=not registered\n");
    CHECK_HAS(text, "NCCL_ALGO=Ring\n");
    CHECK_HAS(text, "CUDA_DEVICE_MAX_CONNECTIONS=8\n");
}

TEST(what_nccl_is_set_to_is_told)
{
    setenv("NCCL_ALGO", "Ring", 1);
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "8", 1);
    ranks_as_threads(1, NULL, tell_settings, NULL);
}
