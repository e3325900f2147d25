/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a trainer, piece by piece, and takes it apart. */
#include "gpt/trainer.h"

#include <stdio.h>
#include <stdlib.h>
#include <weft/memory.h>

#include "gpt/device.h"
#include "gpt/steps.h"

/* ---- pipelines ---- */

static weft_comm *comm_of(const gpt_trainer *t, int axis)
{
    return t->gpu_comms[axis] ? t->gpu_comms[axis] : t->layout->groups[axis].comm;
}

static weft_result make_pipeline(gpt_trainer *t, uint32_t flags, gpt_switch_set on, weft_pipeline **pipeline_out)
{
    weft_schedule *schedule;
    GPT_TRY(gpt_layout_schedule(t->layout, t->options, flags, on, &schedule));
    weft_pipeline_config config = WEFT_PIPELINE_CONFIG_INIT;
    config.count = gpt_shape_message(&t->shape);
    config.dtype = t->shape.dtype;
    config.cookie = t;
    config.stream = t->device->stream;
    config.forward = gpt_forward;
    config.backward = gpt_backward;
    config.sync = gpt_sync;
    config.flags = gpt_is_on(on, GPT_SENDS) ? 0 : WEFT_PIPELINE_WAIT_SENDS;
    config.lower_flags = (gpt_is_on(on, GPT_RECEIVES) ? 0 : WEFT_LOWER_NO_LOOKAHEAD) |
                         (gpt_is_on(on, GPT_BUBBLE) ? 0 : WEFT_LOWER_ALIGN_SYNC);
    weft_result result = weft_pipeline_create(comm_of(t, GPT_PP), schedule, &config, pipeline_out);
    weft_schedule_destroy(schedule);
    return result;
}

static int make_pipelines(gpt_trainer *t, gpt_failure *failure)
{
    const gpt_options *o = t->options;
    weft_result result = make_pipeline(t, 0, o->switches, &t->training[GPT_AS_ASKED]);
    if (result == WEFT_OK && o->overlap == GPT_OVERLAP_COMPARE)
        result = make_pipeline(t, 0, 0, &t->training[GPT_SERIAL]);
    if (result == WEFT_OK && gpt_data_held_out_count(t->data) > 0 && !o->timed.is_on)
        result = make_pipeline(t, WEFT_SCHEDULE_FORWARD_ONLY, o->switches, &t->evaluation);
    return gpt_fail_weft(failure, result);
}

/* ---- model ---- */

int gpt_trainer_open_parts(gpt_trainer *t, const size_t *slots, gpt_failure *failure)
{
    t->part_count = t->shape.virtual_stages;
    t->parts = calloc(t->part_count, sizeof *t->parts);
    if (!t->parts)
        return gpt_fail(failure, EXIT_FAILED, "no memory for %zu parts of the model", t->part_count);
    for (size_t i = 0; i < t->part_count; i++) {
        size_t index = i * t->layout->pipeline + t->layout->stage;
        if (gpt_part_open(&t->parts[i], &t->model, t->layout, index, slots[i], failure))
            return failure->code;
    }
    return 0;
}

void gpt_trainer_close_parts(gpt_trainer *t)
{
    for (size_t i = 0; t->parts && i < t->part_count; i++)
        gpt_part_close(&t->parts[i]);
    free(t->parts);
}

/* A training keeps at least the one microbatch of an evaluation. */
static int open_parts(gpt_trainer *t, gpt_failure *failure)
{
    size_t *slots = calloc(t->shape.virtual_stages, sizeof *slots);
    if (!slots)
        return gpt_fail(failure, EXIT_FAILED, "no memory for %zu parts of the model", t->shape.virtual_stages);
    for (size_t i = 0; i < t->shape.virtual_stages; i++)
        for (int way = 0; way < GPT_WAYS && t->training[way]; way++) {
            size_t kept = weft_pipeline_activations(t->training[way], (uint32_t)i);
            slots[i] = kept > slots[i] ? kept : slots[i];
        }
    int code = gpt_trainer_open_parts(t, slots, failure);
    free(slots);
    return code;
}

size_t gpt_trainer_place(gpt_trainer *t, void *memory)
{
    gpt_arena arena = {.memory = memory};
    gpt_model_place(&t->model, &arena);
    for (size_t i = 0; i < t->part_count; i++)
        gpt_chunk_place(&t->parts[i].chunk, &arena);
    t->loss_at = gpt_arena_take(&arena, sizeof *t->loss_at);
    return arena.used_bytes;
}

/* Beside the comms of the layout, over the same ranks. */
static int connect_gpus(gpt_trainer *t, gpt_failure *failure)
{
    static const int axes[] = {GPT_TP, GPT_PP};
    for (size_t i = 0; i < sizeof axes / sizeof *axes; i++) {
        const weft_comm *host = t->layout->groups[axes[i]].comm;
        char name[WEFT_COMM_NAME_MAX + 1];
        weft_comm_config config = WEFT_COMM_CONFIG_INIT;
        config.device = WEFT_DEVICE_CUDA;
        config.flags = axes[i] == GPT_TP ? WEFT_COMM_NO_P2P : 0;
        snprintf(name, sizeof name, "gpus of %.50s", weft_comm_name(host));
        int count = weft_comm_size(host), *ranks = malloc((size_t)count * sizeof *ranks);
        if (!ranks)
            return gpt_fail(failure, EXIT_FAILED, "no memory for %d ranks", count);
        for (int r = 0; r < count; r++)
            ranks[r] = weft_comm_world_rank(host, r);
        weft_result result =
            weft_comm_create(weft_comm_world(host), name, ranks, count, &config, &t->gpu_comms[axes[i]]);
        free(ranks);
        if (gpt_fail_weft(failure, result))
            return failure->code;
    }
    return 0;
}

static int open_device(gpt_trainer *t, gpt_failure *failure)
{
    t->nothing = gpt_nothing_device(&t->shape);
    if (t->options->timed.is_on) {
        gpt_timed_open(&t->timed, &t->shape);
        t->device = &t->timed.device;
        return 0;
    }
    if (t->options->device == GPT_ON_HOST)
        return gpt_host_open(&t->shape, &t->device, failure);
    if (gpt_gpu_open(weft_comm_world(t->all), &t->shape, &t->device, failure))
        return failure->code;
    t->nothing.activation = t->device->activation;
    t->nothing.stream = t->device->stream;
    return connect_gpus(t, failure);
}

/* Activations lie in weft's memory too: tensor parallel ranks reach them without a copy. */
static int make_model(gpt_trainer *t, gpt_failure *failure)
{
    gpt_model_open(&t->model, &t->shape, t->device, t->layout->tensor > 1 ? comm_of(t, GPT_TP) : NULL);
    t->model.tp.core = t->options->timed.is_on ? &t->timed.core : NULL;
    if (open_parts(t, failure))
        return failure->code;
    weft_result result = weft_memory_alloc_on(weft_comm_world(t->all), (weft_device)t->device->stream.kind,
                                              gpt_trainer_place(t, NULL), &t->memory);
    if (gpt_fail_making(failure, result, "activations of the model"))
        return failure->code;
    gpt_trainer_place(t, t->memory);
    t->inputs = malloc(t->shape.tokens * sizeof *t->inputs);
    t->targets = malloc(t->shape.tokens * sizeof *t->targets);
    if (!t->inputs || !t->targets)
        return gpt_fail(failure, EXIT_FAILED, "no memory for the tokens of a microbatch");
    return 0;
}

/* ---- buckets and optimizer ---- */

/* All ranks make their sets together, so the two that share a tied embedding must come at the same time: chunks in
 * order, but on the last stage the other way round. */
static size_t chunk_of_set(const gpt_trainer *t, size_t i)
{
    bool reversed = t->shape.tied && gpt_layout_is_last_stage(t->layout);
    return reversed ? t->part_count - 1 - i : i;
}

static int make_sets(gpt_trainer *t, gpt_failure *failure)
{
    for (size_t i = 0; i < t->part_count; i++) {
        gpt_part *part = &t->parts[chunk_of_set(t, i)];
        char name[32];
        snprintf(name, sizeof name, "set%zu", i);
        if (gpt_part_connect(part, name, t->options, t->layout, t->all, failure) ||
            gpt_part_fill(part, t->options->seed, failure))
            return failure->code;
        t->sets[chunk_of_set(t, i)] = part->set; /* they are stepped in order of use */
    }
    return 0;
}

static int make_optimizer(gpt_trainer *t, gpt_failure *failure)
{
    weft_adam_config config = WEFT_ADAM_CONFIG_INIT;
    config.beta1 = (float)t->options->beta1;
    config.beta2 = (float)t->options->beta2;
    config.epsilon = (float)t->options->epsilon;
    weft_result result = weft_adam_create(t->sets, (uint32_t)t->part_count, &config, &t->adam);
    return gpt_fail_making(failure, result, "state of the optimizer");
}

/* ---- the whole ---- */

int gpt_trainer_open(gpt_trainer *t, gpt_failure *failure)
{
    t->sets = calloc(t->shape.virtual_stages, sizeof *t->sets);
    if (!t->sets)
        return gpt_fail(failure, EXIT_FAILED, "no memory for %zu parts of the model", t->shape.virtual_stages);
    if (open_device(t, failure) || make_pipelines(t, failure) || make_model(t, failure) || make_sets(t, failure))
        return failure->code;
    return make_optimizer(t, failure);
}

void gpt_trainer_close(gpt_trainer *t)
{
    weft_pipeline_destroy(t->evaluation);
    for (int way = 0; way < GPT_WAYS; way++)
        weft_pipeline_destroy(t->training[way]);
    weft_adam_destroy(t->adam);
    gpt_trainer_close_parts(t);
    if (t->device)
        t->device->ops->close(t->device);
    weft_memory_free(weft_comm_world(t->all), t->memory);
    for (int axis = 0; axis < GPT_AXES; axis++)
        weft_comm_destroy(t->gpu_comms[axis]);
    free(t->inputs);
    free(t->targets);
    free(t->sets);
}
