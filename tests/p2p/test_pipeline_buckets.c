/* SPDX-License-Identifier: Apache-2.0 */
/* A pipeline whose stages are data parallel: with what its callbacks are told, buckets reduce once, in the right
 * microbatch of each stage. */
#include <weft/buckets.h>
#include <weft/pipeline.h>

#include "harness/ranks.h"
#include "schedules.h"

enum { STAGES = 2, COPIES = 2, MICROBATCHES = 2, CHUNKS = 2, PARAMS = 3 };

/* What each copy adds to its gradients in each microbatch: 4 and 7 in all, 5.5 on average. */
static const float gives[COPIES][MICROBATCHES] = {{1, 3}, {2, 5}};

typedef struct rank_state {
    int copy;
    weft_buckets *sets[CHUNKS];
} rank_state;

static uint64_t reductions(const weft_buckets *set)
{
    weft_buckets_usage usage = WEFT_BUCKETS_USAGE_INIT;
    CHECK_OK(weft_buckets_usage_get(set, &usage));
    return usage.reductions;
}

static weft_result forward(void *cookie, const weft_pipeline_task *task)
{
    const rank_state *r = cookie;
    return task->first ? weft_buckets_acquire(r->sets[task->chunk], 0, PARAMS, WEFT_STREAM_HOST) : WEFT_OK;
}

static weft_result mark_all(weft_buckets *set)
{
    weft_result result = WEFT_OK;
    for (uint32_t i = PARAMS; i-- > 0 && result == WEFT_OK;)
        result = weft_buckets_mark_ready(set, i, WEFT_STREAM_HOST);
    return result;
}

static weft_result backward(void *cookie, const weft_pipeline_task *task)
{
    rank_state *r = cookie;
    weft_buckets *set = r->sets[task->chunk];
    CHECK_INT(reductions(set), 0);
    weft_result result = weft_buckets_begin(set, task->last);
    for (uint32_t i = 0; i < PARAMS && result == WEFT_OK; i++)
        *(float *)weft_buckets_grad(set, i) += gives[r->copy][task->microbatch];
    return result == WEFT_OK ? mark_all(set) : result;
}

static weft_result sync_chunk(void *cookie, uint32_t chunk, uint32_t left)
{
    const rank_state *r = cookie;
    if (left)
        return WEFT_OK;
    weft_result result = weft_buckets_begin(r->sets[chunk], 1);
    return result == WEFT_OK ? mark_all(r->sets[chunk]) : result;
}

static void check_sums(const rank_state *r, uint32_t chunks)
{
    CHECK_OK(weft_buckets_reduce(r->sets, chunks, 0));
    for (uint32_t c = 0; c < chunks; c++) {
        size_t count;
        const weft_owned *owned = weft_buckets_owned(r->sets[c], &count);
        for (size_t i = 0; i < count; i++)
            CHECK_MSG(*(const float *)owned[i].grad == 5.5f, "chunk %u param %u is %g", c, owned[i].param,
                      (double)*(const float *)owned[i].grad);
        CHECK_INT(reductions(r->sets[c]), PARAMS);
    }
}

static void make_sets(rank_state *r, weft_comm *dp, uint32_t chunks, uint32_t flags, weft_params **params)
{
    for (uint32_t c = 0; c < chunks; c++) {
        CHECK_OK(weft_params_create(&params[c]));
        for (uint32_t i = 0; i < PARAMS; i++) {
            char name[16];
            snprintf(name, sizeof name, "w%u", i);
            weft_param param = WEFT_PARAM_INIT;
            param.name = name;
            CHECK_OK(weft_params_add(params[c], &param, NULL));
        }
        weft_buckets_comms comms = WEFT_BUCKETS_COMMS_INIT;
        comms.shard = dp;
        weft_buckets_config config = WEFT_BUCKETS_CONFIG_INIT;
        config.name = c ? "chunk1" : "chunk0";
        config.reduction = WEFT_AVERAGE;
        config.bucket_elements = 1;
        config.flags = flags;
        CHECK_OK(weft_buckets_create(params[c], &comms, &config, &r->sets[c]));
    }
}

static void train(weft_comm *pp, weft_comm *dp, uint32_t chunks, uint32_t flags)
{
    rank_state r = {.copy = weft_comm_rank(dp)};
    weft_params *params[CHUNKS];
    make_sets(&r, dp, chunks, 0, params);
    weft_schedule *s = make(chunks > 1 ? WEFT_POLICY_INTERLEAVED : WEFT_POLICY_1F1B, STAGES, MICROBATCHES, chunks, 0);
    weft_schedule *lowered = lower(s, weft_comm_queues(pp), WEFT_BATCHING_AUTO, flags);
    weft_pipeline_config config = WEFT_PIPELINE_CONFIG_INIT;
    config.count = 1;
    config.cookie = &r;
    config.forward = forward;
    config.backward = backward;
    config.sync = sync_chunk;
    weft_pipeline *pipeline;
    CHECK_OK(weft_pipeline_create(pp, lowered, &config, &pipeline));
    CHECK_OK(weft_pipeline_run(pipeline));
    check_sums(&r, chunks);
    weft_pipeline_destroy(pipeline);
    weft_schedule_destroy(lowered);
    weft_schedule_destroy(s);
    for (uint32_t c = 0; c < chunks; c++) {
        weft_buckets_destroy(r.sets[c]);
        weft_params_destroy(params[c]);
    }
}

/* ---- backwards split in B and W ---- */

/* Part number q takes x to x (q + 2), and its gradient back likewise. The gradient of its norm is dy, made in B; those
 * of its matrices are dy x, made in W. */
enum { SPLIT_MICROBATCHES = 3, NORM = PARAMS - 1 };

typedef struct split_state {
    rank_state r; /* its sets */
    uint32_t stage, backwards, weights;
} split_state;

static float factor(uint32_t part)
{
    return (float)part + 2;
}

static uint32_t part_of(const split_state *t, const weft_pipeline_task *task)
{
    return task->chunk * STAGES + t->stage;
}

static float first_input(int copy, uint32_t microbatch)
{
    return (float)((uint32_t)(copy + 1) * (microbatch + 1));
}

static float last_grad(uint32_t microbatch)
{
    return (float)(2 * microbatch + 1);
}

static float input_of(const split_state *t, const weft_pipeline_task *task)
{
    return task->input ? *(const float *)task->input : first_input(t->r.copy, task->microbatch);
}

static float output_grad_of(const weft_pipeline_task *task)
{
    return task->output_grad ? *(const float *)task->output_grad : last_grad(task->microbatch);
}

static weft_result add(weft_buckets *set, uint32_t param, float grad)
{
    *(float *)weft_buckets_grad(set, param) += grad;
    return weft_buckets_mark_ready(set, param, WEFT_STREAM_HOST);
}

static weft_result split_forward(void *cookie, const weft_pipeline_task *task)
{
    split_state *t = cookie;
    if (task->output)
        *(float *)task->output = input_of(t, task) * factor(part_of(t, task));
    return forward(&t->r, task);
}

static weft_result add_matrices(split_state *t, const weft_pipeline_task *task)
{
    weft_result result = WEFT_OK;
    for (uint32_t i = NORM; i-- > 0 && result == WEFT_OK;)
        result = add(t->r.sets[task->chunk], i, output_grad_of(task) * input_of(t, task));
    return result;
}

static weft_result split_backward(void *cookie, const weft_pipeline_task *task)
{
    split_state *t = cookie;
    weft_buckets *set = t->r.sets[task->chunk];
    if (task->input_grad)
        *(float *)task->input_grad = output_grad_of(task) * factor(part_of(t, task));
    t->backwards++;
    CHECK_INT(reductions(set), 0);
    weft_result result = weft_buckets_begin(set, task->last);
    if (result == WEFT_OK)
        result = add(set, NORM, output_grad_of(task));
    CHECK_INT(reductions(set), task->last); /* the norm has a bucket of its own, and nothing is before it */
    return result == WEFT_OK && !task->split ? add_matrices(t, task) : result;
}

static weft_result split_weights(void *cookie, const weft_pipeline_task *task)
{
    split_state *t = cookie;
    t->weights++;
    weft_result result = add_matrices(t, task);
    if (task->last)
        CHECK_INT(reductions(t->r.sets[task->chunk]), PARAMS);
    return result;
}

static weft_result split_sync(void *cookie, uint32_t chunk, uint32_t left)
{
    split_state *t = cookie;
    return sync_chunk(&t->r, chunk, left);
}

/* The same in one loop: the mean over copies of the sum over microbatches. */
static float serial(uint32_t part, uint32_t parts, uint32_t param)
{
    float sum = 0;
    for (int copy = 0; copy < COPIES; copy++)
        for (uint32_t m = 0; m < SPLIT_MICROBATCHES; m++) {
            float x = first_input(copy, m), dy = last_grad(m);
            for (uint32_t q = 0; q < part; q++)
                x *= factor(q);
            for (uint32_t q = parts - 1; q > part; q--)
                dy *= factor(q);
            sum += param == NORM ? dy : dy * x;
        }
    return sum / COPIES;
}

static void check_gradients(const split_state *t, uint32_t chunks)
{
    CHECK_OK(weft_buckets_reduce(t->r.sets, chunks, 0));
    for (uint32_t c = 0; c < chunks; c++) {
        size_t count;
        const weft_owned *owned = weft_buckets_owned(t->r.sets[c], &count);
        for (size_t i = 0; i < count; i++) {
            float want = serial(c * STAGES + t->stage, chunks * STAGES, owned[i].param);
            CHECK_MSG(*(const float *)owned[i].grad == want, "stage %u chunk %u param %u is %g, not %g", t->stage, c,
                      owned[i].param, (double)*(const float *)owned[i].grad, (double)want);
        }
        CHECK_INT(reductions(t->r.sets[c]), PARAMS);
    }
}

static void train_split(weft_comm *pp, weft_comm *dp, const weft_schedule *s, uint32_t flags)
{
    uint32_t chunks = weft_schedule_chunks(s);
    split_state t = {.r.copy = weft_comm_rank(dp), .stage = (uint32_t)weft_comm_rank(pp)};
    weft_params *params[CHUNKS];
    make_sets(&t.r, dp, chunks, WEFT_BUCKETS_LATE_MARKS, params);
    weft_schedule *lowered = lower(s, weft_comm_queues(pp), WEFT_BATCHING_AUTO, flags);
    weft_pipeline_config config = WEFT_PIPELINE_CONFIG_INIT;
    config.count = 1, config.dtype = WEFT_FP32;
    config.cookie = &t;
    config.forward = split_forward;
    config.backward = split_backward;
    config.weight_grad = split_weights;
    config.sync = split_sync;
    weft_pipeline *pipeline;
    CHECK_OK(weft_pipeline_create(pp, lowered, &config, &pipeline));
    CHECK_OK(weft_pipeline_run(pipeline));
    CHECK_INT(t.backwards, chunks * SPLIT_MICROBATCHES);
    CHECK(t.weights > 0);
    check_gradients(&t, chunks);
    weft_pipeline_destroy(pipeline);
    weft_schedule_destroy(lowered);
    for (uint32_t c = 0; c < chunks; c++) {
        weft_buckets_destroy(t.r.sets[c]);
        weft_params_destroy(params[c]);
    }
}

static void train_all_split(weft_comm *pp, weft_comm *dp)
{
    static const char *const lists[] = {
        /* W in an order of their own, all behind the last B of a stage, or between */
        "stage 0: F0.0 F1.0 F2.0 B0.0 B1.0 B2.0 W2.0 W0.0 W1.0\nstage 1: F0.0 B0.0 F1.0 B1.0 W1.0 F2.0 W0.0 B2.0 "
        "W2.0\n",
        /* only some B are split */
        "stage 0: F0.0 F1.0 B0.0 F2.0 B1.0 B2.0 W0.0\nstage 1: F0.0 B0.0 F1.0 B1.0 W0.0 F2.0 W1.0 B2.0\n",
    };
    for (uint32_t flags = 0; flags <= WEFT_LOWER_ALIGN_SYNC; flags += WEFT_LOWER_ALIGN_SYNC) {
        for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
            weft_schedule *s = from_text(lists[i]);
            train_split(pp, dp, s, flags);
            weft_schedule_destroy(s);
        }
        for (uint32_t chunks = 1; chunks <= CHUNKS; chunks++) {
            weft_schedule *s = make(chunks > 1 ? WEFT_POLICY_INTERLEAVED : WEFT_POLICY_1F1B, STAGES, SPLIT_MICROBATCHES,
                                    chunks, chunks > 1 ? SPLIT_MICROBATCHES : 0);
            weft_schedule *split = split_backwards(s);
            train_split(pp, dp, split, flags);
            weft_schedule_destroy(split);
            weft_schedule_destroy(s);
        }
    }
}

/* ---- on four ranks ---- */

static void pipelined_copies(weft_world *world, void *argument)
{
    bool split = argument != NULL;
    int rank = weft_world_rank(world), stage = rank / COPIES, copy = rank % COPIES;
    char name[16];
    weft_comm *pp, *dp;
    snprintf(name, sizeof name, "pp%d", copy);
    CHECK_OK(weft_comm_create(world, name, (int[]){copy, COPIES + copy}, STAGES, NULL, &pp));
    snprintf(name, sizeof name, "dp%d", stage);
    CHECK_OK(weft_comm_create(world, name, (int[]){COPIES * stage, COPIES * stage + 1}, COPIES, NULL, &dp));
    for (uint32_t chunks = 1; chunks <= CHUNKS && !split; chunks++) {
        train(pp, dp, chunks, 0);
        train(pp, dp, chunks, WEFT_LOWER_ALIGN_SYNC);
    }
    if (split)
        train_all_split(pp, dp);
    weft_comm_destroy(pp);
    weft_comm_destroy(dp);
}

TEST(each_stage_reduces_all_its_microbatches_once)
{
    ranks_both_ways(4, pipelined_copies, NULL);
}

TEST(split_backwards_give_the_gradients_of_one_loop_in_whatever_order_b_and_w_come)
{
    int split;
    ranks_both_ways(4, pipelined_copies, &split);
}
