/* SPDX-License-Identifier: Apache-2.0 */
/* Asks the library when each action of a schedule runs, and counts how long stages idle. */
#include "timeline.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

bool timeline_computes(const weft_action *a)
{
    return !weft_action_is_message(a->kind) && a->kind != WEFT_ACTION_SYNC;
}

static void count(timeline *t)
{
    const weft_action_time *time = t->times;
    t->idle = t->all = (uint64_t)weft_schedule_stages(t->schedule) * t->slots;
    for (uint32_t stage = 0; stage < weft_schedule_stages(t->schedule); stage++) {
        size_t actions;
        const weft_action *at = weft_schedule_actions(t->schedule, stage, &actions);
        for (size_t i = 0; i < actions; i++, time++) {
            t->idle -= time->end - time->begin;
            t->split |= at[i].kind == WEFT_ACTION_W;
        }
    }
}

weft_result timeline_open(timeline *t, const weft_schedule *s, const weft_times_config *config)
{
    size_t total = 0, actions;
    for (uint32_t stage = 0; stage < weft_schedule_stages(s); stage++, total += actions)
        weft_schedule_actions(s, stage, &actions);
    *t = (timeline){.schedule = s, .times = calloc(total + 1, sizeof *t->times)};
    weft_result result = t->times ? weft_schedule_times(s, config, t->times, total, &t->slots) : WEFT_E_NO_MEMORY;
    if (result == WEFT_OK)
        count(t);
    else
        timeline_close(t);
    return result;
}

void timeline_close(timeline *t)
{
    free(t->times);
    t->times = NULL;
}

/* No schedule idles less than the closed form unless it splits backwards, since the last stage has to wait for its
 * first tensor and the first for its last one. */
const char *timeline_bubble(const timeline *t, char text[160])
{
    uint64_t stages = weft_schedule_stages(t->schedule);
    uint64_t steps = (uint64_t)weft_schedule_chunks(t->schedule) * weft_schedule_microbatches(t->schedule);
    int n = snprintf(text, 160, "bubble %.2f %% (%" PRIu64 " of %" PRIu64 " slots idle)",
                     t->all ? 100.0 * (double)t->idle / (double)t->all : 0.0, t->idle, t->all);
    bool same = t->idle * (steps + stages - 1) == (stages - 1) * t->all;
    if (!t->split)
        snprintf(text + n, 160 - (size_t)n, "%s(p-1)/(v*m+p-1) = %" PRIu64 "/%" PRIu64,
                 same ? " = " : "; the least for these sizes is ", stages - 1, steps + stages - 1);
    return text;
}
