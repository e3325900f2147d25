/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the program of a stage, step by step. */
#include "pipeline.h"

#include <stdio.h>
#include <string.h>
#include <weft/p2p.h>
#include <weft/trace.h>

#include "base/error.h"

/* A callback did not return WEFT_OK: say which, and what weft had to say meanwhile, if anything. */
static weft_result callback_failed(const weft_pipeline *p, const char *what, weft_result result)
{
    weft__last_error why = weft__error_keep();
    bool told = strcmp(why.text, p->said.text) != 0;
    return weft__fail(result < 0 ? result : WEFT_E_INVALID, "stage %u: the trainer's %s returned %s%s%.300s", p->stage,
                      what, weft_result_string(result), told ? ": " : "", told ? why.text : "");
}

static weft_result task_failed(const weft_pipeline *p, const char *before, const weft_pipeline_task *task,
                               weft_result result)
{
    char what[64];
    snprintf(what, sizeof what, "%s%s %u.%u", before, weft_action_string(task->kind), task->microbatch, task->chunk);
    return callback_failed(p, what, result);
}

/* ---- batches ---- */

/* What a batch that is over has sent. */
static weft_result release(weft_pipeline *p, const weft__program_batch *batch)
{
    for (uint32_t i = batch->first; i < batch->first + batch->count; i++) {
        const weft_pipeline_task *task = p->program.makers[i];
        weft_result result = task ? p->config.release(p->config.cookie, task) : WEFT_OK;
        if (result != WEFT_OK)
            return task_failed(p, "release of ", task, result);
    }
    return WEFT_OK;
}

static weft_result end_work(weft__program_batch *batch)
{
    weft_work work = batch->work;
    batch->work = WEFT_WORK_NONE;
    return weft_work_finish(work, WEFT_STREAM_HOST);
}

/* Once a batch is over, this does nothing. */
static weft_result finish_batch(weft_pipeline *p, uint32_t number)
{
    if (number == WEFT__BATCH_NONE)
        return WEFT_OK;
    weft__program_batch *batch = &p->program.batches[number];
    if (batch->work.value == 0)
        return WEFT_OK;
    WEFT_TRY(end_work(batch));
    return p->config.release ? release(p, batch) : WEFT_OK;
}

/* ---- steps ---- */

static weft_result start_batch(weft_pipeline *p, const weft__step *step)
{
    weft__program_batch *batch = &p->program.batches[step->batch];
    weft_p2p_batch messages = WEFT_P2P_BATCH_INIT;
    messages.messages = &p->program.messages[batch->first];
    messages.count = batch->count;
    messages.label = batch->label;
    WEFT_TRY(weft_p2p_start(p->comm, &messages, WEFT_STREAM_HOST, &batch->work));
    return batch->sends && p->config.flags & WEFT_PIPELINE_WAIT_SENDS ? finish_batch(p, step->batch) : WEFT_OK;
}

static weft_result compute(weft_pipeline *p, const weft__step *step)
{
    WEFT_TRY(finish_batch(p, step->waits[0]));
    WEFT_TRY(finish_batch(p, step->waits[1]));
    uint64_t span = p->spans ? weft_span_begin(p->world, step->label, step->task.microbatch) : 0;
    weft_result result = p->compute[step->kind](p->config.cookie, &step->task);
    if (p->spans)
        weft_span_end(p->world, span);
    return result == WEFT_OK ? WEFT_OK : task_failed(p, "", &step->task, result);
}

static weft_result sync_chunk(weft_pipeline *p, const weft__step *step)
{
    if (!p->config.sync)
        return WEFT_OK;
    weft_result result = p->config.sync(p->config.cookie, step->task.chunk, step->left);
    if (result == WEFT_OK)
        return WEFT_OK;
    char what[32];
    snprintf(what, sizeof what, "SYNC of chunk %u", step->task.chunk);
    return callback_failed(p, what, result);
}

static weft_result (*const run_step[WEFT_ACTION_KINDS])(weft_pipeline *p, const weft__step *step) = {
    [WEFT_ACTION_F] = compute,          [WEFT_ACTION_B] = compute,          [WEFT_ACTION_W] = compute,
    [WEFT_ACTION_SEND_F] = start_batch, [WEFT_ACTION_RECV_F] = start_batch, [WEFT_ACTION_SEND_B] = start_batch,
    [WEFT_ACTION_RECV_B] = start_batch, [WEFT_ACTION_SYNC] = sync_chunk,
};

/* ---- a window ---- */

static weft_result run_window(weft_pipeline *p)
{
    const weft__program *program = &p->program;
    for (size_t i = 0; i < program->step_count; i++)
        WEFT_TRY(run_step[program->steps[i].kind](p, &program->steps[i]));
    weft_result result = p->config.finalize ? p->config.finalize(p->config.cookie) : WEFT_OK;
    if (result != WEFT_OK)
        return callback_failed(p, "finalize", result);
    for (uint32_t i = 0; i < program->batch_count; i++)
        WEFT_TRY(finish_batch(p, i));
    return WEFT_OK;
}

/* No stage shall wait for this one, and nothing stay under way. What @p result says stays weft_last_error(). */
static weft_result give_up(weft_pipeline *p, weft_result result)
{
    weft__last_error why = weft__error_keep();
    if (p->comm)
        (void)weft_comm_abort_because(p->comm, why.text);
    for (uint32_t i = 0; i < p->program.batch_count; i++)
        if (p->program.batches[i].work.value)
            (void)end_work(&p->program.batches[i]);
    weft__error_restore(&why);
    return result;
}

weft_result weft_pipeline_run(weft_pipeline *pipeline)
{
    if (!pipeline)
        return weft__fail(WEFT_E_INVALID, "there is no pipeline to run");
    char why[sizeof pipeline->said.text];
    weft_result verdict = pipeline->comm ? weft_comm_error(pipeline->comm, why, sizeof why) : WEFT_OK;
    if (verdict != WEFT_OK)
        return weft__fail_quietly(verdict, why); /* before anything is computed for it */
    pipeline->said = weft__error_keep();
    weft_result result = run_window(pipeline);
    return result == WEFT_OK ? WEFT_OK : give_up(pipeline, result);
}
