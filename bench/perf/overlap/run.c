/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a phase and reads what the trace and the kernel say of it. */
#include "perf/overlap/run.h"

#include <math.h>
#include <stdlib.h>

#include "perf/overlap/usage.h"
#include "try.h"

typedef struct run {
    overlap_runner *runner;
    const overlap_phase *phase;
    uint64_t begin, end, pieces; /* ticks of the trace */
    double *ended;               /* of pieces; NULL = not wanted */
} run;

weft_result overlap_runner_open(overlap_runner *r, size_t buckets)
{
    r->room = 2 * buckets + 64; /* and whatever else was started in the same window */
    r->records = malloc(r->room * sizeof *r->records);
    return overlap_space_open(&r->space, r->room) && r->records ? WEFT_OK : WEFT_E_NO_MEMORY;
}

void overlap_runner_close(overlap_runner *r)
{
    overlap_space_close(&r->space);
    free(r->records);
    r->records = NULL;
}

/* ------------------------------------------------------------------------------------------- the four ways */

static weft_result communicate_before(const run *r, size_t piece)
{
    return r->phase->before ? r->phase->before(r->runner->subject, piece) : WEFT_OK;
}

static weft_result communicate_after(const run *r, size_t piece)
{
    return r->phase->after ? r->phase->after(r->runner->subject, piece) : WEFT_OK;
}

static weft_result enter(const run *r)
{
    return r->phase->enter ? r->phase->enter(r->runner->subject) : WEFT_OK;
}

static weft_result leave(const run *r)
{
    return r->phase->leave ? r->phase->leave(r->runner->subject) : WEFT_OK;
}

/* The part of the computing that is done before @p piece: as large as the part of the bytes. */
static double share_before(const run *r, size_t piece)
{
    const overlap_shape *shape = r->runner->subject->shape;
    double all = (double)overlap_shape_total(shape);
    if (r->phase->is_forward)
        return r->runner->forward * (1 - (double)shape->begins[shape->count - piece] / all);
    return (double)shape->begins[piece] / all;
}

static void compute(run *r, size_t piece)
{
    const weft_world *world = r->runner->subject->world;
    uint64_t begin = weft_trace_now(world);
    overlap_compute_piece(r->runner->compute, share_before(r, piece), share_before(r, piece + 1));
    uint64_t end = weft_trace_now(world);
    r->pieces += end - begin;
    if (r->ended)
        r->ended[piece] = weft_trace_ns(world, end - r->begin) * 1e-6;
}

static weft_result communicate_only(run *r, size_t pieces)
{
    TRY(enter(r));
    for (size_t i = 0; i < pieces; i++) {
        TRY(communicate_before(r, i));
        TRY(communicate_after(r, i));
    }
    return leave(r);
}

static void compute_only(run *r, size_t pieces)
{
    overlap_compute_begin(r->runner->compute);
    for (size_t i = 0; i < pieces; i++)
        compute(r, i);
}

static weft_result do_both(run *r, size_t pieces)
{
    overlap_compute_begin(r->runner->compute);
    TRY(enter(r));
    for (size_t i = 0; i < pieces; i++) {
        TRY(communicate_before(r, i));
        compute(r, i);
        TRY(communicate_after(r, i));
    }
    return leave(r);
}

static weft_result go(run *r, overlap_way way)
{
    size_t pieces = r->runner->subject->shape->count;
    if (way == OVERLAP_BOTH)
        return do_both(r, pieces);
    if (way != OVERLAP_COMPUTING)
        TRY(communicate_only(r, pieces));
    if (way != OVERLAP_COMMUNICATING)
        compute_only(r, pieces);
    return WEFT_OK;
}

/* ------------------------------------------------------------------------------------------- what it took */

/* Of what is exposed, ticks in which the last rank had not come yet. The caller waits for one operation at a time. */
static uint64_t skew(const run *r, const weft_trace_record *records, size_t count)
{
    int64_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        const weft_trace_record *one = &records[i];
        uint64_t until = one->go < one->last_arrival ? one->go : one->last_arrival;
        if (one->kind == WEFT_TRACE_COLLECTIVE && one->wait >= r->begin && until > one->wait)
            sum += intervals_within(&r->runner->space.communicating, (int64_t)one->wait, (int64_t)until);
    }
    return (uint64_t)sum;
}

static void read_trace(run *r, uint64_t first, double times[OVERLAP_TIMES], double *costs)
{
    overlap_runner *runner = r->runner;
    const weft_world *world = runner->subject->world;
    size_t count = weft_trace_read(world, first, runner->records, runner->room, NULL), found = 0;
    overlap o = overlap_of(&runner->space, runner->records, count, r->begin, r->end);
    double ms = weft_trace_ns(world, 1) * 1e-6;
    times[OVERLAP_TOTAL] = (double)o.window * ms;
    times[OVERLAP_PIECES] = (double)r->pieces * ms;
    times[OVERLAP_HIDDEN] = (double)o.hidden * ms;
    times[OVERLAP_EXPOSED] = (double)o.exposed * ms;
    times[OVERLAP_SKEW] = (double)skew(r, runner->records, count) * ms;
    times[OVERLAP_IDLE] = (double)o.idle * ms;
    uint64_t before = r->begin;
    for (size_t i = 0; costs && i < count && found < runner->subject->shape->count; i++) {
        uint64_t last = runner->records[i].last;
        if (runner->records[i].kind != WEFT_TRACE_COLLECTIVE)
            continue;
        costs[found++] = last > before ? (double)(last - before) * ms : 0;
        before = last > before ? last : before;
    }
}

weft_result overlap_run(overlap_runner *runner, const overlap_phase *phase, overlap_way way,
                        double times[OVERLAP_TIMES], double *each)
{
    run r = {.runner = runner, .phase = phase, .ended = way == OVERLAP_COMPUTING ? each : NULL};
    const weft_world *world = runner->subject->world;
    if (phase->prepare && way != OVERLAP_COMPUTING)
        TRY(phase->prepare(runner->subject));
    TRY(weft_barrier_run(runner->control, WEFT_STREAM_HOST));
    overlap_usage usage = overlap_usage_now();
    TRY(weft_barrier_run(runner->control, WEFT_STREAM_HOST));
    uint64_t first = weft_trace_count(world);
    r.begin = weft_trace_now(world);
    TRY(go(&r, way));
    r.end = weft_trace_now(world);
    overlap_usage after = overlap_usage_now();
    read_trace(&r, first, times, way == OVERLAP_COMMUNICATING ? each : NULL);
    times[OVERLAP_USER] = (after.user_ms - usage.user_ms) / runner->threads;
    times[OVERLAP_SYSTEM] = (after.system_ms - usage.system_ms) / runner->threads;
    times[OVERLAP_ENGINE] = runner->threads > 1 ? NAN : after.others_ms - usage.others_ms;
    times[OVERLAP_SOFTIRQ] = after.softirq_ms - usage.softirq_ms;
    return WEFT_OK;
}
