/* SPDX-License-Identifier: Apache-2.0 */
/* Draws how times are made up: a bar a row, cut into parts that add up, and what the colours mean. */
#ifndef WEFT_BENCH_BARS_H
#define WEFT_BENCH_BARS_H
#include "svg.h"

enum { BARS_PARTS = 8 };

typedef struct bars_part {
    const char *name;
    svg_colour colour;
} bars_part;

typedef struct bars_row {
    char who[64];
    double ms[BARS_PARTS];
} bars_row;

typedef struct bars {
    const char *title;
    const bars_part *parts;
    int part_count;
    const bars_row *rows;
    int row_count;
    double width, bar, gap, who; /* pixels: of all, a bar's height, between bars, in front of them */
} bars;

/* The four parts of a step in their colours: computing only, hidden, exposed, idle. */
enum { BARS_STEP = 4 };
extern const bars_part bars_step[BARS_STEP];

/* A picture of its own. */
void bars_draw(FILE *out, const bars *b);

#endif
