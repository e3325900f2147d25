/* SPDX-License-Identifier: Apache-2.0 */
/* Comms of a GPU: what is started runs behind the caller's stream, and what the caller queues next behind it, with the
 * values of a naive sum; nothing blocks the host, and nothing is accessed out of order. */
#include "gpu_comm.h"

#include <stdlib.h>
#include <unistd.h>

enum { RANKS = 4, COUNT = 20000 };

static void put(float *there, const float *values, size_t count, cudaStream_t stream)
{
    CHECK_INT(cudaMemcpyAsync(there, values, count * sizeof *values, cudaMemcpyHostToDevice, stream), cudaSuccess);
}

static void get(float *values, const float *there, size_t count, cudaStream_t stream)
{
    CHECK_INT(cudaMemcpyAsync(values, there, count * sizeof *values, cudaMemcpyDeviceToHost, stream), cudaSuccess);
    CHECK_INT(cudaStreamSynchronize(stream), cudaSuccess);
}

static float value_of(int rank, size_t i)
{
    return (float)(i % 97) + (float)rank;
}

static void sum_behind_streams(weft_world *world, void *argument)
{
    (void)argument;
    int rank = weft_world_rank(world);
    use_gpu(world);
    weft_comm *comm = gpu_comm(world, "sum");
    CHECK_STR(weft_comm_backend(comm), "nccl");
    cudaStream_t one = new_stream(), two = new_stream();
    float *in = new_floats(world, RANKS * COUNT), *out = new_floats(world, RANKS * COUNT);
    float *host = malloc(RANKS * COUNT * sizeof *host);
    CHECK(host);
    for (int round = 0; round < 100; round++) { /* more than there are works */
        for (size_t i = 0; i < RANKS * COUNT && round % 50 == 0; i++)
            host[i] = value_of(rank, i) + (float)round;
        if (round % 50 == 0)
            put(in, host, RANKS * COUNT, one);
        weft_work work;
        OK(weft_reduce_scatter_start(comm, in, out, COUNT, WEFT_FP32, WEFT_SUM, weft_cuda_stream(one), &work));
        OK(weft_work_finish(work, weft_cuda_stream(two)));
        OK(weft_all_gather_run(comm, out, in, COUNT, WEFT_FP32, weft_cuda_stream(two)));
        CHECK_INT(cudaEventRecord(NULL, two), cudaErrorInvalidResourceHandle); /* and CUDA's errors are the caller's */
        if (round % 50) {
            /* back to the first stream */
            cudaEvent_t event;
            CHECK_INT(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
            CHECK_INT(cudaEventRecord(event, two), cudaSuccess);
            CHECK_INT(cudaStreamWaitEvent(one, event, 0), cudaSuccess);
            CHECK_INT(cudaEventDestroy(event), cudaSuccess);
            continue;
        }
        get(host, in, RANKS * COUNT, two);
        for (size_t i = 0; i < RANKS * COUNT; i++)
            CHECK(host[i] == RANKS * (float)(i % 97) + 6 + RANKS * (float)round);
        CHECK_INT(cudaStreamSynchronize(two), cudaSuccess);
    }
    OK(weft_world_check(world, weft_cuda_stream(two)));
    weft_comm_destroy(comm);
    weft_memory_free(world, in);
    weft_memory_free(world, out);
    free(host);
    CHECK_INT(standin_races(), 0);
}

TEST_LIMIT(what_is_started_runs_in_the_order_of_streams, 120)
{
    ranks_both_ways(RANKS, sum_behind_streams, NULL);
}

static void every_collective(weft_world *world, void *argument)
{
    (void)argument;
    int rank = weft_world_rank(world);
    use_gpu(world);
    weft_comm *comm = gpu_comm(world, "all");
    float *in = new_floats(world, RANKS * 5), *out = new_floats(world, RANKS * 5), host[RANKS * 5];
    const weft_stream stream = weft_cuda_stream(cudaStreamPerThread);
    for (size_t i = 0; i < RANKS * 5; i++)
        host[i] = value_of(rank, i);
    put(in, host, RANKS * 5, cudaStreamPerThread);
    OK(weft_all_reduce_run(comm, in, out, 5, WEFT_FP32, WEFT_AVERAGE, stream));
    get(host, out, 5, cudaStreamPerThread);
    for (size_t i = 0; i < 5; i++)
        CHECK(host[i] == (float)i + 1.5f);
    OK(weft_broadcast_run(comm, in, out, 5, WEFT_FP32, 2, stream));
    get(host, out, 5, cudaStreamPerThread);
    for (size_t i = 0; i < 5; i++)
        CHECK(host[i] == value_of(2, i));
    OK(weft_reduce_run(comm, in, out, 5, WEFT_FP32, WEFT_MAX, 1, stream));
    get(host, out, 5, cudaStreamPerThread);
    for (size_t i = 0; i < 5; i++)
        CHECK(host[i] == value_of(rank == 1 ? 3 : 2, i));
    OK(weft_all_to_all_run(comm, in, out, 5, WEFT_FP32, stream));
    get(host, out, RANKS * 5, cudaStreamPerThread);
    for (size_t i = 0; i < RANKS * 5; i++)
        CHECK(host[i] == value_of((int)(i / 5), (size_t)rank * 5 + i % 5));
    OK(weft_barrier_run(comm, stream));
    OK(weft_all_reduce_run(comm, in, in, 0, WEFT_FP32, WEFT_SUM, WEFT_STREAM_HOST));
    OK(weft_comm_agree(comm, WEFT_OK, NULL));
    CHECK_INT(weft_comm_agree(comm, rank == 2 ? WEFT_E_RANGE : WEFT_OK, "too far"), WEFT_E_RANGE);
    CHECK_HAS(weft_last_error(), "rank 2: too far");
    weft_comm_destroy(comm);
    weft_memory_free(world, in);
    weft_memory_free(world, out);
    CHECK_INT(standin_races(), 0);
}

TEST(every_collective_gives_its_values)
{
    ranks_both_ways(RANKS, every_collective, NULL);
}

static void pass_around(weft_world *world, void *argument)
{
    (void)argument;
    int rank = weft_world_rank(world), next = (rank + 1) % RANKS, before = (rank + RANKS - 1) % RANKS;
    use_gpu(world);
    weft_comm *comm = gpu_comm(world, "ring");
    CHECK_INT(weft_comm_queues(comm), WEFT_QUEUES_ONE);
    cudaStream_t stream = new_stream();
    float *in = new_floats(world, COUNT), *out = new_floats(world, 3 * COUNT), host[4];
    for (size_t i = 0; i < 4; i++)
        host[i] = value_of(rank, i);
    put(in, host, 4, stream);
    const weft_p2p messages[] = {
        {.kind = WEFT_SEND, .peer = next, .channel = 0, .dtype = WEFT_FP32, .buffer = in, .count = COUNT},
        {.kind = WEFT_RECV, .peer = before, .channel = 0, .dtype = WEFT_FP32, .buffer = out, .count = COUNT},
        {.kind = WEFT_SEND, .peer = before, .channel = 1, .dtype = WEFT_FP32, .buffer = in, .count = COUNT},
        {.kind = WEFT_RECV, .peer = next, .channel = 1, .dtype = WEFT_FP32, .buffer = out + COUNT, .count = COUNT},
        {.kind = WEFT_SEND, .peer = rank, .channel = 1, .dtype = WEFT_FP32, .buffer = in, .count = COUNT},
        {.kind = WEFT_RECV, .peer = rank, .channel = 1, .dtype = WEFT_FP32, .buffer = out + 2 * COUNT, .count = COUNT},
    };
    weft_p2p_batch batch = WEFT_P2P_BATCH_INIT;
    batch.messages = messages;
    batch.count = sizeof messages / sizeof *messages;
    weft_work work;
    OK(weft_p2p_start(comm, &batch, weft_cuda_stream(stream), &work));
    OK(weft_work_order(work, weft_cuda_stream(cudaStreamPerThread)));
    get(host, out + COUNT, 4, cudaStreamPerThread);
    for (size_t i = 0; i < 4; i++)
        CHECK(host[i] == value_of(next, i));
    OK(weft_work_finish(work, WEFT_STREAM_HOST));
    get(host, out, 4, stream);
    for (size_t i = 0; i < 4; i++)
        CHECK(host[i] == value_of(before, i));
    get(host, out + 2 * COUNT, 4, stream);
    for (size_t i = 0; i < 4; i++)
        CHECK(host[i] == value_of(rank, i));
    weft_comm_destroy(comm);
    weft_memory_free(world, in);
    weft_memory_free(world, out);
    CHECK_INT(standin_races(), 0);
}

TEST(messages_of_a_batch_run_together_whatever_their_channels)
{
    ranks_both_ways(RANKS, pass_around, NULL);
}

static void chain(weft_world *world, void *argument)
{
    (void)argument;
    use_gpu(world);
    weft_comm *first = gpu_comm(world, "first"), *second = gpu_comm(world, "second");
    cudaStream_t stream = new_stream();
    float *x = new_floats(world, COUNT), host[2] = {1, 2};
    put(x, host, 2, stream);
    weft_work one, two;
    OK(weft_all_reduce_start(first, x, x, COUNT, WEFT_FP32, WEFT_SUM, weft_cuda_stream(stream), &one));
    weft_collective what = WEFT_COLLECTIVE_INIT;
    what.kind = WEFT_ALL_REDUCE;
    what.dtype = WEFT_FP32, what.reduction = WEFT_SUM;
    what.send = what.recv = x;
    what.count = COUNT;
    what.after = one;
    OK(weft_collective_start(second, &what, WEFT_STREAM_HOST, &two));
    OK(weft_work_finish(one, weft_cuda_stream(stream)));
    OK(weft_work_finish(two, weft_cuda_stream(stream)));
    get(host, x, 2, stream);
    CHECK(host[0] == RANKS * RANKS && host[1] == 2 * RANKS * RANKS);
    weft_comm_destroy(first);
    weft_comm_destroy(second);
    weft_memory_free(world, x);
    CHECK_INT(standin_races(), 0);
}

TEST(one_operation_runs_behind_another_of_another_comm)
{
    ranks_both_ways(RANKS, chain, NULL);
}

static void fail_alone(weft_world *world, void *argument)
{
    (void)argument;
    use_gpu(world);
    weft_comm *comm = gpu_comm(world, "fails"), *turn = all_ranks(world, "turn", NULL);
    float *x = new_floats(world, COUNT);
    if (weft_world_rank(world) == 0) {
        OK(weft_barrier_run(turn, WEFT_STREAM_HOST));
        CHECK_INT(weft_comm_abort_because(comm, "no more"), WEFT_OK);
    } else {
        weft_work work;
        OK(weft_all_reduce_start(comm, x, x, COUNT, WEFT_FP32, WEFT_SUM, WEFT_STREAM_HOST, &work));
        OK(weft_barrier_run(turn, WEFT_STREAM_HOST)); /* or the abort is told before anything waits */
        CHECK_INT(weft_work_finish(work, WEFT_STREAM_HOST), WEFT_E_ABORTED);
        CHECK_HAS(weft_last_error(), "no more");
    }
    CHECK_INT(weft_world_check(world, weft_cuda_stream(cudaStreamPerThread)), WEFT_E_ABORTED);
    weft_comm_destroy(turn);
    weft_comm_destroy(comm);
    weft_memory_free(world, x);
}

TEST(an_abort_ends_what_others_wait_for)
{
    ranks_both_ways(2, fail_alone, NULL);
}

static void refuse(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *host = all_ranks(world, "host", NULL);
    float x = 0;
    weft_work work;
    CHECK_INT(weft_all_reduce_start(host, &x, &x, 1, WEFT_FP32, WEFT_SUM, weft_cuda_stream(NULL), &work),
              WEFT_E_UNSUPPORTED);
    CHECK_HAS(weft_last_error(), "comm host is not on the GPU that the stream is of");
    weft_comm_destroy(host);
}

TEST(a_comm_of_the_host_refuses_streams_of_a_gpu)
{
    ranks_as_threads(2, NULL, refuse, NULL);
}

static void no_gpu(weft_world *world, void *argument)
{
    (void)argument;
    void *memory;
    int index;
    CHECK_INT(weft_memory_alloc_on(world, WEFT_DEVICE_CUDA, 1, &memory), WEFT_E_NO_DEVICE);
    CHECK_HAS(weft_last_error(), "no CUDA-capable device is detected");
    CHECK_INT(weft_world_device(world, WEFT_DEVICE_CUDA, &index), WEFT_E_NO_DEVICE);
}

TEST(without_a_gpu_the_world_says_why)
{
    setenv("STANDIN_DEVICES", "0", 1);
    ranks_as_threads(1, NULL, no_gpu, NULL);
}

static void named(weft_world *world, void *argument)
{
    int index;
    (void)argument;
    OK(weft_world_device(world, WEFT_DEVICE_CUDA, &index));
    CHECK_INT(index, 5);
}

TEST(the_gpu_of_a_rank_can_be_named)
{
    weft_world_config config = WEFT_WORLD_CONFIG_INIT;
    config.device = "cuda:5";
    ranks_as_threads(1, &config, named, NULL);
}

static void look_while_captured(weft_world *world, void *argument)
{
    (void)argument;
    use_gpu(world);
    weft_comm *comm = gpu_comm(world, "captured");
    cudaStream_t captured = new_stream(), stream = new_stream();
    float *memory = new_floats(world, COUNT);
    cudaGraph_t graph;
    weft_work work;
    OK(weft_all_reduce_start(comm, memory, memory, COUNT, WEFT_FP32, WEFT_SUM, weft_cuda_stream(stream), &work));
    CHECK_INT(cudaStreamBeginCapture(captured, cudaStreamCaptureModeGlobal), cudaSuccess);
    while (weft_work_test(work) == WEFT_PENDING)
        ;
    CHECK_INT(cudaGetLastError(), cudaSuccess);
    CHECK_INT(cudaStreamEndCapture(captured, &graph), cudaSuccess);
    OK(weft_work_finish(work, WEFT_STREAM_HOST));
    weft_memory_free(world, memory);
    weft_comm_destroy(comm);
    CHECK_INT(standin_races(), 0);
}

TEST(looking_at_works_disturbs_no_capture_and_leaves_no_error)
{
    ranks_both_ways(2, look_while_captured, NULL);
}

static void keep_current(weft_world *world, void *argument)
{
    (void)argument;
    int current;
    CHECK_INT(cudaSetDevice(7), cudaSuccess);
    weft_comm *comm = gpu_comm(world, "current");
    CHECK_INT(cudaGetDevice(&current), cudaSuccess);
    CHECK_INT(current, 7);
    weft_comm_destroy(comm);
}

TEST(the_callers_device_stays_current)
{
    ranks_both_ways(2, keep_current, NULL);
}

/* A comm that is made and given back while another of the GPU waits for its peer. */
static void make_while_another_waits(weft_world *world, void *argument)
{
    (void)argument;
    use_gpu(world);
    weft_comm *old = gpu_comm(world, "old"), *pending = gpu_comm(world, "pending");
    cudaStream_t stream = new_stream();
    float *memory = new_floats(world, COUNT);
    weft_work work = WEFT_WORK_NONE;
    OK(weft_comm_agree(old, WEFT_OK, NULL));
    weft_comm_destroy(old);
    bool first = weft_world_rank(world) == 0;
    if (first)
        OK(weft_all_reduce_start(pending, memory, memory, COUNT, WEFT_FP32, WEFT_SUM, weft_cuda_stream(stream), &work));
    weft_comm_config host = WEFT_COMM_CONFIG_INIT;
    weft_comm *meeting = all_ranks(world, "meeting", &host); /* the others' part of it comes only then */
    OK(weft_barrier_run(meeting, WEFT_STREAM_HOST));
    if (!first)
        OK(weft_all_reduce_start(pending, memory, memory, COUNT, WEFT_FP32, WEFT_SUM, weft_cuda_stream(stream), &work));
    OK(weft_work_finish(work, WEFT_STREAM_HOST));
    weft_comm_destroy(meeting);
    weft_comm_destroy(pending);
    weft_memory_free(world, memory);
}

TEST(comms_come_and_go_while_the_gpu_waits_for_a_peer)
{
    ranks_both_ways(2, make_while_another_waits, NULL);
}

static void start_after_a_failure(weft_world *world, void *argument)
{
    (void)argument;
    use_gpu(world);
    weft_comm *failed = gpu_comm(world, "failed"), *next = gpu_comm(world, "next");
    weft_stream stream = weft_cuda_stream(new_stream());
    float *memory = new_floats(world, COUNT);
    weft_work before, work;
    weft_collective sum = WEFT_COLLECTIVE_INIT;
    sum.kind = WEFT_ALL_REDUCE, sum.dtype = WEFT_FP32, sum.reduction = WEFT_SUM;
    sum.send = sum.recv = memory, sum.count = COUNT;
    if (weft_world_rank(world) == 0) { /* the other does not come */
        OK(weft_collective_start(failed, &sum, stream, &before));
        OK(weft_comm_abort(failed));
        CHECK_INT(weft_work_order(before, WEFT_STREAM_HOST), WEFT_OK);
        sum.after = before;
        OK(weft_collective_start(next, &sum, stream, &work));
        CHECK_INT(weft_work_finish(before, WEFT_STREAM_HOST), WEFT_E_ABORTED);
        CHECK_INT(weft_work_finish(work, WEFT_STREAM_HOST), WEFT_E_ABORTED);
        CHECK_HAS(weft_last_error(), "was to run after an operation that failed");
    }
    weft_comm_destroy(failed);
    weft_comm_destroy(next);
    weft_memory_free(world, memory);
}

TEST(what_runs_after_a_failure_fails)
{
    ranks_both_ways(2, start_after_a_failure, NULL);
}
