/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the trace lap by lap. What was started in one lap may end in the next, so the records of two are read. */
#include "gpt/meter.h"

#include <stdlib.h>

enum { MOST = 1 << 20 };

uint32_t gpt_meter_records(const gpt_options *o)
{
    enum { LEAST = 8192, OF_LAYER = 12, OF_MODEL = 16, OF_CHUNK = 8 };
    double microbatches = (double)o->global_batch / o->micro_batch; /* on one data parallel rank */
    double each = OF_LAYER * (double)o->layers + OF_CHUNK * (double)o->virtual_stages + OF_MODEL;
    double buckets = 4 * OF_LAYER * (double)o->layers;
    uint32_t records = LEAST;
    while (records < MOST && records < 2 * (microbatches * each + buckets))
        records *= 2;
    return records;
}

uint32_t gpt_meter_ring(const gpt_options *o)
{
    enum { TIMES = 16 };
    uint32_t records = gpt_meter_records(o), most = o->trace ? TIMES * records : records;
    return most < MOST ? most : MOST;
}

int gpt_meter_open(gpt_meter *meter, weft_world *world, size_t records, gpt_failure *failure)
{
    *meter = (gpt_meter){.world = world, .room = records, .records = calloc(records, sizeof *meter->records)};
    if (!overlap_space_open(&meter->space, records) || !meter->records)
        return gpt_fail(failure, EXIT_FAILED, "no memory for %zu records of the trace", records);
    meter->first[0] = meter->first[1] = weft_trace_count(world);
    meter->begin = weft_trace_now(world);
    return 0;
}

static gpt_times end_lap(gpt_meter *m, uint64_t end)
{
    uint64_t next;
    m->last_begin = m->begin;
    m->last_end = m->begin = end;
    m->count = weft_trace_read(m->world, m->first[0], m->records, m->room, &next);
    overlap o = overlap_of(&m->space, m->records, m->count, m->last_begin, m->last_end);
    m->first[0] = m->first[1];
    m->first[1] = next;
    double ms = weft_trace_ns(m->world, 1) * 1e-6;
    return (gpt_times){.ms = {[GPT_TIME_STEP] = (double)o.window * ms,
                              [GPT_TIME_COMPUTING_ONLY] = (double)o.computing * ms,
                              [GPT_TIME_HIDDEN] = (double)o.hidden * ms,
                              [GPT_TIME_EXPOSED] = (double)o.exposed * ms,
                              [GPT_TIME_IDLE] = (double)o.idle * ms}};
}

gpt_times gpt_meter_lap_as(gpt_meter *m, uint64_t step, uint32_t label)
{
    uint64_t end = weft_trace_now(m->world);
    weft_trace_step_as(m->world, step, m->begin, label);
    return end_lap(m, end);
}

gpt_times gpt_meter_lap(gpt_meter *m)
{
    return gpt_meter_lap_as(m, ++m->step, 0);
}

gpt_times gpt_meter_aside(gpt_meter *m)
{
    return end_lap(m, weft_trace_now(m->world));
}

void gpt_meter_close(gpt_meter *meter)
{
    overlap_space_close(&meter->space);
    free(meter->records);
}
