/* SPDX-License-Identifier: Apache-2.0 */
/* --overlap compare: steps with overlap and steps without, in turn, and between them what a step says to other ranks
 * with nothing computed. From these three times follows how much was hidden, by the stop-watch; from the pieces of the
 * steps without, what a perfect overlap would take. */
#ifndef WEFT_BENCH_GPT_COMPARE_H
#define WEFT_BENCH_GPT_COMPARE_H
#include "gpt/comparison.h"
#include "gpt/meter.h"
#include "gpt/trainer.h"

/* A bucket of this rank: sums over steps, in ms. */
typedef struct gpt_bucket_times {
    double ready;   /* from the begin of the last backward until its gradients were final */
    double used;    /* from the begin of the forward until it was used */
    double cost[2]; /* to reduce, to gather it alone: since the one before was complete */
} gpt_bucket_times;

typedef struct gpt_compare {
    gpt_trainer *trainer;
    gpt_meter *meter;
    gpt_comparison own; /* of this rank: sums over steps */
    double update;      /* ms of all updates: the optimizer but for what it does before the first */
    /* Of buckets, if all communication is that of one set of them; in the order of the reductions. */
    uint32_t bucket_count;
    gpt_bucket_times *buckets;
    uint32_t *labels[2]; /* of reductions and gathers in the trace */
    weft_trace_record *picked;
    uint32_t serial_label, alone_label; /* of steps in the trace */
    double block_ms[GPT_WAYS];          /* of the counted steps of the blocks at hand */
    double block_computing_ms;          /* of those without overlap */
    double *saved, *exposed;            /* of a step of each two blocks: see gpt_comparison */
    size_t pairs;
} gpt_compare;

/* Steps of one kind in a row; the first finds, or leaves, what the kind before had under way, and is not counted. */
enum { GPT_BLOCK = GPT_COMPARE_LEAST / 2 };

/* How step @p step, from 1, is made. */
gpt_way gpt_compare_way(int step);

int gpt_compare_open(gpt_compare *compare, gpt_trainer *trainer, gpt_meter *meter, gpt_failure *failure);
void gpt_compare_close(gpt_compare *compare);

/* Make a step; its time is the meter's lap. */
weft_result gpt_compare_step(gpt_compare *compare, int step, double rate, weft_step_report *report,
                             gpt_times *times_out);
/* Behind the last step of two blocks: talk. */
weft_result gpt_compare_between(gpt_compare *compare, int step);
/* The means over steps and ranks. Collective over the trainer's ranks. */
weft_result gpt_compare_result(gpt_compare *compare, gpt_comparison *comparison);

#endif
