/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the table of `weft perf`: as nccl-tests does, with what that lacks behind it, and every piece flushed. */
#include "perf/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <weft/version.h>

#include "perf/measure.h"
#include "perf/probe.h"
#include "perf/product.h"

/* ------------------------------------------------------------------------------------------- the head */

static void processor_name(char *name, size_t bytes)
{
    char line[256];
    FILE *file = fopen("/proc/cpuinfo", "r");
    snprintf(name, bytes, "CPU");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, "model name", 10) == 0 && strchr(line, ':')) {
            snprintf(name, bytes, "%s", strchr(line, ':') + 2);
            name[strcspn(name, "\n")] = 0;
            break;
        }
    if (file)
        fclose(file);
}

static void print_probe(FILE *out, double ns)
{
    if (isnan(ns))
        fprintf(out, "# Placement probe: none, ranks 0 and 1 do not run on two cores of one host\n");
    else
        fprintf(out, "# Placement probe: %.0f ns one way between the cores of ranks 0 and 1: %s\n", ns,
                ns < PERF_FAR_NS ? "near" : "far");
}

/* Two ranks that take turns on one core: their times are those of waiting for it. */
static void print_shared_core(FILE *out, const perf_who *who, int ranks)
{
    for (int i = 1; i < ranks; i++)
        for (int k = 0; k < i; k++)
            if (who[i].cpu >= 0 && who[i].cpu == who[k].cpu && strcmp(who[i].host, who[k].host) == 0) {
                fprintf(
                    out,
                    "# Ranks %d and %d ran on one core, CPU %d of %s, when this began: times are of waiting for it. "
                    "weft run gives each its own where there are enough.\n",
                    k, i, who[i].cpu, who[i].host);
                return;
            }
}

void perf_report_begin(perf_report *r, const char *name, const perf_who *who, int ranks, double probe_ns)
{
    const perf_settings *s = r->settings;
    char cpu[128];
    processor_name(cpu, sizeof cpu);
    fprintf(r->text, "# weft perf version %s\n# Collective test starting: %s\n", weft_version_string(), name);
    fprintf(r->text, "# nThread %d nGpus %d minBytes %zu maxBytes %zu step: ", s->threads, s->gpus, s->min_bytes,
            s->max_bytes);
    if (s->factor > 1)
        fprintf(r->text, "%g(factor)", s->factor);
    else
        fprintf(r->text, "%zu(bytes)", s->step_bytes);
    fprintf(r->text, " warmup iters: %d iters: %d agg iters: %d validation: %d graph: 0 unalign: %d\n", s->warmup,
            s->iterations ? s->iterations : PERF_SAMPLES_MIN, s->aggregate, s->check, s->unalign);
    fprintf(r->text, "# Buffers: %s, of %s; %s; a round: %d; time: the median sample of %s\n",
            perf_buffer_mode_name(s->buffers), s->memory == PERF_HEAP ? "weft_memory_alloc()" : "malloc",
            s->iterations ? "samples as iters says" : "samples as many as fit", s->rounds,
            (const char *const[]){"rank 0", "the mean rank", "the fastest rank", "the slowest rank"}[s->average]);
    if (s->contend)
        fprintf(r->text, "# Beside: a matrix product by %s on a thread of each rank\n", perf_product_name);
    print_probe(r->text, probe_ns);
    if (ranks == 1)
        fprintf(r->text, "# One rank: nothing is exchanged, busbw is 0 by definition. Start ranks with weft run -n N, "
                         "mpirun, torchrun, or -t N.\n");
    fprintf(r->text, "#\n# Using devices\n");
    for (int i = 0; i < ranks; i++)
        fprintf(r->text, "#  Rank %2d Group %2d Pid %6d on %10s device %2d [0000:00:00] %s\n", i, 0, who[i].pid,
                who[i].host, who[i].cpu, cpu);
    print_shared_core(r->text, who, ranks);
    fprintf(r->text, "#\n");
    if (r->csv)
        perf_report_csv_head(r->csv);
    fflush(r->text);
}

static void print_half_names(const perf_report *r)
{
    fprintf(r->text, "  %7s  %6s  %6s  %6s", "time", "algbw", "busbw", "#wrong");
    if (r->settings->per_iteration)
        fprintf(r->text, "  %7s  %7s  %7s  %7s", "i_min", "i_max", "i_p99", "i_cv%");
}

static void print_half_units(const perf_report *r)
{
    fprintf(r->text, "  %7s  %6s  %6s  %6s", "(us)", "(GB/s)", "(GB/s)", "");
    if (r->settings->per_iteration)
        fprintf(r->text, "  %7s  %7s  %7s  %7s", "(us)", "(us)", "(us)", "");
}

void perf_report_head(perf_report *r, const perf_operation *operation, int ranks)
{
    const perf_settings *s = r->settings;
    int half = s->per_iteration ? 67 : 31;
    if (s->operation_count > 1)
        fprintf(r->text, "# %s\n", operation->name);
    if (operation->power_of_two && (ranks & (ranks - 1))) {
        fprintf(r->text, "# left out: it wants a power of two, not %d ranks\n", ranks);
        return;
    }
    if (!operation->in_place)
        fprintf(r->text, "# %s is never in place: those columns are 0\n", operation->name);
    fprintf(r->text, "# %50s  %*s  %*s\n", "", half / 2 + 6, "out-of-place", half - 4, "in-place");
    fprintf(r->text, "# %10s  %12s  %8s  %6s  %6s", "size", "count", "type", "redop", "root");
    print_half_names(r);
    print_half_names(r);
    if (s->backends.count > 1)
        fprintf(r->text, "  %10s  %6s  %6s", "backend", "ratio", "ratio");
    if (s->limits)
        fprintf(r->text, "  %7s  %6s  %7s  %6s", "limit", "share%", "limit", "share%");
    if (s->contend)
        fprintf(r->text, "  %8s  %8s  %8s  %8s", "slower", "product%", "slower", "product%");
    fprintf(r->text, "%s\n# %10s  %12s  %8s  %6s  %6s", s->timestamps ? "  timestamp" : "", "(B)", "(elements)", "", "",
            "");
    print_half_units(r);
    print_half_units(r);
    fprintf(r->text, "\n");
    fflush(r->text);
}

/* ------------------------------------------------------------------------------------------- rows */

/* As exact as the width allows, as nccl-tests does it. */
static void print_number(FILE *out, int width, double number)
{
    static const char *const formats[] = {"%.2f", "%.1f", "%.0f"};
    char text[64];
    for (int i = 0; i < 3; i++) {
        snprintf(text, sizeof text, formats[i], number);
        if ((int)strlen(text) <= width) {
            fprintf(out, "  %*s", width, text);
            return;
        }
    }
    snprintf(text, sizeof text, width > 6 ? "%.1e" : "%.0e", number);
    fprintf(out, "  %*s", width, text);
}

static void print_or_none(FILE *out, int width, double number)
{
    if (isnan(number))
        fprintf(out, "  %*s", width, "N/A");
    else
        print_number(out, width, number);
}

void perf_report_row(perf_report *r, const perf_row *row)
{
    const perf_subject *s = row->subject;
    const perf_operation *o = s->operation;
    bool rooted = o->senders == PERF_ROOT || o->receivers == PERF_ROOT;
    fprintf(r->text, "%12zu  %12zu  %8s  %6s  %6d", perf_size_of(s), s->count, perf_dtype_name(s->dtype),
            o->reduces ? perf_reduction_name(s->reduction) : "none", rooted ? s->root : -1);
    fflush(r->text);
}

void perf_report_half(perf_report *r, const perf_row *row, int in_place)
{
    const perf_half *h = &row->half[in_place];
    print_or_none(r->text, 7, h->us.median);
    print_or_none(r->text, 6, h->algbw);
    print_or_none(r->text, 6, h->busbw);
    if (isnan(h->wrong))
        fprintf(r->text, "  %6s", "N/A");
    else
        fprintf(r->text, "  %6.0f", h->wrong);
    if (r->settings->per_iteration) {
        print_or_none(r->text, 7, h->us.min);
        print_or_none(r->text, 7, h->us.max);
        print_or_none(r->text, 7, h->us.p99);
        print_number(r->text, 7, 100 * h->us.variation);
    }
    fflush(r->text);
    if (!h->measured)
        return;
    r->busbw[in_place] += h->busbw;
    r->halves[in_place]++;
    r->checked |= !isnan(h->wrong);
    r->wrong += isnan(h->wrong) ? 0 : (size_t)h->wrong;
    if (r->json) {
        perf_report_json(r->json, row, in_place);
        fflush(r->json);
    }
    if (r->csv) {
        perf_report_csv(r->csv, row, in_place);
        fflush(r->csv);
    }
}

void perf_report_row_end(perf_report *r, const perf_row *row)
{
    const perf_settings *s = r->settings;
    if (s->backends.count > 1) {
        fprintf(r->text, "  %10s", row->backend);
        for (int i = 0; i < 2; i++)
            print_or_none(r->text, 6, row->half[i].ratio);
    }
    for (int i = 0; s->limits && i < 2; i++) {
        print_or_none(r->text, 7, row->half[i].limit_us);
        print_or_none(r->text, 6, 100 * row->half[i].limit_us / row->half[i].us.median);
    }
    for (int i = 0; s->contend && i < 2; i++) {
        print_or_none(r->text, 8, row->half[i].contended_us / row->half[i].us.median);
        print_or_none(r->text, 8, 100 * row->half[i].product_left);
    }
    if (s->timestamps) {
        char text[32];
        time_t now = time(NULL);
        struct tm local;
        strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", localtime_r(&now, &local));
        fprintf(r->text, "  %21s", text);
    }
    fprintf(r->text, "\n");
    fflush(r->text);
}

/* ------------------------------------------------------------------------------------------- the end */

static void print_mean(const perf_report *r, const char *what, double sum, size_t count, const char *end)
{
    if (r->settings->limits_only && !count)
        fprintf(r->text, "# %-20s : N/A%s\n", what, end);
    else
        fprintf(r->text, "# %-20s : %g%s\n", what, count ? sum / (double)count : 0, end);
}

void perf_report_end(perf_report *r, const char *name)
{
    fprintf(r->text, "# Out of bounds values : %zu %s\n", r->wrong,
            r->wrong     ? "FAILED"
            : r->checked ? "OK"
                         : "unchecked");
    print_mean(r, "Avg bus bandwidth", r->busbw[0] + r->busbw[1], r->halves[0] + r->halves[1], " ");
    print_mean(r, "Avg out of place", r->busbw[0], r->halves[0], "");
    print_mean(r, "Avg in place", r->busbw[1], r->halves[1], "");
    fprintf(r->text, "#\n# Collective test concluded: %s\n\n", name);
    fflush(r->text);
}
