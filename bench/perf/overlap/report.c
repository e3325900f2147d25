/* SPDX-License-Identifier: Apache-2.0 */
/* Prints figures as text and as JSON, from one list of them. */
#include "perf/overlap/report.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>

#include "json.h"
#include "plural.h"

#define FIELD(name) offsetof(overlap_figures, name)
/* A figure: its key in JSON, and its line in the text; NULL: not there. */
static const struct {
    const char *key;
    size_t field;
    const char *text;
    bool is_share;
} list[] = {
    {"compute_ms", FIELD(computing), "computing alone", false},
    {"comm_ms", FIELD(communicating), "communication alone, T_c", false},
    {"largest_ms", FIELD(largest), "its longest operation", false},
    {"both_ms", FIELD(both), "both together", false},
    {"serial_ms", FIELD(serial), "one after the other", false},
    {"exposed_clock_ms", FIELD(exposed_clock), "exposed, stop-watch", false},
    {"exposed_error_ms", FIELD(exposed_error), "  +-", false},
    {"exposed_trace_ms", FIELD(exposed_trace), "exposed, trace", false},
    {"skew_ms", FIELD(skew), "  of it for ranks to come", false},
    {"transfer_ms", FIELD(transfer), "exposed, transfer", false},
    {"longer_ms", FIELD(longer), "  computing took longer by", false},
    {"calls_ms", FIELD(calls), "  in calls, not waiting", false},
    {"idle_ms", FIELD(idle), "  waiting, nothing under way", false},
    {"others_ms", FIELD(others), "  other ranks", false},
    {"closed_ms", FIELD(closed), "exposed, at least", false},
    {"closed_even_ms", FIELD(closed_even), "exposed, at least, if even", false},
    {"hidden_trace", FIELD(hidden_trace), "hidden, trace", true},
    {"hidden_transfer", FIELD(hidden_transfer), "hidden, transfer", true},
    {"hidden_clock", FIELD(hidden_clock), "hidden, stop-watch", true},
    {"eta", FIELD(eta), "eta", true},
    {"cpu_alone_ms", FIELD(cpu_alone), "processor time, T_c alone", false},
    {"cpu_both_ms", FIELD(cpu_both), "processor time, beside", false},
    {"system_alone_ms", FIELD(system_alone), NULL, false},
    {"system_both_ms", FIELD(system_both), "  of it the kernel's", false},
    {"engine_both_ms", FIELD(engine_both), "  of it weft's own thread's", false},
    {"softirq_both_ms", FIELD(softirq_both), "softirq of the host", false},
};
enum { LIST = sizeof list / sizeof *list };

static double number(const overlap_figures *f, size_t index)
{
    return *(const double *)((const char *)f + list[index].field);
}

/* ------------------------------------------------------------------------------------------- text */

void overlap_report_begin(FILE *out, const overlap_setup *setup)
{
    const overlap_options *o = setup->options;
    fprintf(out, "# weft perf overlap: %d ranks on %d host%s by %s, %.6g MiB of gradients, computing: %s\n",
            setup->ranks, setup->hosts, plural(setup->hosts, "s"), setup->backend,
            (double)overlap_shape_total(&o->shape) / (1 << 20), overlap_compute_name(o->kernel));
    fflush(out);
}

static void print_number(FILE *out, double value, bool is_share)
{
    if (!isfinite(value))
        fprintf(out, "  %16s", "n/a");
    else if (is_share)
        fprintf(out, "  %14.1f %%", 100 * value);
    else
        fprintf(out, "  %16.3f", value);
}

/* Where the two figures are apart, why. */
static void print_whys(FILE *out, const overlap_figures *figures, int phases)
{
    char why[1024];
    for (int p = 0; p < phases; p++)
        if (overlap_figures_why(&figures[p], why, sizeof why))
            fprintf(out, "# %s: %s\n", figures[p].phase, why);
}

void overlap_report_columns(FILE *out, const overlap_figures *figures, int phases)
{
    fprintf(out, "# %zu operation%s a phase, %d rounds\n%-34s", figures[0].buckets,
            plural((long)figures[0].buckets, "s"), figures[0].rounds, "");
    for (int p = 0; p < phases; p++)
        fprintf(out, "  %16s", figures[p].operation);
    fprintf(out, "\n%-34s", "");
    for (int p = 0; p < phases; p++)
        fprintf(out, "  %16s", figures[p].phase);
    fprintf(out, "\n");
    for (size_t i = 0; i < LIST; i++) {
        if (!list[i].text)
            continue;
        fprintf(out, "%-30s %3s", list[i].text, list[i].is_share ? "" : "ms");
        for (int p = 0; p < phases; p++)
            print_number(out, number(&figures[p], i), list[i].is_share);
        fprintf(out, "\n");
    }
    print_whys(out, figures, phases);
    fflush(out);
}

/* Of a phase in a sweep. */
static const struct {
    const char *name, *unit;
    size_t field;
    bool is_share;
} columns[] = {
    {"T", "ms", FIELD(computing), false},
    {"T_c", "ms", FIELD(communicating), false},
    {"exposed", "ms clock", FIELD(exposed_clock), false},
    {"least", "ms", FIELD(closed), false},
    {"hidden", "% trace", FIELD(hidden_trace), true},
    {"hidden", "% clock", FIELD(hidden_clock), true},
};
enum { COLUMNS = sizeof columns / sizeof *columns };

void overlap_report_head(FILE *out)
{
    static const char *const phases[OVERLAP_PHASES] = {"backward: reduce_scatter", "forward: all_gather"};
    fprintf(out, "%12s  %7s", "", "");
    for (int p = 0; p < OVERLAP_PHASES; p++)
        fprintf(out, "  %-*s", 10 * COLUMNS - 2, phases[p]);
    fprintf(out, "\n%12s  %7s", "bucket", "buckets");
    for (int i = 0; i < OVERLAP_PHASES * COLUMNS; i++)
        fprintf(out, "  %8s", columns[i % COLUMNS].name);
    fprintf(out, "\n%12s  %7s", "bytes", "");
    for (int i = 0; i < OVERLAP_PHASES * COLUMNS; i++)
        fprintf(out, "  %8s", columns[i % COLUMNS].unit);
    fprintf(out, "\n");
    fflush(out);
}

static void print_column(FILE *out, const overlap_figures *f, int column)
{
    double value = *(const double *)((const char *)f + columns[column].field);
    if (!isfinite(value))
        fprintf(out, "  %8s", "n/a");
    else if (columns[column].is_share)
        fprintf(out, "  %8.1f", 100 * value);
    else
        fprintf(out, "  %8.2f", value);
}

void overlap_report_line(FILE *out, const overlap_figures *figures)
{
    fprintf(out, "%12zu  %7zu", figures->bytes / figures->buckets, figures->buckets);
    for (int p = 0; p < OVERLAP_PHASES; p++)
        for (int i = 0; i < COLUMNS; i++)
            print_column(out, &figures[p], i);
    fprintf(out, "\n");
    fflush(out);
}

/* ------------------------------------------------------------------------------------------- JSON */

void overlap_report_json(FILE *out, const overlap_setup *setup, const overlap_figures *figures, int phases)
{
    char why[1024];
    for (int p = 0; p < phases; p++) {
        const overlap_figures *f = &figures[p];
        json_writer json = {.out = out};
        json_open(&json, NULL, '{');
        json_put_text(&json, "phase", f->phase);
        json_put_text(&json, "op", f->operation);
        json_put_text(&json, "backend", setup->backend);
        json_put_text(&json, "compute", overlap_compute_name(setup->options->kernel));
        json_put_whole(&json, "ranks", setup->ranks);
        json_put_whole(&json, "hosts", setup->hosts);
        json_put_whole(&json, "bytes", (int64_t)f->bytes);
        json_put_whole(&json, "buckets", (int64_t)f->buckets);
        json_put_whole(&json, "rounds", f->rounds);
        for (size_t i = 0; i < LIST; i++)
            json_put_number(&json, list[i].key, number(f, i));
        if (overlap_figures_why(f, why, sizeof why))
            json_put_text(&json, "why", why);
        else
            json_put_null(&json, "why");
        json_close(&json, '}');
        json_end_line(&json);
    }
    fflush(out); /* for who reads along */
}
