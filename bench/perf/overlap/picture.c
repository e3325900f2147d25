/* SPDX-License-Identifier: Apache-2.0 */
/* Draws a sweep: over the size of a bucket, what is exposed of each phase, and the least that can be. */
#include <math.h>

#include "legend.h"
#include "perf/overlap/report.h"
#include "svg.h"

enum { WIDTH = 720, HEIGHT = 300, LEFT = 70, RIGHT = 24, LETTERS = SVG_SMALL, BELOW = 90, CURVES = 4 }; /* pixels */

typedef struct chart {
    FILE *out;
    const overlap_figures *figures; /* [row][phase] */
    int rows;
    double low, high;  /* log2 of bytes of a bucket */
    double most, tick; /* ms */
} chart;

/* In the order in which they are drawn: the least below what was measured. */
static const struct {
    const char *name;
    int phase;
    bool least;
    svg_colour colour;
} curves[CURVES] = {
    {"reduce-scatter, at least", 0, true, SVG_SKY},
    {"all-gather, at least", 1, true, SVG_ORANGE},
    {"reduce-scatter, exposed", 0, false, SVG_BLUE},
    {"all-gather, exposed", 1, false, SVG_VERMILION},
};

static const overlap_figures *figures_at(const chart *c, int row, int phase)
{
    return &c->figures[row * OVERLAP_PHASES + phase];
}

static double size_at(const chart *c, int row)
{
    const overlap_figures *f = figures_at(c, row, 0);
    return log2((double)f->bytes / (double)f->buckets);
}

static double value_at(const chart *c, int row, int curve)
{
    const overlap_figures *f = figures_at(c, row, curves[curve].phase);
    return curves[curve].least ? f->closed : fmax(f->exposed_clock, 0);
}

static double x_of(const chart *c, double size)
{
    return LEFT + 16 + (size - c->low) / (c->high - c->low) * (WIDTH - LEFT - RIGHT - 32);
}

static double y_of(const chart *c, double ms)
{
    return SVG_BELOW_HEADING + HEIGHT * (1 - ms / c->most);
}

static void find_scale(chart *c)
{
    c->low = c->high = size_at(c, 0);
    for (int row = 0; row < c->rows; row++) {
        c->low = fmin(c->low, size_at(c, row));
        c->high = fmax(c->high, size_at(c, row));
        for (int k = 0; k < CURVES; k++)
            c->most = fmax(c->most, value_at(c, row, k));
    }
    c->high += c->high - c->low < 1 ? 1 : 0;
    c->tick = svg_tick_step(fmax(c->most / 6, 1e-3));
    c->most = fmax(ceil(c->most / c->tick), 1) * c->tick;
}

static void draw_axes(const chart *c)
{
    static const char *const units[] = {"", " Ki", " Mi", " Gi", " Ti"};
    svg_type type = {.size = LETTERS, .colour = SVG_MUTED, .anchor = SVG_END};
    double bottom = y_of(c, 0);
    for (double ms = 0; ms < c->most + c->tick / 2; ms += c->tick) {
        svg_line(c->out, LEFT, y_of(c, ms), WIDTH - RIGHT, y_of(c, ms), ms > 0 ? SVG_SHADE : SVG_MUTED, 1);
        svg_text(c->out, LEFT - 8, y_of(c, ms), &type, "%g", ms);
    }
    type.anchor = SVG_MIDDLE;
    for (double size = ceil(c->low - 0.01), step = fmax(1, ceil((c->high - c->low) / 10)); size < c->high + 0.01;
         size += step) {
        int unit = (int)size / 10 < 4 ? (int)size / 10 : 4;
        svg_line(c->out, x_of(c, size), bottom, x_of(c, size), bottom + 4, SVG_MUTED, 1);
        svg_text(c->out, x_of(c, size), bottom + 15, &type, "%g%sB", exp2(size - 10 * unit), units[unit]);
    }
    svg_text(c->out, (LEFT + WIDTH - RIGHT) / 2.0, bottom + 34, &type, "bytes of a bucket; milliseconds of a phase");
}

static void draw_curve(const chart *c, int curve)
{
    enum { DOT = 6 };
    svg_style style = {.fill = curves[curve].colour, .radius = DOT / 2.0};
    double points[4];
    char tip[160];
    svg_group_open(c->out, "curve");
    for (int row = 0; row < c->rows; row++) {
        points[2 * (row % 2)] = x_of(c, size_at(c, row));
        points[2 * (row % 2) + 1] = y_of(c, value_at(c, row, curve));
        if (row > 0)
            svg_line(c->out, points[0], points[1], points[2], points[3], style.fill, curves[curve].least ? 1.2 : 2);
    }
    for (int row = 0; row < c->rows && !curves[curve].least; row++) {
        const overlap_figures *f = figures_at(c, row, curves[curve].phase);
        snprintf(tip, sizeof tip, "%zu buckets of %zu bytes: %.2f ms of %.2f ms exposed, at least %.2f ms", f->buckets,
                 f->bytes / f->buckets, f->exposed_clock, f->communicating, f->closed);
        svg_rect(
            c->out,
            (svg_box){x_of(c, size_at(c, row)) - DOT / 2.0, y_of(c, value_at(c, row, curve)) - DOT / 2.0, DOT, DOT},
            &style, tip);
    }
    svg_group_close(c->out);
}

void overlap_report_picture(FILE *out, const overlap_setup *setup, const overlap_figures *figures, int rows)
{
    chart c = {.out = out, .figures = figures, .rows = rows};
    legend meaning = {0};
    char about[256];
    find_scale(&c);
    snprintf(about, sizeof about,
             "%d ranks on %d host%s by %s; %.6g MiB of gradients; %.4g ms of computing a phase (%s)", setup->ranks,
             setup->hosts, setup->hosts == 1 ? "" : "s", setup->backend, (double)figures->bytes / (1 << 20),
             figures->computing, overlap_compute_name(setup->options->kernel));
    svg_open(out, WIDTH, SVG_BELOW_HEADING + HEIGHT + BELOW, "communication left exposed");
    svg_heading(out, "What is left exposed, by the size of buckets", about);
    draw_axes(&c);
    for (int k = 0; k < CURVES; k++)
        draw_curve(&c, k);
    for (int k = CURVES; k-- > 0;)
        legend_add(&meaning, LEGEND_BOX, curves[k].colour, curves[k].name);
    legend_draw(&meaning, out, LEFT, SVG_BELOW_HEADING + HEIGHT + BELOW - 36, WIDTH - LEFT - RIGHT);
    svg_close(out);
}
