/* SPDX-License-Identifier: Apache-2.0 */
/* A trainer at work: what its pipelines call, a step, an evaluation. */
#include "gpt/steps.h"

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

weft_result gpt_forward(void *cookie, const weft_pipeline_task *task)
{
    gpt_trainer *t = cookie;
    gpt_chunk *chunk = &t->parts[task->chunk].chunk;
    if (gpt_chunk_is_first(chunk) || gpt_chunk_is_last(chunk))
        take_samples(t, task->microbatch);
    return tell(t,
                gpt_chunk_forward(chunk, task->activation, task->input, task->output, t->inputs, t->targets, &t->loss));
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
    weft_result result = weft_buckets_begin(part->set, task->last);
    if (result == WEFT_OK)
        result =
            gpt_chunk_backward(&part->chunk, task->activation, task->output_grad, task->input_grad, share_of_token(t));
    return tell(t, result);
}

/* ---- calling pipelines ---- */

static weft_result run(gpt_trainer *t, weft_pipeline *pipeline, bool held_out, uint64_t number)
{
    t->held_out = held_out;
    t->number = number;
    t->loss = 0;
    return weft_pipeline_run(pipeline);
}

weft_result gpt_trainer_step(gpt_trainer *t, uint64_t step, double rate, weft_step_report *report)
{
    weft_step how = WEFT_STEP_INIT;
    how.lr = (float)rate;
    how.weight_decay = (float)t->options->weight_decay;
    how.clip_norm = (float)t->options->clip;
    GPT_TRY(run(t, t->training, false, step));
    return weft_adam_step(t->adam, &how, report);
}

/* Every tensor parallel rank of a last stage has computed the same. */
double gpt_trainer_loss(const gpt_trainer *t)
{
    return t->layout->tensor_rank == 0 ? t->loss : 0;
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
        *hash_out += gpt_part_hash(part, once);
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
