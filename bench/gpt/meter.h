/* SPDX-License-Identifier: Apache-2.0 */
/* Measures where the time of each step went on this rank, by weft's trace. */
#ifndef WEFT_BENCH_GPT_METER_H
#define WEFT_BENCH_GPT_METER_H
#include "gpt/options.h"
#include "gpt/times.h"
#include "overlap.h"

typedef struct gpt_meter {
    weft_world *world;
    weft_trace_record *records;
    size_t room;
    overlap_space space;
    uint64_t step, begin; /* the lap at hand: its number, and when it began */
    uint64_t first[2];    /* the first trace record of the lap before, and of this one */
    /* the lap that ended last: its ends, and its records among those of the lap before */
    uint64_t last_begin, last_end;
    size_t count;
} gpt_meter;

/* Records of the trace that two steps need. */
uint32_t gpt_meter_records(const gpt_options *options);
/* Records of the ring, for weft_world_config: in files there is room for more steps, to be reported on. */
uint32_t gpt_meter_ring(const gpt_options *options);

/* The first lap begins. */
int gpt_meter_open(gpt_meter *meter, weft_world *world, size_t records, gpt_failure *failure);
/* A lap ends, and the next begins: one a step. The step is marked in the trace. */
gpt_times gpt_meter_lap(gpt_meter *meter);
/* The same for a step of another kind: see weft_trace_step_as(). */
gpt_times gpt_meter_lap_as(gpt_meter *meter, uint64_t step, uint32_t label);
/* The same for what is no step. */
gpt_times gpt_meter_aside(gpt_meter *meter);
void gpt_meter_close(gpt_meter *meter);

#endif
