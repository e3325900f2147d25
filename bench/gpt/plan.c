/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a plan: layout, schedule, and for each stage what a rank of it keeps and receives. */
#include "gpt/plan.h"

#include <stdlib.h>

const char *const gpt_plan_ways[GPT_PLAN_WAYS] = {
    [GPT_TP] = "tp", [GPT_PP] = "pp", [GPT_DP] = "dp", [GPT_PLAN_ENDS] = "ends"};

static int no_memory(gpt_failure *failure)
{
    return gpt_fail(failure, EXIT_FAILED, "no memory for the plan");
}

/* ---- the world ---- */

static int plan_ranks(gpt_plan *plan, gpt_failure *failure)
{
    const gpt_options *o = plan->options;
    int64_t ranks = o->world_size ? o->world_size : (int64_t)o->tensor * o->pipeline;
    if (ranks > INT32_MAX)
        return gpt_fail(failure, EXIT_USAGE, "a world of %lld ranks is more than there can be", (long long)ranks);
    plan->ranks = (int)ranks;
    plan->rank = o->plan_rank;
    if (gpt_layout_plan(&plan->layout, o, plan->ranks, failure))
        return failure->code;
    if (plan->rank >= plan->ranks)
        return gpt_fail(failure, EXIT_USAGE, "--plan-rank %d is no rank of a world of %d", plan->rank, plan->ranks);
    weft_result result = gpt_layout_mesh(o, plan->ranks, &plan->mesh);
    if (result == WEFT_OK)
        result = gpt_layout_place(&plan->layout, plan->mesh, NULL, plan->rank);
    gpt_layout_text(&plan->layout, o, plan->layout_text, sizeof plan->layout_text);
    return gpt_fail_weft(failure, result);
}

char *gpt_plan_groups(const gpt_plan *plan, int axis)
{
    size_t bytes;
    char *text = NULL;
    if (weft_groups_text(plan->mesh, NULL, gpt_layout_axes[axis], NULL, 0, &bytes) == WEFT_OK)
        text = malloc(bytes + 1);
    if (text && weft_groups_text(plan->mesh, NULL, gpt_layout_axes[axis], text, bytes + 1, NULL) < 0) {
        free(text);
        return NULL;
    }
    return text;
}

size_t gpt_plan_stage_of(const gpt_plan *plan, int rank)
{
    int group, stage;
    if (weft_groups_of(plan->mesh, NULL, WEFT_AXIS_PP, rank, &group, &stage) < 0)
        return 0;
    return (size_t)stage;
}

/* ---- the schedule ---- */

/* The share of idle slots if a backward takes twice as long as a forward. */
static weft_result find_bubble(gpt_plan *plan, const weft_schedule *s)
{
    size_t actions = 0, count;
    uint32_t stages = weft_schedule_stages(s), slots;
    for (uint32_t stage = 0; stage < stages; stage++) {
        weft_schedule_actions(s, stage, &count);
        actions += count;
    }
    weft_action_time *times = calloc(actions, sizeof *times);
    weft_result result = times ? weft_schedule_times(s, NULL, times, actions, &slots) : WEFT_E_NO_MEMORY;
    if (result == WEFT_OK) {
        double busy = 0, all = (double)stages * slots;
        for (size_t i = 0; i < actions; i++) /* all of them compute */
            busy += times[i].end - times[i].begin;
        plan->bubble = (all - busy) / all;
    }
    free(times);
    return result;
}

static int plan_schedule(gpt_plan *plan, gpt_failure *failure)
{
    weft_schedule *computing;
    plan->needs = calloc(plan->layout.pipeline, sizeof *plan->needs);
    if (!plan->needs)
        return no_memory(failure);
    weft_result result = gpt_layout_schedule(&plan->layout, plan->options, 0, plan->options->switches, &computing);
    if (result < 0)
        return gpt_fail_weft(failure, result);
    result = find_bubble(plan, computing);
    if (result == WEFT_OK)
        result = weft_schedule_lower(computing, NULL, &plan->schedule);
    weft_schedule_destroy(computing);
    if (result == WEFT_OK)
        result = weft_schedule_verify(plan->schedule, NULL, plan->needs);
    return gpt_fail_weft(failure, result);
}

/* How many microbatches of each chunk a stage holds at most. */
static void find_slots(const gpt_plan *plan, size_t stage, size_t *slots, size_t *held)
{
    size_t count;
    const weft_action *actions = weft_schedule_actions(plan->schedule, (uint32_t)stage, &count);
    for (const weft_action *a = actions; a < actions + count; a++) {
        if (a->kind == WEFT_ACTION_F && ++held[a->chunk] > slots[a->chunk])
            slots[a->chunk] = held[a->chunk];
        if (a->kind == WEFT_ACTION_B)
            held[a->chunk]--;
    }
}

/* ---- a stage ---- */

static int open_parts(const gpt_plan *plan, size_t number, gpt_plan_stage *stage, gpt_failure *failure)
{
    size_t chunks = plan->shape.virtual_stages, *slots = calloc(2 * chunks, sizeof *slots);
    stage->layouts = calloc(chunks, sizeof(weft_layout *));
    int code = slots && stage->layouts ? 0 : no_memory(failure);
    if (code == 0) {
        find_slots(plan, number, slots, slots + chunks);
        code = gpt_trainer_open_parts(&stage->trainer, slots, failure);
    }
    free(slots);
    return code;
}

static void count_params(gpt_plan_stage *stage, const gpt_part *part)
{
    for (size_t i = 0; i < part->chunk.param_count; i++) {
        const gpt_param *param = &part->chunk.params[i];
        stage->params += param->parts * param->rows * param->columns;
        stage->params_local += param->count;
    }
}

/* Of gradients that are summed over further ranks, the elements that this replica owns. */
static void count_sums(gpt_plan_stage *stage, const gpt_part *part, const weft_layout *buckets)
{
    for (size_t i = 0; i < part->chunk.param_count; i++) {
        const gpt_param *param = &part->chunk.params[i];
        const weft_layout_place *place = weft_layout_param_at(buckets, (uint32_t)i);
        size_t start, end;
        if (!(param->summed || param->tied) ||
            weft_layout_shard(buckets, place->bucket, (int)stage->layout.replica, &start, &end) < 0)
            continue;
        start = start > place->start ? start : place->start;
        end = end < place->end ? end : place->end;
        double bytes = end > start ? (double)(end - start) * sizeof(float) : 0;
        if (param->summed)
            stage->received_bytes[GPT_TP] += gpt_tp_received(WEFT_ALL_REDUCE, stage->layout.tensor, bytes);
        if (param->tied)
            stage->received_bytes[GPT_PLAN_ENDS] += gpt_tp_received(WEFT_ALL_REDUCE, 2, bytes);
    }
}

/* Values and gradients of all, the optimizer's numbers of what a rank owns: two moments, and the values in fp32. */
static void count_buffers(gpt_plan_stage *stage, const weft_layout *buckets)
{
    for (uint32_t i = 0; i < weft_layout_buffers(buckets); i++) {
        const weft_layout_buffer *buffer = weft_layout_buffer_at(buckets, i);
        size_t values = buffer->elements * weft_dtype_bytes(buffer->dtype);
        size_t grads = buffer->elements * weft_dtype_bytes(buffer->grad_dtype);
        size_t numbers = buffer->dtype == WEFT_FP32 ? 2 : 3;
        stage->elements += buffer->elements;
        stage->value_bytes += values;
        stage->grad_bytes += grads;
        stage->optimizer_bytes += buffer->elements / (size_t)buffer->shard_ranks * numbers * sizeof(float);
        stage->received_bytes[GPT_DP] += gpt_tp_received(WEFT_REDUCE_SCATTER, stage->layout.data, (double)grads) +
                                         gpt_tp_received(WEFT_ALL_GATHER, stage->layout.data, (double)values);
    }
}

/* What tensor parallel ranks say to each other in one microbatch. */
static weft_result count_tensor(gpt_plan_stage *stage, gpt_chunk *chunk)
{
    double received = 0, loss = 0;
    chunk->model->tp.received_bytes = &received;
    GPT_TRY(gpt_chunk_forward(chunk, 0, NULL, NULL, NULL, NULL, &loss));
    GPT_TRY(gpt_chunk_backward(chunk, 0, NULL, NULL, 0));
    chunk->model->tp.received_bytes = NULL;
    stage->received_bytes[GPT_TP] += received * (double)stage->layout.microbatches;
    return WEFT_OK;
}

static weft_result count_part(const gpt_plan *plan, gpt_plan_stage *stage, size_t index)
{
    gpt_part *part = &stage->trainer.parts[index];
    weft_layout_config config = WEFT_LAYOUT_CONFIG_INIT;
    config.bucket_elements = plan->options->bucket_elements;
    config.last_bucket_elements = plan->options->last_bucket_elements;
    config.shard_ranks = (int)stage->layout.data;
    GPT_TRY(weft_layout_create(part->params, &config, &stage->layouts[index]));
    count_params(stage, part);
    count_buffers(stage, stage->layouts[index]);
    count_sums(stage, part, stage->layouts[index]);
    return count_tensor(stage, &part->chunk);
}

static void count_messages(const gpt_plan *plan, size_t number, gpt_plan_stage *stage)
{
    const weft_stage_needs *needs = &plan->needs[number];
    size_t count, each = gpt_shape_message(&plan->shape) * weft_dtype_bytes(plan->shape.dtype);
    const weft_action *actions = weft_schedule_actions(plan->schedule, (uint32_t)number, &count);
    for (const weft_action *a = actions; a < actions + count; a++)
        if (a->kind == WEFT_ACTION_RECV_F || a->kind == WEFT_ACTION_RECV_B)
            stage->received_bytes[GPT_PP] += (double)each;
    stage->message_bytes = each * ((size_t)needs->receives[0] + needs->receives[1] + needs->sends[0] + needs->sends[1]);
}

static int plan_stage(gpt_plan *plan, size_t number, gpt_failure *failure)
{
    gpt_plan_stage *stage = &plan->stages[number];
    gpt_trainer *t = &stage->trainer;
    stage->layout = plan->layout;
    stage->layout.stage = number;
    t->options = plan->options;
    t->layout = &stage->layout;
    t->shape = plan->shape;
    t->device = &plan->device;
    gpt_model_open(&t->model, &plan->shape, &plan->device, NULL);
    if (open_parts(plan, number, stage, failure))
        return failure->code;
    for (size_t i = 0; i < t->part_count; i++)
        if (gpt_fail_weft(failure, count_part(plan, stage, i)))
            return failure->code;
    stage->padding = stage->elements - stage->params_local;
    stage->activation_bytes = gpt_trainer_place(t, NULL);
    count_messages(plan, number, stage);
    return 0;
}

/* ---- the whole ---- */

static int count_layer(gpt_plan *plan, gpt_failure *failure)
{
    size_t count = gpt_params_list(&plan->shape, 0, 1, false, false, NULL);
    gpt_param *params = calloc(count, sizeof *params);
    if (!params)
        return no_memory(failure);
    gpt_params_list(&plan->shape, 0, 1, false, false, params);
    for (size_t i = 0; i < count; i++)
        plan->layer_params += params[i].parts * params[i].rows * params[i].columns;
    free(params);
    plan->total_params = gpt_shape_parameters(&plan->shape);
    return 0;
}

/* Stages have equally many ranks, so that means over stages are means over ranks. */
static void sum_up(gpt_plan *plan)
{
    double bytes = 0, elements = 0, padding = 0;
    for (size_t i = 0; i < plan->layout.pipeline; i++) {
        const gpt_plan_stage *stage = &plan->stages[i];
        bytes += (double)(stage->value_bytes + stage->grad_bytes + stage->optimizer_bytes);
        elements += (double)stage->elements;
        padding += (double)stage->padding;
    }
    plan->state_bytes = bytes / elements;
    plan->padding = padding / elements;
}

int gpt_plan_open(gpt_plan *plan, const gpt_options *options, gpt_failure *failure)
{
    *plan = (gpt_plan){.options = options};
    if (gpt_options_shape(options, &plan->shape, failure) || plan_ranks(plan, failure) ||
        plan_schedule(plan, failure) || count_layer(plan, failure))
        return failure->code;
    plan->device = gpt_nothing_device(&plan->shape);
    plan->stages = calloc(plan->layout.pipeline, sizeof *plan->stages);
    if (!plan->stages)
        return no_memory(failure);
    for (size_t i = 0; i < plan->layout.pipeline; i++)
        if (plan_stage(plan, i, failure))
            return failure->code;
    sum_up(plan);
    return 0;
}

void gpt_plan_close(gpt_plan *plan)
{
    for (size_t i = 0; plan->stages && i < plan->layout.pipeline; i++) {
        gpt_plan_stage *stage = &plan->stages[i];
        for (size_t k = 0; stage->layouts && k < plan->shape.virtual_stages; k++)
            weft_layout_destroy(stage->layouts[k]);
        free(stage->layouts);
        gpt_trainer_close_parts(&stage->trainer);
    }
    free(plan->stages);
    free(plan->needs);
    weft_schedule_destroy(plan->schedule);
    weft_mesh_destroy(plan->mesh);
}
