/* SPDX-License-Identifier: Apache-2.0 */
/* An analysis, printed: for people, and as JSON. */
#ifndef WEFT_BENCH_PROF_REPORT_H
#define WEFT_BENCH_PROF_REPORT_H
#include <stdio.h>

#include "prof/analysis.h"

void prof_print_text(FILE *out, const prof_analysis *analysis, double record_ns);
void prof_print_json(FILE *out, const prof_analysis *analysis, double record_ns);

/* What writing one record costs here, in ns; NaN if that cannot be measured. */
double prof_record_cost(void);

/* The first and last number of the selected steps, and how many there are. */
typedef struct prof_span {
    unsigned long long first, last;
    int count;
} prof_span;
prof_span prof_selected_steps(const prof_analysis *analysis);

/* Kinds of rows, in the order of what is exposed of them; how many (at most @p most). */
typedef struct prof_kind {
    const char *kind;
    double hidden, exposed;
} prof_kind;
int prof_kinds(const prof_analysis *analysis, prof_kind *kinds, int most);

/* That part of a time, in percent; 0 of none. */
static inline double prof_percent(double part, double whole)
{
    return whole > 0 ? 100 * part / whole : 0;
}

#endif
