/* SPDX-License-Identifier: Apache-2.0 */
/* A run as a page that needs nothing else: where the time of a step went on each rank, timelines of some steps, what
 * each kind of operation cost, who came late, and what to do about it. */
#ifndef WEFT_BENCH_PROF_RUN_PAGE_H
#define WEFT_BENCH_PROF_RUN_PAGE_H
#include <stdio.h>

#include "prof/analysis.h"

enum { PROF_PAGE_STEPS = 8, PROF_PAGE_RANKS = 64 };

typedef struct prof_page {
    const prof_analysis *analysis;
    int steps[PROF_PAGE_STEPS];       /* into run->steps: those with a timeline */
    const char *why[PROF_PAGE_STEPS]; /* they were picked, behind a comma; NULL = somebody asked for them */
    int step_count;
    int ranks[PROF_PAGE_RANKS]; /* into run->ranks: those that are shown, in order */
    int rank_count;
} prof_page;

/* The steps to draw if nobody says which: that of median length and the longest. */
void prof_page_pick_steps(prof_page *page);
/* All ranks, or of too many half those with most exposed and half spread evenly. */
void prof_page_pick_ranks(prof_page *page);

/* False: no memory. */
bool prof_page_write(FILE *out, const prof_page *page);

/* Its tables: the figures of the overlap, operations, spans, ranks. */
void prof_page_figures(FILE *out, const prof_analysis *analysis);
void prof_page_computing(FILE *out, const prof_analysis *analysis);
void prof_page_operations(FILE *out, const prof_analysis *analysis);
void prof_page_late(FILE *out, const prof_page *page);

/* What makes a timeline zoom: lines, the last NULL. */
extern const char *const prof_page_script[];

#endif
