/* SPDX-License-Identifier: Apache-2.0 */
/* Goes through blocks of steps, takes the times of each by the trace and by the stop-watch, and sums them up. */
#include "gpt/compare.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "closed_form.h"
#include "middle.h"

enum { REDUCE, GATHER };

gpt_way gpt_compare_way(int step)
{
    return (step - 1) / GPT_BLOCK % 2 ? GPT_SERIAL : GPT_AS_ASKED;
}

static bool is_counted(int step)
{
    return (step - 1) % GPT_BLOCK > 0;
}

static double ms_of(const gpt_compare *c, uint64_t ticks)
{
    return weft_trace_ns(c->meter->world, ticks) * 1e-6;
}

/* ---- buckets ---- */

/* Reductions go from place to place, gathers the other way. */
static uint32_t bucket_at(const gpt_compare *c, uint32_t place)
{
    return weft_layout_order(weft_buckets_layout(c->trainer->sets[0]), place);
}

/* The place of the bucket that a record reduces or gathers; the number of buckets if it does not. */
static uint32_t place_of(const gpt_compare *c, int phase, const weft_trace_record *r)
{
    uint32_t place = r->kind == WEFT_TRACE_COLLECTIVE && r->label ? 0 : c->bucket_count;
    while (place < c->bucket_count && r->label != c->labels[phase][place])
        place++;
    return place;
}

static double exposed_ms(gpt_compare *c, int phase)
{
    gpt_meter *m = c->meter;
    size_t picked = 0;
    for (size_t i = 0; i < m->count; i++)
        if (place_of(c, phase, &m->records[i]) < c->bucket_count)
            c->picked[picked++] = m->records[i];
    return ms_of(c, overlap_of(&m->space, c->picked, picked, m->last_begin, m->last_end).exposed);
}

static void take_costs(gpt_compare *c, int phase)
{
    const gpt_meter *m = c->meter;
    uint64_t before = m->last_begin;
    for (size_t i = 0; i < m->count; i++) {
        const weft_trace_record *r = &m->records[i];
        uint32_t place = place_of(c, phase, r);
        if (place == c->bucket_count || r->ready < m->last_begin || r->last <= before)
            continue;
        c->buckets[place].cost[phase] += ms_of(c, r->last - (r->start > before ? r->start : before));
        before = r->last;
    }
}

/* From the end of the last operation before the first gather until that one is started. */
static void take_update(gpt_compare *c)
{
    const gpt_meter *m = c->meter;
    uint64_t went_on = m->last_begin;
    for (size_t i = 0; i < m->count; i++) {
        const weft_trace_record *r = &m->records[i];
        if (r->ready < m->last_begin)
            continue;
        if (place_of(c, GATHER, r) < c->bucket_count) {
            c->update += ms_of(c, r->ready - went_on);
            return;
        }
        went_on = r->go > went_on ? r->go : went_on;
    }
}

/* Of a step without overlap, so that no waiting is in it. */
static void take_pieces(gpt_compare *c)
{
    const gpt_watch *w = &c->trainer->watch;
    const gpt_part *part = &c->trainer->parts[0];
    for (uint32_t place = 0; place < c->bucket_count; place++) {
        uint32_t bucket = bucket_at(c, place);
        c->buckets[place].ready += (double)(part->ready_ns[bucket] - w->backward_began_ns) * 1e-6;
        c->buckets[place].used += (double)(part->used_ns[bucket] - w->forward_began_ns) * 1e-6;
    }
    take_update(c);
    c->own.phases.forward += (double)w->forward_ns * 1e-6;
    c->own.phases.backward += (double)w->backward_ns * 1e-6;
}

/* ---- steps ---- */

static void take_step(gpt_compare *c, gpt_way way, const gpt_times *times)
{
    c->block_ms[way] += times->ms[GPT_TIME_STEP];
    if (way == GPT_SERIAL)
        c->block_computing_ms += times->ms[GPT_TIME_COMPUTING_ONLY] + times->ms[GPT_TIME_HIDDEN];
    gpt_times_add(way == GPT_SERIAL ? &c->own.serial : &c->own.overlapped, times);
    if (c->bucket_count == 0)
        return;
    if (way == GPT_SERIAL) {
        take_pieces(c);
        return;
    }
    c->own.phases.reduces_exposed += exposed_ms(c, REDUCE);
    c->own.phases.gathers_exposed += exposed_ms(c, GATHER);
}

weft_result gpt_compare_step(gpt_compare *c, int step, double rate, weft_step_report *report, gpt_times *times_out)
{
    gpt_way way = gpt_compare_way(step);
    weft_result result = gpt_trainer_step(c->trainer, way, (uint64_t)step, rate, report);
    *times_out = gpt_meter_lap_as(c->meter, (uint64_t)step, way == GPT_SERIAL ? c->serial_label : 0);
    if (result == WEFT_OK && is_counted(step))
        take_step(c, way, times_out);
    return result;
}

static void end_blocks(gpt_compare *c)
{
    enum { COUNTED = GPT_BLOCK - 1 };
    c->saved[c->pairs] = (c->block_ms[GPT_SERIAL] - c->block_ms[GPT_AS_ASKED]) / COUNTED;
    c->exposed[c->pairs] = (c->block_ms[GPT_AS_ASKED] - c->block_computing_ms) / COUNTED;
    c->pairs++;
    c->block_ms[GPT_SERIAL] = c->block_ms[GPT_AS_ASKED] = c->block_computing_ms = 0;
    c->own.steps += COUNTED;
}

weft_result gpt_compare_between(gpt_compare *c, int step)
{
    double *computing = &c->block_computing_ms; /* a step is as long as its slowest rank computes */
    if (step % GPT_COMPARE_LEAST)
        return WEFT_OK;
    GPT_TRY(weft_all_reduce_run(c->trainer->all, computing, computing, 1, WEFT_FP64, WEFT_MAX, WEFT_STREAM_HOST));
    end_blocks(c);
    GPT_TRY(weft_barrier_run(c->trainer->all, WEFT_STREAM_HOST));
    gpt_meter_aside(c->meter);
    weft_result result = gpt_trainer_talk(c->trainer);
    gpt_times talk = gpt_meter_lap_as(c->meter, (uint64_t)step, c->alone_label);
    c->own.talk_ms += gpt_times_communicating(&talk);
    c->own.talks++;
    if (c->bucket_count) {
        take_costs(c, REDUCE);
        take_costs(c, GATHER);
    }
    return result;
}

/* ---- what follows ---- */

static double elements_at(const gpt_compare *c, uint32_t place)
{
    const weft_layout_bucket *b = weft_layout_bucket_at(weft_buckets_layout(c->trainer->sets[0]), bucket_at(c, place));
    return (double)(b->end - b->start);
}

static double perfect_reduces(const gpt_compare *c, double *ready, double *costs)
{
    uint32_t count = c->bucket_count;
    for (uint32_t i = 0; i < count; i++) {
        ready[i] = fmax(c->buckets[i].ready / c->own.steps, i > 0 ? ready[i - 1] : 0);
        costs[i] = c->buckets[i].cost[REDUCE] / c->own.talks;
    }
    return closed_form_reduces(ready, costs, count, ready[count - 1]);
}

/* Before the forward come the updates, bucket by bucket: a piece of computing that needs nothing gathered. */
static double perfect_gathers(const gpt_compare *c, double *ready, double *costs, double *pieces)
{
    uint32_t count = c->bucket_count;
    double update = c->update / c->own.steps, elements = 0, updated = 0, used = 0;
    for (uint32_t i = 0; i < count; i++)
        elements += elements_at(c, i);
    ready[0] = costs[0] = 0;
    pieces[0] = update;
    for (uint32_t i = 1; i <= count; i++) {
        const gpt_bucket_times *b = &c->buckets[count - i];
        double comes = fmax(b->used / c->own.steps, used);
        updated += elements_at(c, count - i) / elements;
        ready[i] = update * updated;
        costs[i] = b->cost[GATHER] / c->own.talks;
        pieces[i - 1] += comes - used;
        pieces[i] = 0;
        used = comes;
    }
    return closed_form_gathers(ready, costs, pieces, count + 1);
}

/* By this rank's times. */
static weft_result find_perfect(const gpt_compare *c, gpt_phases *p)
{
    uint32_t count = c->bucket_count;
    double *room = calloc(3 * ((size_t)count + 1), sizeof *room);
    if (!room)
        return WEFT_E_NO_MEMORY;
    p->reduces = perfect_reduces(c, room, room + count + 1);
    p->gathers = perfect_gathers(c, room, room + count + 1, room + 2 * ((size_t)count + 1));
    for (uint32_t i = 0; i < count; i++) {
        p->reduces_alone += c->buckets[i].cost[REDUCE] / c->own.talks;
        p->gathers_alone += c->buckets[i].cost[GATHER] / c->own.talks;
    }
    free(room);
    return WEFT_OK;
}

static weft_result divide(gpt_compare *c, gpt_comparison *to)
{
    gpt_phases *p = &to->phases;
    double steps = c->own.steps, pairs = c->own.talks;
    *to = c->own;
    to->overlapped = gpt_times_divide(&c->own.overlapped, steps);
    to->serial = gpt_times_divide(&c->own.serial, steps);
    to->talk_ms /= pairs;
    middle saved = middle_of(c->saved, c->pairs), exposed = middle_of(c->exposed, c->pairs);
    to->saved_ms = saved.median, to->saved_error_ms = saved.error;
    to->exposed_ms = exposed.median, to->exposed_error_ms = exposed.error;
    if (c->bucket_count == 0)
        return WEFT_OK;
    p->forward /= steps, p->backward /= steps;
    p->reduces_exposed /= steps, p->gathers_exposed /= steps;
    p->optimizer = to->serial.ms[GPT_TIME_COMPUTING_ONLY] + to->serial.ms[GPT_TIME_HIDDEN] - p->forward - p->backward;
    return find_perfect(c, p);
}

weft_result gpt_compare_result(gpt_compare *c, gpt_comparison *comparison)
{
    enum { COUNT = sizeof *comparison / sizeof(double) };
    _Static_assert(COUNT * sizeof(double) == sizeof *comparison, "nothing but doubles");
    weft_comm *all = c->trainer->all;
    double *numbers = (double *)comparison;
    GPT_TRY(divide(c, comparison));
    GPT_TRY(weft_all_reduce_run(all, numbers, numbers, COUNT, WEFT_FP64, WEFT_SUM, WEFT_STREAM_HOST));
    for (size_t i = 0; i < COUNT; i++)
        numbers[i] /= weft_comm_size(all);
    return WEFT_OK;
}

/* ---- open and close ---- */

static bool open_buckets(gpt_compare *c)
{
    static const char *const words[] = {"reduce", "gather"};
    uint32_t count = weft_layout_buckets(weft_buckets_layout(c->trainer->sets[0]));
    c->buckets = calloc(count, sizeof *c->buckets);
    c->picked = calloc(c->meter->room, sizeof *c->picked);
    for (int phase = REDUCE; phase <= GATHER; phase++) {
        c->labels[phase] = calloc(count, sizeof *c->labels[phase]);
        if (!c->labels[phase])
            return false;
        for (uint32_t place = 0; place < count; place++) {
            char text[WEFT_TRACE_LABEL_BYTES];
            snprintf(text, sizeof text, "set0 %s %u", words[phase], bucket_at(c, place));
            c->labels[phase][place] = weft_trace_label(c->meter->world, text);
        }
    }
    c->bucket_count = count;
    return c->buckets && c->picked;
}

int gpt_compare_open(gpt_compare *c, gpt_trainer *trainer, gpt_meter *meter, gpt_failure *failure)
{
    *c = (gpt_compare){.trainer = trainer, .meter = meter};
    c->serial_label = weft_trace_label(meter->world, "serial");
    c->alone_label = weft_trace_label(meter->world, "alone");
    const gpt_layout *l = trainer->layout;
    size_t pairs = (size_t)(trainer->options->iterations / GPT_COMPARE_LEAST);
    c->saved = calloc(pairs, sizeof *c->saved);
    c->exposed = calloc(pairs, sizeof *c->exposed);
    if (!c->saved || !c->exposed)
        return gpt_fail(failure, EXIT_FAILED, "no memory to compare steps");
    if (l->tensor == 1 && l->pipeline == 1 && l->data > 1 && !open_buckets(c))
        return gpt_fail(failure, EXIT_FAILED, "no memory to compare steps");
    return 0;
}

void gpt_compare_close(gpt_compare *c)
{
    free(c->labels[REDUCE]);
    free(c->labels[GATHER]);
    free(c->picked);
    free(c->buckets);
    free(c->saved);
    free(c->exposed);
}
