/* SPDX-License-Identifier: Apache-2.0 */
/* What a comm over NCCL adds to NCCL: what ranks ask for is compared before it runs, nothing that NCCL does not let go
 * of stops the program; and its communicators, lent and borrowed. */
#include "gpu_comm.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <weft/info.h>
#include <weft/nccl.h>

enum { RANKS = 3 };

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

/* That ranks differ may be known by then. */
static void finish_or_hear(weft_work work, cudaStream_t stream)
{
    weft_result result = weft_work_finish(work, weft_cuda_stream(stream));
    CHECK_MSG(result == WEFT_OK || result == WEFT_E_MISMATCH, "%s", weft_last_error());
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
    finish_or_hear(work, stream);
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
    finish_or_hear(work, stream);
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

/* Nobody waits for the operation: that it is stuck is known from its comm. The world is closed with it. */
static void be_stuck_on_a_stream(weft_world *world, void *argument)
{
    (void)argument;
    use_gpu(world);
    weft_comm *comm = gpu_comm(world, "stuck");
    cudaStream_t stream = new_stream();
    float *x = new_floats(world, 100);
    int nothing = 0;
    standin_kernels_add(endless, 1);
    CHECK_INT(cudaLaunchKernel(&endless_entry, (dim3){1, 1, 1}, (dim3){1, 1, 1}, (void *[]){&nothing}, 0, stream),
              cudaSuccess);
    weft_work work;
    OK(weft_all_reduce_start(comm, x, x, 100, WEFT_FP32, WEFT_SUM, weft_cuda_stream(stream), &work));
    OK(weft_work_finish(work, weft_cuda_stream(stream)));
    weft_memory_free(world, x); /* kept, and no wait for the GPU */
    CHECK_INT(weft_world_check(world, WEFT_STREAM_HOST), WEFT_E_TIMEOUT);
    CHECK_INT(weft_world_check(world, weft_cuda_stream(stream)), WEFT_E_STUCK);
    weft_comm_destroy(comm);
    CHECK_INT(weft_world_check(world, weft_cuda_stream(stream)), WEFT_E_STUCK);
}

TEST(a_world_whose_gpu_is_stuck_can_be_checked_and_closed)
{
    weft_world_config config = WEFT_WORLD_CONFIG_INIT;
    config.timeout_ms = 300;
    quiet();
    ranks_as_processes(2, &config, be_stuck_on_a_stream, NULL);
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

/* ------------------------------------------------------------------------------------------- what looking costs */

enum { MANY = 200 };

static void start_many(weft_world *world, void *argument)
{
    (void)argument;
    use_gpu(world);
    weft_comm *comm = gpu_comm(world, "many");
    cudaStream_t stream = new_stream();
    float *x = new_floats(world, 100);
    weft_work works[MANY];
    int nothing = 0;
    standin_kernels_add(endless, 1);
    let_go = false;
    CHECK_INT(cudaLaunchKernel(&endless_entry, (dim3){1, 1, 1}, (dim3){1, 1, 1}, (void *[]){&nothing}, 0, stream),
              cudaSuccess);
    uint64_t before = standin_event_queries();
    for (int i = 0; i < MANY; i++)
        OK(weft_all_reduce_start(comm, x, x, 100, WEFT_FP32, WEFT_SUM, weft_cuda_stream(stream), &works[i]));
    CHECK(standin_event_queries() - before <= 4 * MANY); /* a world of one rank has no thread that looks, too */
    let_go = true;
    for (int i = 0; i < MANY; i++)
        OK(weft_work_finish(works[i], WEFT_STREAM_HOST));
    weft_comm_destroy(comm);
    weft_memory_free(world, x);
}

TEST(a_start_looks_at_few_events_however_many_operations_are_in_flight)
{
    ranks_as_threads(1, NULL, start_many, NULL);
}

/* ------------------------------------------------------------------------------------------- the end */

static void leave_communicators(weft_world *world, void *argument)
{
    (void)argument;
    use_gpu(world);
    weft_comm *comm = gpu_comm(world, "left");
    OK(weft_barrier_run(comm, WEFT_STREAM_HOST));
    weft_comm_destroy(comm);
}

TEST(a_world_is_closed_when_its_communicators_have_ended)
{
    setenv("STANDIN_FAULT", "slow:1", 1);
    for (int i = 0; i < 2; i++) {
        ranks_as_threads(2, NULL, leave_communicators, NULL);
        CHECK_INT(standin_nccl_alive(), 0);
    }
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
