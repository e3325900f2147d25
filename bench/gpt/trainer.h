/* SPDX-License-Identifier: Apache-2.0 */
/* One rank of a training. This is where a trainer meets weft: its parts of the model in sets of buckets, the pipelines
 * that take microbatches through them, the optimizer. */
#ifndef WEFT_BENCH_GPT_TRAINER_H
#define WEFT_BENCH_GPT_TRAINER_H
#include <weft/adam.h>
#include <weft/pipeline.h>

#include "gpt/data.h"
#include "gpt/part.h"
#include "gpt/timed.h"

/* The ways to make a step: as the options ask for, and with nothing beside anything. */
typedef enum gpt_way { GPT_AS_ASKED, GPT_SERIAL, GPT_WAYS } gpt_way;

/* When a step of this rank came where, ns of the clock. */
typedef struct gpt_watch {
    int64_t forward_ns, backward_ns;             /* in all forwards, in all backwards */
    int64_t forward_began_ns, backward_began_ns; /* the first, the last one */
} gpt_watch;

typedef struct gpt_trainer {
    /* said; borrowed */
    const gpt_options *options;
    const gpt_layout *layout;
    const gpt_data *data;
    weft_comm *all; /* all ranks */
    gpt_shape shape;
    /* made */
    gpt_device *device, nothing;
    gpt_timed_device timed;
    gpt_model model;
    void *memory; /* of the model, from weft */
    int32_t *inputs, *targets;
    gpt_part *parts;
    size_t part_count;
    weft_buckets **sets; /* those of the parts, in the same order */
    weft_adam *adam;
    weft_pipeline *training[GPT_WAYS], *evaluation; /* NULL: not wanted */
    /* the batch at hand */
    gpt_switch_set switches;
    bool held_out;
    uint64_t number; /* the step, or the round of an evaluation */
    double loss;     /* of this rank's samples so far: the sum over their tokens, where this rank computes it */
    gpt_watch watch;
} gpt_trainer;

/* Make what was not said, with first values in the weights. Collective. Close it in any case. */
int gpt_trainer_open(gpt_trainer *trainer, gpt_failure *failure);
void gpt_trainer_close(gpt_trainer *trainer);

/* Parts of it, for plans too: open the parts of the model, where part i holds slots[i] microbatches, from options,
 * layout, shape and model; give what is kept its place in @p memory. Returns how many bytes it takes; memory NULL: only
 * that. */
int gpt_trainer_open_parts(gpt_trainer *trainer, const size_t *slots, gpt_failure *failure);
size_t gpt_trainer_place(gpt_trainer *trainer, void *memory);
void gpt_trainer_close_parts(gpt_trainer *trainer);

/* Train on the batch of step @p step, counted from 1. GPT_SERIAL: only with --overlap compare. */
weft_result gpt_trainer_step(gpt_trainer *trainer, gpt_way way, uint64_t step, double rate, weft_step_report *report);
/* What a step of GPT_SERIAL says to other ranks, in its order, with nothing computed. Between steps. */
weft_result gpt_trainer_talk(gpt_trainer *trainer);
/* Nothing of the last step is under way any more. */
weft_result gpt_trainer_settle(gpt_trainer *trainer);
/* What this rank adds to the sum of the losses of the last batch: over all ranks every token counts once. */
double gpt_trainer_loss(const gpt_trainer *trainer);
/* The mean loss of the held-out data, as many samples as fill whole batches; at least one batch. Collective. */
weft_result gpt_trainer_evaluate(gpt_trainer *trainer, double *loss_out);

/* A number that tells the weights of all ranks from others; equal weights give the same in every layout. Collective. */
weft_result gpt_trainer_hash(gpt_trainer *trainer, uint64_t *hash_out);
/* See that this rank has the same weights as its first replica. Collective. */
int gpt_trainer_compare(gpt_trainer *trainer, gpt_failure *failure);

#endif
