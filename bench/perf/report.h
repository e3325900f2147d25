/* SPDX-License-Identifier: Apache-2.0 */
/* What is told of a run: the table of nccl-tests, lines of JSON, and CSV. */
#ifndef WEFT_BENCH_PERF_REPORT_H
#define WEFT_BENCH_PERF_REPORT_H
#include <stdio.h>

#include "perf/settings.h"
#include "perf/statistics.h"

/* One half of a row, out of place or in place. NAN: not measured, or without meaning. */
typedef struct perf_half {
    bool measured; /* false: there is no such way */
    perf_statistics us;
    size_t samples, calls;
    double algbw, busbw;
    double wrong; /* elements, over all ranks */
    double ratio; /* to the first backend */
    double limit_us;
    double contended_us; /* median beside a matrix product, */
    double product_left; /* and the part of that product's rate that was left */
    double probe_ns;     /* before this half */
} perf_half;

typedef struct perf_row {
    const perf_subject *subject;
    const char *backend;
    perf_half half[2]; /* out of place, in place */
} perf_row;

/* Who takes part. */
typedef struct perf_who {
    int pid, cpu;
    char host[24];
} perf_who;

typedef struct perf_report {
    const perf_settings *settings;
    FILE *text, *json, *csv; /* the last two may be NULL */
    size_t wrong;            /* so far */
    double busbw[2];         /* sums, */
    size_t halves[2];        /* and of how many */
    bool checked;
} perf_report;

void perf_report_begin(perf_report *r, const char *name, const perf_who *who, int ranks, double probe_ns);
/* The table's head, for one operation. */
void perf_report_head(perf_report *r, const perf_operation *operation, int ranks);
/* A row in pieces, so that what hangs can be seen: its size, then each half. */
void perf_report_row(perf_report *r, const perf_row *row);
void perf_report_half(perf_report *r, const perf_row *row, int in_place);
void perf_report_row_end(perf_report *r, const perf_row *row);
void perf_report_end(perf_report *r, const char *name);

/* One half as a line of JSON, and of CSV. */
void perf_report_json(FILE *out, const perf_row *row, int in_place);
void perf_report_csv(FILE *out, const perf_row *row, int in_place);
void perf_report_csv_head(FILE *out);

#endif
