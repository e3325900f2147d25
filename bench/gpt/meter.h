/* SPDX-License-Identifier: Apache-2.0 */
/* Where the time of a step went on this rank, by weft's trace: computing, hidden and exposed communication, idle. */
#ifndef WEFT_BENCH_GPT_METER_H
#define WEFT_BENCH_GPT_METER_H
#include "prof/overlap.h"

#include "gpt/options.h"

/* Milliseconds; the last four add up to the first. */
typedef struct gpt_times {
    double window, computing, hidden, exposed, idle;
} gpt_times;

void gpt_times_add(gpt_times *times, const gpt_times *more);
gpt_times gpt_times_divide(gpt_times times, double by);

typedef struct gpt_meter {
    weft_world *world;
    weft_trace_record *records;
    size_t room;
    overlap_space space;
    uint64_t step, begin; /* the lap at hand: its number, and when it began */
    uint64_t first[2];    /* the first trace record of the lap before, and of this one */
} gpt_meter;

/* Records of the trace that two steps need, for weft_world_config. */
uint32_t gpt_meter_records(const gpt_options *options);

/* The first lap begins. */
int gpt_meter_open(gpt_meter *meter, weft_world *world, size_t records, gpt_failure *failure);
/* A lap ends, and the next begins: one a step. The step is marked in the trace. */
gpt_times gpt_meter_lap(gpt_meter *meter);
void gpt_meter_close(gpt_meter *meter);

#endif
