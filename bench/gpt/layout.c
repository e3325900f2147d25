/* SPDX-License-Identifier: Apache-2.0 */
/* Leads from flags to the comms of this rank: world, cluster, mesh, groups. */
#include "gpt/layout.h"

#include <stdio.h>

#include "gpt/batch.h"
#include "gpt/model.h"
#include "plural.h"

static int plan_axes(gpt_layout *layout, const gpt_options *o, int ranks, gpt_failure *failure)
{
    uint64_t shared = (uint64_t)o->tensor * (uint64_t)o->pipeline;
    if ((uint64_t)ranks % shared)
        return gpt_fail(failure, EXIT_USAGE,
                        "--tensor-model-parallel-size %d times --pipeline-model-parallel-size %d is %llu: it does not "
                        "divide a world of %d rank%s",
                        o->tensor, o->pipeline, (unsigned long long)shared, ranks, plural(ranks, "s"));
    layout->tensor = (size_t)o->tensor;
    layout->pipeline = (size_t)o->pipeline;
    layout->data = (size_t)ranks / (size_t)shared;
    return 0;
}

static int plan_batch(gpt_layout *layout, const gpt_options *o, gpt_failure *failure)
{
    layout->microbatches = gpt_batch_microbatches((size_t)o->global_batch, (size_t)o->micro_batch, layout->data, false);
    if (!layout->microbatches)
        return gpt_fail(failure, EXIT_USAGE,
                        "--global-batch-size %d does not divide by --micro-batch-size %d times %zu data parallel "
                        "rank%s",
                        o->global_batch, o->micro_batch, layout->data, plural(layout->data, "s"));
    return 0;
}

weft_result gpt_layout_schedule(const gpt_layout *layout, const gpt_options *o, uint32_t flags, gpt_switch_set on,
                                weft_schedule **schedule_out)
{
    bool interleaved = o->virtual_stages > 1;
    weft_schedule_config config = WEFT_SCHEDULE_CONFIG_INIT;
    config.policy = interleaved ? WEFT_POLICY_INTERLEAVED : WEFT_POLICY_1F1B;
    config.stages = (uint32_t)layout->pipeline;
    config.microbatches = (uint32_t)layout->microbatches;
    config.chunks = (uint32_t)o->virtual_stages;
    config.group = interleaved ? (uint32_t)o->microbatch_group : 0;
    config.flags = flags;
    if (gpt_is_on(on, GPT_RUN_AHEAD) && weft_policy_traits(config.policy) & WEFT_POLICY_RUNS_AHEAD)
        config.flags |= WEFT_SCHEDULE_RUN_AHEAD;
    return weft_schedule_create(&config, schedule_out);
}

static int plan_schedule(const gpt_layout *layout, const gpt_options *o, gpt_failure *failure)
{
    weft_schedule *schedule;
    weft_result result = gpt_layout_schedule(layout, o, 0, o->switches, &schedule);
    if (result < 0)
        return gpt_fail(failure, EXIT_USAGE, "no schedule for this pipeline: %s", weft_last_error());
    weft_schedule_destroy(schedule);
    return 0;
}

int gpt_layout_plan(gpt_layout *layout, const gpt_options *options, int ranks, gpt_failure *failure)
{
    *layout = (gpt_layout){0};
    if (options->world_size && options->world_size != ranks)
        return gpt_fail(failure, EXIT_USAGE, "--world-size is %d, but there %s %d rank%s", options->world_size,
                        ranks == 1 ? "is" : "are", ranks, plural(ranks, "s"));
    if (plan_axes(layout, options, ranks, failure) || plan_batch(layout, options, failure))
        return failure->code;
    return plan_schedule(layout, options, failure);
}

const weft_axes gpt_layout_axes[GPT_AXES] = {[GPT_TP] = WEFT_AXIS_TP, [GPT_PP] = WEFT_AXIS_PP, [GPT_DP] = WEFT_AXIS_DP};

weft_result gpt_layout_mesh(const gpt_options *o, int ranks, weft_mesh **mesh_out)
{
    weft_mesh_config config = WEFT_MESH_CONFIG_INIT;
    config.order = o->pipeline_inside ? "tp-cp-ep-pp-dp" : "tp-cp-ep-dp-pp";
    config.tp = o->tensor, config.pp = o->pipeline;
    return weft_mesh_create(ranks, &config, mesh_out);
}

weft_result gpt_layout_place(gpt_layout *layout, const weft_mesh *mesh, const weft_cluster *cluster, int rank)
{
    size_t *const place[GPT_AXES] = {
        [GPT_TP] = &layout->tensor_rank, [GPT_PP] = &layout->stage, [GPT_DP] = &layout->replica};
    for (int i = 0; i < GPT_AXES; i++) {
        int group, member;
        GPT_TRY(weft_groups_of(mesh, cluster, gpt_layout_axes[i], rank, &group, &member));
        *place[i] = (size_t)member;
    }
    return WEFT_OK;
}

/* The comm of the first and the last rank of this rank's pipeline, if it is one of them. */
static weft_result connect_ends(gpt_layout *layout, weft_world *world)
{
    const weft_comm *pp = layout->groups[GPT_PP].comm;
    int ends[2] = {weft_comm_world_rank(pp, 0), weft_comm_world_rank(pp, weft_comm_size(pp) - 1)};
    char name[WEFT_COMM_NAME_MAX + 1];
    if (layout->pipeline == 1 || (layout->stage > 0 && !gpt_layout_is_last_stage(layout)))
        return WEFT_OK;
    snprintf(name, sizeof name, "ends of %s", weft_comm_name(pp));
    return weft_comm_create(world, name, ends, 2, NULL, &layout->ends);
}

static weft_result connect_groups(gpt_layout *layout, const weft_mesh *mesh, const weft_cluster *cluster,
                                  weft_world *world)
{
    for (int i = 0; i < GPT_AXES; i++)
        layout->groups[i].axes = gpt_layout_axes[i];
    return weft_groups_connect(world, mesh, cluster, layout->groups, GPT_AXES);
}

weft_result gpt_layout_connect(gpt_layout *layout, const gpt_options *o, weft_world *world)
{
    weft_cluster *cluster;
    weft_mesh *mesh = NULL;
    weft_result result = weft_cluster_open(world, NULL, &cluster);
    if (result == WEFT_OK)
        result = gpt_layout_mesh(o, weft_world_size(world), &mesh);
    if (result == WEFT_OK)
        result = gpt_layout_place(layout, mesh, cluster, weft_world_rank(world));
    if (result == WEFT_OK)
        result = connect_groups(layout, mesh, cluster, world);
    if (result == WEFT_OK && !o->untied)
        result = connect_ends(layout, world);
    weft_mesh_destroy(mesh);
    weft_cluster_destroy(cluster);
    return result;
}

void gpt_layout_close(gpt_layout *layout)
{
    weft_comm_destroy(layout->ends);
    weft_groups_disconnect(layout->groups, GPT_AXES);
}

char *gpt_layout_text(const gpt_layout *layout, const gpt_options *o, char *text, size_t bytes)
{
    const struct {
        const char *name;
        size_t ranks;
    } axes[] = {
        {"tp", layout->tensor}, {"pp", layout->pipeline}, {"vp", (size_t)o->virtual_stages}, {"dp", layout->data}};
    size_t used = 0;
    *text = 0;
    for (size_t i = 0; i < sizeof axes / sizeof *axes && used < bytes; i++)
        if (axes[i].ranks > 1)
            used +=
                (size_t)snprintf(text + used, bytes - used, "%s%s%zu", used ? " " : "", axes[i].name, axes[i].ranks);
    if (used < bytes && o->sequence_parallel && layout->tensor > 1)
        used += (size_t)snprintf(text + used, bytes - used, " sp");
    if (!used)
        snprintf(text, bytes, "1");
    return text;
}
