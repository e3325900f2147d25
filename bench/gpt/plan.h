/* SPDX-License-Identifier: Apache-2.0 */
/* What a training would take and send, worked out from its options and the size of its world: nothing is started. The
 * layout, the parts of the model, their buckets and the schedule are made by what a training makes them with; what
 * tensor parallel ranks say to each other is counted in a forward and a backward on a device that computes nothing. */
#ifndef WEFT_BENCH_GPT_PLAN_H
#define WEFT_BENCH_GPT_PLAN_H
#include "gpt/trainer.h"

/* Whom a rank talks to: those along the axes of the layout, and the other end of its pipeline. */
enum { GPT_PLAN_ENDS = GPT_AXES, GPT_PLAN_WAYS };
extern const char *const gpt_plan_ways[GPT_PLAN_WAYS]; /* "tp", ... */

/* One rank of a stage: all of them take the same. */
typedef struct gpt_plan_stage {
    gpt_layout layout;
    gpt_trainer trainer;
    weft_layout **layouts; /* of the parts */
    size_t params;         /* of the stage, whole; a tied embedding also on the last */
    size_t params_local;
    size_t elements, padding; /* of all buckets; elements with padding */
    size_t value_bytes, grad_bytes, optimizer_bytes, activation_bytes, message_bytes;
    double received_bytes[GPT_PLAN_WAYS]; /* in a step; without the norm and the report, a few numbers each */
} gpt_plan_stage;

typedef struct gpt_plan {
    const gpt_options *options;
    int ranks, rank; /* rank: whose buckets are shown */
    gpt_shape shape;
    gpt_layout layout; /* of that rank */
    char layout_text[64];
    gpt_device device; /* that computes nothing */
    weft_mesh *mesh;
    weft_schedule *schedule; /* with its messages */
    weft_stage_needs *needs; /* of each stage */
    gpt_plan_stage *stages;
    size_t layer_params, total_params;
    double bubble;
    double state_bytes, padding; /* per padded element of all ranks' buckets; share of them */
} gpt_plan;

/* Options and shape have been completed. Close it in any case. */
int gpt_plan_open(gpt_plan *plan, const gpt_options *options, gpt_failure *failure);
void gpt_plan_close(gpt_plan *plan);
/* Say it to people, or as JSON. */
int gpt_plan_print_json(const gpt_plan *plan, FILE *out, gpt_failure *failure);
/* All of it: make the plan and write it where the options say. Returns the exit code; failure says why. */
int gpt_plan_run(const gpt_options *options, gpt_failure *failure);

/* The stage that the rank of the plan is on. */
static inline const gpt_plan_stage *gpt_plan_own(const gpt_plan *plan)
{
    return &plan->stages[plan->layout.stage];
}

/* All groups along an axis, "0,1;2,3"; to be freed. NULL: no memory. */
char *gpt_plan_groups(const gpt_plan *plan, int axis);
/* The stage of a rank. */
size_t gpt_plan_stage_of(const gpt_plan *plan, int rank);

#endif
