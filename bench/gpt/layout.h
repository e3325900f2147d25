/* SPDX-License-Identifier: Apache-2.0 */
/* How the ranks of a world share one model: where this rank is on each axis of parallelism, and its comms with the
 * ranks beside it there. */
#ifndef WEFT_BENCH_GPT_LAYOUT_H
#define WEFT_BENCH_GPT_LAYOUT_H
#include <weft/groups.h>
#include <weft/schedule.h>

#include "gpt/options.h"

enum { GPT_TP, GPT_PP, GPT_DP, GPT_AXES };

typedef struct gpt_layout {
    size_t tensor, pipeline, data;      /* ranks along each axis */
    size_t tensor_rank, stage, replica; /* which of them this one is */
    size_t microbatches;                /* that this rank computes in a step */
    weft_group_comm groups[GPT_AXES];
    weft_comm *ends; /* of the first and the last stage, which both hold a tied embedding; NULL elsewhere */
} gpt_layout;

/* Share @p ranks ranks out as the options say; refuse what does not divide, or cannot be scheduled. */
int gpt_layout_plan(gpt_layout *layout, const gpt_options *options, int ranks, gpt_failure *failure);
/* The schedule of its pipelines; @p flags: WEFT_SCHEDULE_*; @p on: what of the overlap is. */
weft_result gpt_layout_schedule(const gpt_layout *layout, const gpt_options *options, uint32_t flags, gpt_switch_set on,
                                weft_schedule **schedule_out);
/* The mesh of a world of @p ranks ranks, and what lies along each of the layout's axes in it. */
weft_result gpt_layout_mesh(const gpt_options *options, int ranks, weft_mesh **mesh_out);
extern const weft_axes gpt_layout_axes[GPT_AXES];
/* Find the place of @p rank; a cluster of NULL: rank n sits at place n. */
weft_result gpt_layout_place(gpt_layout *layout, const weft_mesh *mesh, const weft_cluster *cluster, int rank);
/* Find this rank's place and make its comms. Collective. */
weft_result gpt_layout_connect(gpt_layout *layout, const gpt_options *options, weft_world *world);
void gpt_layout_close(gpt_layout *layout);

/* "tp2 pp2 dp2 sp": what is more than 1 or switched on; "1" if nothing is. Returns @p text. */
char *gpt_layout_text(const gpt_layout *layout, const gpt_options *options, char *text, size_t bytes);

static inline bool gpt_layout_is_last_stage(const gpt_layout *layout)
{
    return layout->stage + 1 == layout->pipeline;
}

#endif
