/* SPDX-License-Identifier: Apache-2.0 */
/* The table of times, and their arithmetic. */
#include "gpt/times.h"

const gpt_time_shown gpt_times_shown[GPT_TIMES] = {
    [GPT_TIME_STEP] = {.key = "step_ms", .in_step = true, .line = "%7.1f ms"},
    [GPT_TIME_COMPUTING_ONLY] = {.key = "compute_ms", .column = "computing only"},
    [GPT_TIME_HIDDEN] = {.key = "hidden_ms", .in_step = true, .column = "hidden"},
    [GPT_TIME_EXPOSED] = {.key = "exposed_ms", .in_step = true, .line = "exposed %6.1f ms", .column = "exposed"},
    [GPT_TIME_IDLE] = {.key = "idle_ms", .column = "idle"},
};

void gpt_times_add(gpt_times *times, const gpt_times *more)
{
    for (int i = 0; i < GPT_TIMES; i++)
        times->ms[i] += more->ms[i];
}

gpt_times gpt_times_divide(const gpt_times *times, double by)
{
    gpt_times parts;
    for (int i = 0; i < GPT_TIMES; i++)
        parts.ms[i] = times->ms[i] / by;
    return parts;
}

static double computing(const gpt_times *times)
{
    return times->ms[GPT_TIME_COMPUTING_ONLY] + times->ms[GPT_TIME_HIDDEN];
}

double gpt_times_communicating(const gpt_times *times)
{
    return times->ms[GPT_TIME_HIDDEN] + times->ms[GPT_TIME_EXPOSED];
}

int gpt_times_slowest(const gpt_times *ranks, int count)
{
    int slowest = 0;
    for (int i = 1; i < count; i++)
        slowest = computing(&ranks[i]) > computing(&ranks[slowest]) ? i : slowest;
    return slowest;
}
