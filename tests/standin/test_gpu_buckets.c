/* SPDX-License-Identifier: Apache-2.0 */
/* A set on a GPU trains as one on the host does: same gradients, same weights, whatever streams they are made on, and
 * nothing is accessed out of order. */
#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <weft/adam.h>
#include <weft/cuda.h>

#include "harness/ranks.h"
#include "standin.h"

#define OK(call) CHECK_MSG((call) == WEFT_OK, "%s: %s", #call, weft_last_error())

enum { RANKS = 4, PARAMS = 6, STEPS = 4, MICROBATCHES = 2, MOST = 4000 };

static const size_t sizes[PARAMS] = {64, 4000, 7, 1000, 129, 2500};

typedef struct setup {
    weft_dtype dtype;
    float clip;
    uint32_t flags;
    bool streams; /* marks come on several */
    bool silent;  /* no report: the host waits for nothing */
} setup;

typedef struct trained {
    float weights[PARAMS][MOST];
    float norms[STEPS];
} trained;

static weft_params *make_params(weft_dtype dtype)
{
    weft_params *params;
    OK(weft_params_create(&params));
    for (int i = 0; i < PARAMS; i++) {
        char name[16];
        snprintf(name, sizeof name, "p%d", i);
        weft_param p = WEFT_PARAM_INIT;
        p.name = name;
        p.shape[0] = sizes[i];
        p.dims = 1;
        p.dtype = dtype;
        p.flags = i == 2 ? WEFT_PARAM_NO_DECAY : 0;
        OK(weft_params_add(params, &p, NULL));
    }
    return params;
}

static float first_value(int param, size_t i)
{
    return (float)((int)(i * 7 + (size_t)param) % 31 - 15) / 32;
}

static float gradient(int rank, int step, int microbatch, int param, size_t i)
{
    return (float)((int)(i * 13 + (size_t)(rank * 5 + step * 3 + microbatch * 11 + param)) % 61 - 30) / 16;
}

/* bf16 holds all of them. */
static void encode(weft_dtype dtype, const float *values, size_t count, void *to)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        if (dtype == WEFT_FP32)
            ((float *)to)[i] = values[i];
        else
            ((uint16_t *)to)[i] = (uint16_t)(bits >> 16);
    }
}

static void decode(weft_dtype dtype, const void *from, size_t count, float *values)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = dtype == WEFT_FP32 ? 0 : (uint32_t)((const uint16_t *)from)[i] << 16;
        memcpy(&values[i], &bits, sizeof bits);
        if (dtype == WEFT_FP32)
            values[i] = ((const float *)from)[i];
    }
}

/* ---- kernels of the trainer ---- */

typedef struct add_argument {
    float *grad;
    const float *from;
    size_t count;
} add_argument;

static size_t add_touches(const void *argument, standin_range *ranges)
{
    const add_argument *a = argument;
    ranges[0] = (standin_range){a->from, a->count * sizeof(float), false};
    ranges[1] = (standin_range){a->grad, a->count * sizeof(float), true};
    return 2;
}

static void add_body(const void *argument)
{
    const add_argument *a = argument;
    for (size_t i = 0; i < a->count; i++)
        a->grad[i] += a->from[i];
}

/* Reads the params of a layer, as a forward does. */
static void no_body(const void *argument)
{
    (void)argument;
}

typedef struct read_argument {
    const void *param;
    size_t bytes;
} read_argument;

static size_t read_touches(const void *argument, standin_range *ranges)
{
    const read_argument *a = argument;
    ranges[0] = (standin_range){a->param, a->bytes, false};
    return 1;
}

static const char add_entry, read_entry;
static const standin_kernel kernels[] = {
    {&add_entry, "trainer's gradient", sizeof(add_argument), add_touches, add_body},
    {&read_entry, "trainer's forward", sizeof(read_argument), read_touches, no_body}};

static void launch(const void *entry, void *argument, cudaStream_t stream)
{
    CHECK_INT(cudaLaunchKernel(entry, (dim3){1, 1, 1}, (dim3){32, 1, 1}, (void *[]){argument}, 0, stream), cudaSuccess);
}

/* ---- training ---- */

static void follow(cudaStream_t stream, cudaStream_t other)
{
    cudaEvent_t event;
    CHECK_INT(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
    CHECK_INT(cudaEventRecord(event, other), cudaSuccess);
    CHECK_INT(cudaStreamWaitEvent(stream, event, 0), cudaSuccess);
    CHECK_INT(cudaEventDestroy(event), cudaSuccess);
}

static void train_on_gpu(weft_world *world, weft_comm *all, const setup *s, trained *result)
{
    int index, rank = weft_world_rank(world);
    OK(weft_world_device(world, WEFT_DEVICE_CUDA, &index));
    CHECK_INT(cudaSetDevice(index), cudaSuccess);
    weft_params *params = make_params(s->dtype);
    weft_buckets_comms comms = WEFT_BUCKETS_COMMS_INIT;
    comms.shard = all;
    weft_buckets_config config = WEFT_BUCKETS_CONFIG_INIT;
    config.name = "gpu";
    config.device = WEFT_DEVICE_CUDA;
    config.bucket_elements = 2000;
    config.flags = s->flags;
    weft_buckets *set;
    weft_adam *adam;
    OK(weft_buckets_create(params, &comms, &config, &set));
    OK(weft_adam_create(&set, 1, NULL, &adam));
    CHECK(weft_layout_buckets(weft_buckets_layout(set)) > 2);
    cudaStream_t streams[2];
    float *staged[PARAMS], *host = malloc(MOST * sizeof *host);
    void *raw = malloc(MOST * sizeof(float));
    CHECK(host && raw);
    for (int i = 0; i < 2; i++)
        CHECK_INT(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking), cudaSuccess);
    for (int i = 0; i < PARAMS; i++) {
        size_t bytes = sizes[i] * weft_dtype_bytes(s->dtype);
        for (size_t k = 0; k < sizes[i]; k++)
            host[k] = first_value(i, k);
        encode(s->dtype, host, sizes[i], raw);
        CHECK_INT(cudaMemcpyAsync(weft_buckets_param(set, (uint32_t)i), raw, bytes, cudaMemcpyHostToDevice, streams[0]),
                  cudaSuccess);
        CHECK_INT(cudaMalloc((void **)&staged[i], sizes[i] * sizeof(float)), cudaSuccess);
    }
    CHECK_INT(cudaStreamSynchronize(streams[0]), cudaSuccess);
    for (int step = 0; step < STEPS; step++) {
        for (int m = 0; m < MICROBATCHES; m++) {
            for (int i = 0; i < PARAMS; i++) { /* forward */
                read_argument a = {weft_buckets_param(set, (uint32_t)i), sizes[i] * weft_dtype_bytes(s->dtype)};
                OK(weft_buckets_acquire(set, (uint32_t)i, 1, weft_cuda_stream(streams[0])));
                launch(&read_entry, &a, streams[0]);
                if (s->streams) {
                    OK(weft_buckets_acquire(set, (uint32_t)i, 1, weft_cuda_stream(streams[1])));
                    launch(&read_entry, &a, streams[1]);
                }
            }
            OK(weft_buckets_begin_on(set, m == MICROBATCHES - 1, weft_cuda_stream(streams[0])));
            follow(streams[1], streams[0]);
            for (int i = PARAMS; i-- > 0;) { /* backward */
                cudaStream_t stream = streams[s->streams && (i + m) % 2];
                for (size_t k = 0; k < sizes[i]; k++)
                    host[k] = gradient(rank, step, m, i, k);
                CHECK_INT(cudaMemcpyAsync(staged[i], host, sizes[i] * sizeof(float), cudaMemcpyHostToDevice, stream),
                          cudaSuccess);
                add_argument a = {weft_buckets_grad(set, (uint32_t)i), staged[i], sizes[i]};
                launch(&add_entry, &a, stream);
                OK(weft_buckets_mark_ready(set, (uint32_t)i, weft_cuda_stream(stream)));
            }
            follow(streams[0], streams[1]); /* microbatches of one param meet on different streams */
            follow(streams[1], streams[0]);
        }
        weft_step how = WEFT_STEP_INIT;
        weft_step_report report = WEFT_STEP_REPORT_INIT;
        how.lr = 0.01f, how.weight_decay = 0.1f, how.clip_norm = s->clip, how.divisor = 8;
        how.after = weft_cuda_stream(streams[0]);
        OK(weft_adam_step(adam, &how, s->silent ? NULL : &report));
        CHECK(s->silent || report.step == (uint64_t)step + 1);
        result->norms[step] = report.norm;
    }
    for (int i = 0; i < PARAMS; i++) {
        OK(weft_buckets_acquire(set, (uint32_t)i, 1, weft_cuda_stream(streams[1])));
        CHECK_INT(cudaMemcpyAsync(raw, weft_buckets_param(set, (uint32_t)i), sizes[i] * weft_dtype_bytes(s->dtype),
                                  cudaMemcpyDeviceToHost, streams[1]),
                  cudaSuccess);
        CHECK_INT(cudaStreamSynchronize(streams[1]), cudaSuccess);
        decode(s->dtype, raw, sizes[i], result->weights[i]);
        CHECK_INT(cudaFree(staged[i]), cudaSuccess);
    }
    OK(weft_world_check(world, weft_cuda_stream(streams[1])));
    weft_adam_destroy(adam);
    weft_buckets_destroy(set);
    weft_params_destroy(params);
    free(host);
    free(raw);
}

static void train_on_host(weft_world *world, weft_comm *all, const setup *s, trained *result)
{
    int rank = weft_world_rank(world);
    weft_params *params = make_params(s->dtype);
    weft_buckets_comms comms = WEFT_BUCKETS_COMMS_INIT;
    comms.shard = all;
    weft_buckets_config config = WEFT_BUCKETS_CONFIG_INIT;
    config.name = "host";
    config.bucket_elements = 2000;
    config.flags = s->flags;
    weft_buckets *set;
    weft_adam *adam;
    OK(weft_buckets_create(params, &comms, &config, &set));
    OK(weft_adam_create(&set, 1, NULL, &adam));
    float *values = malloc(MOST * sizeof *values);
    CHECK(values);
    for (int i = 0; i < PARAMS; i++) {
        for (size_t k = 0; k < sizes[i]; k++)
            values[k] = first_value(i, k);
        encode(s->dtype, values, sizes[i], weft_buckets_param(set, (uint32_t)i));
    }
    for (int step = 0; step < STEPS; step++) {
        OK(weft_buckets_acquire(set, 0, PARAMS, WEFT_STREAM_HOST));
        for (int m = 0; m < MICROBATCHES; m++) {
            OK(weft_buckets_begin(set, m == MICROBATCHES - 1));
            for (int i = PARAMS; i-- > 0;) {
                float *grad = weft_buckets_grad(set, (uint32_t)i);
                for (size_t k = 0; k < sizes[i]; k++)
                    grad[k] += gradient(rank, step, m, i, k);
                OK(weft_buckets_mark_ready(set, (uint32_t)i, WEFT_STREAM_HOST));
            }
        }
        weft_step how = WEFT_STEP_INIT;
        weft_step_report report = WEFT_STEP_REPORT_INIT;
        how.lr = 0.01f, how.weight_decay = 0.1f, how.clip_norm = s->clip, how.divisor = 8;
        OK(weft_adam_step(adam, &how, &report));
        result->norms[step] = report.norm;
    }
    OK(weft_buckets_acquire(set, 0, PARAMS, WEFT_STREAM_HOST));
    for (int i = 0; i < PARAMS; i++)
        decode(s->dtype, weft_buckets_param(set, (uint32_t)i), sizes[i], result->weights[i]);
    weft_adam_destroy(adam);
    weft_buckets_destroy(set);
    weft_params_destroy(params);
    free(values);
}

static void compare(weft_world *world, void *argument)
{
    const setup *s = argument;
    trained *host = calloc(1, sizeof *host), *gpu = calloc(1, sizeof *gpu);
    CHECK(host && gpu);
    standin_kernels_add(kernels, 2);
    weft_comm *all = all_ranks(world, "all", NULL);
    train_on_host(world, all, s, host);
    train_on_gpu(world, all, s, gpu);
    for (int step = 0; step < STEPS && !s->silent; step++)
        CHECK_MSG(fabsf(host->norms[step] - gpu->norms[step]) <= 1e-6f * host->norms[step], "norm %d: %g, not %g", step,
                  (double)gpu->norms[step], (double)host->norms[step]);
    for (int i = 0; i < PARAMS; i++)
        for (size_t k = 0; k < sizes[i]; k++)
            CHECK_MSG(fabsf(host->weights[i][k] - gpu->weights[i][k]) <= 2e-7f, "param %d, element %zu: %g, not %g", i,
                      k, (double)gpu->weights[i][k], (double)host->weights[i][k]);
    CHECK_INT(standin_races(), 0);
    weft_comm_destroy(all);
    free(host);
    free(gpu);
}

static void compare_with(setup s)
{
    ranks_both_ways(RANKS, compare, &s);
}

TEST(fp32_params_are_those_of_the_host)
{
    compare_with((setup){.dtype = WEFT_FP32, .clip = 1});
}

TEST(bf16_params_with_fp32_masters_are_those_of_the_host)
{
    compare_with((setup){.dtype = WEFT_BF16, .clip = 0});
}

TEST(marks_may_come_on_several_streams)
{
    compare_with((setup){.dtype = WEFT_FP32, .streams = true});
}

TEST(without_a_report_the_host_waits_for_nothing)
{
    compare_with((setup){.dtype = WEFT_BF16, .clip = 1, .silent = true, .streams = true});
}

TEST(without_overlap_weights_are_the_same)
{
    compare_with(
        (setup){.dtype = WEFT_FP32, .clip = 1, .flags = WEFT_BUCKETS_REDUCE_AT_STEP | WEFT_BUCKETS_GATHER_IN_STEP});
}

TEST(unsharded_sets_train_too)
{
    compare_with((setup){.dtype = WEFT_FP32, .flags = WEFT_BUCKETS_UNSHARDED});
}

static void refuse(weft_world *world, void *argument)
{
    (void)argument;
    weft_params *params = make_params(WEFT_FP32);
    weft_comm *all = all_ranks(world, "all", NULL);
    weft_buckets_comms comms = WEFT_BUCKETS_COMMS_INIT;
    comms.shard = all;
    weft_buckets_config config = WEFT_BUCKETS_CONFIG_INIT;
    config.device = WEFT_DEVICE_CUDA;
    config.flags = WEFT_BUCKETS_CHECK_FINITE;
    weft_buckets *set;
    CHECK_INT(weft_buckets_create(params, &comms, &config, &set), WEFT_E_UNSUPPORTED);
    CHECK_HAS(weft_last_error(), "WEFT_BUCKETS_CHECK_FINITE is for sets of the host");
    config.flags = 0;
    OK(weft_buckets_create(params, &comms, &config, &set));
    float one = 1;
    OK(weft_buckets_begin(set, 1));
    CHECK_INT(weft_buckets_accumulate(set, 0, 0, &one, WEFT_FP32, 1), WEFT_E_UNSUPPORTED);
    weft_buckets_destroy(set);
    weft_params_destroy(params);
    weft_comm_destroy(all);
}

TEST(what_a_gpu_cannot_do_is_refused)
{
    ranks_as_threads(2, NULL, refuse, NULL);
}
