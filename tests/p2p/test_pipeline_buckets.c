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
        CHECK_INT(reductions(r->sets[c]), 1);
    }
}

static void make_sets(rank_state *r, weft_comm *dp, uint32_t chunks, weft_params **params)
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
        CHECK_OK(weft_buckets_create(params[c], &comms, &config, &r->sets[c]));
    }
}

static void train(weft_comm *pp, weft_comm *dp, uint32_t chunks, uint32_t flags)
{
    rank_state r = {.copy = weft_comm_rank(dp)};
    weft_params *params[CHUNKS];
    make_sets(&r, dp, chunks, params);
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

static void pipelined_copies(weft_world *world, void *argument)
{
    (void)argument;
    int rank = weft_world_rank(world), stage = rank / COPIES, copy = rank % COPIES;
    char name[16];
    weft_comm *pp, *dp;
    snprintf(name, sizeof name, "pp%d", copy);
    CHECK_OK(weft_comm_create(world, name, (int[]){copy, COPIES + copy}, STAGES, NULL, &pp));
    snprintf(name, sizeof name, "dp%d", stage);
    CHECK_OK(weft_comm_create(world, name, (int[]){COPIES * stage, COPIES * stage + 1}, COPIES, NULL, &dp));
    for (uint32_t chunks = 1; chunks <= CHUNKS; chunks++) {
        train(pp, dp, chunks, 0);
        train(pp, dp, chunks, WEFT_LOWER_ALIGN_SYNC);
    }
    weft_comm_destroy(pp);
    weft_comm_destroy(dp);
}

TEST(each_stage_reduces_all_its_microbatches_once)
{
    ranks_both_ways(4, pipelined_copies, NULL);
}
