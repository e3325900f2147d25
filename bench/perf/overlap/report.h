/* SPDX-License-Identifier: Apache-2.0 */
/* What `weft perf overlap` says: figures side by side, or a line a bucket size; JSON; a picture. */
#ifndef WEFT_BENCH_PERF_OVERLAP_REPORT_H
#define WEFT_BENCH_PERF_OVERLAP_REPORT_H
#include <stdio.h>

#include "perf/overlap/figures.h"
#include "perf/overlap/options.h"

/* Of the whole command. */
typedef struct overlap_setup {
    const overlap_options *options;
    int ranks, hosts;
    const char *backend;
} overlap_setup;

void overlap_report_begin(FILE *out, const overlap_setup *setup);
/* The phases of one shape. */
void overlap_report_columns(FILE *out, const overlap_figures *figures, int phases);
/* The same as a line of a sweep, below its head. */
void overlap_report_head(FILE *out);
void overlap_report_line(FILE *out, const overlap_figures *figures);
/* A line of JSON a phase. */
void overlap_report_json(FILE *out, const overlap_setup *setup, const overlap_figures *figures, int phases);
/* @p rows of OVERLAP_PHASES figures each. */
void overlap_report_picture(FILE *out, const overlap_setup *setup, const overlap_figures *figures, int rows);

#endif
