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
    bool moved;   /* half way another set and optimizer are loaded with what these hold */
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

/* A set of all params, its optimizer, and room for the values of one param. */
typedef struct trainer {
    weft_params *params;
    weft_buckets *set;
    weft_adam *adam;
    float *values;
} trainer;

static trainer make_trainer(weft_comm *all, const setup *s, weft_device device)
{
    trainer t = {.params = make_params(s->dtype), .values = malloc(MOST * sizeof(float))};
    weft_buckets_comms comms = WEFT_BUCKETS_COMMS_INIT;
    comms.shard = all;
    weft_buckets_config config = WEFT_BUCKETS_CONFIG_INIT;
    config.name = device == WEFT_DEVICE_HOST ? "host" : "gpu";
    config.device = device;
    config.bucket_elements = 2000;
    config.flags = s->flags;
    CHECK(t.values);
    OK(weft_buckets_create(t.params, &comms, &config, &t.set));
    OK(weft_adam_create(&t.set, 1, NULL, &t.adam));
    CHECK(weft_layout_buckets(weft_buckets_layout(t.set)) > 2);
    return t;
}

static void end_trainer(trainer *t)
{
    weft_adam_destroy(t->adam);
    weft_buckets_destroy(t->set);
    weft_params_destroy(t->params);
    free(t->values);
}

static void first_values(const trainer *t, int param)
{
    for (size_t k = 0; k < sizes[param]; k++)
        t->values[k] = first_value(param, k);
}

static weft_step step_of(const setup *s)
{
    weft_step how = WEFT_STEP_INIT;
    how.lr = 0.01f, how.weight_decay = 0.1f, how.clip_norm = s->clip, how.divisor = 8;
    return how;
}

/* What the GPU has beside it. */
typedef struct gpu_side {
    cudaStream_t streams[2];
    float *staged[PARAMS]; /* gradients of a microbatch, before they are added */
    void *raw;             /* a param, as the host has it */
} gpu_side;

static gpu_side make_side(const trainer *t, const setup *s)
{
    gpu_side g = {.raw = malloc(MOST * sizeof(float))};
    CHECK(g.raw);
    for (int i = 0; i < 2; i++)
        CHECK_INT(cudaStreamCreateWithFlags(&g.streams[i], cudaStreamNonBlocking), cudaSuccess);
    for (int i = 0; i < PARAMS; i++) {
        first_values(t, i);
        encode(s->dtype, t->values, sizes[i], g.raw);
        CHECK_INT(cudaMemcpyAsync(weft_buckets_param(t->set, (uint32_t)i), g.raw, sizes[i] * weft_dtype_bytes(s->dtype),
                                  cudaMemcpyHostToDevice, g.streams[0]),
                  cudaSuccess);
        CHECK_INT(cudaMalloc((void **)&g.staged[i], sizes[i] * sizeof(float)), cudaSuccess);
    }
    CHECK_INT(cudaStreamSynchronize(g.streams[0]), cudaSuccess);
    return g;
}

static void forward(const trainer *t, const gpu_side *g, const setup *s)
{
    for (int i = 0; i < PARAMS; i++)
        for (int k = 0; k < (s->streams ? 2 : 1); k++) {
            read_argument a = {weft_buckets_param(t->set, (uint32_t)i), sizes[i] * weft_dtype_bytes(s->dtype)};
            OK(weft_buckets_acquire(t->set, (uint32_t)i, 1, weft_cuda_stream(g->streams[k])));
            launch(&read_entry, &a, g->streams[k]);
        }
}

static void backward(const trainer *t, const gpu_side *g, const setup *s, int rank, int step, int m)
{
    for (int i = PARAMS; i-- > 0;) {
        cudaStream_t stream = g->streams[s->streams && (i + m) % 2];
        for (size_t k = 0; k < sizes[i]; k++)
            t->values[k] = gradient(rank, step, m, i, k);
        CHECK_INT(cudaMemcpyAsync(g->staged[i], t->values, sizes[i] * sizeof(float), cudaMemcpyHostToDevice, stream),
                  cudaSuccess);
        add_argument a = {weft_buckets_grad(t->set, (uint32_t)i), g->staged[i], sizes[i]};
        launch(&add_entry, &a, stream);
        OK(weft_buckets_mark_ready(t->set, (uint32_t)i, weft_cuda_stream(stream)));
    }
}

static void take_weights(const trainer *t, gpu_side *g, const setup *s, trained *result)
{
    for (int i = 0; i < PARAMS; i++) {
        OK(weft_buckets_acquire(t->set, (uint32_t)i, 1, weft_cuda_stream(g->streams[1])));
        CHECK_INT(cudaMemcpyAsync(g->raw, weft_buckets_param(t->set, (uint32_t)i),
                                  sizes[i] * weft_dtype_bytes(s->dtype), cudaMemcpyDeviceToHost, g->streams[1]),
                  cudaSuccess);
        CHECK_INT(cudaStreamSynchronize(g->streams[1]), cudaSuccess);
        decode(s->dtype, g->raw, sizes[i], result->weights[i]);
        CHECK_INT(cudaFree(g->staged[i]), cudaSuccess);
    }
    free(g->raw);
}

/* The optimizer's state, out to the host and into another one. */
static void move(trainer *t, weft_comm *all, const setup *s)
{
    static const int arrays = 3;
    size_t count, at = 0;
    uint64_t steps;
    OK(weft_buckets_acquire(t->set, 0, PARAMS, WEFT_STREAM_HOST));
    (void)weft_buckets_owned(t->set, &count);
    float *room = malloc((size_t)(PARAMS * MOST * arrays) * sizeof *room);
    weft_adam_values *values = calloc(count, sizeof *values);
    CHECK(room && values);
    for (size_t i = 0; i < count; i++) {
        const weft_owned *owned = &weft_buckets_owned(t->set, NULL)[i];
        values[i] = (weft_adam_values)WEFT_ADAM_VALUES_INIT;
        values[i].param = owned->param, values[i].start = owned->start, values[i].count = owned->count;
        values[i].master = room + at, values[i].m = values[i].master + owned->count;
        values[i].v = values[i].m + owned->count;
        at += owned->count * (size_t)arrays;
        OK(weft_adam_read(t->adam, t->set, &values[i]));
    }
    OK(weft_adam_steps(t->adam, &steps));
    end_trainer(t);
    *t = make_trainer(all, s, WEFT_DEVICE_CUDA);
    for (size_t i = 0; i < count; i++)
        OK(weft_adam_write(t->adam, t->set, &values[i]));
    OK(weft_adam_set_steps(t->adam, steps));
    for (uint32_t b = 0; b < weft_layout_buckets(weft_buckets_layout(t->set)); b++)
        OK(weft_buckets_gather(t->set, b, WEFT_STREAM_HOST));
    free(values);
    free(room);
}

static void train_on_gpu(weft_world *world, weft_comm *all, const setup *s, trained *result)
{
    int index;
    OK(weft_world_device(world, WEFT_DEVICE_CUDA, &index));
    CHECK_INT(cudaSetDevice(index), cudaSuccess);
    trainer t = make_trainer(all, s, WEFT_DEVICE_CUDA);
    gpu_side g = make_side(&t, s);
    for (int step = 0; step < STEPS; step++) {
        if (s->moved && step == STEPS / 2)
            move(&t, all, s);
        for (int m = 0; m < MICROBATCHES; m++) {
            forward(&t, &g, s);
            OK(weft_buckets_begin_on(t.set, m == MICROBATCHES - 1, weft_cuda_stream(g.streams[0])));
            follow(g.streams[1], g.streams[0]);
            backward(&t, &g, s, weft_world_rank(world), step, m);
            follow(g.streams[0], g.streams[1]); /* microbatches of one param meet on different streams */
            follow(g.streams[1], g.streams[0]);
        }
        weft_step how = step_of(s);
        weft_step_report report = WEFT_STEP_REPORT_INIT;
        how.after = weft_cuda_stream(g.streams[0]);
        OK(weft_adam_step(t.adam, &how, s->silent ? NULL : &report));
        CHECK(s->silent || report.step == (uint64_t)step + 1);
        result->norms[step] = report.norm;
    }
    take_weights(&t, &g, s, result);
    OK(weft_world_check(world, weft_cuda_stream(g.streams[1])));
    end_trainer(&t);
}

static void train_on_host(weft_world *world, weft_comm *all, const setup *s, trained *result)
{
    trainer t = make_trainer(all, s, WEFT_DEVICE_HOST);
    for (int i = 0; i < PARAMS; i++) {
        first_values(&t, i);
        encode(s->dtype, t.values, sizes[i], weft_buckets_param(t.set, (uint32_t)i));
    }
    for (int step = 0; step < STEPS; step++) {
        OK(weft_buckets_acquire(t.set, 0, PARAMS, WEFT_STREAM_HOST));
        for (int m = 0; m < MICROBATCHES; m++) {
            OK(weft_buckets_begin(t.set, m == MICROBATCHES - 1));
            for (int i = PARAMS; i-- > 0;) {
                float *grad = weft_buckets_grad(t.set, (uint32_t)i);
                for (size_t k = 0; k < sizes[i]; k++)
                    grad[k] += gradient(weft_world_rank(world), step, m, i, k);
                OK(weft_buckets_mark_ready(t.set, (uint32_t)i, WEFT_STREAM_HOST));
            }
        }
        weft_step how = step_of(s);
        weft_step_report report = WEFT_STEP_REPORT_INIT;
        OK(weft_adam_step(t.adam, &how, &report));
        result->norms[step] = report.norm;
    }
    OK(weft_buckets_acquire(t.set, 0, PARAMS, WEFT_STREAM_HOST));
    for (int i = 0; i < PARAMS; i++)
        decode(s->dtype, weft_buckets_param(t.set, (uint32_t)i), sizes[i], result->weights[i]);
    end_trainer(&t);
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

TEST(another_set_goes_on_from_the_state_that_was_read)
{
    compare_with((setup){.dtype = WEFT_BF16, .clip = 1, .moved = true});
}

TEST(another_set_goes_on_where_params_are_their_own_masters)
{
    compare_with((setup){.dtype = WEFT_FP32, .silent = true, .moved = true});
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

/* ---- what is told ---- */

static _Atomic int warnings;

static void count_warnings(void *cookie, weft_log_level level, const char *line)
{
    (void)cookie, (void)level;
    warnings += strstr(line, "CUDA_DEVICE_MAX_CONNECTIONS is 1: all streams of a GPU share one queue") != NULL;
}

static void make_two_sets(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm = all_ranks(world, "dp", NULL);
    weft_params *params = make_params(WEFT_BF16);
    weft_buckets_comms comms = WEFT_BUCKETS_COMMS_INIT;
    comms.shard = comm;
    weft_buckets *sets[2];
    for (int i = 0; i < 2; i++) {
        weft_buckets_config config = WEFT_BUCKETS_CONFIG_INIT;
        config.device = WEFT_DEVICE_CUDA;
        config.name = i ? "second" : "first";
        OK(weft_buckets_create(params, &comms, &config, &sets[i]));
    }
    OK(weft_barrier_run(comm, WEFT_STREAM_HOST));
    bool of_use = getenv("NCCL_LEGACY_CUDA_REGISTER");
    CHECK_INT(standin_nccl_registered(), of_use ? 2 * 2 * 2 : 0); /* ranks, sets, values and gradients */
    OK(weft_barrier_run(comm, WEFT_STREAM_HOST));
    weft_buckets_destroy(sets[0]);
    weft_buckets_destroy(sets[1]);
    OK(weft_barrier_run(comm, WEFT_STREAM_HOST));
    CHECK_INT(standin_nccl_registered(), 0);
    weft_params_destroy(params);
    weft_comm_destroy(comm);
}

TEST(nccl_knows_the_memory_of_buckets_as_long_as_they_live)
{
    setenv("NCCL_LEGACY_CUDA_REGISTER", "1", 1);
    ranks_as_threads(2, NULL, make_two_sets, NULL);
}

TEST(where_nccl_has_no_use_of_it_that_is_not_registered)
{
    ranks_as_threads(2, NULL, make_two_sets, NULL);
}

TEST(one_queue_for_all_streams_is_warned_of_once)
{
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "1", 1);
    weft_log_set(WEFT_LOG_WARN, count_warnings, NULL);
    ranks_as_threads(2, NULL, make_two_sets, NULL);
    CHECK_INT(warnings, 1);
}
