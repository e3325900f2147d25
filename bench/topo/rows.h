/* SPDX-License-Identifier: Apache-2.0 */
/* The groups of a plan as a table in a picture: a row for each axis that has any. */
#ifndef WEFT_BENCH_TOPO_ROWS_H
#define WEFT_BENCH_TOPO_ROWS_H
#include "svg.h"
#include "topo/topo.h"

typedef struct axis_row {
    char name[WEFT_AXES_TEXT_MAX + 1], groups[48], level[64];
    char *ranks;
} axis_row;

enum { ROWS_MOST = 8 };

typedef struct axis_rows {
    axis_row at[ROWS_MOST];
    int count;
} axis_rows;

/* False after a message; to be freed all the same. */
bool rows_fill(axis_rows *rows, const plan *p);
void rows_free(axis_rows *rows);
/* Draw them from @p box's corner on, as wide as it is; how high they are. NULL: only measure. */
double rows_draw(const axis_rows *rows, FILE *out, svg_box box);

#endif
