/* SPDX-License-Identifier: Apache-2.0 */
/* Reports a training to people, step by step, and has its JSON and its page written beside that. */
#include "gpt/report.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "out.h"
#include "plural.h"

static double seconds_since(int64_t began_ns)
{
    return (double)(clock_ns() - began_ns) * 1e-9;
}

static FILE *open_file(const char *path, gpt_failure *failure)
{
    FILE *file = path ? out_open(path) : NULL;
    if (path && !file)
        gpt_fail(failure, EXIT_FAILED, "cannot write '%s': %s", path, strerror(errno));
    return file;
}

int gpt_report_open(gpt_report *r, const gpt_options *o, gpt_failure *failure)
{
    *r = (gpt_report){.options = o, .text = stdout, .bar = isatty(STDERR_FILENO)};
    r->json = open_file(o->json, failure);
    if (!failure->code)
        r->html = open_file(o->html, failure);
    if (r->html && !(r->losses = calloc((size_t)o->iterations, sizeof *r->losses)))
        gpt_fail(failure, EXIT_FAILED, "no memory for the losses of %d steps", o->iterations);
    if (r->json == stdout || r->html == stdout)
        r->text = stderr;
    return failure->code;
}

void gpt_report_setup(gpt_report *r, const gpt_setup *s)
{
    const gpt_options *o = r->options;
    if (!r->text)
        return;
    fprintf(r->text, "%d rank%s, layout %s; a step is %d samples of %d %ss, %zu microbatch%s of %d on each replica\n",
            s->ranks, plural(s->ranks, "s"), s->layout, o->global_batch, o->sequence, s->unit, s->microbatches,
            plural(s->microbatches, "es"), o->micro_batch);
    fprintf(r->text,
            "%zu parameters in %s, %zu of them on rank 0; state %.2f bytes per padded element, padding %.2f %%\n",
            s->params_total, o->bf16 ? "bf16" : "fp32", s->params_local, s->state_bytes, 100 * s->padding);
    fprintf(r->text, "%zu %ss to train on, %zu held out\n", s->tokens_to_train, s->unit, s->tokens_held_out);
    fprintf(r->text, "products of matrices: %s\n", s->products);
    fflush(r->text);
    r->began_ns = clock_ns();
}

/* ---- steps ---- */

void gpt_report_wipe(const gpt_report *r)
{
    if (r->bar)
        fputs("\r\033[K", stderr);
}

static void draw_bar(const gpt_report *r, int step)
{
    enum { WIDTH = 40 };
    static const char marks[] = "########################################",
                      dots[] = "........................................";
    int done = step * (WIDTH * 1LL) / r->options->iterations;
    double left_s = seconds_since(r->began_ns) / step * (r->options->iterations - step);
    if (r->bar)
        fprintf(stderr, "\r\033[K[%.*s%.*s] %d/%d, %.0f s left", done, marks, WIDTH - done, dots, step,
                r->options->iterations, left_s);
}

#define AT(member) offsetof(gpt_line, member)

const gpt_line_shown gpt_line_numbers[GPT_LINE_NUMBERS] = {
    {.key = "loss", .field = AT(loss), .line = "loss %.4f"},
    {.key = "grad_norm", .field = AT(norm), .line = "norm %-7.4g"},
    {.key = "lr", .field = AT(rate), .line = "lr %.2e"},
    {.key = "tokens", .field = AT(tokens)},
    {.key = "tokens_per_s", .field = AT(tokens_per_s), .line = "%7.0f tokens/s"},
};

static void print_number(FILE *text, const char *format, double number)
{
    if (!format || isnan(number))
        return;
    fputs("  ", text);
    fprintf(text, format, number);
}

static void print_line(const gpt_report *r, const gpt_line *l)
{
    int last = r->options->iterations, digits = snprintf(NULL, 0, "%d", last);
    fprintf(r->text, "step %*d/%d", digits, l->step, last);
    for (int i = 0; i < GPT_LINE_NUMBERS; i++)
        print_number(r->text, gpt_line_numbers[i].line, gpt_line_number(l, i));
    for (int i = 0; i < GPT_TIMES; i++)
        print_number(r->text, gpt_times_shown[i].line, l->times.ms[i]);
    fputs(l->serial ? "  without overlap" : "", r->text);
    fputs(l->skipped ? "  skipped: the gradient is not finite\n" : "\n", r->text);
    fflush(r->text);
}

void gpt_report_line(gpt_report *r, const gpt_line *line)
{
    if (!r->text)
        return;
    int step = line->step, last = r->options->iterations;
    if (r->json)
        gpt_json_line(r->json, line);
    if (r->losses)
        r->losses[step - 1] = line->loss;
    gpt_report_wipe(r);
    if (step == 1 || step == last || step % r->options->log_interval == 0)
        print_line(r, line);
    if (step < last)
        draw_bar(r, step);
}

/* ---- the end ---- */

enum { WHO = -24, COLUMN = 14 }; /* characters; the first from the left */

static void print_columns(FILE *text)
{
    fprintf(text, "%*s", WHO, "milliseconds a step");
    for (int i = 0; i < GPT_TIMES; i++)
        if (gpt_times_shown[i].column)
            fprintf(text, " %*s", COLUMN, gpt_times_shown[i].column);
    fprintf(text, " %*s\n", COLUMN, "hidden part");
}

static void print_times(FILE *text, const char *who, const gpt_times *t)
{
    double communicating = gpt_times_communicating(t);
    fprintf(text, "%*s", WHO, who);
    for (int i = 0; i < GPT_TIMES; i++)
        if (gpt_times_shown[i].column)
            fprintf(text, " %*.2f", COLUMN, t->ms[i]);
    if (communicating >= 0.005) /* more than the columns show as zero */
        fprintf(text, " %*.0f %%\n", COLUMN - 2, 100 * t->ms[GPT_TIME_HIDDEN] / communicating);
    else
        fprintf(text, " %*s\n", COLUMN, "-");
}

static void print_losses(FILE *text, const gpt_setup *setup, const gpt_summary *s, int steps)
{
    if (setup->is_timed) {
        fputs("computing was timed, and nothing was learned\n", text);
        return;
    }
    fprintf(text, "loss %.3f at first, %.3f on average over the last %d", s->loss_first, s->loss_last10,
            steps < GPT_LAST ? steps : GPT_LAST);
    if (isfinite(s->loss_held_out))
        fprintf(text, ", %.3f held out", s->loss_held_out);
    fprintf(text, " (nats a %s)\n", setup->unit);
}

void gpt_report_summary(gpt_report *r, const gpt_setup *setup, const gpt_summary *s)
{
    char who[48];
    if (!r->text)
        return;
    if (r->json)
        gpt_json_summary(r->json, setup, s);
    if (r->html)
        gpt_html_page(r->html, &(gpt_page){r->options, setup, s, r->losses, seconds_since(r->began_ns)});
    int steps = r->options->iterations;
    fprintf(r->text, "%d step%s in %.1f s; ", steps, plural(steps, "s"), seconds_since(r->began_ns));
    print_losses(r->text, setup, s, steps);
    print_columns(r->text);
    snprintf(who, sizeof who, "mean of %d rank%s", setup->ranks, plural(setup->ranks, "s"));
    print_times(r->text, who, &s->times);
    snprintf(who, sizeof who, "rank %d, computed longest", s->slowest_rank);
    if (setup->ranks > 1)
        print_times(r->text, who, &s->slowest);
    fputs(
        "computing only: no operation of weft under way; hidden: computing while some was; exposed: waiting while some "
        "was;\nidle: waiting while none was\n",
        r->text);
    if (s->comparison.steps > 0)
        gpt_report_comparison(r->text, &s->comparison);
    fprintf(r->text, "weights %016llx\n", (unsigned long long)s->weights_hash);
}

static int end_file(FILE *file, const char *name, gpt_failure *failure)
{
    return out_close(file) ? 0 : gpt_fail(failure, EXIT_FAILED, "cannot write '%s': %s", name, strerror(errno));
}

int gpt_report_close(gpt_report *r, gpt_failure *failure)
{
    int code = r->text ? end_file(r->text, r->text == stdout ? "standard output" : "standard error", failure) : 0;
    if (r->json && end_file(r->json, out_name(r->options->json), failure))
        code = failure->code;
    if (r->html && end_file(r->html, out_name(r->options->html), failure))
        code = failure->code;
    free(r->losses);
    *r = (gpt_report){0};
    return code;
}
