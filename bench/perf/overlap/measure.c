/* SPDX-License-Identifier: Apache-2.0 */
/* Measures in turn, so that what changes on the machine meets all ways alike: computing alone and both side by side,
 * and what they differ by is the median over many rounds. No round is left out: to choose rounds by how long something
 * took is to choose what is found. A phase ends when its slowest rank does; where the time goes is told by the rank
 * that computes longest beside communication, since the others wait for it, too. */
#include "perf/overlap/measure.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "middle.h"
#include "perf/measure.h"
#include "perf/statistics.h"
#include "try.h"

typedef double way_times[OVERLAP_TIMES];

/* [phase][way][round], and [phase][piece][round] */
typedef struct samples {
    const overlap_plan *plan;
    size_t pieces;
    int room, rounds; /* how many there may be, and were so far */
    way_times *times, *of_ranks;
    double *ended, *costs;
    double *each, *other; /* [piece] */
    double *amounts;      /* of computing, [round] */
    double *numbers;      /* [round]: to work in */
} samples;

static way_times *times_at(const samples *s, int phase, int way, int round)
{
    return &s->times[(phase * OVERLAP_WAYS + way) * s->room + round];
}

static bool samples_open(samples *s, const overlap_plan *plan, size_t pieces, int room, int ranks)
{
    size_t all = (size_t)plan->phase_count * (size_t)room;
    *s = (samples){.plan = plan, .pieces = pieces, .room = room};
    s->times = calloc(all * OVERLAP_WAYS, sizeof *s->times);
    s->of_ranks = calloc((size_t)ranks * OVERLAP_WAYS, sizeof *s->of_ranks);
    s->ended = calloc(all * pieces, sizeof *s->ended);
    s->costs = calloc(all * pieces, sizeof *s->costs);
    s->each = calloc(pieces, sizeof *s->each);
    s->other = calloc(pieces, sizeof *s->other);
    s->amounts = calloc((size_t)room, sizeof *s->amounts);
    s->numbers = calloc((size_t)room, sizeof *s->numbers);
    return s->times && s->of_ranks && s->ended && s->costs && s->each && s->other && s->amounts && s->numbers;
}

static void samples_close(samples *s)
{
    free(s->times);
    free(s->of_ranks);
    free(s->ended);
    free(s->costs);
    free(s->each);
    free(s->other);
    free(s->amounts);
    free(s->numbers);
}

/* ------------------------------------------------------------------------------------------- one round */

static void keep_each(const samples *s, double *numbers, int phase, int round)
{
    for (size_t i = 0; i < s->pieces; i++)
        numbers[((size_t)phase * s->pieces + i) * (size_t)s->room + (size_t)round] = s->each[i];
}

/* What all ranks make of it: the time of the slowest, and how much transfer was exposed where most was. */
static weft_result agree(overlap_runner *r, way_times *times)
{
    double exposed = (*times)[OVERLAP_EXPOSED] - (*times)[OVERLAP_SKEW], hidden = (*times)[OVERLAP_HIDDEN];
    double worst[] = {(*times)[OVERLAP_TOTAL], exposed, exposed > 0 ? exposed / (exposed + hidden) : 0};
    enum { COUNT = sizeof worst / sizeof *worst };
    TRY(weft_all_reduce_run(r->control, worst, worst, COUNT, WEFT_FP64, WEFT_MAX, WEFT_STREAM_HOST));
    memcpy(&(*times)[OVERLAP_SLOWEST], worst, sizeof worst);
    return WEFT_OK;
}

static weft_result one_phase(overlap_runner *r, samples *s, int phase, overlap_way way)
{
    int round = s->rounds;
    way_times *times = times_at(s, phase, way, round);
    TRY(overlap_run(r, &s->plan->phases[phase], way, *times, s->each));
    TRY(agree(r, times));
    if (way == OVERLAP_COMPUTING)
        keep_each(s, s->ended, phase, round);
    if (way == OVERLAP_COMMUNICATING)
        keep_each(s, s->costs, phase, round);
    return WEFT_OK;
}

/* The next round computes as long as was asked for, if cores do what they did in most rounds so far. */
static void adjust(overlap_runner *r, samples *s)
{
    double *of_one = s->numbers;
    if (r->compute->kernel == OVERLAP_TIMED)
        return;
    for (int i = 0; i < s->rounds; i++)
        of_one[i] = (*times_at(s, 0, OVERLAP_COMPUTING, i))[OVERLAP_SLOWEST] / s->amounts[i];
    double median = perf_median(of_one, (size_t)s->rounds);
    r->compute->amount = median > 0 ? r->compute_ms / median : r->compute->amount;
}

/* What is compared is measured side by side, and each time the other one first. */
static weft_result one_round(overlap_runner *r, samples *s)
{
    static const overlap_way pairs[][2] = {{OVERLAP_COMPUTING, OVERLAP_BOTH}, {OVERLAP_BOTH, OVERLAP_COMPUTING}};
    const overlap_way *pair = pairs[s->rounds % 2];
    s->amounts[s->rounds] = r->compute->amount;
    for (int p = 0; p < s->plan->phase_count; p++)
        for (int i = 0; i < 2; i++)
            TRY(one_phase(r, s, p, pair[i]));
    for (int p = 0; p < s->plan->phase_count; p++)
        TRY(one_phase(r, s, p, OVERLAP_SERIAL));
    for (int p = 0; p < s->plan->phase_count; p++)
        TRY(one_phase(r, s, p, OVERLAP_COMMUNICATING));
    s->rounds++;
    adjust(r, s);
    return WEFT_OK;
}

/* ------------------------------------------------------------------------------------------- the middle of rounds */

/* In all of these the same on all ranks. */
static double median_of(const samples *s, int phase, overlap_way way, overlap_time time)
{
    for (int i = 0; i < s->rounds; i++)
        s->numbers[i] = (*times_at(s, phase, way, i))[time];
    return perf_median(s->numbers, (size_t)s->rounds);
}

static double gap_at(const samples *s, int phase, overlap_way way, int round)
{
    return (*times_at(s, phase, way, round))[OVERLAP_SLOWEST] -
           (*times_at(s, phase, OVERLAP_COMPUTING, round))[OVERLAP_SLOWEST];
}

/* By how much the slowest rank took longer than in computing alone. */
static middle gap_of(const samples *s, int phase, overlap_way way)
{
    for (int i = 0; i < s->rounds; i++)
        s->numbers[i] = gap_at(s, phase, way, i);
    return middle_of(s->numbers, (size_t)s->rounds);
}

/* The round in which both took the median longer than computing alone. */
static int middle_round(const samples *s, int phase)
{
    double median = gap_of(s, phase, OVERLAP_BOTH).median, nearest = INFINITY;
    int found = 0;
    for (int i = 0; i < s->rounds; i++) {
        double off = fabs(gap_at(s, phase, OVERLAP_BOTH, i) - median);
        if (off < nearest)
            nearest = off, found = i;
    }
    return found;
}

/* ------------------------------------------------------------------------------------------- all rounds */

static weft_result count_rounds(overlap_runner *r, const overlap_plan *plan, int *rounds)
{
    samples s;
    weft_result result = WEFT_E_NO_MEMORY;
    double seconds = 0;
    if (samples_open(&s, plan, r->subject->shape->count, 1, weft_comm_size(r->control))) {
        uint64_t begin = weft_trace_now(r->subject->world);
        result = one_round(r, &s);
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

/* As near as was asked for. */
static bool is_exact(const samples *s)
{
    bool exact = s->plan->within_ms > 0 && s->rounds >= OVERLAP_ROUNDS_EXACT;
    for (int p = 0; p < s->plan->phase_count && exact; p++)
        exact = gap_of(s, p, OVERLAP_BOTH).error <= s->plan->within_ms;
    return exact;
}

static bool is_processor_time(int time)
{
    return time == OVERLAP_USER || time == OVERLAP_SYSTEM || time == OVERLAP_ENGINE || time == OVERLAP_SOFTIRQ;
}

/* On this rank: where the time went in the middle round; how long ways took is that of all rounds, so that what both
 * took longer is what they did. Of processor time, which the kernel samples, the mean. */
static void pick_round(const samples *s, int phase, way_times *times)
{
    int picked = middle_round(s, phase);
    for (int way = 0; way < OVERLAP_WAYS; way++)
        for (int k = 0; k < OVERLAP_TIMES; k++) {
            double mean = 0;
            for (int i = 0; i < s->rounds; i++)
                mean += (*times_at(s, phase, way, i))[k] / s->rounds;
            times[way][k] = is_processor_time(k) ? mean : (*times_at(s, phase, way, picked))[k];
        }
    double computing = median_of(s, phase, OVERLAP_COMPUTING, OVERLAP_SLOWEST);
    times[OVERLAP_COMPUTING][OVERLAP_SLOWEST] = computing;
    times[OVERLAP_BOTH][OVERLAP_SLOWEST] = computing + gap_of(s, phase, OVERLAP_BOTH).median;
    times[OVERLAP_SERIAL][OVERLAP_SLOWEST] = computing + gap_of(s, phase, OVERLAP_SERIAL).median;
    times[OVERLAP_COMMUNICATING][OVERLAP_SLOWEST] = median_of(s, phase, OVERLAP_COMMUNICATING, OVERLAP_SLOWEST);
    for (int k = OVERLAP_SLOWEST + 1; k < OVERLAP_TIMES; k++)
        times[OVERLAP_BOTH][k] = median_of(s, phase, OVERLAP_BOTH, (overlap_time)k);
}

/* All ways of a phase, of the rank that computes longest; processor time is the mean of all ranks. */
static weft_result pick_rank(const overlap_runner *r, const samples *s, way_times *times)
{
    way_times *of_ranks = s->of_ranks;
    int ranks = weft_comm_size(r->control), longest = 0;
    TRY(weft_all_gather_run(r->control, times, of_ranks, OVERLAP_WAYS * OVERLAP_TIMES, WEFT_FP64, WEFT_STREAM_HOST));
    for (int i = 0; i < ranks; i++)
        if (of_ranks[i * OVERLAP_WAYS + OVERLAP_BOTH][OVERLAP_PIECES] >
            of_ranks[longest * OVERLAP_WAYS + OVERLAP_BOTH][OVERLAP_PIECES])
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
        out[i] = perf_median(numbers + ((size_t)phase * s->pieces + i) * (size_t)s->room, (size_t)s->rounds);
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
                              .rounds = s->rounds,
                              .exposed_error = gap_of(s, p, OVERLAP_BOTH).error};
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
    while (result == WEFT_OK && s.rounds < rounds && !is_exact(&s))
        result = one_round(r, &s);
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
        r->compute->amount *= ms / took;
    }
    return WEFT_OK;
}
