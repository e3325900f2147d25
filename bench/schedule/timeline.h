/* SPDX-License-Identifier: Apache-2.0 */
/* When each action of a schedule runs, and how much of the time stages idle: what tables and pictures show. */
#ifndef WEFT_BENCH_SCHEDULE_TIMELINE_H
#define WEFT_BENCH_SCHEDULE_TIMELINE_H
#include <stdbool.h>
#include <weft/schedule.h>

typedef struct timeline {
    const weft_schedule *schedule;
    weft_action_time *times; /* of every action, stage after stage */
    uint32_t slots;          /* until all is over */
    uint64_t idle, all;      /* slots of all stages together */
    bool split;              /* some backward is */
} timeline;

/* @p config: how long what takes. */
weft_result timeline_open(timeline *line, const weft_schedule *schedule, const weft_times_config *config);
void timeline_close(timeline *line);

bool timeline_computes(const weft_action *action);
/* The bubble as counted, and its closed form, in one line: "bubble 25.00 % (6 of 24 slots idle) = ..." */
const char *timeline_bubble(const timeline *line, char text[160]);

#endif
