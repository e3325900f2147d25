/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the report as a page that needs nothing else: pictures and figures, no scripts, no other files. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>

#include "bars.h"
#include "gpt/report.h"
#include "page.h"
#include "plural.h"

/* ---- the loss ---- */

enum { WIDTH = 860, LOSS_HEIGHT = 330, LEFT = 62, RIGHT = 116, TOP = 16, BOTTOM = 50, LETTERS = 12 }; /* pixels */
enum { POINTS_MOST = WIDTH };

typedef struct chart {
    FILE *out;
    const gpt_page *page;
    int steps;
    double low, high, tick; /* losses */
} chart;

static double at_step(const chart *c, double step)
{
    double span = c->steps > 1 ? c->steps - 1 : 1;
    return LEFT + (step - 1) / span * (WIDTH - LEFT - RIGHT);
}

static double at_loss(const chart *c, double loss)
{
    return TOP + (c->high - loss) / (c->high - c->low) * (LOSS_HEIGHT - TOP - BOTTOM);
}

static void take(double loss, double *low, double *high)
{
    if (isfinite(loss)) {
        *low = fmin(*low, loss);
        *high = fmax(*high, loss);
    }
}

/* From tick to tick, all losses between them. */
static void find_scale(chart *c)
{
    double low = INFINITY, high = -INFINITY;
    for (int i = 0; i < c->steps; i++)
        take(c->page->losses[i], &low, &high);
    take(c->page->summary->loss_held_out, &low, &high);
    if (low > high)
        low = 0, high = 1;
    c->tick = svg_tick_step(fmax((high - low) / 6, fmax(fabs(high), 1) * 1e-4));
    c->low = floor(low / c->tick) * c->tick;
    c->high = ceil(high / c->tick) * c->tick;
    c->high += c->high <= c->low ? c->tick : 0;
}

static void draw_axes(const chart *c)
{
    svg_type type = {.size = LETTERS, .colour = SVG_MUTED, .anchor = SVG_END};
    int decimals = c->tick < 1 ? (int)ceil(-log10(c->tick) - 1e-9) : 0;
    double bottom = LOSS_HEIGHT - BOTTOM;
    for (int i = 0; c->low + i * c->tick < c->high + c->tick / 2; i++) {
        double loss = c->low + i * c->tick, y = at_loss(c, loss);
        svg_line(c->out, LEFT, y, WIDTH - RIGHT, y, SVG_SHADE, 1);
        svg_text(c->out, LEFT - 8, y, &type, "%.*f", decimals, loss);
    }
    svg_line(c->out, LEFT, bottom, WIDTH - RIGHT, bottom, SVG_MUTED, 1);
    type.anchor = SVG_MIDDLE;
    double step = svg_tick_step(fmax(c->steps / 10.0, 1));
    for (double at = step; at <= c->steps; at += step) {
        svg_line(c->out, at_step(c, at), bottom, at_step(c, at), bottom + 4, SVG_MUTED, 1);
        svg_text(c->out, at_step(c, at), bottom + 15, &type, "%.0f", at);
    }
    type.anchor = SVG_START;
    svg_text(c->out, LEFT, bottom + 36, &type, "step; the loss is in nats a %s", c->page->setup->unit);
}

/* No more points than pixels: then each is the mean of several steps. */
static int steps_a_point(const chart *c)
{
    return (c->steps + POINTS_MOST - 1) / POINTS_MOST;
}

static void draw_losses(const chart *c)
{
    double points[2 * POINTS_MOST];
    size_t count = 0;
    int each = steps_a_point(c);
    for (int first = 0; first < c->steps; first += each, count++) {
        int last = first + each < c->steps ? first + each : c->steps;
        double sum = 0;
        for (int i = first; i < last; i++)
            sum += c->page->losses[i];
        points[2 * count] = at_step(c, (first + 1 + last) / 2.0);
        points[2 * count + 1] = at_loss(c, sum / (last - first));
    }
    svg_group_open(c->out, "losses");
    svg_curve(c->out, points, count, SVG_BLUE, 1.8);
    svg_group_close(c->out);
}

static void draw_held_out(const chart *c)
{
    double loss = c->page->summary->loss_held_out, y = at_loss(c, loss);
    if (!isfinite(loss))
        return;
    svg_line(c->out, LEFT, y, WIDTH - RIGHT, y, SVG_VERMILION, 1);
    svg_text(c->out, WIDTH - RIGHT + 8, y, &(svg_type){.size = LETTERS, .colour = SVG_VERMILION}, "%.3f held out",
             loss);
}

static void put_losses(FILE *out, const gpt_page *page)
{
    chart c = {.out = out, .page = page, .steps = page->options->iterations};
    find_scale(&c);
    svg_open(out, WIDTH, LOSS_HEIGHT, "the loss of each step");
    draw_axes(&c);
    draw_held_out(&c);
    draw_losses(&c);
    svg_close(out);
    if (steps_a_point(&c) > 1)
        page_text(out, "p class=\"note\"", "Each point is the mean of %d steps.", steps_a_point(&c));
}

/* ---- times ---- */

static bars_row row_of(const gpt_times *t)
{
    return (bars_row){
        .ms = {t->ms[GPT_TIME_COMPUTING_ONLY], t->ms[GPT_TIME_HIDDEN], t->ms[GPT_TIME_EXPOSED], t->ms[GPT_TIME_IDLE]}};
}

static void put_times(FILE *out, const gpt_page *page)
{
    const gpt_summary *s = page->summary;
    int ranks = page->setup->ranks;
    bars_row rows[] = {row_of(&s->times), row_of(&s->slowest)};
    snprintf(rows[0].who, sizeof rows[0].who, "mean of %d rank%s", ranks, plural(ranks, "s"));
    snprintf(rows[1].who, sizeof rows[1].who, "rank %d, computed longest", s->slowest_rank);
    bars_draw(out, &(bars){.title = "the time of a step",
                           .parts = bars_step,
                           .part_count = BARS_STEP,
                           .rows = rows,
                           .row_count = ranks > 1 ? 2 : 1,
                           .width = WIDTH,
                           .bar = 34,
                           .gap = 14,
                           .who = 200});
}

/* ---- figures ---- */

static void put_figure(FILE *out, const char *name, const char *format, ...) __attribute__((format(printf, 3, 4)));

static void put_figure(FILE *out, const char *name, const char *format, ...)
{
    char text[160];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fputs("<tr><th>", out);
    svg_escape(out, name);
    fputs("</th><td>", out);
    svg_escape(out, text);
    fputs("</td></tr>\n", out);
}

static void put_figures(FILE *out, const gpt_page *page)
{
    const gpt_options *o = page->options;
    const gpt_setup *s = page->setup;
    const gpt_summary *sum = page->summary;
    double communicating = gpt_times_communicating(&sum->times);
    fputs("<table>\n", out);
    put_figure(out, "layout", "%s: tensor %d \u00d7 pipeline %d \u00d7 data %d", s->layout, o->tensor, o->pipeline,
               s->ranks / o->tensor / o->pipeline);
    put_figure(out, "model", "%zu parameters in %s: %d layers, %d wide, %d heads; %zu on rank 0", s->params_total,
               o->bf16 ? "bf16" : "fp32", o->layers, o->hidden, o->heads, s->params_local);
    put_figure(out, "memory", "%.2f bytes an element for values, gradients and optimizer; %.2f %% padding",
               s->state_bytes, 100 * s->padding);
    put_figure(out, "batch", "%d samples of %d %ss; %zu microbatch%s of %d on each replica", o->global_batch,
               o->sequence, s->unit, s->microbatches, plural(s->microbatches, "es"), o->micro_batch);
    put_figure(out, "data", "%zu %ss to train on, %zu held out", s->tokens_to_train, s->unit, s->tokens_held_out);
    put_figure(out, "loss", "%.4f at first, %.4f on average over the last %d", sum->loss_first, sum->loss_last10,
               o->iterations < GPT_LAST ? o->iterations : GPT_LAST);
    if (isfinite(sum->loss_held_out))
        put_figure(out, "held out", "%.4f", sum->loss_held_out);
    if (communicating > 0)
        put_figure(out, "hidden", "%.0f %% of the %.1f ms in which operations are under way",
                   100 * sum->times.ms[GPT_TIME_HIDDEN] / communicating, communicating);
    put_figure(out, "speed", "%.0f %ss/s", (double)o->iterations * o->global_batch * o->sequence / page->seconds,
               s->unit);
    put_figure(out, "weights", "%016" PRIx64, sum->weights_hash);
    fputs("</table>\n", out);
}

/* ---- the page ---- */

void gpt_html_page(FILE *out, const gpt_page *page)
{
    const gpt_setup *s = page->setup;
    int steps = page->options->iterations;
    char title[64], heading[64];
    snprintf(title, sizeof title, "weft gpt on %d rank%s", s->ranks, plural(s->ranks, "s"));
    snprintf(heading, sizeof heading, "A GPT trained by weft on %d rank%s", s->ranks, plural(s->ranks, "s"));
    page_open(out, &(page_head){.title = title, .heading = heading, .width = WIDTH + 40});
    page_text(out, "p", "%d step%s in %.1f s: the loss went from %.3f to %.3f nats a %s.", steps, plural(steps, "s"),
              page->seconds, page->summary->loss_first, page->summary->loss_last10, s->unit);
    page_text(out, "h2", "Loss");
    put_losses(out, page);
    page_text(out, "h2", "Where the time of a step went");
    put_times(out, page);
    page_text(out, "p class=\"note\"",
              "Milliseconds a step. Computing only: no operation of weft under way. Hidden: computing while some was. "
              "Exposed: waiting while some was, ranks that came late included. Idle: waiting while none was.");
    page_text(out, "h2", "Figures");
    put_figures(out, page);
    page_close(out);
}
