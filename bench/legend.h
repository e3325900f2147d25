/* SPDX-License-Identifier: Apache-2.0 */
/* What the colours of a picture mean: samples with a word each, in lines. */
#ifndef WEFT_BENCH_LEGEND_H
#define WEFT_BENCH_LEGEND_H
#include "svg.h"

typedef enum legend_mark { LEGEND_BOX, LEGEND_ARROW } legend_mark;

typedef struct legend_entry {
    legend_mark mark;
    svg_colour left, right; /* of a box, its halves */
    bool dashed;
    char text[112];
} legend_entry;

enum { LEGEND_MOST = 24, LEGEND_LINE = 20 /* pixels */ };

typedef struct legend {
    legend_entry entries[LEGEND_MOST];
    int count;
} legend;

/* The next entry, to be filled; behind the most there can be, the last again. */
legend_entry *legend_add(legend *l, legend_mark mark, svg_colour colour, const char *text);
/* The room that the widest entry takes. */
double legend_width(const legend *l);
/* Draw it in lines no longer than @p width, the first centred on @p y; the y of the last. NULL: only measure. */
double legend_draw(const legend *l, FILE *out, double x, double y, double width);

#endif
