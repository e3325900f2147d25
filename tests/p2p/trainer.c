/* SPDX-License-Identifier: Apache-2.0 */
/* What a part of the model does, what the callbacks check, and the same without a pipeline. */
#include "trainer.h"

#include <stdlib.h>
#include <time.h>

/* ---- what a part does ---- */

static int64_t factor(uint32_t part)
{
    return 2 * (int64_t)part + 3;
}

static int64_t bias(uint32_t part, uint32_t microbatch, size_t i)
{
    return (int64_t)(part * 1000003u + microbatch * 10007u) + (int64_t)(i * 31);
}

static int64_t wrapping(int64_t a, int64_t b, int64_t c)
{
    return (int64_t)((uint64_t)a * (uint64_t)b + (uint64_t)c);
}

static int32_t narrow(int64_t a)
{
    return (int32_t)(uint32_t)(uint64_t)a;
}

/* ---- tasks ---- */

static uint32_t part_of(const trainer *t, uint32_t chunk)
{
    return chunk * t->stages + t->stage;
}

static void event(trainer *t, const char *name, uint32_t a, int b)
{
    size_t used = strlen(t->events);
    if (used + 32 > sizeof t->events)
        return;
    int n = snprintf(t->events + used, 32, "%s%s%u", used ? " " : "", name, a);
    if (b >= 0)
        snprintf(t->events + used + n, 16, ".%d", b);
}

static void be_late(trainer *t)
{
    t->random = t->random * 1664525u + 1013904223u;
    if ((t->random >> 8) % 100 < t->late_percent)
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
}

static weft_result begin(trainer *t, const weft_pipeline_task *task)
{
    uint32_t part = part_of(t, task->chunk), last = t->stages * t->chunks - 1;
    event(t, weft_action_string(task->kind), task->microbatch, (int)task->chunk);
    if (t->before)
        t->before(t, task);
    be_late(t);
    bool forward = task->kind == WEFT_ACTION_F;
    CHECK((task->input == NULL) == (part == 0));
    CHECK((task->output == NULL) == (part == last || !forward));
    CHECK((task->output_grad == NULL) == (part == last || forward));
    CHECK((task->input_grad == NULL) == (part == 0 || task->kind != WEFT_ACTION_B));
    CHECK(task->activation < weft_pipeline_activations(t->pipeline, task->chunk));
    bool fails = task->chunk == 0 && task->kind == t->fail_kind && task->microbatch == t->fail_microbatch;
    return fails ? t->fail_with : WEFT_OK;
}

static int64_t input_at(const trainer *t, const weft_pipeline_task *task, size_t i)
{
    const int64_t *input = task->input;
    if (t->count == 0)
        return 0;
    return input ? input[i % t->count] : bias(77, task->microbatch, i % t->count);
}

static void forget(trainer *t, const weft_pipeline_task *task)
{
    int *kept = &t->kept[task->chunk][task->activation];
    CHECK_INT(*kept, (int)task->microbatch + 1);
    CHECK_INT(task->activation, t->kept_as[task->chunk][task->microbatch]);
    *kept = 0;
}

static weft_result forward(void *cookie, const weft_pipeline_task *task)
{
    trainer *t = cookie;
    weft_result result = begin(t, task);
    if (result != WEFT_OK)
        return result;
    CHECK_INT(task->first, t->forwards[task->chunk]++ == 0);
    int *kept = &t->kept[task->chunk][task->activation];
    CHECK_INT(*kept, 0);
    t->kept_as[task->chunk][task->microbatch] = task->activation;
    *kept = (int)task->microbatch + 1;
    uint32_t part = part_of(t, task->chunk);
    int64_t *output = task->output;
    for (size_t i = 0; i < t->count; i++) {
        int64_t y = wrapping(input_at(t, task, i), factor(part), bias(part, task->microbatch, i));
        if (output)
            output[i] = y;
        else
            t->loss[task->microbatch] = wrapping(t->loss[task->microbatch], 31, y);
    }
    return WEFT_OK;
}

static weft_result forward_only(void *cookie, const weft_pipeline_task *task)
{
    weft_result result = forward(cookie, task);
    forget(cookie, task);
    return result;
}

static int64_t output_grad_at(const trainer *t, const weft_pipeline_task *task, size_t i)
{
    const int32_t *grad = task->output_grad;
    return grad ? grad[i] : narrow(wrapping(t->loss[task->microbatch], 3, (int64_t)i));
}

static void add_weight_grad(trainer *t, const weft_pipeline_task *task)
{
    t->gradients[task->chunk]++;
    if (task->kind == WEFT_ACTION_W)
        CHECK_INT(task->last, t->synced[task->chunk] && t->gradients[task->chunk] == t->microbatches);
    for (size_t i = 0; i < t->grad_count; i++)
        t->weight_grad[task->chunk] =
            wrapping(output_grad_at(t, task, i), input_at(t, task, i), t->weight_grad[task->chunk]);
    forget(t, task);
}

static weft_result backward_input(void *cookie, const weft_pipeline_task *task)
{
    trainer *t = cookie;
    weft_result result = begin(t, task);
    if (result != WEFT_OK)
        return result;
    CHECK_INT(task->split, t->split);
    CHECK_INT(task->last, t->synced[task->chunk]);
    t->backwards_of[task->chunk]++;
    CHECK(!task->last || t->backwards_of[task->chunk] == t->microbatches);
    CHECK_INT(t->kept[task->chunk][task->activation], (int)task->microbatch + 1);
    uint32_t part = part_of(t, task->chunk);
    int32_t *input_grad = task->input_grad;
    for (size_t i = 0; i < t->grad_count; i++) {
        int32_t g = narrow(wrapping(output_grad_at(t, task, i), factor(part), input_at(t, task, i)));
        if (input_grad)
            input_grad[i] = g;
        else
            t->input_grad[task->microbatch] = wrapping(t->input_grad[task->microbatch], 31, g);
    }
    return WEFT_OK;
}

static weft_result backward(void *cookie, const weft_pipeline_task *task)
{
    weft_result result = backward_input(cookie, task);
    if (result == WEFT_OK)
        add_weight_grad(cookie, task);
    return result;
}

static weft_result weight_grad(void *cookie, const weft_pipeline_task *task)
{
    weft_result result = begin(cookie, task);
    if (result == WEFT_OK)
        add_weight_grad(cookie, task);
    return result;
}

static weft_result sync_chunk(void *cookie, uint32_t chunk, uint32_t left)
{
    trainer *t = cookie;
    event(t, "sync", chunk, -1);
    CHECK(!t->synced[chunk]);
    CHECK_INT(t->backwards_of[chunk] + left, t->microbatches);
    t->synced[chunk] = true;
    t->syncs++;
    return t->fail_sync;
}

static weft_result finalize(void *cookie)
{
    trainer *t = cookie;
    for (uint32_t c = 0; c < t->chunks; c++)
        CHECK_INT(t->forwards[c], t->microbatches);
    event(t, "final", t->finals++, -1);
    return t->fail_finalize;
}

static weft_result release(void *cookie, const weft_pipeline_task *task)
{
    trainer *t = cookie;
    void *sent = task->kind == WEFT_ACTION_F ? task->output : task->input_grad;
    CHECK(sent);
    size_t bytes = task->kind == WEFT_ACTION_F ? t->count * 8 : t->grad_count * 4;
    memset(sent, 0xff, bytes); /* whoever still reads this reads nonsense */
    t->releases++;
    return t->fail_release;
}

weft_pipeline_config trainer_config(trainer *t, const weft_schedule *schedule)
{
    t->stages = weft_schedule_stages(schedule);
    t->chunks = weft_schedule_chunks(schedule);
    t->microbatches = weft_schedule_microbatches(schedule);
    CHECK(t->chunks <= TRAINER_CHUNKS && t->microbatches <= TRAINER_MICROBATCHES);
    size_t count;
    const weft_action *list = weft_schedule_actions(schedule, t->stage, &count);
    t->backwards = t->split = false;
    for (size_t i = 0; i < count; i++) {
        t->backwards |= list[i].kind == WEFT_ACTION_B;
        t->split |= list[i].kind == WEFT_ACTION_W;
    }
    weft_pipeline_config config = WEFT_PIPELINE_CONFIG_INIT;
    config.count = t->count;
    config.dtype = WEFT_INT64;
    config.grad_count = t->grad_count;
    config.grad_dtype = WEFT_INT32;
    config.flags = t->flags;
    config.cookie = t;
    config.forward = t->backwards ? forward : forward_only;
    config.backward = t->split ? backward_input : backward;
    config.weight_grad = weight_grad;
    config.sync = sync_chunk;
    config.finalize = finalize;
    config.release = release;
    return config;
}

void trainer_open(trainer *t, weft_comm *comm, const weft_schedule *schedule)
{
    t->stage = comm ? (uint32_t)weft_comm_rank(comm) : 0;
    weft_pipeline_config config = trainer_config(t, schedule);
    CHECK_OK(weft_pipeline_create(comm, schedule, &config, &t->pipeline));
}

void trainer_close(trainer *t)
{
    weft_pipeline_destroy(t->pipeline);
    t->pipeline = NULL;
}

weft_result trainer_run(trainer *t)
{
    memset(t->loss, 0, sizeof t->loss);
    memset(t->input_grad, 0, sizeof t->input_grad);
    memset(t->weight_grad, 0, sizeof t->weight_grad);
    memset(t->kept, 0, sizeof t->kept);
    memset(t->forwards, 0, sizeof t->forwards);
    memset(t->backwards_of, 0, sizeof t->backwards_of);
    memset(t->gradients, 0, sizeof t->gradients);
    memset(t->synced, 0, sizeof t->synced);
    t->syncs = t->finals = t->releases = 0;
    t->events[0] = 0;
    return weft_pipeline_run(t->pipeline);
}

/* ---- the same without a pipeline ---- */

static void serial(const trainer *t, uint32_t microbatch, int64_t *loss, int64_t *input_grad, int64_t *weight_grads)
{
    uint32_t parts = t->stages * t->chunks;
    int64_t *at = malloc((parts + 1) * (t->count + 1) * sizeof *at), *end = at + parts * t->count;
    int32_t *grad = malloc((t->grad_count + 1) * sizeof *grad);
    for (size_t i = 0; i < t->count; i++)
        at[i] = bias(77, microbatch, i);
    for (uint32_t part = 0; part < parts; part++)
        for (size_t i = 0; i < t->count; i++)
            at[(part + 1) * t->count + i] = wrapping(at[part * t->count + i], factor(part), bias(part, microbatch, i));
    *loss = *input_grad = 0;
    for (size_t i = 0; i < t->count; i++)
        *loss = wrapping(*loss, 31, end[i]);
    for (size_t i = 0; i < t->grad_count; i++)
        grad[i] = narrow(wrapping(*loss, 3, (int64_t)i));
    for (uint32_t part = parts; t->backwards && part-- > 0;)
        for (size_t i = 0; i < t->grad_count; i++) {
            int64_t input = t->count ? at[part * t->count + i % t->count] : 0;
            weight_grads[part] = wrapping(grad[i], input, weight_grads[part]);
            grad[i] = narrow(wrapping(grad[i], factor(part), input));
        }
    for (size_t i = 0; t->backwards && i < t->grad_count; i++)
        *input_grad = wrapping(*input_grad, 31, grad[i]);
    free(at);
    free(grad);
}

void trainer_check(trainer *t)
{
    int64_t loss, input_grad, weight_grads[64] = {0};
    CHECK_OK(trainer_run(t));
    for (uint32_t m = 0; m < t->microbatches; m++) {
        serial(t, m, &loss, &input_grad, weight_grads);
        if (t->stage == t->stages - 1)
            CHECK_INT(t->loss[m], loss);
        if (t->stage == 0)
            CHECK_INT(t->input_grad[m], input_grad);
    }
    uint32_t first = t->stage == 0, last = t->stage == t->stages - 1, sends = 0;
    for (uint32_t c = 0; c < t->chunks; c++) {
        CHECK_INT(t->weight_grad[c], weight_grads[part_of(t, c)]);
        sends += !(last && c == t->chunks - 1) + (t->backwards && !(first && c == 0));
    }
    CHECK_INT(t->releases, sends * t->microbatches);
    CHECK_INT(t->syncs, t->backwards ? t->chunks : 0);
    CHECK_INT(t->finals, 1);
}
