/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the report as a page that needs nothing else: pictures and figures, no scripts, no other files. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>

#include "gpt/report.h"
#include "legend.h"
#include "plural.h"

static const char head[] =
    "<meta charset=\"utf-8\"/>\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
    "<style>\n"
    ":root { color-scheme: light; }\n"
    "body { background: #ffffff; color: #222222; font: 16px/1.5 sans-serif; margin: 2em auto; max-width: 900px;\n"
    "  padding: 0 1em; }\n"
    "h1 { font-size: 1.5em; } h2 { font-size: 1.15em; margin: 1.6em 0 0.4em; }\n"
    "p { margin: 0.4em 0; } p.note { color: #666666; font-size: 0.85em; }\n"
    "svg { display: block; height: auto; max-width: 100%; }\n"
    "table { border-collapse: collapse; font-size: 0.95em; }\n"
    "th { font-weight: normal; text-align: left; color: #666666; padding: 0.15em 2em 0.15em 0; }\n"
    "td { font-variant-numeric: tabular-nums; }\n"
    "</style>\n";

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
        fprintf(out, "<p class=\"note\">Each point is the mean of %d steps.</p>\n", steps_a_point(&c));
}

/* ---- times ---- */

enum { BAR = 34, BAR_GAP = 14, WHO = 200, TIMES_RIGHT = 90 }; /* pixels */

static const svg_colour time_colours[GPT_TIMES] = {
    [GPT_TIME_COMPUTING_ONLY] = SVG_BLUE,
    [GPT_TIME_HIDDEN] = SVG_GREEN,
    [GPT_TIME_EXPOSED] = SVG_ORANGE,
    [GPT_TIME_IDLE] = SVG_FRAME,
};

static double sum_of(const gpt_times *t)
{
    double sum = 0;
    for (int i = 0; i < GPT_TIMES; i++)
        sum += gpt_times_shown[i].column ? t->ms[i] : 0;
    return sum;
}

static void draw_bar(FILE *out, const char *who, const gpt_times *t, double longest, double y)
{
    double x = WHO, scale = longest > 0 ? (WIDTH - WHO - TIMES_RIGHT) / longest : 0;
    char text[64];
    svg_group_open(out, "times");
    svg_text(out, 0, y + BAR / 2.0, &(svg_type){.size = LETTERS, .colour = SVG_INK}, "%s", who);
    for (int i = 0; i < GPT_TIMES; i++) {
        svg_box box = {x, y, t->ms[i] * scale, BAR};
        if (!gpt_times_shown[i].column)
            continue;
        snprintf(text, sizeof text, "%s: %.2f ms", gpt_times_shown[i].column, t->ms[i]);
        svg_rect(out, box, &(svg_style){.fill = time_colours[i]}, text);
        snprintf(text, sizeof text, "%.1f", t->ms[i]);
        if (svg_text_width(text, LETTERS) + 4 <= box.width)
            svg_text(out, x + box.width / 2, y + BAR / 2.0,
                     &(svg_type){.size = LETTERS, .colour = svg_ink_on(time_colours[i]), .anchor = SVG_MIDDLE}, "%s",
                     text);
        x += box.width;
    }
    svg_text(out, x + 8, y + BAR / 2.0, &(svg_type){.size = LETTERS, .colour = SVG_INK}, "%.1f ms", sum_of(t));
    svg_group_close(out);
}

static void put_times(FILE *out, const gpt_page *page)
{
    const gpt_summary *s = page->summary;
    double longest = fmax(sum_of(&s->times), sum_of(&s->slowest));
    int bars = page->setup->ranks > 1 ? 2 : 1;
    double legend_y = bars * (BAR + BAR_GAP) + LEGEND_LINE;
    char who[48];
    legend meaning = {0};
    for (int i = 0; i < GPT_TIMES; i++)
        if (gpt_times_shown[i].column)
            legend_add(&meaning, LEGEND_BOX, time_colours[i], gpt_times_shown[i].column);
    svg_open(out, WIDTH, legend_y + LEGEND_LINE, "the time of a step");
    snprintf(who, sizeof who, "mean of %d rank%s", page->setup->ranks, plural(page->setup->ranks, "s"));
    draw_bar(out, who, &s->times, longest, 4);
    snprintf(who, sizeof who, "rank %d, computed longest", s->slowest_rank);
    if (bars > 1)
        draw_bar(out, who, &s->slowest, longest, 4 + BAR + BAR_GAP);
    legend_draw(&meaning, out, WHO, legend_y, WIDTH - WHO);
    svg_close(out);
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
    fprintf(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n%s<title>weft gpt on %d rank%s</title>\n</head>\n", head,
            s->ranks, plural(s->ranks, "s"));
    fprintf(out, "<body>\n<h1>A GPT trained by weft on %d rank%s</h1>\n", s->ranks, plural(s->ranks, "s"));
    fprintf(out, "<p>%d step%s in %.1f s: the loss went from %.3f to %.3f nats a %s.</p>\n", steps, plural(steps, "s"),
            page->seconds, page->summary->loss_first, page->summary->loss_last10, s->unit);
    fputs("<h2>Loss</h2>\n", out);
    put_losses(out, page);
    fputs("<h2>Where the time of a step went</h2>\n", out);
    put_times(out, page);
    fputs("<p class=\"note\">Milliseconds a step. Computing only: no operation of weft under way. Hidden: computing "
          "while some was. Exposed: waiting while some was, ranks that came late included. Idle: waiting while none "
          "was.</p>\n<h2>Figures</h2>\n",
          out);
    put_figures(out, page);
    fputs("</body>\n</html>\n", out);
}
