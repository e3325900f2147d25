/* SPDX-License-Identifier: Apache-2.0 */
/* A pipeline of two stages, data parallel with sharded Adam: four layers learn to reverse vectors. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <weft/weft.h>

enum { LAYERS = 4, WIDTH = 4, SAMPLES = 8, MICROBATCHES = 4, STEPS = 100 };

#define TRY(call)                     \
    do {                              \
        weft_result result_ = (call); \
        if (result_ != WEFT_OK)       \
            return result_;           \
    } while (0)

typedef struct trainer {
    int first, count, sample, rows; /* layers of this stage; samples of each microbatch of this rank */
    int step;
    double loss;
    weft_comm *all;
    weft_group_comm groups[2]; /* stages of a pipeline; ranks with the same layers */
    weft_params *params;
    weft_buckets *set;
    weft_adam *adam;
    weft_pipeline *pipeline;
    float x[MICROBATCHES][LAYERS + 1][SAMPLES * WIDTH]; /* what goes into a layer, of each microbatch under way */
    float dx[LAYERS + 1][SAMPLES * WIDTH];
} trainer;

static float element(const trainer *t, const weft_pipeline_task *task, int at)
{
    int microbatch = t->step * MICROBATCHES + (int)task->microbatch;
    return sinf((float)((microbatch * SAMPLES + t->sample) * WIDTH + at));
}

static weft_result forward(void *cookie, const weft_pipeline_task *task)
{
    trainer *t = (trainer *)cookie;
    int elements = t->rows * WIDTH;
    for (int at = 0; at < elements; at++) /* the stage before has sent it, or this is the first */
        t->x[task->activation][0][at] = task->input ? ((const float *)task->input)[at] : element(t, task, at);
    for (int i = 0; i < t->count; i++) {
        TRY(weft_buckets_acquire(t->set, (uint32_t)i, 1, WEFT_STREAM_HOST));
        const float *weight = (const float *)weft_buckets_param(t->set, (uint32_t)i), *x = t->x[task->activation][i];
        for (int at = 0; at < elements; at++) {
            float sum = 0;
            for (int k = 0; k < WIDTH; k++)
                sum += weight[at % WIDTH * WIDTH + k] * x[at / WIDTH * WIDTH + k];
            t->x[task->activation][i + 1][at] = tanhf(sum);
        }
    }
    if (task->output)
        memcpy(task->output, t->x[task->activation][t->count], sizeof(float) * (size_t)elements);
    return WEFT_OK;
}

static weft_result backward(void *cookie, const weft_pipeline_task *task)
{
    trainer *t = (trainer *)cookie;
    int elements = t->rows * WIDTH;
    for (int at = 0; at < elements; at++) {
        float off = t->x[task->activation][t->count][at];
        if (!task->output_grad) { /* the last stage: how far is it from half of the vector, backwards? */
            off -= element(t, task, at / WIDTH * WIDTH + WIDTH - 1 - at % WIDTH) / 2;
            t->loss += (double)(off * off) / 2 / (SAMPLES * MICROBATCHES);
        }
        t->dx[t->count][at] = task->output_grad ? ((const float *)task->output_grad)[at] : off;
    }
    TRY(weft_buckets_begin(t->set, task->last)); /* in the last microbatch reductions start */
    for (int i = t->count; i-- > 0;) {
        const float *weight = (const float *)weft_buckets_param(t->set, (uint32_t)i), *x = t->x[task->activation][i];
        float *grad = (float *)weft_buckets_grad(t->set, (uint32_t)i);
        memset(t->dx[i], 0, sizeof t->dx[i]);
        for (int at = 0; at < elements; at++) {
            float y = t->x[task->activation][i + 1][at], d = t->dx[i + 1][at] * (1 - y * y);
            for (int k = 0; k < WIDTH; k++) {
                grad[at % WIDTH * WIDTH + k] += d * x[at / WIDTH * WIDTH + k];
                t->dx[i][at / WIDTH * WIDTH + k] += d * weight[at % WIDTH * WIDTH + k];
            }
        }
        TRY(weft_buckets_mark_ready(t->set, (uint32_t)i, WEFT_STREAM_HOST));
    }
    if (task->input_grad)
        memcpy(task->input_grad, t->dx[0], sizeof(float) * (size_t)elements);
    return WEFT_OK;
}

/* Which ranks are the stages of a pipeline, and which have the same layers. */
static weft_result connect_ranks(trainer *t, weft_world *world, int stages)
{
    weft_mesh *mesh = NULL;
    weft_mesh_config layout = WEFT_MESH_CONFIG_INIT;
    layout.pp = stages; /* the rest is data parallel */
    t->groups[0].axes = WEFT_AXIS_PP, t->groups[1].axes = WEFT_AXIS_DP;
    TRY(weft_comm_create(world, "all", NULL, 0, NULL, &t->all));
    TRY(weft_mesh_create(weft_world_size(world), &layout, &mesh));
    weft_result result = weft_groups_connect(world, mesh, NULL, t->groups, 2);
    weft_mesh_destroy(mesh);
    return result;
}

static weft_result make_buckets(trainer *t)
{
    weft_buckets_comms comms = WEFT_BUCKETS_COMMS_INIT;
    weft_buckets_config config = WEFT_BUCKETS_CONFIG_INIT;
    comms.shard = t->groups[1].comm, comms.norm = t->all; /* without it each stage would clip by a norm of its own */
    config.bucket_elements = 1;                           /* a bucket for each layer */
    TRY(weft_params_create(&t->params));
    for (int i = 0; i < t->count; i++) {
        char name[16];
        weft_param param = WEFT_PARAM_INIT;
        snprintf(name, sizeof name, "layer %d", t->first + i);
        param.name = name, param.shape[0] = param.shape[1] = WIDTH, param.dims = 2;
        TRY(weft_params_add(t->params, &param, NULL));
    }
    TRY(weft_buckets_create(t->params, &comms, &config, &t->set));
    for (int i = 0; i < t->count; i++)
        for (int j = 0; j < WIDTH * WIDTH; j++)
            ((float *)weft_buckets_param(t->set, (uint32_t)i))[j] = sinf((float)((t->first + i) * WIDTH * WIDTH + j));
    return weft_adam_create(&t->set, 1, NULL, &t->adam);
}

static weft_result make_pipeline(trainer *t, int stages)
{
    weft_schedule *schedule = NULL;
    weft_schedule_config policy = WEFT_SCHEDULE_CONFIG_INIT;
    weft_pipeline_config config = WEFT_PIPELINE_CONFIG_INIT;
    policy.policy = WEFT_POLICY_1F1B, policy.stages = (uint32_t)stages, policy.microbatches = MICROBATCHES;
    config.count = (size_t)(t->rows * WIDTH), config.dtype = WEFT_FP32; /* what a stage gives to the next */
    config.cookie = t, config.forward = forward, config.backward = backward;
    TRY(weft_schedule_create(&policy, &schedule));
    weft_result result = weft_pipeline_create(t->groups[0].comm, schedule, &config, &t->pipeline);
    weft_schedule_destroy(schedule);
    return result;
}

static weft_result train(trainer *t, weft_world *world)
{
    int stages = weft_world_size(world) > 1 ? 2 : 1;
    TRY(connect_ranks(t, world, stages));
    int stage = weft_comm_rank(t->groups[0].comm), part = weft_comm_rank(t->groups[1].comm);
    int parts = weft_comm_size(t->groups[1].comm);
    t->count = LAYERS / stages, t->first = stage * t->count;
    t->sample = SAMPLES * part / parts, t->rows = SAMPLES * (part + 1) / parts - t->sample;
    TRY(make_buckets(t));
    TRY(make_pipeline(t, stages));
    weft_step how = WEFT_STEP_INIT;
    how.lr = 0.02f, how.clip_norm = 0.5f, how.divisor = SAMPLES * MICROBATCHES; /* means of sums */
    for (t->step = 0; t->step < STEPS; t->step++) {
        t->loss = 0;
        TRY(weft_pipeline_run(t->pipeline)); /* every microbatch, forward and backward */
        TRY(weft_adam_step(t->adam, &how, NULL));
        TRY(weft_all_reduce_run(t->all, &t->loss, &t->loss, 1, WEFT_FP64, WEFT_SUM, WEFT_STREAM_HOST));
        if (weft_world_rank(world) == 0 && (t->step + 1) % 20 == 0)
            printf("step %d: loss %.9f\n", t->step + 1, t->loss);
    }
    return weft_buckets_acquire(t->set, 0, (uint32_t)t->count, WEFT_STREAM_HOST);
}

static weft_result rank_main(weft_world *world, void *argument)
{
    trainer t;
    (void)argument;
    memset(&t, 0, sizeof t);
    weft_result result = train(&t, world);
    if (result != WEFT_OK)
        weft_world_abort(world, result, weft_last_error()); /* before anything is destroyed */
    weft_pipeline_destroy(t.pipeline);
    weft_adam_destroy(t.adam);
    weft_buckets_destroy(t.set);
    weft_params_destroy(t.params);
    weft_groups_disconnect(t.groups, 2);
    weft_comm_destroy(t.all);
    return result;
}

int main(void)
{
    weft_result result = weft_world_run(NULL, rank_main, NULL);
    if (result != WEFT_OK)
        fprintf(stderr, "%s: %s\n", weft_result_string(result), weft_last_error());
    return result != WEFT_OK;
}
