/* SPDX-License-Identifier: Apache-2.0 */
/* Which collectives are tried: every pair of properties meets in some case, or every combination in one. */
#ifndef WEFT_BENCH_PERF_CONFORM_PLAN_H
#define WEFT_BENCH_PERF_CONFORM_PLAN_H
#include "perf/conform/conform.h"

/* Properties of a case. The first ones make up the full matrix, the others take turns in it. */
typedef enum conform_axis {
    CONFORM_RANKS, /* 0 stands for one */
    CONFORM_KIND,
    CONFORM_DTYPE,
    CONFORM_REDUCTION,
    CONFORM_COUNT, /* index into conform_counts */
    CONFORM_PLACE, /* 1: in place */
    CONFORM_MATRIX_AXES,
    CONFORM_MEMORY = CONFORM_MATRIX_AXES, /* 1: weft's */
    CONFORM_SHIFT,                        /* 1: buffers begin at the second element */
    CONFORM_ROOT,                         /* the first rank, the middle, the last */
    CONFORM_HOW,                          /* conform_how */
    CONFORM_AXES
} conform_axis;

enum conform_how { CONFORM_RUN, CONFORM_START, CONFORM_BEHIND };

typedef struct conform_case {
    unsigned char of[CONFORM_AXES];
} conform_case;

extern const size_t conform_counts[5];

/* What a kind of collective moves. A buffer holds a part for every rank, or one. */
typedef struct conform_shape {
    bool moves, reduces, sends_each, receives_each, root_sends, root_receives;
} conform_shape;

extern const conform_shape conform_shapes[]; /* by weft_collective_kind */

/* The cases of a run with @p ranks ranks at most, those of equal ranks together; free() them. NULL: no memory. */
conform_case *conform_plan(const conform_settings *settings, int ranks, size_t *count_out);
/* "all_reduce of 7 bf16, sum, in place, ..." */
void conform_describe(const conform_case *it, char *text, size_t bytes);
int conform_root(const conform_case *it);

#endif
