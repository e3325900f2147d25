/* SPDX-License-Identifier: Apache-2.0 */
/* A training of two stages and two copies, with a weight that both stages hold: nothing that hides communication
 * changes a bit of the weights. */
#include <weft/adam.h>
#include <weft/pipeline.h>

#include "base/hash.h"
#include "harness/ranks.h"
#include "schedules.h"

enum { STAGES = 2, COPIES = 2, MICROBATCHES = 5, STEPS = 20, WIDTH = 24, LAYERS = 3, TIED = WIDTH * 3 };

typedef struct variant {
    const char *what;
    weft_policy policy;
    uint32_t schedule_flags, lower_flags, pipeline_flags, set_flags;
    weft_batching batching;
    size_t bucket_elements, last_bucket_elements;
} variant;

/* The first stage has the tied weight first, the last one last, as an embedding and an output layer. */
typedef struct rank_state {
    int stage, copy, step;
    uint32_t tied, first_layer;
    weft_buckets *set;
    float kept[MICROBATCHES][LAYERS + 1][WIDTH]; /* the inputs of each layer, by microbatch */
} rank_state;

static float rough(uint32_t a, uint32_t b, uint32_t c)
{
    return sinf((float)(a * 977 + b * 131 + c) * 0.37f);
}

static const float *value(const rank_state *r, uint32_t param)
{
    return weft_buckets_param(r->set, param);
}

static weft_result acquire(const rank_state *r, uint32_t param)
{
    return weft_buckets_acquire(r->set, param, 1, WEFT_STREAM_HOST);
}

/* Layer: y = x + x w / 2. Before the first one the input is looked up in the tied weight. */
static weft_result forward(void *cookie, const weft_pipeline_task *task)
{
    rank_state *r = cookie;
    float(*x)[WIDTH] = r->kept[task->microbatch];
    if (task->input)
        memcpy(x[0], task->input, sizeof x[0]);
    else
        CHECK_OK(acquire(r, r->tied));
    for (uint32_t i = 0; !task->input && i < WIDTH; i++)
        x[0][i] = value(r, r->tied)[(i * 3 + task->microbatch) % TIED] +
                  rough((uint32_t)r->step, task->microbatch, (uint32_t)r->copy * 50 + i);
    for (uint32_t l = 0; l < LAYERS; l++) {
        CHECK_OK(acquire(r, r->first_layer + l));
        for (uint32_t i = 0; i < WIDTH; i++)
            x[l + 1][i] = x[l][i] + x[l][i] * value(r, r->first_layer + l)[i] / 2;
    }
    if (task->output)
        memcpy(task->output, x[LAYERS], sizeof x[LAYERS]);
    return WEFT_OK;
}

static void take_output_grad(rank_state *r, const weft_pipeline_task *task, float *dy)
{
    if (task->output_grad) {
        memcpy(dy, task->output_grad, WIDTH * sizeof *dy);
        return;
    }
    CHECK_OK(acquire(r, r->tied));
    const float *y = r->kept[task->microbatch][LAYERS], *w = value(r, r->tied);
    float *grad = weft_buckets_grad(r->set, r->tied);
    for (uint32_t i = 0; i < WIDTH; i++) {
        dy[i] = y[i] * w[i] - rough(i, task->microbatch, 3);
        grad[i] += dy[i] * y[i] * 0.1f;
    }
    CHECK_OK(weft_buckets_mark_ready(r->set, r->tied, WEFT_STREAM_HOST));
}

static weft_result backward(void *cookie, const weft_pipeline_task *task)
{
    rank_state *r = cookie;
    float dy[WIDTH];
    CHECK_OK(weft_buckets_begin(r->set, task->last));
    take_output_grad(r, task, dy);
    for (uint32_t l = LAYERS; l-- > 0;) {
        float *grad = weft_buckets_grad(r->set, r->first_layer + l);
        for (uint32_t i = 0; i < WIDTH; i++) {
            grad[i] += dy[i] * r->kept[task->microbatch][l][i] / 2;
            dy[i] += dy[i] * value(r, r->first_layer + l)[i] / 2;
        }
        CHECK_OK(weft_buckets_mark_ready(r->set, r->first_layer + l, WEFT_STREAM_HOST));
    }
    if (task->input_grad) {
        memcpy(task->input_grad, dy, sizeof dy);
        return WEFT_OK;
    }
    for (uint32_t i = 0; i < WIDTH; i++)
        ((float *)weft_buckets_grad(r->set, r->tied))[(i * 3 + task->microbatch) % TIED] += dy[i];
    return weft_buckets_mark_ready(r->set, r->tied, WEFT_STREAM_HOST);
}

/* SYNC behind the last backward begins a microbatch that adds nothing. */
static weft_result sync_chunk(void *cookie, uint32_t chunk, uint32_t left)
{
    rank_state *r = cookie;
    (void)chunk;
    if (left)
        return WEFT_OK;
    CHECK_OK(weft_buckets_begin(r->set, 1));
    for (uint32_t p = 0; p <= LAYERS; p++)
        CHECK_OK(weft_buckets_mark_ready(r->set, p, WEFT_STREAM_HOST));
    return WEFT_OK;
}

static void add_param(weft_params *params, const char *name, size_t elements, uint32_t flags)
{
    weft_param param = WEFT_PARAM_INIT;
    param.name = name, param.dims = 1, param.shape[0] = elements, param.flags = flags;
    CHECK_OK(weft_params_add(params, &param, NULL));
}

static weft_params *make_params(rank_state *r)
{
    weft_params *params;
    uint32_t tied = WEFT_PARAM_TIED | (r->stage ? WEFT_PARAM_COPY : 0);
    CHECK_OK(weft_params_create(&params));
    if (r->stage == 0)
        add_param(params, "tied", TIED, tied);
    for (int l = 0; l < LAYERS; l++)
        add_param(params, (const char *const[]){"a", "b", "c"}[l], WIDTH, 0);
    if (r->stage > 0)
        add_param(params, "tied", TIED, tied);
    r->tied = r->stage ? LAYERS : 0;
    r->first_layer = r->stage ? 0 : 1;
    return params;
}

static void fill(rank_state *r)
{
    for (uint32_t i = 0; i < TIED; i++)
        ((float *)weft_buckets_param(r->set, r->tied))[i] = rough(7, 0, i);
    for (uint32_t l = 0; l < LAYERS; l++)
        for (uint32_t i = 0; i < WIDTH; i++)
            ((float *)weft_buckets_param(r->set, r->first_layer + l))[i] = rough((uint32_t)r->stage, l + 1, i);
}

static weft_pipeline *make_pipeline(rank_state *r, weft_comm *pp, const variant *v)
{
    weft_schedule_config how = WEFT_SCHEDULE_CONFIG_INIT;
    how.policy = v->policy, how.stages = STAGES, how.microbatches = MICROBATCHES, how.flags = v->schedule_flags;
    weft_pipeline_config config = WEFT_PIPELINE_CONFIG_INIT;
    config.count = WIDTH, config.flags = v->pipeline_flags, config.lower_flags = v->lower_flags;
    config.cookie = r, config.forward = forward, config.backward = backward, config.sync = sync_chunk;
    weft_schedule *schedule;
    CHECK_OK(weft_schedule_create(&how, &schedule));
    weft_schedule *lowered = v->batching ? lower(schedule, WEFT_QUEUES_DIRECTION, v->batching, v->lower_flags) : NULL;
    weft_pipeline *pipeline;
    CHECK_OK(weft_pipeline_create(pp, lowered ? lowered : schedule, &config, &pipeline));
    weft_schedule_destroy(lowered);
    weft_schedule_destroy(schedule);
    return pipeline;
}

static uint64_t hash_weights(const rank_state *r)
{
    uint64_t hash = weft__hash(WEFT__HASH_START, value(r, r->tied), TIED * sizeof(float));
    for (uint32_t l = 0; l < LAYERS; l++)
        hash = weft__hash(hash, value(r, r->first_layer + l), WIDTH * sizeof(float));
    return hash;
}

static uint64_t train(rank_state *r, weft_comm *pp, const weft_buckets_comms *comms, const variant *v)
{
    weft_params *params = make_params(r);
    weft_buckets_sum sum = {.param = r->tied, .comm = pp, .name = "tied"};
    weft_buckets_comms with_sum = *comms;
    with_sum.sums = &sum, with_sum.sum_count = 1;
    weft_buckets_config config = WEFT_BUCKETS_CONFIG_INIT;
    config.bucket_elements = v->bucket_elements, config.last_bucket_elements = v->last_bucket_elements;
    config.flags = v->set_flags;
    CHECK_OK(weft_buckets_create(params, &with_sum, &config, &r->set));
    fill(r);
    weft_pipeline *pipeline = make_pipeline(r, pp, v);
    weft_adam *adam;
    CHECK_OK(weft_adam_create(&r->set, 1, NULL, &adam));
    weft_step how = WEFT_STEP_INIT;
    how.lr = 0.01f, how.weight_decay = 0.01f, how.clip_norm = 0.5f;
    for (r->step = 0; r->step < STEPS; r->step++) {
        weft_step_report report = WEFT_STEP_REPORT_INIT;
        CHECK_OK(weft_pipeline_run(pipeline));
        CHECK_OK(weft_adam_step(adam, &how, &report));
        CHECK(report.clip < 1 && !report.skipped);
    }
    CHECK_OK(weft_buckets_acquire(r->set, 0, LAYERS + 1, WEFT_STREAM_HOST));
    uint64_t hash = hash_weights(r);
    weft_adam_destroy(adam);
    weft_pipeline_destroy(pipeline);
    weft_buckets_destroy(r->set);
    weft_params_destroy(params);
    return hash;
}

static const variant variants[] = {
    {"nothing", .policy = WEFT_POLICY_1F1B},
    {"a small last bucket", .policy = WEFT_POLICY_1F1B, .last_bucket_elements = 1},
    {"a bucket a param", .policy = WEFT_POLICY_1F1B, .bucket_elements = 1},
    {"reductions in the step", .policy = WEFT_POLICY_1F1B, .set_flags = WEFT_BUCKETS_REDUCE_AT_STEP},
    {"gathers in the step", .policy = WEFT_POLICY_1F1B, .bucket_elements = 1, .set_flags = WEFT_BUCKETS_GATHER_IN_STEP},
    {"no look-ahead", .policy = WEFT_POLICY_1F1B, .lower_flags = WEFT_LOWER_NO_LOOKAHEAD},
    {"sends that are waited for", .policy = WEFT_POLICY_1F1B, .pipeline_flags = WEFT_PIPELINE_WAIT_SENDS},
    {"reductions of all stages together", .policy = WEFT_POLICY_1F1B, .lower_flags = WEFT_LOWER_ALIGN_SYNC},
    {"exchanges", .policy = WEFT_POLICY_1F1B, .batching = WEFT_BATCHING_EXCHANGE},
    {"one batch a step", .policy = WEFT_POLICY_1F1B, .batching = WEFT_BATCHING_STEP},
    {"running ahead", .policy = WEFT_POLICY_1F1B, .schedule_flags = WEFT_SCHEDULE_RUN_AHEAD},
    {"gpipe", .policy = WEFT_POLICY_GPIPE},
    {"no shards", .policy = WEFT_POLICY_1F1B, .set_flags = WEFT_BUCKETS_UNSHARDED},
    {"no overlap at all", .policy = WEFT_POLICY_1F1B, .lower_flags = WEFT_LOWER_NO_LOOKAHEAD | WEFT_LOWER_ALIGN_SYNC,
     .pipeline_flags = WEFT_PIPELINE_WAIT_SENDS,
     .set_flags = WEFT_BUCKETS_REDUCE_AT_STEP | WEFT_BUCKETS_GATHER_IN_STEP},
};

static void pipelined_copies(weft_world *world, void *argument)
{
    (void)argument;
    int rank = weft_world_rank(world);
    rank_state r = {.stage = rank / COPIES, .copy = rank % COPIES};
    char name[16];
    weft_comm *pp, *dp, *all = all_ranks(world, "all", NULL);
    snprintf(name, sizeof name, "pp%d", r.copy);
    CHECK_OK(weft_comm_create(world, name, (int[]){r.copy, COPIES + r.copy}, STAGES, NULL, &pp));
    snprintf(name, sizeof name, "dp%d", r.stage);
    CHECK_OK(weft_comm_create(world, name, (int[]){COPIES * r.stage, COPIES * r.stage + 1}, COPIES, NULL, &dp));
    weft_buckets_comms comms = WEFT_BUCKETS_COMMS_INIT;
    comms.shard = dp, comms.norm = all;
    uint64_t wanted = 0;
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
        uint64_t hash = train(&r, pp, &comms, &variants[i]);
        CHECK_MSG(i == 0 || hash == wanted, "rank %d: %s changes the weights", rank, variants[i].what);
        wanted = hash;
    }
    weft_comm_destroy(dp);
    weft_comm_destroy(pp);
    weft_comm_destroy(all);
}

TEST(nothing_that_hides_communication_changes_a_bit_of_the_weights)
{
    ranks_as_threads(STAGES * COPIES, NULL, pipelined_copies, NULL);
}
