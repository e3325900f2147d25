/* SPDX-License-Identifier: Apache-2.0 */
/* A run as a page that needs nothing else: what a step consisted of on each rank, timelines of some steps, what each
 * bucket cost, and what to do about it. */
#ifndef WEFT_BENCH_PROF_RUN_PAGE_H
#define WEFT_BENCH_PROF_RUN_PAGE_H
#include <stdio.h>

#include "prof/run.h"

enum { PROF_PAGE_STEPS = 8 };

typedef struct prof_page {
    const prof_run *run;
    int steps[PROF_PAGE_STEPS]; /* into run->steps: those with a timeline */
    int step_count;
} prof_page;

/* False: no memory. */
bool prof_page_write(FILE *out, const prof_page *page);

/* What makes a timeline zoom: lines, the last NULL. */
extern const char *const prof_page_script[];

#endif
