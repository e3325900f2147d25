/* SPDX-License-Identifier: Apache-2.0 */
/* Gives out timelines and keeps clocks. A timeline that is used again goes on where it ended: what it did before counts
 * as ordered then, so the freshest are used last. */
#include "clock.h"

#include <stdio.h>
#include <stdlib.h>

static struct {
    bool open;
    uint32_t tick;
    uint64_t closed; /* when; 0 = never used */
} timelines[STANDIN_TIMELINES];
static uint64_t closings;
static uint32_t used; /* the timelines below were open once */

uint32_t standin_timeline_open(void)
{
    uint32_t best = STANDIN_TIMELINES;
    for (uint32_t i = 0; i < STANDIN_TIMELINES; i++)
        if (!timelines[i].open && (best == STANDIN_TIMELINES || timelines[i].closed < timelines[best].closed))
            best = i;
    if (best == STANDIN_TIMELINES) {
        fprintf(stderr, "standin: more than %d streams and threads at a time\n", STANDIN_TIMELINES);
        abort();
    }
    timelines[best].open = true;
    used = used > best ? used : best + 1;
    return best;
}

void standin_timeline_close(uint32_t timeline)
{
    timelines[timeline].open = false;
    timelines[timeline].closed = ++closings;
}

standin_moment standin_clock_tick(standin_clock *clock, uint32_t timeline)
{
    clock->at[timeline] = ++timelines[timeline].tick;
    return (standin_moment){timeline, clock->at[timeline]};
}

void standin_clock_join(standin_clock *clock, const standin_clock *other)
{
    for (uint32_t i = 0; i < used; i++)
        if (clock->at[i] < other->at[i])
            clock->at[i] = other->at[i];
}
