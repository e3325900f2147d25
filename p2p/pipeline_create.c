/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a stage: completes and proves the schedule, takes all memory, and compares with the other stages. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/collective.h>
#include <weft/trace.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/sized.h"
#include "pipeline.h"

#define P2P_CHANNELS 2

/* What all stages must hold alike. */
typedef struct terms {
    uint64_t schedule; /* hash */
    uint64_t count[P2P_CHANNELS], dtype[P2P_CHANNELS];
} terms;

/* ---- the schedule ---- */

/* Has it all that lowering adds? */
static bool is_lowered(const weft_schedule *s)
{
    bool messages = s->stages * s->chunks == 1; /* needs none */
    for (uint32_t stage = 0; stage < s->stages; stage++) {
        bool backward = false, synced = false;
        for (size_t i = 0; i < s->lists[stage].count; i++) {
            const weft_action *a = &s->lists[stage].at[i];
            if (weft__kinds[a->kind].message && a->buffer == WEFT_BUFFER_NONE)
                return false;
            messages |= weft__kinds[a->kind].message;
            backward |= a->kind == WEFT_ACTION_B;
            synced |= a->kind == WEFT_ACTION_SYNC;
        }
        if (backward && !synced)
            return false;
    }
    return messages;
}

static uint64_t hash_schedule(const weft_schedule *s)
{
    uint32_t shape[] = {s->stages, s->chunks, s->microbatches};
    uint64_t hash = weft__hash(WEFT__HASH_START, shape, sizeof shape);
    for (uint32_t stage = 0; stage < s->stages; stage++) {
        const weft__actions *list = &s->lists[stage];
        hash = weft__hash(hash, &list->count, sizeof list->count);
        for (size_t i = 0; i < list->count; i++) {
            const weft_action *a = &list->at[i];
            uint32_t fields[] = {(uint32_t)a->kind, a->microbatch, a->chunk, a->peer, a->batch, a->buffer};
            hash = weft__hash(hash, fields, sizeof fields);
        }
    }
    return hash;
}

/* ---- this stage ---- */

static weft_result check_config(weft_pipeline *p, const weft_schedule *s)
{
    const weft_pipeline_config *c = &p->config;
    if (c->flags & ~(uint32_t)(WEFT_PIPELINE_NO_SPANS | WEFT_PIPELINE_WAIT_SENDS) ||
        c->lower_flags & ~WEFT__LOWER_FLAGS)
        return weft__fail(WEFT_E_INVALID, "pipelines know no flags %#x with %#x for lowering", c->flags,
                          c->lower_flags);
    if ((unsigned)c->dtype >= WEFT_DTYPES || (unsigned)c->grad_dtype >= WEFT_DTYPES)
        return weft__fail(WEFT_E_INVALID, "a pipeline of dtype %d and gradients of %d", (int)c->dtype,
                          (int)c->grad_dtype);
    if (s->stages * s->chunks > 1 && c->count == 0)
        return weft__fail(WEFT_E_INVALID, "a pipeline of %u parts, but weft_pipeline_config.count is 0",
                          s->stages * s->chunks);
    uint32_t ranks = p->comm ? (uint32_t)weft_comm_size(p->comm) : 1;
    if (s->stages != ranks)
        return weft__fail(WEFT_E_INVALID, "a schedule of %u stages is run by %u ranks%s%s", s->stages, ranks,
                          p->comm ? " of comm " : ": there is no comm", p->comm ? weft_comm_name(p->comm) : "");
    return WEFT_OK;
}

static weft_result check_callbacks(const weft_pipeline *p, const weft_schedule *s)
{
    static const char *const names[] = {"forward", "backward", "weight_grad"};
    const weft__actions *list = &s->lists[p->stage];
    for (size_t i = 0; i < list->count; i++) {
        weft_action_kind kind = list->at[i].kind;
        if (weft__computes(kind) && !p->compute[kind])
            return weft__fail(WEFT_E_INVALID, "%s needs the callback %s: it is NULL", weft__locate(s, p->stage, i).text,
                              names[kind]);
    }
    return WEFT_OK;
}

static weft_result check_comm(const weft_pipeline *p)
{
    weft_comm_config c = WEFT_COMM_CONFIG_INIT;
    WEFT_TRY(weft_comm_config_get(p->comm, &c));
    if (c.p2p_channels < P2P_CHANNELS)
        return weft__fail(WEFT_E_INVALID, "comm %s has %u p2p channel, a pipeline needs %d", weft_comm_name(p->comm),
                          c.p2p_channels, P2P_CHANNELS);
    if (c.works < p->program.under_way)
        return weft__fail(WEFT_E_INVALID, "stage %u has up to %u batches under way at a time, comm %s %u works",
                          p->stage, p->program.under_way, weft_comm_name(p->comm), c.works);
    return WEFT_OK;
}

static weft_result open_channels(weft_pipeline *p, const weft_stage_needs *needs, const terms *t)
{
    if (!p->comm && needs->batch_messages)
        return weft__fail(WEFT_E_INVALID, "the schedule has messages: a pipeline for it needs a comm");
    for (unsigned k = 0; p->comm && k < WEFT_ACTION_KINDS; k++) {
        const weft__kind *kind = &weft__kinds[k];
        uint32_t credits = kind->send ? needs->sends[kind->channel] : needs->receives[kind->channel];
        if (kind->message)
            WEFT_TRY(weft__channel_open(&p->channels[k], p->world, credits, (size_t)t->count[kind->channel],
                                        (weft_dtype)t->dtype[kind->channel]));
    }
    return WEFT_OK;
}

/* "SEND_F", "RECV_F SEND_B", ...: the kinds in a batch. */
static uint32_t label_batch(const weft_pipeline *p, const weft__program_batch *batch)
{
    char text[WEFT_TRACE_LABEL_BYTES] = "";
    size_t used = 0;
    for (unsigned k = 0; k < WEFT_ACTION_KINDS; k++) {
        const weft__kind *kind = &weft__kinds[k];
        bool there = false;
        for (uint32_t i = batch->first; kind->message && i < batch->first + batch->count; i++)
            there |= p->program.messages[i].channel == kind->channel &&
                     (p->program.messages[i].kind == WEFT_SEND) == kind->send;
        if (there)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", used ? " " : "", kind->name);
    }
    return weft_trace_label(p->world, text);
}

static void label_program(weft_pipeline *p)
{
    p->spans = p->world && !(p->config.flags & WEFT_PIPELINE_NO_SPANS);
    for (uint32_t i = 0; i < p->program.batch_count; i++)
        p->program.batches[i].label = label_batch(p, &p->program.batches[i]);
    for (size_t i = 0; p->spans && i < p->program.step_count; i++) {
        weft__step *step = &p->program.steps[i];
        char text[32];
        snprintf(text, sizeof text, "%s%u", weft_action_string(step->kind), step->task.chunk);
        if (weft__computes(step->kind))
            step->label = weft_trace_label(p->world, text);
    }
}

/* What a complete schedule asks of this stage. */
static weft_result build(weft_pipeline *p, const weft_schedule *s, weft_queues queues, terms *t)
{
    weft_verify_config config = WEFT_VERIFY_CONFIG_INIT;
    config.queues = queues;
    weft_stage_needs *needs = weft__alloc(s->stages * sizeof *needs);
    weft_result result = needs ? weft_schedule_verify(s, &config, needs) : WEFT_E_NO_MEMORY;
    if (result == WEFT_OK)
        result = open_channels(p, &needs[p->stage], t);
    free(needs);
    WEFT_TRY(result);
    WEFT_TRY(weft__program_make(s, p->stage, p->channels, &p->program));
    t->schedule = hash_schedule(s);
    p->chunks = s->chunks;
    label_program(p);
    return p->comm ? check_comm(p) : WEFT_OK;
}

static void take_terms(const weft_pipeline_config *c, terms *t)
{
    bool own = c->grad_count > 0;
    *t = (terms){.count = {c->count, own ? c->grad_count : c->count},
                 .dtype = {c->dtype, own ? c->grad_dtype : c->dtype}};
}

static weft_result prepare(weft_pipeline *p, const weft_schedule *schedule, const weft_pipeline_config *config,
                           terms *t)
{
    if (!schedule || !config)
        return weft__fail(WEFT_E_INVALID, "a pipeline needs a %s", schedule ? "config" : "schedule");
    WEFT_TRY(weft__take_sized(&p->config, sizeof p->config, config, "weft_pipeline_config"));
    WEFT_TRY(check_config(p, schedule));
    p->compute[WEFT_ACTION_F] = p->config.forward;
    p->compute[WEFT_ACTION_B] = p->config.backward;
    p->compute[WEFT_ACTION_W] = p->config.weight_grad;
    WEFT_TRY(check_callbacks(p, schedule));
    take_terms(&p->config, t);
    weft_lower_config how = WEFT_LOWER_CONFIG_INIT;
    how.flags = p->config.lower_flags;
    how.queues = p->comm ? weft_comm_queues(p->comm) : WEFT_QUEUES_DIRECTION;
    weft_schedule *lowered = NULL;
    if (!is_lowered(schedule))
        WEFT_TRY(weft_schedule_lower(schedule, &how, &lowered));
    weft_result result = build(p, lowered ? lowered : schedule, how.queues, t);
    weft_schedule_destroy(lowered);
    return result;
}

/* ---- all stages ---- */

static void describe_terms(const terms *t, char *text, size_t bytes)
{
    snprintf(text, bytes, "%llu %s with gradients of %llu %s", (unsigned long long)t->count[0],
             weft_dtype_string((weft_dtype)t->dtype[0]), (unsigned long long)t->count[1],
             weft_dtype_string((weft_dtype)t->dtype[1]));
}

/* All stages see the same, and say the same. @p all: room for the terms of every stage. */
static weft_result compare(weft_comm *comm, const terms *mine, terms *all)
{
    WEFT_TRY(weft_all_gather_run(comm, mine, all, sizeof *mine, WEFT_UINT8, WEFT_STREAM_HOST));
    int other = 1;
    while (other < weft_comm_size(comm) && memcmp(&all[other], &all[0], sizeof *all) == 0)
        other++;
    if (other == weft_comm_size(comm))
        return WEFT_OK;
    char first[96], second[96];
    describe_terms(&all[0], first, sizeof first);
    describe_terms(&all[other], second, sizeof second);
    if (strcmp(first, second) == 0)
        return weft__fail(WEFT_E_MISMATCH, "comm %s: stage %d (rank %d) has another schedule than stage 0 (rank %d)",
                          weft_comm_name(comm), other, weft_comm_world_rank(comm, other),
                          weft_comm_world_rank(comm, 0));
    return weft__fail(WEFT_E_MISMATCH, "comm %s: stage %d (rank %d) sends %s, stage 0 (rank %d) %s",
                      weft_comm_name(comm), other, weft_comm_world_rank(comm, other), second,
                      weft_comm_world_rank(comm, 0), first);
}

weft_result weft_pipeline_create(weft_comm *comm, const weft_schedule *schedule, const weft_pipeline_config *config,
                                 weft_pipeline **pipeline_out)
{
    if (!pipeline_out)
        return weft__fail(WEFT_E_INVALID, "a pipeline needs somewhere to be returned to");
    *pipeline_out = NULL;
    terms mine = {0}, *all = weft__alloc((comm ? (size_t)weft_comm_size(comm) : 1) * sizeof *all);
    weft_pipeline *p = weft__alloc(sizeof *p);
    weft_result result = WEFT_E_NO_MEMORY;
    if (p && all) {
        p->comm = comm;
        p->world = comm ? weft_comm_world(comm) : NULL;
        p->stage = comm ? (uint32_t)weft_comm_rank(comm) : 0;
        result = prepare(p, schedule, config, &mine);
    }
    if (comm)
        result = weft_comm_agree(comm, result, NULL);
    if (comm && result == WEFT_OK)
        result = compare(comm, &mine, all);
    free(all);
    if (result != WEFT_OK) {
        weft_pipeline_destroy(p);
        return result;
    }
    *pipeline_out = p;
    return WEFT_OK;
}

uint32_t weft_pipeline_activations(const weft_pipeline *pipeline, uint32_t chunk)
{
    return chunk < pipeline->chunks ? pipeline->program.activations[chunk] : 0;
}

void weft_pipeline_destroy(weft_pipeline *pipeline)
{
    if (!pipeline)
        return;
    weft__last_error said = weft__error_keep(); /* the caller may still want to tell it */
    for (unsigned k = 0; k < WEFT_ACTION_KINDS; k++)
        weft__channel_close(&pipeline->channels[k]);
    weft__program_release(&pipeline->program);
    free(pipeline);
    weft__error_restore(&said);
}
