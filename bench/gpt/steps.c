/* SPDX-License-Identifier: Apache-2.0 */
/* A trainer at work: what its pipelines call, a step, an evaluation. */
#include "gpt/steps.h"

#include "clock.h"
#include "gpt/trainer.h"

/* ---- called by pipelines ---- */

/* Where sample @p sample of the batch begins. */
static size_t position(const gpt_trainer *t, size_t sample)
{
    uint64_t batch = (uint64_t)t->options->global_batch;
    if (!t->held_out)
        return gpt_data_position(t->data, (t->number - 1) * batch + sample);
    return gpt_data_held_out_position(t->data,
                                      (size_t)((t->number * batch + sample) % gpt_data_held_out_count(t->data)));
}

static void take_samples(gpt_trainer *t, size_t microbatch)
{
    size_t count = t->shape.micro_batch, first = (t->layout->replica * t->layout->microbatches + microbatch) * count;
    for (size_t i = 0; i < count; i++)
        gpt_data_sample(t->data, position(t, first + i), i, count, t->inputs, t->targets);
}

/* What fails here fails for all: they shall hear of the cause, not just of a pipeline that was aborted. */
static weft_result tell(const gpt_trainer *t, weft_result result)
{
    if (result < 0)
        (void)weft_world_abort(weft_comm_world(t->all), result, weft_last_error());
    return result;
}

static bool is_talking(const gpt_trainer *t)
{
    return t->model.device == &t->nothing;
}

weft_result gpt_forward(void *cookie, const weft_pipeline_task *task)
{
    gpt_trainer *t = cookie;
    gpt_chunk *chunk = &t->parts[task->chunk].chunk;
    int64_t began = clock_ns();
    t->watch.forward_began_ns = t->watch.forward_began_ns ? t->watch.forward_began_ns : began;
    gpt_timed_set(&t->timed, t->options->timed.forward_ms, gpt_timed_elements(chunk));
    if ((gpt_chunk_is_first(chunk) || gpt_chunk_is_last(chunk)) && !is_talking(t))
        take_samples(t, task->microbatch);
    weft_result result =
        gpt_chunk_forward(chunk, task->activation, task->input, task->output, t->inputs, t->targets, t->loss_at);
    t->watch.forward_ns += clock_ns() - began;
    return tell(t, result);
}

/* The mean over the tokens of a step is taken here, or here over this rank's and in the collective over ranks. */
static float share_of_token(const gpt_trainer *t)
{
    size_t samples = (size_t)t->options->global_batch / (t->options->average_in_collective ? t->layout->data : 1);
    return 1 / (float)(samples * t->shape.sequence);
}

weft_result gpt_backward(void *cookie, const weft_pipeline_task *task)
{
    gpt_trainer *t = cookie;
    gpt_part *part = &t->parts[task->chunk];
    int64_t began = clock_ns();
    gpt_timed_set(&t->timed, t->options->timed.backward_ms, 2 * gpt_timed_elements(&part->chunk));
    bool last = task->last && gpt_is_on(t->switches, GPT_GRAD_REDUCE);
    weft_result result = weft_buckets_begin_on(part->set, last, t->device->stream);
    t->watch.backward_began_ns = clock_ns();
    if (result == WEFT_OK)
        result =
            gpt_chunk_backward(&part->chunk, task->activation, task->output_grad, task->input_grad, share_of_token(t));
    t->watch.backward_ns += clock_ns() - began;
    return tell(t, result);
}

/* Without its own bubble a stage comes here behind its last backward. */
weft_result gpt_sync(void *cookie, uint32_t chunk, uint32_t left)
{
    gpt_trainer *t = cookie;
    bool behind = left == 0 && gpt_is_on(t->switches, GPT_GRAD_REDUCE);
    return behind ? tell(t, gpt_part_reduce(&t->parts[chunk])) : WEFT_OK;
}

/* ---- calling pipelines ---- */

/* What a GPU was given may have failed. */
static weft_result check(const gpt_trainer *t)
{
    const char *why;
    weft_result result = t->device->ops->check ? t->device->ops->check(t->device, &why) : WEFT_OK;
    if (result != WEFT_OK)
        (void)weft_world_abort(weft_comm_world(t->all), result, why);
    return result;
}

static weft_result run(gpt_trainer *t, weft_pipeline *pipeline, bool held_out, uint64_t number)
{
    t->held_out = held_out;
    t->number = number;
    t->device->ops->clear(t->device, sizeof *t->loss_at, t->loss_at);
    GPT_TRY(weft_pipeline_run(pipeline));
    return check(t);
}

/* Forward and backward of all microbatches; reductions have been started. */
static weft_result run_window(gpt_trainer *t, gpt_way way, uint64_t step)
{
    t->switches = way == GPT_SERIAL ? 0 : t->options->switches;
    t->model.tp.serial = !gpt_is_on(t->switches, GPT_TENSOR);
    t->watch = (gpt_watch){0};
    for (size_t i = 0; i < t->part_count; i++)
        gpt_part_begin(&t->parts[i]);
    GPT_TRY(run(t, t->training[way], false, step));
    for (size_t i = 0; i < t->part_count && !gpt_is_on(t->switches, GPT_GRAD_REDUCE); i++)
        GPT_TRY(gpt_part_reduce(&t->parts[i]));
    return WEFT_OK;
}

weft_result gpt_trainer_settle(gpt_trainer *t)
{
    for (size_t i = 0; i < t->part_count; i++)
        GPT_TRY(weft_buckets_acquire(t->parts[i].set, 0, weft_params_count(t->parts[i].params), WEFT_STREAM_HOST));
    return WEFT_OK;
}

static weft_result update(gpt_trainer *t, double rate, weft_step_report *report)
{
    weft_step how = WEFT_STEP_INIT;
    how.lr = (float)rate;
    how.weight_decay = (float)t->options->weight_decay;
    how.clip_norm = (float)t->options->clip;
    how.after = t->device->stream;
    how.flags = gpt_is_on(t->switches, GPT_OPTIMIZER) ? 0 : WEFT_STEP_GATHER_LAST;
    return weft_adam_step(t->adam, &how, report);
}

static double elements_of(const weft_buckets *set)
{
    const weft_layout *layout = weft_buckets_layout(set);
    double elements = 0;
    for (uint32_t i = 0; i < weft_layout_buffers(layout); i++)
        elements += (double)weft_layout_buffer_at(layout, i)->elements;
    return elements;
}

/* In order of use, as the optimizer does; before each bucket be busy for its share. */
static weft_result gather(gpt_trainer *t, weft_buckets *set, double ns_an_element)
{
    const weft_layout *layout = weft_buckets_layout(set);
    for (uint32_t k = weft_layout_buckets(layout); k-- > 0;) {
        uint32_t bucket = weft_layout_order(layout, k);
        const weft_layout_bucket *b = weft_layout_bucket_at(layout, bucket);
        if (ns_an_element > 0)
            pretend_pass(&t->timed.core, (int64_t)(ns_an_element * (double)(b->end - b->start)));
        GPT_TRY(weft_buckets_gather(set, bucket, t->device->stream));
    }
    return WEFT_OK;
}

/* The same for other ranks, with nothing updated: this rank is only busy for @p ms. */
static weft_result update_nothing(gpt_trainer *t, double ms, weft_step_report *report)
{
    double elements = 0;
    GPT_TRY(weft_buckets_reduce(t->sets, (uint32_t)t->part_count, 0));
    GPT_TRY(weft_buckets_norm(t->sets, (uint32_t)t->part_count, &report->norm));
    pretend_begin(&t->timed.core);
    for (size_t i = 0; i < t->part_count; i++)
        elements += elements_of(t->sets[i]);
    if (ms > 0 && !gpt_is_on(t->switches, GPT_OPTIMIZER)) {
        pretend_pass(&t->timed.core, (int64_t)(ms * 1e6));
        ms = 0;
    }
    for (size_t i = 0; i < t->part_count; i++)
        GPT_TRY(gather(t, t->sets[i], ms * 1e6 / elements));
    return WEFT_OK;
}

weft_result gpt_trainer_step(gpt_trainer *t, gpt_way way, uint64_t step, double rate, weft_step_report *report)
{
    const gpt_timed *timed = &t->options->timed;
    GPT_TRY(run_window(t, way, step));
    GPT_TRY(timed->is_on ? update_nothing(t, timed->optimizer_ms, report) : update(t, rate, report));
    return gpt_is_on(t->switches, GPT_PARAM_GATHER) ? WEFT_OK : gpt_trainer_settle(t);
}

weft_result gpt_trainer_talk(gpt_trainer *t)
{
    weft_step_report unused = WEFT_STEP_REPORT_INIT;
    gpt_device *device = t->model.device;
    t->model.device = &t->nothing;
    weft_result result = run_window(t, GPT_SERIAL, 0);
    if (result == WEFT_OK)
        result = update_nothing(t, 0, &unused);
    t->model.device = device;
    return result == WEFT_OK ? gpt_trainer_settle(t) : result;
}

/* Every tensor parallel rank of a last stage has computed the same. */
double gpt_trainer_loss(gpt_trainer *t)
{
    double loss;
    t->device->ops->fetch(t->device, sizeof loss, t->loss_at, &loss);
    return t->layout->tensor_rank == 0 ? loss : 0;
}

weft_result gpt_trainer_evaluate(gpt_trainer *t, double *loss_out)
{
    uint64_t batch = (uint64_t)t->options->global_batch, rounds = gpt_data_held_out_count(t->data) / batch;
    double loss = 0;
    rounds = rounds ? rounds : 1;
    for (uint64_t round = 0; round < rounds; round++) {
        GPT_TRY(run(t, t->evaluation, true, round));
        loss += gpt_trainer_loss(t);
    }
    GPT_TRY(weft_all_reduce_run(t->all, &loss, &loss, 1, WEFT_FP64, WEFT_SUM, WEFT_STREAM_HOST));
    *loss_out = loss / (double)(rounds * batch * t->shape.sequence);
    return WEFT_OK;
}

/* ---- weights ---- */

static weft_result hash_parts(gpt_trainer *t, bool once, uint64_t *hash_out)
{
    *hash_out = 0;
    for (size_t i = 0; i < t->part_count; i++) {
        const gpt_part *part = &t->parts[i];
        GPT_TRY(weft_buckets_acquire(part->set, 0, weft_params_count(part->params), WEFT_STREAM_HOST));
        uint64_t hash;
        GPT_TRY(gpt_part_hash(part, once, &hash));
        *hash_out += hash;
    }
    return WEFT_OK;
}

weft_result gpt_trainer_hash(gpt_trainer *t, uint64_t *hash_out)
{
    uint64_t hash;
    GPT_TRY(hash_parts(t, true, &hash));
    if (t->layout->replica > 0)
        hash = 0;
    return weft_all_reduce_run(t->all, &hash, hash_out, 1, WEFT_INT64, WEFT_SUM, WEFT_STREAM_HOST);
}

int gpt_trainer_compare(gpt_trainer *t, gpt_failure *failure)
{
    weft_comm *replicas = t->layout->groups[GPT_DP].comm;
    uint64_t mine, first;
    weft_result result = hash_parts(t, false, &mine);
    if (result == WEFT_OK)
        result = weft_broadcast_run(replicas, &mine, &first, 1, WEFT_INT64, 0, WEFT_STREAM_HOST);
    if (result == WEFT_OK && mine != first)
        return gpt_fail(failure, EXIT_WRONG, "rank %d has other weights than its replica, rank %d",
                        weft_comm_world_rank(replicas, weft_comm_rank(replicas)), weft_comm_world_rank(replicas, 0));
    return gpt_fail_weft(failure, result);
}
