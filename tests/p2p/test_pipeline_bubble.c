/* SPDX-License-Identifier: Apache-2.0 */
/* What a stage has to say to its copies it says while it idles: gradients in the bubble at the end of a window, values
 * in the one at the beginning of the next. Shown by cause: the first stage does not go on before all of it has ended on
 * the last one. */
#include <stdatomic.h>
#include <time.h>
#include <weft/adam.h>
#include <weft/pipeline.h>

#include "harness/ranks.h"
#include "schedules.h"

enum { STAGES = 2, COPIES = 2, MICROBATCHES = 4, PARAMS = 3, WINDOWS = 3, RECORDS = 512 };

typedef struct rank_state {
    int stage, copy;
    weft_world *world, *last_stage; /* of the same copy */
    weft_buckets *set;
    uint32_t window;
} rank_state;

static weft_world *_Atomic last_stages[COPIES];
static _Atomic uint32_t gathered; /* windows behind which the last copy of the last stage has got all values */

/* Reductions of the last stage that have ended so far. */
static uint32_t reduced(const rank_state *r)
{
    static _Thread_local weft_trace_record records[RECORDS];
    size_t count = weft_trace_read(r->last_stage, 0, records, RECORDS, NULL);
    uint32_t found = 0;
    for (size_t i = 0; i < count; i++)
        found += records[i].kind == WEFT_TRACE_COLLECTIVE && records[i].last &&
                 strstr(weft_trace_label_text(r->last_stage, records[i].label), "reduce");
    CHECK(count < RECORDS);
    return found;
}

static void have_a_pause(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
}

static weft_result forward(void *cookie, const weft_pipeline_task *task)
{
    rank_state *r = cookie;
    while (r->stage == 0 && r->copy == 0 && task->first && gathered < r->window)
        have_a_pause();
    return weft_buckets_acquire(r->set, 0, PARAMS, WEFT_STREAM_HOST);
}

static weft_result backward(void *cookie, const weft_pipeline_task *task)
{
    rank_state *r = cookie;
    while (r->stage == 0 && task->microbatch == MICROBATCHES - 1 && reduced(r) < (r->window + 1) * PARAMS)
        have_a_pause();
    weft_result result = weft_buckets_begin(r->set, task->last);
    for (uint32_t i = PARAMS; i-- > 0 && result == WEFT_OK;)
        result = weft_buckets_mark_ready(r->set, i, WEFT_STREAM_HOST);
    return result;
}

/* With WEFT_LOWER_ALIGN_SYNC the last microbatch begins behind the last backward. */
static weft_result sync_chunk(void *cookie, uint32_t chunk, uint32_t left)
{
    const rank_state *r = cookie;
    (void)chunk;
    weft_result result = left ? WEFT_OK : weft_buckets_begin(r->set, 1);
    for (uint32_t i = PARAMS; !left && i-- > 0 && result == WEFT_OK;)
        result = weft_buckets_mark_ready(r->set, i, WEFT_STREAM_HOST);
    return result;
}

/* The last copy of the last stage gets its values at once. It can only have them all, and be left alone with its own,
 * if the first copy, which waits in its pipeline for its first microbatch, does its part meanwhile. */
static void tell_gathered(rank_state *r)
{
    if (r->stage < STAGES - 1 || r->copy < COPIES - 1)
        return;
    CHECK_OK(weft_buckets_acquire(r->set, 0, PARAMS, WEFT_STREAM_HOST));
    gathered = r->window;
}

static void train(rank_state *r, weft_comm *pp, uint32_t policy_flags, uint32_t lower_flags)
{
    weft_schedule_config how = WEFT_SCHEDULE_CONFIG_INIT;
    how.policy = WEFT_POLICY_1F1B, how.stages = STAGES, how.microbatches = MICROBATCHES, how.flags = policy_flags;
    weft_pipeline_config config = WEFT_PIPELINE_CONFIG_INIT;
    config.count = 1, config.lower_flags = lower_flags;
    config.cookie = r, config.forward = forward, config.backward = backward, config.sync = sync_chunk;
    weft_schedule *schedule;
    weft_pipeline *pipeline;
    weft_adam *adam;
    CHECK_OK(weft_schedule_create(&how, &schedule));
    CHECK_OK(weft_pipeline_create(pp, schedule, &config, &pipeline));
    CHECK_OK(weft_adam_create(&r->set, 1, NULL, &adam));
    weft_step step = WEFT_STEP_INIT;
    for (int i = 0; i < WINDOWS; i++) {
        CHECK_OK(weft_pipeline_run(pipeline));
        CHECK_OK(weft_adam_step(adam, &step, NULL));
        r->window++;
        tell_gathered(r);
    }
    weft_adam_destroy(adam);
    weft_pipeline_destroy(pipeline);
    weft_schedule_destroy(schedule);
}

static void make_set(rank_state *r, weft_params *params, weft_comm *dp, weft_comm *all)
{
    for (uint32_t i = 0; i < PARAMS; i++) {
        char name[16];
        snprintf(name, sizeof name, "w%u", i);
        weft_param param = WEFT_PARAM_INIT;
        param.name = name;
        CHECK_OK(weft_params_add(params, &param, NULL));
    }
    weft_buckets_comms comms = WEFT_BUCKETS_COMMS_INIT;
    comms.shard = dp, comms.norm = all;
    weft_buckets_config config = WEFT_BUCKETS_CONFIG_INIT;
    config.bucket_elements = 1;
    CHECK_OK(weft_buckets_create(params, &comms, &config, &r->set));
}

static void pipelined_copies(weft_world *world, void *argument)
{
    (void)argument;
    int rank = weft_world_rank(world), copy = rank % COPIES;
    rank_state r = {.stage = rank / COPIES, .copy = copy, .world = world};
    char name[16];
    weft_comm *pp, *dp, *all = all_ranks(world, "all", NULL);
    snprintf(name, sizeof name, "pp%d", copy);
    CHECK_OK(weft_comm_create(world, name, (int[]){copy, COPIES + copy}, STAGES, NULL, &pp));
    snprintf(name, sizeof name, "dp%d", r.stage);
    CHECK_OK(weft_comm_create(world, name, (int[]){COPIES * r.stage, COPIES * r.stage + 1}, COPIES, NULL, &dp));
    if (r.stage == STAGES - 1)
        last_stages[copy] = world;
    CHECK_OK(weft_barrier_run(all, WEFT_STREAM_HOST));
    r.last_stage = last_stages[copy];
    weft_params *params;
    CHECK_OK(weft_params_create(&params));
    make_set(&r, params, dp, all);
    train(&r, pp, 0, 0);
    train(&r, pp, WEFT_SCHEDULE_RUN_AHEAD, 0);
    train(&r, pp, 0, WEFT_LOWER_ALIGN_SYNC);
    CHECK_OK(weft_buckets_acquire(r.set, 0, PARAMS, WEFT_STREAM_HOST));
    CHECK_OK(weft_barrier_run(all, WEFT_STREAM_HOST)); /* nobody reads the trace of a world that is gone */
    weft_buckets_destroy(r.set);
    weft_params_destroy(params);
    weft_comm_destroy(dp);
    weft_comm_destroy(pp);
    weft_comm_destroy(all);
}

TEST(a_stage_reduces_in_the_bubble_behind_it_and_gathers_in_the_one_before_it)
{
    ranks_as_threads(STAGES * COPIES, NULL, pipelined_copies, NULL);
}
