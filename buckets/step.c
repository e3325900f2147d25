/* SPDX-License-Identifier: Apache-2.0 */
/* The step: reductions, norm, and bucket by bucket the optimizer with the gather right behind it. */
#include <math.h>
#include <stdio.h>

#include "adam.h"
#include "base/error.h"
#include "base/log.h"
#include "base/sized.h"
#include "device/gpu.h"

#define CLIP_EPSILON 1e-6

static weft_result take_how(const weft_adam *adam, const weft_step *how, weft_step *own)
{
    if (!adam || !how)
        return weft__fail(WEFT_E_INVALID, "step: no optimizer, or not said how");
    *own = (weft_step)WEFT_STEP_INIT;
    WEFT_TRY(weft__take_sized(own, sizeof *own, how, "weft_step"));
    const float rates[] = {own->lr, own->weight_decay, own->clip_norm};
    static const char *const names[] = {"lr", "weight_decay", "clip_norm"};
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++)
        if (!isfinite(rates[i]) || rates[i] < 0)
            return weft__fail(WEFT_E_INVALID, "step: %s is %g", names[i], (double)rates[i]);
    if (own->flags & ~(uint32_t)WEFT_STEP_GATHER_LAST)
        return weft__fail(WEFT_E_INVALID, "step: no flags %#x are known", own->flags);
    return WEFT_OK;
}

static float clip_of(const weft_step *how, float norm)
{
    double clip = how->clip_norm > 0 ? (double)how->clip_norm / ((double)norm + CLIP_EPSILON) : 1;
    return clip < 1 ? (float)clip : 1;
}

static weft_result update_bucket(const weft_adam *adam, uint32_t index, uint32_t bucket, const weft__adamw *rates)
{
    weft_buckets *set = adam->sets[index];
    uint64_t span = weft_span_begin(set->world, set->step_label, bucket);
    weft_result result = weft__adam_update(adam, index, bucket, rates);
    weft_span_end(set->world, span);
    return result;
}

/* Sets have comms of their own: gathers of one wait for the last of the set before (*last), so as not to share the
 * links with it. @p after: that one, for the first of a set. */
static weft_result gather_bucket(weft_buckets *set, weft__bucket *bucket, weft_work *after, weft_work *last)
{
    WEFT_TRY(weft__gather_start(set, bucket, *after, weft__set_stream(set)));
    *last = bucket->gather.work.value ? bucket->gather.work : *last;
    *after = WEFT_WORK_NONE;
    return WEFT_OK;
}

/* In order of use, so that what the next forward pass needs first is gathered first. */
static weft_result update_set(weft_adam *adam, uint32_t index, const weft__adamw *rates, bool gather, weft_work *last)
{
    weft_buckets *set = adam->sets[index];
    weft_work after = *last;
    for (uint32_t i = set->bucket_count; i-- > 0;) {
        weft__bucket *bucket = weft__launched(set, i);
        WEFT_TRY(weft__phase_move(set, bucket, WEFT__CALL_STEP));
        WEFT_TRY(update_bucket(adam, index, (uint32_t)(bucket - set->buckets), rates));
        if (gather)
            WEFT_TRY(gather_bucket(set, bucket, &after, last));
    }
    return WEFT_OK;
}

static weft_result gather_set(weft_buckets *set, weft_work *last)
{
    weft_work after = *last;
    for (uint32_t i = set->bucket_count; i-- > 0;)
        WEFT_TRY(gather_bucket(set, weft__launched(set, i), &after, last));
    return WEFT_OK;
}

static weft_result update_all(weft_adam *adam, const weft_step *how, float clip)
{
    weft__adamw rates = weft__adam_rates(adam, how, clip, adam->steps + 1);
    bool gather_last = how->flags & WEFT_STEP_GATHER_LAST;
    weft_work last = WEFT_WORK_NONE;
    for (uint32_t i = 0; i < adam->set_count; i++)
        WEFT_TRY(update_set(adam, i, &rates, !gather_last, &last));
    adam->steps++;
    for (uint32_t i = 0; gather_last && i < adam->set_count; i++)
        WEFT_TRY(gather_set(adam->sets[i], &last));
    for (uint32_t i = 0; i < adam->set_count; i++)
        if (adam->sets[i]->flags & WEFT_BUCKETS_GATHER_IN_STEP)
            WEFT_TRY(weft_buckets_acquire(adam->sets[i], 0, weft_params_count(adam->sets[i]->params),
                                          weft__set_stream(adam->sets[i])));
    return WEFT_OK;
}

/* Once in a run of them, on one rank. */
static void tell_skipped(const weft_adam *adam, const weft_step_report *report)
{
    const weft_buckets *set = adam->sets[0];
    if (adam->skipping || weft_comm_rank(set->norm_comm) != 0)
        return;
    char who[48] = "";
    if (report->nonfinite_rank >= 0)
        snprintf(who, sizeof who, "; rank %d made it", report->nonfinite_rank);
    else if (!(set->flags & WEFT_BUCKETS_CHECK_FINITE))
        snprintf(who, sizeof who, "; WEFT_BUCKETS_CHECK_FINITE finds the param");
    weft__log(WEFT_LOG_WARN, "set '%s': step %llu is skipped: the norm is %g%s", set->name,
              (unsigned long long)adam->steps + 1, (double)report->norm, who);
}

static weft_result skip_all(weft_adam *adam)
{
    for (uint32_t i = 0; i < adam->set_count; i++)
        for (uint32_t b = 0; b < adam->sets[i]->bucket_count; b++)
            WEFT_TRY(weft__phase_move(adam->sets[i], &adam->sets[i]->buckets[b], WEFT__CALL_SKIP));
    return WEFT_OK;
}

/* All of it is queued; only a report has to be waited for. */
static weft_result step_on_gpu(weft_adam *adam, const weft_step *how, weft_step_report *report)
{
    const weft__set_gpu *gpu = adam->sets[0]->gpu;
    const weft__device_calls *calls = gpu->device->calls;
    const weft__step_rule rule = {
        .clip = how->clip_norm, .clip_epsilon = (float)CLIP_EPSILON, .beta1 = adam->beta1, .beta2 = adam->beta2};
    WEFT_TRY(weft__norm_judge(adam->sets, adam->set_count, &rule, adam->verdict));
    if (report)
        WEFT_TRY(calls->copy(gpu->device, adam->seen, adam->verdict, sizeof *adam->seen, gpu->stream));
    WEFT_TRY(calls->record(gpu->device, gpu->judged, gpu->stream));
    WEFT_TRY(weft__set_pass(adam->sets[0], how->after, gpu->stream));
    WEFT_TRY(update_all(adam, how, 1));
    for (uint32_t i = 0; i < adam->set_count; i++)
        WEFT_TRY(calls->record(gpu->device, adam->sets[i]->gpu->stepped, gpu->stream));
    if (!report)
        return WEFT_OK;
    WEFT_TRY(weft__gpu_await(adam->sets[0]->world, gpu->judged));
    report->norm = (float)adam->seen->norm;
    report->clip = adam->seen->grad_scale;
    report->skipped = adam->seen->skipped != 0;
    report->step = adam->seen->updates;
    report->nonfinite_rank = -1;
    if (report->skipped)
        tell_skipped(adam, report);
    adam->skipping = report->skipped;
    return WEFT_OK;
}

weft_result weft_adam_step(weft_adam *adam, const weft_step *how, weft_step_report *report_out)
{
    weft_step own;
    weft_step_report report = WEFT_STEP_REPORT_INIT;
    WEFT_TRY(take_how(adam, how, &own));
    if (report_out)
        WEFT_TRY(weft__check_sized(report_out, "weft_step_report"));
    WEFT_TRY(weft_buckets_reduce(adam->sets, adam->set_count, own.divisor));
    if (adam->sets[0]->gpu) {
        WEFT_TRY(step_on_gpu(adam, &own, report_out ? &report : NULL));
        return report_out ? weft__give_sized(report_out, &report, sizeof report, "weft_step_report") : WEFT_OK;
    }
    WEFT_TRY(weft__norm_exchange(adam->sets, adam->set_count, &report.norm, &report.nonfinite_rank));
    report.clip = clip_of(&own, report.norm);
    report.skipped = !isfinite(report.norm);
    if (report.skipped)
        tell_skipped(adam, &report);
    adam->skipping = report.skipped;
    if (report.skipped)
        WEFT_TRY(skip_all(adam));
    else
        WEFT_TRY(update_all(adam, &own, report.clip));
    report.step = adam->steps;
    return report_out ? weft__give_sized(report_out, &report, sizeof report, "weft_step_report") : WEFT_OK;
}
