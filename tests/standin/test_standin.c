/* SPDX-License-Identifier: Apache-2.0 */
/* The stand-in for a GPU does what it stands for: streams run apart and out of order, what is not ordered is reported,
 * and its libraries compute what a naive loop does. */
#include <cublas_v2.h>
#include <nccl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/test.h"
#include "standin.h"

#define OK(call) CHECK_INT(call, 0)

enum { COUNT = 1000 };

static char race[512];
static int race_count;

static void note_race(const char *text)
{
    if (race_count++ == 0)
        snprintf(race, sizeof race, "%s", text);
}

/* ---- kernels ---- */

typedef struct add_argument {
    float *to;
    const float *from;
    size_t count;
    float plus;
} add_argument;

static size_t add_touches(const void *argument, standin_range *ranges)
{
    const add_argument *a = argument;
    ranges[0] = (standin_range){a->from, a->count * sizeof(float), false};
    ranges[1] = (standin_range){a->to, a->count * sizeof(float), true};
    return 2;
}

static void add_body(const void *argument)
{
    const add_argument *a = argument;
    for (size_t i = 0; i < a->count; i++)
        a->to[i] = a->from[i] + a->plus;
}

static const char add_entry;
static const standin_kernel kernels[] = {{&add_entry, "add", sizeof(add_argument), add_touches, add_body}};

static void add(float *to, const float *from, float plus, cudaStream_t stream)
{
    add_argument argument = {to, from, COUNT, plus};
    OK(cudaLaunchKernel(&add_entry, (dim3){1, 1, 1}, (dim3){32, 1, 1}, (void *[]){&argument}, 0, stream));
}

/* ---- a device with two streams ---- */

static float *a, *b;
static cudaStream_t one, two;
static cudaEvent_t event;

static void open_device(void)
{
    standin_kernels_add(kernels, 1);
    standin_on_race(note_race);
    OK(cudaMalloc((void **)&a, COUNT * sizeof *a));
    OK(cudaMalloc((void **)&b, COUNT * sizeof *b));
    OK(cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking));
    OK(cudaStreamCreateWithFlags(&two, cudaStreamNonBlocking));
    OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    OK(cudaMemset(a, 0, COUNT * sizeof *a));
    OK(cudaMemset(b, 0, COUNT * sizeof *b));
}

static void pass(cudaStream_t from, cudaStream_t to)
{
    OK(cudaEventRecord(event, from));
    OK(cudaStreamWaitEvent(to, event, 0));
}

static float first_of(const float *memory, cudaStream_t stream)
{
    float value;
    OK(cudaMemcpyAsync(&value, memory, sizeof value, cudaMemcpyDeviceToHost, stream));
    OK(cudaStreamSynchronize(stream));
    return value;
}

TEST(what_events_order_runs_in_order)
{
    open_device();
    for (int i = 0; i < 300; i++) {
        add(a, b, 1, one);
        pass(one, two);
        add(b, a, 1, two);
        pass(two, one);
    }
    CHECK_INT(first_of(b, two), 600);
    CHECK_INT(race_count, 0);
}

TEST(a_missing_wait_before_a_read_is_a_race)
{
    open_device();
    add(a, a, 1, one);
    add(b, a, 1, two);
    CHECK_INT(race_count, 1);
    CHECK_HAS(race, "race: 'add' on stream 2 reads bytes 0 to 4000 of a block of 4000 that 'add' on stream 1 writes");
}

TEST(a_missing_wait_before_memory_is_used_again_is_a_race)
{
    open_device();
    add(b, a, 1, one); /* reads a */
    OK(cudaMemsetAsync(a, 0, 8, two));
    CHECK_INT(race_count, 1);
    CHECK_HAS(race, "race: 'set' on stream 2 writes bytes 0 to 8 of a block of 4000 that 'add' on stream 1 reads");
}

TEST(an_event_recorded_too_early_orders_nothing)
{
    open_device();
    pass(one, two);
    add(a, a, 1, one);
    add(b, a, 1, two);
    CHECK_INT(race_count, 1);
}

/* The first recording waits for a stream that stands still, the second does not. */
TEST(an_event_that_is_recorded_again_still_holds_back_who_waits_for_the_first)
{
    ncclComm_t comm;
    ncclUniqueId id;
    open_device();
    CHECK_INT(ncclGetUniqueId(&id), ncclSuccess);
    CHECK_INT(ncclCommInitRankConfig(&comm, 1, id, 0, NULL), ncclSuccess);
    CHECK_INT(ncclRecv(a, COUNT, ncclFloat32, 0, comm, one), ncclSuccess); /* nobody sends */
    cudaStream_t three;
    OK(cudaStreamCreateWithFlags(&three, cudaStreamNonBlocking));
    pass(one, two);
    pass(three, three);
    OK(cudaEventSynchronize(event));
    CHECK_INT(cudaStreamQuery(two), cudaErrorNotReady);
    CHECK_INT(ncclCommAbort(comm), ncclSuccess);
    OK(cudaStreamSynchronize(two));
}

TEST(apart_is_no_race)
{
    open_device();
    OK(cudaMemsetAsync(a, 0, 100, one));
    OK(cudaMemsetAsync((char *)a + 100, 0, 100, two));
    add(b, b, 1, one);
    CHECK_INT(race_count, 0);
}

TEST(a_thread_that_waited_orders_what_it_queues_next)
{
    open_device();
    add(a, a, 1, one);
    OK(cudaStreamSynchronize(one));
    add(b, a, 1, two);
    OK(cudaEventRecord(event, two));
    OK(cudaEventSynchronize(event));
    add(a, b, 1, one);
    CHECK_INT(first_of(a, one), 3);
    CHECK_INT(race_count, 0);
}

TEST(the_default_stream_waits_for_streams_that_do_not_opt_out)
{
    open_device();
    cudaStream_t blocking;
    OK(cudaStreamCreate(&blocking));
    for (int round = 0; round < 2; round++) {
        add(a, a, 1, blocking);
        add(b, a, 1, cudaStreamLegacy);
        add(a, b, 1, blocking);
        if (round == 0)
            CHECK_INT(first_of(a, blocking), 3);
    }
    CHECK_INT(race_count, 0);
    add(b, b, 1, one); /* meets a write twice and a read */
    CHECK_INT(race_count, 3);
}

TEST(memory_that_is_not_the_devices_is_refused)
{
    open_device();
    float host[COUNT] = {0};
    add_argument argument = {host, a, COUNT, 1};
    CHECK_INT(cudaLaunchKernel(&add_entry, (dim3){1, 1, 1}, (dim3){32, 1, 1}, (void *[]){&argument}, 0, one),
              cudaErrorIllegalAddress);
    CHECK_HAS(race, "stray: 'add' on stream 1 writes 4000 bytes that are no memory of the device");
}

TEST(without_devices_every_call_says_so)
{
    setenv("STANDIN_DEVICES", "0", 1);
    int count;
    void *memory;
    CHECK_INT(cudaGetDeviceCount(&count), cudaErrorNoDevice);
    CHECK_INT(cudaMalloc(&memory, 1), cudaErrorNoDevice);
    CHECK_STR(cudaGetErrorString(cudaErrorNoDevice), "no CUDA-capable device is detected");
}

TEST(a_captured_stream_cannot_be_waited_for)
{
    open_device();
    enum cudaStreamCaptureStatus status;
    cudaGraph_t graph;
    OK(cudaStreamBeginCapture(one, cudaStreamCaptureModeThreadLocal));
    OK(cudaStreamIsCapturing(one, &status));
    CHECK_INT(status, cudaStreamCaptureStatusActive);
    CHECK_INT(cudaStreamSynchronize(one), cudaErrorStreamCaptureUnsupported);
    OK(cudaStreamIsCapturing(one, &status));
    CHECK_INT(status, cudaStreamCaptureStatusInvalidated);
    CHECK_INT(cudaStreamEndCapture(one, &graph), cudaErrorStreamCaptureUnsupported);
}

/* ---- products ---- */

TEST(products_are_those_of_a_naive_loop)
{
    enum { M = 3, N = 4, K = 5, BATCHES = 2 };
    open_device();
    float x[BATCHES * M * K], y[BATCHES * K * N], z[BATCHES * M * N], *dx, *dy, *dz;
    const float alpha = 2, beta = 1;
    cublasHandle_t handle;
    OK(cublasCreate(&handle));
    OK(cublasSetStream(handle, one));
    OK(cudaMalloc((void **)&dx, sizeof x));
    OK(cudaMalloc((void **)&dy, sizeof y));
    OK(cudaMalloc((void **)&dz, sizeof z));
    for (int i = 0; i < BATCHES * M * K; i++)
        x[i] = (float)(i % 7) - 3;
    for (int i = 0; i < BATCHES * K * N; i++)
        y[i] = (float)(i % 5) - 2;
    for (int t = 0; t < 4; t++) {
        bool ta = t & 1, tb = t & 2;
        for (int i = 0; i < BATCHES * M * N; i++)
            z[i] = (float)i;
        OK(cudaMemcpyAsync(dx, x, sizeof x, cudaMemcpyHostToDevice, one));
        OK(cudaMemcpyAsync(dy, y, sizeof y, cudaMemcpyHostToDevice, one));
        OK(cudaMemcpyAsync(dz, z, sizeof z, cudaMemcpyHostToDevice, one));
        OK(cublasGemmStridedBatchedEx(handle, ta ? CUBLAS_OP_T : CUBLAS_OP_N, tb ? CUBLAS_OP_T : CUBLAS_OP_N, M, N, K,
                                      &alpha, dx, CUDA_R_32F, ta ? K : M, M * K, dy, CUDA_R_32F, tb ? N : K, K * N,
                                      &beta, dz, CUDA_R_32F, M, M * N, BATCHES, CUBLAS_COMPUTE_32F,
                                      CUBLAS_GEMM_DEFAULT));
        OK(cudaMemcpyAsync(z, dz, sizeof z, cudaMemcpyDeviceToHost, one));
        for (int g = 0; g < BATCHES; g++)
            for (int i = 0; i < M; i++)
                for (int j = 0; j < N; j++) {
                    float sum = 0;
                    for (int k = 0; k < K; k++)
                        sum +=
                            x[g * M * K + (ta ? i * K + k : k * M + i)] * y[g * K * N + (tb ? k * N + j : j * K + k)];
                    CHECK_INT(z[g * M * N + j * M + i], 2 * sum + (float)(g * M * N + j * M + i));
                }
    }
    OK(cublasDestroy(handle));
}

/* ---- NCCL ---- */

enum { RANKS = 4, ELEMENTS = 100000 }; /* several rounds */
static ncclUniqueId id;

/* Everything by one rank, values checked: element i of rank r is i % 91 + r. */
static void take_part(int rank)
{
    ncclComm_t comm;
    cudaStream_t stream;
    float *in, *out, *host = malloc(RANKS * ELEMENTS * sizeof *host);
    CHECK(host);
    OK(cudaSetDevice(rank));
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    OK(ncclCommInitRankConfig(&comm, RANKS, id, rank, NULL));
    OK(cudaMalloc((void **)&in, RANKS * ELEMENTS * sizeof *in));
    OK(cudaMalloc((void **)&out, RANKS * ELEMENTS * sizeof *out));
    for (size_t i = 0; i < RANKS * ELEMENTS; i++)
        host[i] = (float)(i % 91) + (float)rank;
    OK(cudaMemcpyAsync(in, host, RANKS * ELEMENTS * sizeof *in, cudaMemcpyHostToDevice, stream));

    OK(ncclAllReduce(in, out, ELEMENTS, ncclFloat32, ncclAvg, comm, stream));
    OK(cudaMemcpyAsync(host, out, ELEMENTS * sizeof *in, cudaMemcpyDeviceToHost, stream));
    for (size_t i = 0; i < ELEMENTS; i++)
        CHECK(host[i] == (float)(i % 91) + 1.5f);

    OK(ncclReduceScatter(in, out, ELEMENTS, ncclFloat32, ncclMax, comm, stream));
    OK(cudaMemcpyAsync(host, out, ELEMENTS * sizeof *in, cudaMemcpyDeviceToHost, stream));
    for (size_t i = 0; i < ELEMENTS; i++)
        CHECK(host[i] == (float)((i + (size_t)rank * ELEMENTS) % 91) + RANKS - 1);

    OK(ncclAllGather(in, out, ELEMENTS, ncclFloat32, comm, stream));
    OK(ncclBroadcast(in, in, ELEMENTS, ncclFloat32, 2, comm, stream));
    OK(cudaMemcpyAsync(host, out, RANKS * ELEMENTS * sizeof *in, cudaMemcpyDeviceToHost, stream));
    for (size_t i = 0; i < RANKS * ELEMENTS; i++)
        CHECK(host[i] == (float)(i % ELEMENTS % 91) + (float)(i / ELEMENTS));

    /* Around a ring, both ways at once. */
    int next = (rank + 1) % RANKS, before = (rank + RANKS - 1) % RANKS;
    OK(ncclGroupStart());
    OK(ncclSend(in, ELEMENTS, ncclFloat32, next, comm, stream));
    OK(ncclRecv(out, ELEMENTS, ncclFloat32, next, comm, stream));
    OK(ncclSend(in + ELEMENTS, ELEMENTS, ncclFloat32, before, comm, stream));
    OK(ncclRecv(out + ELEMENTS, ELEMENTS, ncclFloat32, before, comm, stream));
    OK(ncclGroupEnd());
    OK(cudaMemcpyAsync(host, out, 2 * ELEMENTS * sizeof *in, cudaMemcpyDeviceToHost, stream));
    for (size_t i = 0; i < ELEMENTS; i++) {
        CHECK(host[i] == (float)((i + ELEMENTS) % 91) + (float)next);
        CHECK(host[ELEMENTS + i] == (float)(i % 91) + 2);
    }
    OK(ncclCommDestroy(comm));
    OK(cudaFree(in));
    OK(cudaFree(out));
    OK(cudaStreamDestroy(stream));
    free(host);
}

static void *thread_rank(void *rank)
{
    take_part((int)(intptr_t)rank);
    return NULL;
}

TEST(threads_exchange_what_nccl_would)
{
    pthread_t threads[RANKS];
    OK(ncclGetUniqueId(&id));
    for (intptr_t r = 0; r < RANKS; r++)
        OK(pthread_create(&threads[r], NULL, thread_rank, (void *)r));
    for (int r = 0; r < RANKS; r++)
        OK(pthread_join(threads[r], NULL));
    CHECK_INT(standin_races(), 0);
}

TEST(processes_exchange_what_nccl_would)
{
    pid_t children[RANKS];
    OK(ncclGetUniqueId(&id));
    for (int r = 0; r < RANKS; r++) {
        children[r] = fork();
        if (children[r] == 0) {
            take_part(r);
            _exit(0);
        }
    }
    for (int r = 0; r < RANKS; r++) {
        int status;
        CHECK_INT(waitpid(children[r], &status, 0), children[r]);
        CHECK_INT(status, 0);
    }
}

TEST(an_abort_ends_what_waits_for_others)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclComm_t comm;
    ncclResult_t state;
    open_device();
    OK(ncclGetUniqueId(&id));
    config.blocking = 0;
    CHECK_INT(ncclCommInitRankConfig(&comm, 2, id, 0, &config), ncclInProgress);
    OK(ncclCommGetAsyncError(comm, &state));
    CHECK_INT(state, ncclInProgress);
    OK(ncclCommAbort(comm));

    OK(ncclGetUniqueId(&id));
    OK(ncclCommInitRankConfig(&comm, 1, id, 0, NULL));
    OK(ncclRecv(a, COUNT, ncclFloat32, 0, comm, one)); /* nobody sends */
    CHECK_INT(cudaStreamQuery(one), cudaErrorNotReady);
    OK(ncclCommAbort(comm));
    OK(cudaStreamSynchronize(one));
}
