/* SPDX-License-Identifier: Apache-2.0 */
/* A pipeline on GPUs: its messages are ordered with the stream that its callbacks queue on, and every microbatch comes
 * through with its own values. */
#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <weft/cuda.h>
#include <weft/pipeline.h>

#include "harness/ranks.h"
#include "standin.h"

#define OK(call) CHECK_MSG((call) == WEFT_OK, "%s: %s", #call, weft_last_error())

enum { STAGES = 4, COUNT = 20000, MICROBATCHES = 8 };

/* ---- kernels: to = from * times + plus, or plus alone ---- */

typedef struct line_argument {
    float *to;
    const float *from;
    float times, plus;
} line_argument;

static size_t line_touches(const void *argument, standin_range *ranges)
{
    const line_argument *a = argument;
    ranges[0] = (standin_range){a->from, a->from ? COUNT * sizeof(float) : 0, false};
    ranges[1] = (standin_range){a->to, COUNT * sizeof(float), true};
    return 2;
}

static void line_body(const void *argument)
{
    const line_argument *a = argument;
    for (size_t i = 0; i < COUNT; i++)
        a->to[i] = (a->from ? a->from[i] * a->times : 0) + a->plus;
}

static const char line_entry;
static const standin_kernel kernels[] = {{&line_entry, "line", sizeof(line_argument), line_touches, line_body}};

/* ---- a trainer ---- */

typedef struct trainer {
    weft_policy policy;
    uint32_t chunks;
    int stage;
    cudaStream_t stream;
    float *ends[2]; /* what the last part gets forward, and the first one backward: a row a microbatch */
} trainer;

static void line(const trainer *t, void *to, const void *from, float times, float plus)
{
    line_argument argument = {to, from, times, plus};
    CHECK_INT(cudaLaunchKernel(&line_entry, (dim3){1, 1, 1}, (dim3){32, 1, 1}, (void *[]){&argument}, 0, t->stream),
              cudaSuccess);
}

/* Part p adds p + 1 to the number of the microbatch. */
static weft_result forward(void *cookie, const weft_pipeline_task *task)
{
    const trainer *t = cookie;
    float part = (float)(task->chunk * STAGES + (uint32_t)t->stage + 1);
    if (task->output)
        line(t, task->output, task->input, 1, part + (task->input ? 0 : (float)task->microbatch));
    else
        line(t, t->ends[0] + task->microbatch * COUNT, task->input, 1, part);
    return WEFT_OK;
}

/* And backward each doubles. */
static weft_result backward(void *cookie, const weft_pipeline_task *task)
{
    const trainer *t = cookie;
    if (task->input_grad)
        line(t, task->input_grad, task->output_grad, 2, task->output_grad ? 0 : 1 + (float)task->microbatch);
    else
        line(t, t->ends[1] + task->microbatch * COUNT, task->output_grad, 2, 0);
    return WEFT_OK;
}

static void check_end(const trainer *t, const float *rows, float (*want)(const trainer *t, uint32_t microbatch))
{
    float *host = malloc(COUNT * sizeof *host);
    CHECK(host);
    for (uint32_t m = 0; m < MICROBATCHES; m++) {
        CHECK_INT(cudaMemcpyAsync(host, rows + m * COUNT, COUNT * sizeof *host, cudaMemcpyDeviceToHost, t->stream),
                  cudaSuccess);
        CHECK_INT(cudaStreamSynchronize(t->stream), cudaSuccess);
        for (size_t i = 0; i < COUNT; i++)
            CHECK(host[i] == want(t, m));
    }
    free(host);
}

static float sum_of_parts(const trainer *t, uint32_t microbatch)
{
    uint32_t parts = STAGES * t->chunks;
    return (float)(microbatch + parts * (parts + 1) / 2);
}

static float doubled(const trainer *t, uint32_t microbatch)
{
    uint32_t parts = STAGES * t->chunks;
    return (float)((microbatch + 1) << (parts - 1));
}

static void run(weft_world *world, void *argument)
{
    trainer t = *(trainer *)argument;
    int index;
    t.stage = weft_world_rank(world);
    standin_kernels_add(kernels, 1);
    OK(weft_world_device(world, WEFT_DEVICE_CUDA, &index));
    CHECK_INT(cudaSetDevice(index), cudaSuccess);
    CHECK_INT(cudaStreamCreateWithFlags(&t.stream, cudaStreamNonBlocking), cudaSuccess);
    for (int i = 0; i < 2; i++)
        CHECK_INT(cudaMalloc((void **)&t.ends[i], MICROBATCHES * COUNT * sizeof(float)), cudaSuccess);
    weft_comm_config gpu = WEFT_COMM_CONFIG_INIT;
    gpu.device = WEFT_DEVICE_CUDA;
    weft_comm *stages = all_ranks(world, "stages", &gpu);
    weft_schedule_config policy = WEFT_SCHEDULE_CONFIG_INIT;
    policy.policy = t.policy;
    policy.stages = STAGES, policy.chunks = t.chunks, policy.microbatches = MICROBATCHES;
    weft_schedule *schedule;
    OK(weft_schedule_create(&policy, &schedule));
    weft_pipeline_config config = WEFT_PIPELINE_CONFIG_INIT;
    config.count = COUNT;
    config.dtype = WEFT_FP32;
    config.cookie = &t;
    config.forward = forward;
    config.backward = backward;
    weft_pipeline *pipeline;
    CHECK_INT(weft_pipeline_create(stages, schedule, &config, &pipeline), WEFT_E_INVALID);
    CHECK_HAS(weft_last_error(), "comm stages is on a GPU, but weft_pipeline_config.stream is the host's");
    config.stream = weft_cuda_stream(t.stream);
    OK(weft_pipeline_create(stages, schedule, &config, &pipeline));
    for (int window = 0; window < 3; window++)
        OK(weft_pipeline_run(pipeline));
    if (t.stage == STAGES - 1)
        check_end(&t, t.ends[0], sum_of_parts);
    if (t.stage == 0)
        check_end(&t, t.ends[1], doubled);
    OK(weft_world_check(world, weft_cuda_stream(t.stream)));
    weft_pipeline_destroy(pipeline);
    weft_schedule_destroy(schedule);
    weft_comm_destroy(stages);
    CHECK_INT(standin_races(), 0);
}

TEST(gpipe_brings_every_microbatch_through)
{
    trainer t = {.policy = WEFT_POLICY_GPIPE, .chunks = 1};
    ranks_both_ways(STAGES, run, &t);
}

TEST(one_forward_one_backward_brings_every_microbatch_through)
{
    trainer t = {.policy = WEFT_POLICY_1F1B, .chunks = 1};
    ranks_both_ways(STAGES, run, &t);
}

TEST(interleaved_chunks_bring_every_microbatch_through)
{
    trainer t = {.policy = WEFT_POLICY_INTERLEAVED, .chunks = 2};
    ranks_both_ways(STAGES, run, &t);
}
