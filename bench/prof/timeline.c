/* SPDX-License-Identifier: Apache-2.0 */
/* Draws the timeline of a step. What depends on time stands in parts of the picture that have one scale: a script may
 * show less of it, larger. */
#include "prof/timeline.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bars.h"
#include "legend.h"
#include "plural.h"
#include "prof/boxes.h"
#include "prof/timeline_text.h"

enum { LEFT = 84, RIGHT = 6, PLOT = TIMELINE_WIDTH - LEFT - RIGHT, TOP = 24 }; /* pixels */

/* How large rows are: the more ranks, the smaller. */
typedef struct scale {
    int ranks_most;
    double band, lane, gap, letters; /* letters 0: labels have no room */
    int lanes_most;
} scale;

static const scale scales[] = {
    {4, 16, 15, 16, 10, 6},
    {16, 12, 11, 10, 8.5, 4},
    {64, 8, 6, 6, 0, 3},
    {INT32_MAX, 5, 4, 4, 0, 2},
};

static const svg_colour look_colours[BOXES_LOOKS] = {
    [BOXES_REDUCE] = SVG_PURPLE, [BOXES_GATHER] = SVG_SKY, [BOXES_MESSAGE] = SVG_YELLOW, [BOXES_OTHER] = 0xd0c8a8};

enum { SPAN = SVG_PAPER }; /* no colour: a frame around its name */

typedef struct drawing {
    FILE *out;
    timeline *t;
    const prof_run *run;
    const scale *scale;
    prof_window window; /* that all ranks' steps lie in */
    timeline_row *rows;
    double height; /* of the rows and the axis */
} drawing;

static double at(const drawing *d, int64_t time)
{
    return (double)(time - d->window.begin) / (double)(d->window.end - d->window.begin) * PLOT;
}

static double ms_at(const drawing *d, int64_t time)
{
    return (double)(time - d->window.begin) / 1e6;
}

/* ---- what lies where ---- */

static double row_height(const drawing *d, const timeline_row *row)
{
    return d->scale->band + (row->spans.lanes + row->operations.lanes) * d->scale->lane;
}

static bool open_rows(drawing *d)
{
    timeline *t = d->t;
    d->rows = calloc((size_t)t->count, sizeof *d->rows);
    d->height = TOP;
    for (int i = 0; d->rows && i < t->count; i++) {
        prof_window w = t->split->run->steps[t->step].windows[t->ranks[i]];
        if (w.begin != PROF_UNKNOWN &&
            !timeline_row_open(&d->rows[i], t->split, t->ranks[i], w.begin, w.end, d->scale->lanes_most))
            return false;
        d->height += row_height(d, &d->rows[i]) + d->scale->gap;
    }
    return d->rows != NULL;
}

static size_t count_boxes(const drawing *d)
{
    size_t count = 0;
    for (int i = 0; i < d->t->count; i++)
        count += timeline_row_count(&d->rows[i]);
    return count;
}

/* Until it is no more than there may be; from a thousandth of a pixel on. */
static void join_rows(drawing *d)
{
    timeline *t = d->t;
    int64_t within = (d->window.end - d->window.begin) / PLOT / 1000 + 1;
    t->things = t->boxes = count_boxes(d);
    for (t->joined_ns = 0; t->boxes > t->most && within < d->window.end - d->window.begin; within *= 2) {
        for (int i = 0; i < t->count; i++)
            timeline_row_join(&d->rows[i], within);
        t->joined_ns = within;
        t->boxes = count_boxes(d);
    }
}

/* ---- drawing ---- */

static void draw_ticks(const drawing *d)
{
    double ms = ms_at(d, d->window.end), step = svg_tick_step(ms / 14);
    int decimals = step < 1 ? (int)ceil(-log10(step) - 1e-9) : 0;
    svg_part_open(d->out, (svg_box){LEFT, 0, PLOT, d->height}, "axis");
    for (int i = 0; i * step <= ms; i++) {
        double x = i * step / ms * PLOT;
        svg_line(d->out, x, 4, x, d->height, SVG_SHADE, 1);
        if (x < PLOT - 70)
            svg_text(d->out, x + 4, 9, &(svg_type){.size = SVG_SMALL, .colour = SVG_MUTED}, "%.*f ms", decimals,
                     i * step);
    }
    svg_close(d->out);
}

static svg_box box_of(const drawing *d, const timeline_box *box, double y, double height)
{
    double x = at(d, box->begin);
    return (svg_box){x, y + box->lane * d->scale->lane, at(d, box->end) - x, height};
}

static void draw_states(const drawing *d, const timeline_boxes *boxes, double y)
{
    char tip[256];
    svg_group_open(d->out, "states");
    for (const timeline_box *box = boxes->at; box < boxes->at + boxes->count; box++) {
        timeline_say_states(box, d->window.begin, tip, sizeof tip);
        svg_rect(d->out, box_of(d, box, y, d->scale->band),
                 &(svg_style){.fill = bars_step[timeline_box_most(box)].colour}, tip);
    }
    svg_group_close(d->out);
}

static void draw_records(const drawing *d, int rank, const timeline_boxes *boxes, const char *class, double y)
{
    char tip[512];
    double height = d->scale->lane - 1;
    svg_group_open(d->out, class);
    for (const timeline_box *box = boxes->at; box < boxes->at + boxes->count; box++) {
        bool span = d->run->ranks[rank].records[box->first].kind == WEFT_TRACE_SPAN;
        timeline_say_records(d->t->split, rank, box, d->window.begin, tip, sizeof tip);
        svg_rect(d->out, box_of(d, box, y + 1, height),
                 &(svg_style){.fill = span ? SPAN : look_colours[timeline_box_most(box)]}, tip);
    }
    svg_group_close(d->out);
}

/* Below each operation, until when a rank was missing. */
static void draw_late(const drawing *d, const timeline_boxes *boxes, double y)
{
    double thick = fmax(1, d->scale->lane / 5);
    svg_group_open(d->out, "late");
    for (const timeline_box *box = boxes->at; box < boxes->at + boxes->count; box++) {
        svg_box line = box_of(d, box, y + d->scale->lane - thick, thick);
        line.width = at(d, box->late) - line.x;
        if (line.width >= 0.1)
            svg_rect(d->out, line, &(svg_style){.fill = SVG_VERMILION}, NULL);
    }
    svg_group_close(d->out);
}

static void draw_rows(const drawing *d)
{
    double y = TOP;
    svg_part_open(d->out, (svg_box){LEFT, 0, PLOT, d->height}, "time");
    for (int i = 0; i < d->t->count; i++) {
        const timeline_row *row = &d->rows[i];
        int rank = d->t->ranks[i];
        double spans = y + d->scale->band, operations = spans + row->spans.lanes * d->scale->lane;
        svg_group_open(d->out, "rank");
        draw_states(d, &row->states, y);
        draw_records(d, rank, &row->spans, "spans", spans);
        draw_records(d, rank, &row->operations, "operations", operations);
        draw_late(d, &row->operations, operations);
        svg_group_close(d->out);
        y += row_height(d, row) + d->scale->gap;
    }
    svg_close(d->out);
}

/* What fits into a box: its name, or else the last word of it, which numbers buckets. */
static void draw_label(const drawing *d, const char *name, svg_box box, svg_colour colour)
{
    const char *word = strrchr(name, ' ');
    double letters = d->scale->letters;
    if (svg_text_width(name, letters) + 4 > box.width)
        name = word ? word + 1 : "";
    if (!*name || svg_text_width(name, letters) + 2 > box.width)
        return;
    svg_text(d->out, box.x + box.width / 2, box.y + box.height / 2,
             &(svg_type){.size = letters, .colour = colour, .anchor = SVG_MIDDLE}, "%s", name);
}

static void draw_labels_of(const drawing *d, const prof_rank *rank, const timeline_boxes *boxes, double y)
{
    for (const timeline_box *box = boxes->at; box < boxes->at + boxes->count; box++) {
        const prof_record *r = &rank->records[box->first];
        char name[TIMELINE_NAME];
        if (box->count == 1)
            draw_label(d, timeline_name(r, name), box_of(d, box, y + 1, d->scale->lane - 1),
                       r->kind == WEFT_TRACE_SPAN ? SVG_INK : SVG_INK_ON_COLOUR);
    }
}

static void draw_labels(const drawing *d)
{
    double y = TOP;
    svg_part_open(d->out, (svg_box){LEFT, 0, PLOT, d->height}, "labels");
    for (int i = 0; d->scale->letters > 0 && i < d->t->count; i++) {
        const prof_rank *rank = &d->run->ranks[d->t->ranks[i]];
        const timeline_row *row = &d->rows[i];
        double spans = y + d->scale->band;
        draw_labels_of(d, rank, &row->spans, spans);
        draw_labels_of(d, rank, &row->operations, spans + row->spans.lanes * d->scale->lane);
        y += row_height(d, row) + d->scale->gap;
    }
    svg_close(d->out);
}

static void draw_names(const drawing *d)
{
    double y = TOP;
    for (int i = 0; i < d->t->count; i++) {
        double height = row_height(d, &d->rows[i]), letters = fmin(12, height + d->scale->gap - 1);
        svg_text(d->out, LEFT - 8, y + fmin(height, d->scale->band) / 2,
                 &(svg_type){.size = letters, .colour = SVG_INK, .anchor = SVG_END}, "rank %d",
                 d->run->ranks[d->t->ranks[i]].rank);
        y += height + d->scale->gap;
    }
}

static legend meaning_of(const drawing *d)
{
    static const char *const looks[BOXES_LOOKS] = {"reduces", "gathers, broadcasts", "messages", "other operations"};
    legend l = {0};
    bool spans = false, late = false;
    int64_t used[BOXES_LOOKS] = {0};
    for (const timeline_row *row = d->rows; row < d->rows + d->t->count; row++) {
        spans |= row->spans.count > 0;
        for (const timeline_box *box = row->operations.at; box < row->operations.at + row->operations.count; box++) {
            late |= box->late > box->begin;
            used[timeline_box_most(box)]++;
        }
    }
    for (int i = 0; i < BARS_STEP; i++)
        legend_add(&l, LEGEND_BOX, bars_step[i].colour, bars_step[i].name);
    if (spans)
        legend_add(&l, LEGEND_BOX, SPAN, "spans that the trainer marked")->dashed = true;
    for (int i = 0; i < BOXES_LOOKS; i++)
        if (used[i])
            legend_add(&l, LEGEND_BOX, look_colours[i], looks[i]);
    if (late)
        legend_add(&l, LEGEND_BOX, SVG_VERMILION, "below an operation: its last rank had not come yet");
    return l;
}

static void draw(const drawing *d)
{
    char title[96];
    legend meaning = meaning_of(d);
    double lines = legend_draw(&meaning, NULL, LEFT, 0, PLOT), height = d->height + LEGEND_LINE + lines + 14;
    snprintf(title, sizeof title, "step %" PRIu64 " on %d rank%s", d->run->steps[d->t->step].number, d->t->count,
             plural((size_t)d->t->count, "s"));
    fprintf(d->out, "<div class=\"timeline scroll\" data-ms=\"%.6f\" data-letters=\"%g\">\n", ms_at(d, d->window.end),
            d->scale->letters);
    svg_open(d->out, TIMELINE_WIDTH, height, title);
    draw_ticks(d);
    draw_names(d);
    draw_rows(d);
    draw_labels(d);
    legend_draw(&meaning, d->out, LEFT, d->height + LEGEND_LINE / 2.0 + 4, PLOT);
    svg_close(d->out);
    fputs("</div>\n", d->out);
}

static prof_window window_of(const timeline *t)
{
    prof_window all = {PROF_UNKNOWN, PROF_UNKNOWN};
    for (int i = 0; i < t->count; i++) {
        prof_window w = t->split->run->steps[t->step].windows[t->ranks[i]];
        if (w.begin == PROF_UNKNOWN)
            continue;
        all.begin = all.begin == PROF_UNKNOWN || w.begin < all.begin ? w.begin : all.begin;
        all.end = w.end > all.end ? w.end : all.end;
    }
    if (all.begin == PROF_UNKNOWN)
        return (prof_window){0, 1};
    all.end += all.end == all.begin;
    return all;
}

bool timeline_draw(FILE *out, timeline *t)
{
    drawing d = {.out = out, .t = t, .run = t->split->run, .scale = scales, .window = window_of(t)};
    while (d.scale->ranks_most < t->count)
        d.scale++;
    bool done = open_rows(&d);
    if (done) {
        join_rows(&d);
        draw(&d);
    }
    for (int i = 0; d.rows && i < t->count; i++)
        timeline_row_close(&d.rows[i]);
    free(d.rows);
    return done;
}
