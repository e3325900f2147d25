/* SPDX-License-Identifier: Apache-2.0 */
/* Checks and times one half of a row, which is an operation of one size out of place or in place: inputs are written
 * and outputs are spoiled before the timed calls, and all outputs are looked at after them. */
#include "perf/half.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "try.h"

/* ------------------------------------------------------------------------------------------- making */

static weft_result open_lists(perf_subject *s, int ranks)
{
    size_t **lists[] = {&s->send_counts, &s->send_offsets, &s->recv_counts, &s->recv_offsets};
    for (int i = 0; i < 4; i++)
        if (!(*lists[i] = calloc((size_t)ranks, sizeof(size_t))))
            return WEFT_E_NO_MEMORY;
    return WEFT_OK;
}

weft_result perf_bench_open(perf_bench *b, const perf_settings *settings, weft_comm *control)
{
    int ranks = weft_comm_size(control);
    *b = (perf_bench){.settings = settings, .control = control, .world = weft_comm_world(control)};
    b->subject.rank = weft_comm_rank(control);
    b->subject.ranks = ranks;
    size_t samples = settings->iterations > PERF_SAMPLES_MAX ? (size_t)settings->iterations : PERF_SAMPLES_MAX;
    bool rotated = settings->buffers == PERF_ROTATED;
    size_t rotate = settings->rotate_bytes ? settings->rotate_bytes : perf_cache_bytes();
    size_t shift = (size_t)settings->unalign * sizeof(double), places = (size_t)settings->aggregate;
    weft_world *heap = settings->memory == PERF_HEAP ? b->world : NULL;
    TRY(open_lists(&b->subject, ranks));
    if (!perf_values_open(&b->values, ranks) || (settings->contend && !perf_contender_open(&b->contender)))
        return WEFT_E_NO_MEMORY;
    TRY(perf_clock_open(&b->clock, control, samples, (perf_pick)settings->average));
    TRY(perf_buffers_open(&b->buffers, heap, settings->max_bytes, places, rotated ? rotate : 0, shift));
    if (settings->limits)
        return perf_buffers_open(&b->own, heap, settings->max_bytes, 1, rotated ? rotate : 0, shift);
    return WEFT_OK;
}

void perf_bench_close(perf_bench *b)
{
    perf_buffers_close(&b->own);
    perf_buffers_close(&b->buffers);
    perf_clock_close(&b->clock);
    perf_contender_close(&b->contender);
    perf_values_close(&b->values);
    free(b->subject.send_counts);
    free(b->subject.send_offsets);
    free(b->subject.recv_counts);
    free(b->subject.recv_offsets);
}

/* ------------------------------------------------------------------------------------------- buffers */

static size_t element(const perf_bench *b)
{
    return weft_dtype_bytes(b->subject.dtype);
}

/* In place both are in the memory of the output. */
static char *send_of(const perf_bench *b, size_t number)
{
    return b->in_place ? perf_recv_at(&b->buffers, number) + perf_send_offset(&b->subject) * element(b)
                       : perf_send_at(&b->buffers, number);
}

static char *recv_of(const perf_bench *b, size_t number)
{
    return perf_recv_at(&b->buffers, number) + (b->in_place ? perf_recv_offset(&b->subject) * element(b) : 0);
}

void perf_bench_prepare(perf_bench *b)
{
    const perf_subject *s = &b->subject;
    size_t shift = (size_t)b->settings->unalign * element(b);
    size_t send = b->in_place ? 0 : perf_send_elements(s) * element(b);
    size_t recv = b->in_place ? perf_size_of(s) : perf_recv_elements(s) * element(b);
    b->buffers.shift_bytes = shift;
    perf_subject_lay_out(&b->subject);
    perf_values_choose(&b->values, s, ++b->salt);
    perf_buffers_divide(&b->buffers, send, recv, b->settings->buffers == PERF_ROTATED, (size_t)b->settings->aggregate);
}

/* Write the input of a call, where this rank has one, and spoil what is not input. */
static void refill(const perf_bench *b, size_t number)
{
    const perf_subject *s = &b->subject;
    if (b->in_place)
        memset(perf_recv_at(&b->buffers, number), 0xa5, perf_size_of(s));
    else
        perf_values_spoil(s, recv_of(b, number));
    if (perf_sends(s))
        perf_values_fill(&b->values, s, send_of(b, number));
}

static size_t used_places(const perf_bench *b, size_t operations)
{
    return operations < b->buffers.places ? operations : b->buffers.places;
}

/* Add up over the ranks what is wrong after so many operations, one place after the other. */
static weft_result count_wrong(perf_bench *b, size_t operations, double *wrong)
{
    size_t places = b->buffers.places;
    double found = 0;
    for (size_t p = 0; p < used_places(b, operations); p++) {
        size_t uses = b->settings->buffers == PERF_REWRITTEN ? 1 : operations / places + (p < operations % places);
        found += (double)perf_values_wrong(&b->values, &b->subject, recv_of(b, p), b->in_place, uses);
    }
    TRY(perf_agree(b->control, WEFT_SUM, &found));
    *wrong += found;
    return WEFT_OK;
}

/* ------------------------------------------------------------------------------------------- calls */

static weft_result call_many(perf_bench *b, size_t number)
{
    weft_work works[PERF_IN_FLIGHT_MAX];
    int count = b->settings->aggregate, started = 0;
    weft_result result = WEFT_OK;
    for (; started < count && result == WEFT_OK; started += result == WEFT_OK) {
        size_t operation = number * (size_t)count + (size_t)started;
        result = perf_start(&b->subject, b->comm, send_of(b, operation), recv_of(b, operation), &works[started]);
    }
    for (int i = 0; i < started; i++) {
        weft_result ended = weft_work_finish(works[i], WEFT_STREAM_HOST);
        result = result == WEFT_OK ? ended : result;
    }
    return result;
}

/* Look at every byte, as who uses a result does. */
static void read_output(const perf_bench *b, size_t number)
{
    size_t bytes = perf_receives(&b->subject) ? perf_recv_elements(&b->subject) * element(b) : 0;
    const char *recv = recv_of(b, number);
    uint64_t sum = 0, word;
    size_t i = 0;
    for (; i + sizeof word <= bytes; i += sizeof word) {
        memcpy(&word, recv + i, sizeof word);
        sum += word;
    }
    for (; i < bytes; i++)
        sum += (unsigned char)recv[i];
    __asm__ volatile("" : : "r"(sum)); /* it is wanted */
}

static weft_result call(void *what, size_t number)
{
    perf_bench *b = what;
    if (b->settings->aggregate > 1)
        TRY(call_many(b, number));
    else
        TRY(perf_run(&b->subject, b->comm, send_of(b, number), recv_of(b, number)));
    if (b->settings->blocking == PERF_BARRIER_INSIDE)
        TRY(weft_barrier_run(b->comm, WEFT_STREAM_HOST));
    if (b->settings->buffers == PERF_REWRITTEN)
        read_output(b, number);
    return WEFT_OK;
}

static weft_result rewrite(void *what, size_t number)
{
    perf_bench *b = what;
    if (perf_sends(&b->subject))
        perf_values_fill(&b->values, &b->subject, send_of(b, number));
    return weft_barrier_run(b->control, WEFT_STREAM_HOST);
}

static weft_result wait_for_all(void *what, size_t number)
{
    (void)number;
    return weft_barrier_run(((perf_bench *)what)->control, WEFT_STREAM_HOST);
}

static perf_loop loop_of(perf_bench *b)
{
    bool rewritten = b->settings->buffers == PERF_REWRITTEN;
    perf_loop loop = {.what = b, .call = call, .before_each = rewritten};
    if (rewritten)
        loop.before = rewrite;
    else if (b->settings->blocking == PERF_BARRIER_OUTSIDE)
        loop.before = wait_for_all;
    return loop;
}

/* ------------------------------------------------------------------------------------------- checking and timing */

weft_result perf_bench_check(perf_bench *b, double *wrong)
{
    for (int i = 0; i < b->settings->check; i++) {
        perf_values_choose(&b->values, &b->subject, ++b->salt);
        refill(b, 0);
        TRY(perf_run(&b->subject, b->comm, send_of(b, 0), recv_of(b, 0)));
        TRY(count_wrong(b, 1, wrong));
    }
    return WEFT_OK;
}

weft_result perf_bench_plan(perf_bench *b, double row_us, perf_plan *plan_out)
{
    perf_loop loop = loop_of(b);
    for (int i = 0; i < b->settings->warmup; i++) {
        if (loop.before)
            TRY(loop.before(b, (size_t)i));
        TRY(call(b, (size_t)i));
    }
    return perf_plan_make(&b->clock, &loop, (size_t)b->settings->iterations, row_us, plan_out);
}

/* Times of calls become those of single operations. */
static void divide_times(const perf_bench *b, size_t samples)
{
    for (size_t i = 0; i < samples; i++)
        b->clock.all[i] /= b->settings->aggregate;
}

weft_result perf_bench_time(perf_bench *b, const perf_plan *plan, double *wrong)
{
    perf_loop loop = loop_of(b);
    size_t operations = plan->samples * plan->calls * (size_t)b->settings->aggregate;
    for (size_t p = 0; p < used_places(b, operations); p++)
        refill(b, p);
    TRY(perf_measure(&b->clock, &loop, plan));
    divide_times(b, plan->samples);
    return b->settings->check ? count_wrong(b, operations, wrong) : WEFT_OK;
}

/* ------------------------------------------------------------------------------------------- limit, contention */

static weft_result move_alone(void *what, size_t number)
{
    perf_bench *b = what;
    b->limit_way(&b->limit, perf_send_at(&b->own, number), perf_recv_at(&b->own, number));
    return WEFT_OK;
}

/* Is there anything that any rank must move? */
static weft_result moves(perf_bench *b, bool *moves_out)
{
    double moved = perf_limit_moved(&b->limit);
    TRY(perf_agree(b->control, WEFT_MAX, &moved));
    *moves_out = moved > 0;
    return WEFT_OK;
}

weft_result perf_bench_limit(perf_bench *b, double row_us, double *us_out)
{
    const perf_limit_ways *ways = perf_limit_ways_here();
    size_t bytes = perf_size_of(&b->subject);
    double best = NAN;
    *us_out = NAN;
    if (b->settings->buffers == PERF_REWRITTEN || !perf_limit_of(&b->subject, b->in_place, &b->limit))
        return WEFT_OK;
    bool any;
    TRY(moves(b, &any));
    if (!any)
        return WEFT_OK;
    perf_buffers_divide(&b->own, bytes, bytes, b->settings->buffers == PERF_ROTATED, 1);
    for (int w = 0; w < PERF_LIMIT_WAYS; w++) {
        perf_loop loop = {.what = b, .call = move_alone};
        perf_plan plan;
        b->limit_way = ways->way[w];
        if (!b->limit_way)
            continue;
        TRY(perf_plan_make(&b->clock, &loop, (size_t)b->settings->iterations, row_us / PERF_LIMIT_WAYS, &plan));
        TRY(perf_measure(&b->clock, &loop, &plan));
        double us = perf_median(b->clock.all, plan.samples);
        best = isnan(best) || us < best ? us : best;
    }
    *us_out = best;
    return WEFT_OK;
}

weft_result perf_bench_contend(perf_bench *b, double row_us, double *us_out, double *left_out)
{
    perf_loop loop = loop_of(b);
    perf_plan plan;
    perf_contender *p = &b->contender;
    TRY(weft_barrier_run(b->control, WEFT_STREAM_HOST));
    perf_contender_alone(p, row_us / 1e3);
    double alone = p->products_per_s;
    if (!perf_contender_start(p))
        return WEFT_E_SYSTEM;
    weft_result result = perf_plan_make(&b->clock, &loop, (size_t)b->settings->iterations, row_us, &plan);
    if (result == WEFT_OK)
        result = perf_measure(&b->clock, &loop, &plan);
    perf_contender_stop(p);
    if (result != WEFT_OK)
        return result;
    divide_times(b, plan.samples);
    *us_out = perf_median(b->clock.all, plan.samples);
    *left_out = p->products_per_s / alone;
    TRY(perf_agree(b->control, WEFT_SUM, left_out));
    *left_out /= b->subject.ranks;
    return WEFT_OK;
}
