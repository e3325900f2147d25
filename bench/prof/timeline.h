/* SPDX-License-Identifier: Apache-2.0 */
/* Draws a step as a picture: a row a rank, in which a band says what it did at each moment, boxes are the spans it
 * marked, and below them its operations lie in as many lanes as there are at a time. */
#ifndef WEFT_BENCH_PROF_TIMELINE_H
#define WEFT_BENCH_PROF_TIMELINE_H
#include <stdio.h>

#include "prof/split.h"

enum { TIMELINE_WIDTH = 1200 /* pixels */ };

typedef struct timeline {
    const prof_split *split;
    int step;         /* into run->steps */
    const int *ranks; /* into run->ranks: those to be drawn */
    int count;
    size_t most; /* boxes; more are joined */
    /* What was drawn. */
    size_t things, boxes; /* stretches, spans and operations; and what stands for them */
    int64_t joined_ns;    /* what lay within so much was joined; 0: nothing was */
} timeline;

/* False: no memory. */
bool timeline_draw(FILE *out, timeline *t);

#endif
