/* SPDX-License-Identifier: Apache-2.0 */
/* Measures in turn, so that what changes on the machine meets all ways alike. A phase ends when its slowest rank does;
 * where the time goes is told by the rank that computes longest, since the others wait for it, too. */
#include "perf/overlap/measure.h"

#include <stdlib.h>
#include <string.h>

#include "perf/measure.h"
#include "perf/statistics.h"
#include "try.h"

typedef double way_times[OVERLAP_TIMES];

/* [phase][way][round], and [phase][piece][round] */
typedef struct samples {
    const overlap_plan *plan;
    size_t pieces;
    int rounds;
    way_times *times, *of_ranks;
    double *ended, *costs;
    double *each, *other; /* [piece] */
} samples;

static way_times *times_at(const samples *s, int phase, int way, int round)
{
    return &s->times[(phase * OVERLAP_WAYS + way) * s->rounds + round];
}

static bool samples_open(samples *s, const overlap_plan *plan, size_t pieces, int rounds, int ranks)
{
    size_t all = (size_t)plan->phase_count * (size_t)rounds;
    *s = (samples){.plan = plan, .pieces = pieces, .rounds = rounds};
    s->times = calloc(all * OVERLAP_WAYS, sizeof *s->times);
    s->of_ranks = calloc((size_t)ranks * OVERLAP_WAYS, sizeof *s->of_ranks);
    s->ended = calloc(all * pieces, sizeof *s->ended);
    s->costs = calloc(all * pieces, sizeof *s->costs);
    s->each = calloc(pieces, sizeof *s->each);
    s->other = calloc(pieces, sizeof *s->other);
    return s->times && s->of_ranks && s->ended && s->costs && s->each && s->other;
}

static void samples_close(samples *s)
{
    free(s->times);
    free(s->of_ranks);
    free(s->ended);
    free(s->costs);
    free(s->each);
    free(s->other);
}

/* ------------------------------------------------------------------------------------------- one round */

static void keep_each(const samples *s, double *numbers, int phase, int round)
{
    for (size_t i = 0; i < s->pieces; i++)
        numbers[((size_t)phase * s->pieces + i) * (size_t)s->rounds + (size_t)round] = s->each[i];
}

static weft_result one_way(overlap_runner *r, samples *s, overlap_way way, int round)
{
    for (int p = 0; p < s->plan->phase_count; p++) {
        way_times *times = times_at(s, p, way, round);
        TRY(overlap_run(r, &s->plan->phases[p], way, *times, s->each));
        (*times)[OVERLAP_SLOWEST] = (*times)[OVERLAP_TOTAL];
        TRY(perf_agree(r->control, WEFT_MAX, &(*times)[OVERLAP_SLOWEST]));
        if (way == OVERLAP_COMPUTING)
            keep_each(s, s->ended, p, round);
        if (way == OVERLAP_COMMUNICATING)
            keep_each(s, s->costs, p, round);
    }
    return WEFT_OK;
}

/* The next round computes as long as was asked for, if a core does now what it did just then. */
static void adjust(overlap_compute *c, double wanted_ms, double took_ms)
{
    if (c->kernel != OVERLAP_TIMED && took_ms > 0)
        c->amount *= wanted_ms / took_ms;
}

/* Another way begins each time. */
static weft_result one_round(overlap_runner *r, samples *s, int round)
{
    for (int i = 0; i < OVERLAP_WAYS; i++)
        TRY(one_way(r, s, (overlap_way)((round + i) % OVERLAP_WAYS), round));
    adjust(r->compute, r->compute_ms, (*times_at(s, 0, OVERLAP_COMPUTING, round))[OVERLAP_SLOWEST]);
    return WEFT_OK;
}

/* ------------------------------------------------------------------------------------------- all rounds */

static weft_result count_rounds(overlap_runner *r, const overlap_plan *plan, int *rounds)
{
    samples s;
    weft_result result = WEFT_E_NO_MEMORY;
    double seconds = 0;
    if (samples_open(&s, plan, r->subject->shape->count, 1, weft_comm_size(r->control))) {
        uint64_t begin = weft_trace_now(r->subject->world);
        result = one_round(r, &s, 0);
        seconds = weft_trace_ns(r->subject->world, weft_trace_now(r->subject->world) - begin) * 1e-9;
    }
    samples_close(&s);
    if (result == WEFT_OK)
        result = perf_agree(r->control, WEFT_MAX, &seconds);
    double fit = seconds > 0 ? plan->row_s / seconds : OVERLAP_ROUNDS_MOST;
    *rounds = fit < OVERLAP_ROUNDS_LEAST  ? OVERLAP_ROUNDS_LEAST
              : fit > OVERLAP_ROUNDS_MOST ? OVERLAP_ROUNDS_MOST
                                          : (int)fit;
    if (plan->rounds > 0)
        *rounds = plan->rounds;
    return result;
}

static bool is_processor_time(int time)
{
    return time == OVERLAP_USER || time == OVERLAP_SYSTEM || time == OVERLAP_ENGINE || time == OVERLAP_SOFTIRQ;
}

/* What rounds are ranked by: the time of @p way, without that of @p less (OVERLAP_WAYS = nothing). */
static double key_of(const samples *s, int phase, int way, int less, int round)
{
    double key = (*times_at(s, phase, way, round))[OVERLAP_SLOWEST];
    return less == OVERLAP_WAYS ? key : key - (*times_at(s, phase, less, round))[OVERLAP_SLOWEST];
}

/* The same on all ranks. */
static int median_round(const samples *s, int phase, int way, int less)
{
    for (int round = 0; round < s->rounds; round++) {
        double key = key_of(s, phase, way, less, round);
        int below = 0;
        for (int i = 0; i < s->rounds; i++) {
            double other = key_of(s, phase, way, less, i);
            below += other < key || (other == key && i < round);
        }
        if (below == s->rounds / 2)
            return round;
    }
    return 0;
}

/* On this rank: the round in which both took the median longer than computing alone, so that whatever changes on the
 * machine from round to round falls out of their difference; communication has a median of its own. Of processor time,
 * which the kernel samples, the mean. */
static void pick_round(const samples *s, int phase, way_times *times)
{
    int pair = median_round(s, phase, OVERLAP_BOTH, OVERLAP_COMPUTING);
    int alone = median_round(s, phase, OVERLAP_COMMUNICATING, OVERLAP_WAYS);
    for (int way = 0; way < OVERLAP_WAYS; way++) {
        memcpy(times[way], times_at(s, phase, way, way == OVERLAP_COMMUNICATING ? alone : pair), sizeof *times);
        for (int k = 0; k < OVERLAP_TIMES; k++) {
            double mean = 0;
            for (int i = 0; i < s->rounds; i++)
                mean += (*times_at(s, phase, way, i))[k] / s->rounds;
            times[way][k] = is_processor_time(k) ? mean : times[way][k];
        }
    }
}

/* All ways of a phase, of the rank that computes longest; processor time is the mean of all ranks. */
static weft_result pick_rank(const overlap_runner *r, const samples *s, way_times *times)
{
    way_times *of_ranks = s->of_ranks;
    int ranks = weft_comm_size(r->control), longest = 0;
    TRY(weft_all_gather_run(r->control, times, of_ranks, OVERLAP_WAYS * OVERLAP_TIMES, WEFT_FP64, WEFT_STREAM_HOST));
    for (int i = 0; i < ranks; i++)
        if (of_ranks[i * OVERLAP_WAYS + OVERLAP_COMPUTING][OVERLAP_TOTAL] >
            of_ranks[longest * OVERLAP_WAYS + OVERLAP_COMPUTING][OVERLAP_TOTAL])
            longest = i;
    for (int way = 0; way < OVERLAP_WAYS; way++)
        for (int k = 0; k < OVERLAP_TIMES; k++) {
            double mean = 0;
            for (int i = 0; i < ranks; i++)
                mean += of_ranks[i * OVERLAP_WAYS + way][k] / ranks;
            times[way][k] = is_processor_time(k) ? mean : of_ranks[longest * OVERLAP_WAYS + way][k];
        }
    return WEFT_OK;
}

/* Medians over the rounds, the mean over the ranks. */
static weft_result each_of_all(overlap_runner *r, const samples *s, double *numbers, int phase, double *out)
{
    for (size_t i = 0; i < s->pieces; i++)
        out[i] = perf_median(numbers + ((size_t)phase * s->pieces + i) * (size_t)s->rounds, (size_t)s->rounds);
    return weft_all_reduce_run(r->control, out, out, s->pieces, WEFT_FP64, WEFT_AVERAGE, WEFT_STREAM_HOST);
}

static weft_result make_figures(overlap_runner *r, samples *s, overlap_figures *figures)
{
    const overlap_shape *shape = r->subject->shape;
    for (int p = 0; p < s->plan->phase_count; p++) {
        const overlap_phase *phase = &s->plan->phases[p];
        overlap_measured m = {.ended = s->each, .costs = s->other, .pieces = s->pieces};
        overlap_figures *f = &figures[p];
        TRY(each_of_all(r, s, s->ended, p, s->each));
        TRY(each_of_all(r, s, s->costs, p, s->other));
        pick_round(s, p, m.times);
        TRY(pick_rank(r, s, m.times));
        *f =
            (overlap_figures){.phase = phase->name,
                              .operation = weft_collective_string(r->subject->set ? phase->kind : r->subject->one.kind),
                              .buckets = shape->count,
                              .bytes = overlap_shape_total(shape),
                              .rounds = s->rounds};
        overlap_figures_make(f, phase, &m);
    }
    return WEFT_OK;
}

weft_result overlap_measure(overlap_runner *r, const overlap_plan *plan, overlap_figures *figures)
{
    samples s;
    int rounds;
    TRY(count_rounds(r, plan, &rounds));
    weft_result result = samples_open(&s, plan, r->subject->shape->count, rounds, weft_comm_size(r->control))
                             ? WEFT_OK
                             : WEFT_E_NO_MEMORY;
    for (int i = 0; i < rounds && result == WEFT_OK; i++)
        result = one_round(r, &s, i);
    if (result == WEFT_OK)
        result = make_figures(r, &s, figures);
    samples_close(&s);
    return result;
}

/* ------------------------------------------------------------------------------------------- before all */

weft_result overlap_measure_communication(overlap_runner *r, const overlap_plan *plan, double *ms_out)
{
    enum { WARM = 2, COUNTED = 5 };
    double totals[COUNTED], total = 0;
    for (int i = -WARM; i < COUNTED; i++) {
        way_times times;
        for (int p = 0; p < plan->phase_count; p++) {
            TRY(overlap_run(r, &plan->phases[p], OVERLAP_COMMUNICATING, times, NULL));
            total = p == 0 ? times[OVERLAP_TOTAL] : total;
        }
        TRY(perf_agree(r->control, WEFT_MAX, &total));
        totals[i < 0 ? 0 : i] = total;
    }
    *ms_out = perf_median(totals, COUNTED);
    return WEFT_OK;
}

/* How long the first phase computes alone: the median of a few, the slowest rank. */
static weft_result computing_ms(overlap_runner *r, const overlap_plan *plan, double *ms_out)
{
    enum { COUNTED = 3 };
    double totals[COUNTED];
    for (int i = 0; i < COUNTED; i++) {
        way_times times;
        TRY(overlap_run(r, &plan->phases[0], OVERLAP_COMPUTING, times, NULL));
        totals[i] = times[OVERLAP_TOTAL];
        TRY(perf_agree(r->control, WEFT_MAX, &totals[i]));
    }
    *ms_out = perf_median(totals, COUNTED);
    return WEFT_OK;
}

weft_result overlap_measure_amount(overlap_runner *r, const overlap_plan *plan, double ms)
{
    enum { TRIES = 3 };
    double took;
    r->compute_ms = ms;
    r->compute->amount = ms * 1e6 / overlap_compute_unit_ns(r->compute, 5);
    TRY(perf_agree(r->control, WEFT_MAX, &r->compute->amount));
    for (int i = 0; i < TRIES && r->compute->kernel != OVERLAP_TIMED; i++) {
        TRY(computing_ms(r, plan, &took));
        adjust(r->compute, ms, took);
    }
    return WEFT_OK;
}
