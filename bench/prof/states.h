/* SPDX-License-Identifier: Apache-2.0 */
/* What a rank did at every moment: the four states that overlap.h measures, as stretches of time that follow each
 * other. */
#ifndef WEFT_BENCH_PROF_STATES_H
#define WEFT_BENCH_PROF_STATES_H
#include "prof/split.h"

/* In the order of bars_step. */
typedef enum prof_state { PROF_COMPUTING, PROF_HIDDEN, PROF_EXPOSED, PROF_IDLE, PROF_STATES } prof_state;

typedef struct prof_stretch {
    int64_t begin, end;
    prof_state state;
} prof_stretch;

/* A walk through time. */
typedef struct prof_walk {
    const overlap_space *space;
    int64_t at, end;
    size_t communicating, waiting; /* the next intervals of either that end behind `at` */
} prof_walk;

prof_walk prof_walk_begin(const prof_split_rank *rank, int64_t begin, int64_t end);
/* The next stretch, which differs from the one before; false: the end. */
bool prof_walk_next(prof_walk *walk, prof_stretch *stretch_out);

/* From and until when an operation or a span is, or was; false: it is neither, or that is not known. */
bool prof_under_way(const prof_split *split, int rank, size_t record, int64_t *begin_out, int64_t *end_out);
/* The same of the wait for an operation. */
bool prof_waited_for(const prof_split *split, int rank, size_t record, int64_t *begin_out, int64_t *end_out);

#endif
