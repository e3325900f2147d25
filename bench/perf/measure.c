/* SPDX-License-Identifier: Apache-2.0 */
/* Times a loop of calls on all ranks at once, by the trace clock, which costs a few ns. */
#include "perf/measure.h"

#include <stdlib.h>
#include <string.h>
#include <weft/trace.h>

#include "try.h"

weft_result perf_clock_open(perf_clock *clock, weft_comm *control, size_t most_samples, perf_pick pick)
{
    size_t ranks = (size_t)weft_comm_size(control);
    *clock = (perf_clock){weft_comm_world(control), control, NULL, NULL, most_samples, pick};
    clock->own = malloc(most_samples * sizeof(double));
    clock->all = malloc(most_samples * ranks * sizeof(double));
    return clock->own && clock->all ? WEFT_OK : WEFT_E_NO_MEMORY;
}

void perf_clock_close(perf_clock *clock)
{
    free(clock->own);
    free(clock->all);
}

weft_result perf_agree(weft_comm *control, weft_reduction reduction, double *number)
{
    return weft_all_reduce_run(control, number, number, 1, WEFT_FP64, reduction, WEFT_STREAM_HOST);
}

/* The calls of one sample, from call @p number on; us of all of them. */
static weft_result run_sample(const perf_clock *clock, const perf_loop *loop, size_t number, size_t calls, double *us)
{
    uint64_t ticks = 0, begin = 0;
    if (loop->before && !loop->before_each)
        TRY(loop->before(loop->what, number));
    for (size_t i = 0; i < calls; i++) {
        if (loop->before && loop->before_each)
            TRY(loop->before(loop->what, number + i));
        if (i == 0 || (loop->before && loop->before_each))
            begin = weft_trace_now(clock->world);
        TRY(loop->call(loop->what, number + i));
        if (i == calls - 1 || (loop->before && loop->before_each))
            ticks += weft_trace_now(clock->world) - begin;
    }
    *us = weft_trace_ns(clock->world, ticks) / 1e3;
    return WEFT_OK;
}

weft_result perf_plan_make(perf_clock *clock, const perf_loop *loop, size_t samples, double row_us, perf_plan *plan_out)
{
    perf_plan plan = {.calls = 1};
    double us = 0;
    for (size_t number = 0;; plan.calls *= 2) {
        TRY(weft_barrier_run(clock->control, WEFT_STREAM_HOST));
        TRY(run_sample(clock, loop, number, plan.calls, &us));
        TRY(perf_agree(clock->control, WEFT_MAX, &us));
        number += plan.calls;
        if (us >= PERF_SAMPLE_US || plan.calls >= (size_t)1 << 20)
            break;
    }
    double wanted = us > 0 ? row_us / us : PERF_SAMPLES_MAX;
    plan.samples = wanted < PERF_SAMPLES_MIN   ? PERF_SAMPLES_MIN
                   : wanted > PERF_SAMPLES_MAX ? PERF_SAMPLES_MAX
                                               : (size_t)wanted;
    if (samples > 0)
        plan.samples = samples;
    *plan_out = plan;
    return WEFT_OK;
}

weft_result perf_measure(perf_clock *clock, const perf_loop *loop, const perf_plan *plan)
{
    TRY(weft_barrier_run(clock->control, WEFT_STREAM_HOST));
    for (size_t i = 0; i < plan->samples; i++) {
        TRY(run_sample(clock, loop, i * plan->calls, plan->calls, &clock->own[i]));
        clock->own[i] /= (double)plan->calls;
    }
    TRY(weft_all_gather_run(clock->control, clock->own, clock->all, plan->samples, WEFT_FP64, WEFT_STREAM_HOST));
    perf_pick_times(clock->pick, clock->all, weft_comm_size(clock->control), plan->samples);
    return WEFT_OK;
}
