/* SPDX-License-Identifier: Apache-2.0 */
/* What the rank that speaks for all says about a training: a line a step, a bar on a terminal, a summary; the same as
 * JSON; and a page with pictures. On ranks that do not speak the report is zero, and all calls do nothing. */
#ifndef WEFT_BENCH_GPT_REPORT_H
#define WEFT_BENCH_GPT_REPORT_H
#include <stdio.h>

#include "gpt/comparison.h"
#include "gpt/options.h"
#include "gpt/times.h"

typedef struct gpt_report {
    const gpt_options *options;
    FILE *text, *json, *html; /* NULL: not wanted */
    double *losses;           /* of every step, for the page; NULL if there is none */
    bool bar;
    int64_t began_ns;
} gpt_report;

/* How a training begins. */
typedef struct gpt_setup {
    int ranks;
    const char *layout;
    size_t microbatches, params_total, params_local; /* local: of the rank that speaks */
    double state_bytes, padding;                     /* per padded element of all ranks' buckets; share of them */
    size_t tokens_to_train, tokens_held_out;
    const char *unit;     /* what a token is called */
    const char *products; /* who multiplies matrices */
    bool is_timed;        /* nobody does: computing is nothing but time */
} gpt_setup;

/* One step; loss and times are means over tokens and over ranks. */
typedef struct gpt_line {
    int step;
    double loss, norm, rate, tokens, tokens_per_s;
    gpt_times times;
    bool skipped, serial; /* serial: made without overlap, to compare */
} gpt_line;

/* How a number of a step is shown. */
typedef struct gpt_line_shown {
    const char *key;  /* in JSON */
    size_t field;     /* offset of the double in gpt_line */
    const char *line; /* format of it in the line for people; NULL: not there */
} gpt_line_shown;

enum { GPT_LINE_NUMBERS = 5 };
extern const gpt_line_shown gpt_line_numbers[GPT_LINE_NUMBERS];

static inline double gpt_line_number(const gpt_line *line, int index)
{
    return *(const double *)((const char *)line + gpt_line_numbers[index].field);
}

enum { GPT_LAST = 10 }; /* steps, or as many as there are, that the last loss is a mean over */

typedef struct gpt_summary {
    double loss_first, loss_last10, loss_held_out; /* the last is NaN if nothing was held out */
    gpt_times times;                               /* of a step: the mean over steps and ranks, ... */
    gpt_times slowest;                             /* ... and of the rank that computed longest */
    int slowest_rank;
    uint64_t weights_hash;
    gpt_comparison comparison;
} gpt_summary;

int gpt_report_open(gpt_report *report, const gpt_options *options, gpt_failure *failure);
void gpt_report_setup(gpt_report *report, const gpt_setup *setup);
void gpt_report_line(gpt_report *report, const gpt_line *line);
void gpt_report_summary(gpt_report *report, const gpt_setup *setup, const gpt_summary *summary);
/* What overlap made of the steps. */
void gpt_report_comparison(FILE *text, const gpt_comparison *comparison);
/* Take the bar off the terminal, before something else is said there. */
void gpt_report_wipe(const gpt_report *report);
/* Has everything been written? */
int gpt_report_close(gpt_report *report, gpt_failure *failure);

/* The page of it, for a browser. */
typedef struct gpt_page {
    const gpt_options *options;
    const gpt_setup *setup;
    const gpt_summary *summary;
    const double *losses;
    double seconds;
} gpt_page;
void gpt_html_page(FILE *html, const gpt_page *page);

/* The JSON of it. */
void gpt_json_line(FILE *json, const gpt_line *line);
void gpt_json_summary(FILE *json, const gpt_setup *setup, const gpt_summary *summary);

#endif
