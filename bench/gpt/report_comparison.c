/* SPDX-License-Identifier: Apache-2.0 */
/* Says what overlap made of the steps: by the stop-watch, by intervals, and against a perfect overlap. */
#include <math.h>

#include "gpt/report.h"

#define POINTS 0.05 /* by so much two figures of what was hidden may differ without a word */

static double computing(const gpt_times *t)
{
    return t->ms[GPT_TIME_COMPUTING_ONLY] + t->ms[GPT_TIME_HIDDEN];
}

/* The stop-watch counts what a step lost otherwise; intervals count how long operations were under way, however slowly
 * they went. What differs is one of these. */
static void explain(FILE *text, const gpt_comparison *c)
{
    double longer = computing(&c->overlapped) - computing(&c->serial);
    double idle = c->overlapped.ms[GPT_TIME_IDLE] - c->serial.ms[GPT_TIME_IDLE];
    double under_way = gpt_times_communicating(&c->overlapped);
    double serial = gpt_times_communicating(&c->serial);
    fprintf(text,
            "they differ by more than %.0f points: computing took %+.1f ms beside operations, which use cores and "
            "memory too;\noperations were under way for %.1f ms with overlap, %.1f without, %.1f alone: they wait for "
            "ranks that compute;\n%.1f ms of them were hidden without overlap too; %+.1f ms were idle\n",
            100 * POINTS, longer, under_way, serial, c->talk_ms, c->serial.ms[GPT_TIME_HIDDEN], idle);
}

static void print_times(FILE *text, const char *who, const gpt_times *t)
{
    fprintf(text, "  %-22s %9.2f", who, t->ms[GPT_TIME_STEP]);
    for (int i = 0; i < GPT_TIMES; i++)
        if (i != GPT_TIME_STEP)
            fprintf(text, " %14.2f", t->ms[i]);
    fputs("\n", text);
}

static void print_interval(FILE *text, double error_ms)
{
    if (isfinite(error_ms))
        fprintf(text, " +- %.2f ms", error_ms);
    else
        fputs(" ms (interval n/a)", text);
}

static void print_phases(FILE *text, const gpt_comparison *c)
{
    const gpt_phases *p = &c->phases;
    double perfect = gpt_comparison_perfect(c);
    fprintf(text, "  %-22s %9s %14s %14s\n", "of the buckets", "alone", "must expose", "exposed");
    fprintf(text, "  %-22s %9.2f %14.2f %14.2f\n", "reductions", p->reduces_alone, p->reduces, p->reduces_exposed);
    fprintf(text, "  %-22s %9.2f %14.2f %14.2f\n", "gathers", p->gathers_alone, p->gathers, p->gathers_exposed);
    fprintf(text,
            "stop-watch: forward %.2f + backward %.2f + optimizer %.2f + what must be exposed %.2f + %.2f = %.2f ms; "
            "the step took %.3f of it: exposed %.2f",
            p->forward, p->backward, p->optimizer, p->reduces, p->gathers, perfect, gpt_comparison_took(c) / perfect,
            c->exposed_ms);
    print_interval(text, c->exposed_error_ms);
    fputs("\n", text);
}

/* What keeps the figure from being one. */
static void print_doubt(FILE *text, const gpt_comparison *c)
{
    if (!isfinite(c->saved_error_ms))
        fputs("an interval takes 6 pairs of blocks, that is 36 steps or more\n", text);
    else if (fabs(c->saved_ms) <= c->saved_error_ms)
        fputs("the interval holds 0: that overlap saves or costs anything was not shown; take more steps\n", text);
}

void gpt_report_comparison(FILE *text, const gpt_comparison *c)
{
    double eta = gpt_comparison_eta(c), hidden = gpt_comparison_hidden(c);
    fprintf(text, "overlap compared, ms of a step: %.0f steps of each kind and %.0f times the communication alone\n",
            c->steps, c->talks);
    fprintf(text, "  %-22s %9s", "", "step");
    for (int i = 0; i < GPT_TIMES; i++)
        if (gpt_times_shown[i].column)
            fprintf(text, " %14s", gpt_times_shown[i].column);
    fputs("\n", text);
    print_times(text, "with overlap", &c->overlapped);
    print_times(text, "without", &c->serial);
    fprintf(text, "  %-22s %9.2f\n", "communication alone", c->talk_ms);
    if (c->phases.forward > 0)
        print_phases(text, c);
    if (!isfinite(eta)) {
        fputs("there is no communication that overlap could hide\n", text);
        return;
    }
    fprintf(text, "saved %.2f", c->saved_ms);
    print_interval(text, c->saved_error_ms);
    fprintf(text, ": eta %.3f of the communication alone; by intervals %.3f was hidden\n", eta, hidden);
    print_doubt(text, c);
    if (fabs(eta - hidden) > POINTS)
        explain(text, c);
}
