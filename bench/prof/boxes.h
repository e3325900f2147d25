/* SPDX-License-Identifier: Apache-2.0 */
/* The boxes of a rank's row in a timeline: what it did at each moment, the spans it marked, its operations in lanes;
 * and the joining of those that are too many to be drawn. */
#ifndef WEFT_BENCH_PROF_BOXES_H
#define WEFT_BENCH_PROF_BOXES_H
#include "prof/run.h"
#include "prof/states.h"

/* How operations look: by what they do with what is sent. */
enum { BOXES_REDUCE, BOXES_GATHER, BOXES_MESSAGE, BOXES_OTHER, BOXES_LOOKS };

typedef struct timeline_box {
    int64_t begin, end;
    int64_t late; /* an operation was waiting for its last rank until then; begin = it was not, or who knows */
    size_t first, last, count; /* records it stands for, of a rank; of states: stretches */
    int lane;
    int64_t of[PROF_STATES]; /* ns by state, or by look */
} timeline_box;
_Static_assert((int)BOXES_LOOKS <= (int)PROF_STATES, "a box has room for either");

typedef struct timeline_boxes {
    timeline_box *at; /* by begin */
    size_t count;
    int lanes;
} timeline_boxes;

typedef struct timeline_row {
    timeline_boxes states, spans, operations;
} timeline_row;

/* What of @p rank lies within [begin, end), cut to it. False: no memory. Give back with timeline_row_close() whatever
 * the answer. */
bool timeline_row_open(timeline_row *row, const prof_split *split, int rank, int64_t begin, int64_t end,
                       int lanes_most);
void timeline_row_close(timeline_row *row);

/* Join what lies side by side in a lane within @p within nanoseconds. */
void timeline_row_join(timeline_row *row, int64_t within);
size_t timeline_row_count(const timeline_row *row);

/* What a box is most of. */
int timeline_box_most(const timeline_box *box);

#endif
