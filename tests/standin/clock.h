/* SPDX-License-Identifier: Apache-2.0 */
/* What happened before what: vector clocks (Lamport, "Time, clocks, and the ordering of events"; Fidge, Mattern). Every
 * stream and every thread of the host is a timeline; a clock says how far of each timeline lies before it. */
#ifndef STANDIN_CLOCK_H
#define STANDIN_CLOCK_H
#include <stdbool.h>
#include <stdint.h>

enum { STANDIN_TIMELINES = 512 };

typedef struct standin_clock {
    uint32_t at[STANDIN_TIMELINES];
} standin_clock;

/* One operation of a timeline. */
typedef struct standin_moment {
    uint32_t timeline, tick;
} standin_moment;

/* A timeline for a new stream or thread; ends the process if there are too many at a time. */
uint32_t standin_timeline_open(void);
void standin_timeline_close(uint32_t timeline);

/* The next moment of a timeline, by its own clock. */
standin_moment standin_clock_tick(standin_clock *clock, uint32_t timeline);
/* What lies before @p other lies before @p clock too from now on. */
void standin_clock_join(standin_clock *clock, const standin_clock *other);
static inline bool standin_clock_covers(const standin_clock *clock, standin_moment moment)
{
    return moment.tick <= clock->at[moment.timeline];
}

#endif
