/* SPDX-License-Identifier: Apache-2.0 */
/* Draws schedules: a row a stage, time to the right, a box a computation. Messages lie below the boxes, so that those
 * which cross rows hide nothing. */
#include "picture.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "legend.h"
#include "plural.h"

static const struct {
    svg_colour colour;
    const char *name;
} kinds[] = {
    [WEFT_ACTION_F] = {SVG_BLUE, "F, forward"},
    [WEFT_ACTION_B] = {SVG_ORANGE, "B, backward"},
    [WEFT_ACTION_W] = {SVG_GREEN, "W, gradients of the weights"},
};
static const weft_action_kind last_kind = WEFT_ACTION_W;

typedef struct picture {
    FILE *out;
    const timeline *line;
    const weft_schedule *s;
    weft_action_time *parts;            /* when each F, then each B, of a part and microbatch runs */
    double slot, row, gap;              /* sizes: of a slot, a stage, the room between two stages */
    double left, top, axis_y, legend_y; /* where the rows begin, and what stands below them */
    double width, height;
    double number; /* size of the numbers in the boxes; 0 = there is no room for them */
    char title[256], about[256], unit[160];
    legend legend;
} picture;

static double at_slot(const picture *p, double slot)
{
    return p->left + slot * p->slot;
}

static double at_stage(const picture *p, uint32_t stage)
{
    return p->top + stage * (p->row + p->gap);
}

static double between(double low, double value, double high)
{
    return fmin(fmax(low, value), high);
}

/* Chunks go from the full colour to a pale one. */
static svg_colour shade(const picture *p, weft_action_kind kind, uint32_t chunk)
{
    uint32_t chunks = weft_schedule_chunks(p->s);
    return svg_mix(kinds[kind].colour, SVG_PAPER, chunks > 1 ? 0.62 * chunk / (chunks - 1) : 0);
}

/* ---- sizes ---- */

static uint32_t shortest_computation(const timeline *line)
{
    uint32_t shortest = line->slots;
    const weft_action_time *time = line->times;
    for (uint32_t stage = 0; stage < weft_schedule_stages(line->schedule); stage++) {
        size_t count;
        const weft_action *at = weft_schedule_actions(line->schedule, stage, &count);
        for (size_t i = 0; i < count; i++, time++)
            if (timeline_computes(&at[i]) && time->end - time->begin < shortest)
                shortest = time->end - time->begin;
    }
    return shortest;
}

/* All numbers have one size, in which the largest fits the shortest box. */
static double number_size(const picture *p)
{
    enum { LEAST = 6 };
    char widest[16];
    snprintf(widest, sizeof widest, "%" PRIu32, weft_schedule_microbatches(p->s) - 1);
    double room = shortest_computation(p->line) * p->slot - 3;
    double size = fmin(0.5 * p->row, room / svg_text_width(widest, 1));
    return size >= LEAST ? size : 0;
}

/* What a slot is. */
static void name_unit(picture *p, const weft_times_config *times)
{
    uint32_t f = times->forward ? times->forward : 1, b = times->backward ? times->backward : 1;
    uint32_t w = times->weights ? times->weights : 1;
    char messages[32] = "none";
    if (times->message)
        snprintf(messages, sizeof messages, "%u", times->message);
    if (p->line->split)
        snprintf(p->unit, sizeof p->unit, "time in slots: F takes %u, B %u, W %u, a B without W %u, messages %s", f, b,
                 w, b + w, messages);
    else
        snprintf(p->unit, sizeof p->unit, "time in slots: F takes %u, B %u, messages %s", f, b + w, messages);
}

static void name_picture(picture *p, const char *name)
{
    char bubble[160];
    uint32_t stages = weft_schedule_stages(p->s), microbatches = weft_schedule_microbatches(p->s),
             chunks = weft_schedule_chunks(p->s);
    snprintf(p->title, sizeof p->title, "%.100s: p = %u stage%s, m = %u microbatch%s, v = %u chunk%s a stage", name,
             stages, plural(stages, "s"), microbatches, plural(microbatches, "es"), chunks, plural(chunks, "s"));
    snprintf(p->about, sizeof p->about, "%u slots, %s", p->line->slots, timeline_bubble(p->line, bubble));
}

static void measure(picture *p)
{
    char label[32];
    uint32_t stages = weft_schedule_stages(p->s);
    snprintf(label, sizeof label, "stage %u", stages - 1);
    p->slot = between(3, 1100.0 / p->line->slots, 34);
    p->row = between(14, 300.0 / stages, 30);
    p->gap = between(9, 0.6 * p->row, 16);
    p->number = number_size(p);
    p->left = SVG_MARGIN + svg_text_width(label, SVG_SMALL) + 8;
    p->top = SVG_BELOW_HEADING;
    p->width = fmax(at_slot(p, p->line->slots), SVG_MARGIN + svg_heading_width(p->title, p->about));
    p->width = fmax(p->width, p->left + fmax(svg_text_width(p->unit, SVG_SMALL), legend_width(&p->legend)));
    p->width = ceil(p->width + SVG_MARGIN);
    p->axis_y = at_stage(p, stages) - p->gap + 8;
    p->legend_y = p->axis_y + 30 + SVG_LINE + 4;
    p->height = legend_draw(&p->legend, NULL, p->left, p->legend_y, p->width - SVG_MARGIN - p->left) + SVG_MARGIN;
}

/* ---- messages ---- */

static weft_action_time *part_time(const picture *p, weft_action_kind kind, uint32_t stage, uint32_t chunk,
                                   uint32_t microbatch)
{
    size_t stages = weft_schedule_stages(p->s), parts = stages * weft_schedule_chunks(p->s);
    size_t part = chunk * stages + stage + (kind == WEFT_ACTION_B ? parts : 0);
    return &p->parts[part * weft_schedule_microbatches(p->s) + microbatch];
}

static bool find_parts(picture *p)
{
    size_t parts = (size_t)weft_schedule_stages(p->s) * weft_schedule_chunks(p->s);
    const weft_action_time *time = p->line->times;
    p->parts = calloc(2 * parts * weft_schedule_microbatches(p->s) + 1, sizeof *p->parts);
    for (uint32_t stage = 0; p->parts && stage < weft_schedule_stages(p->s); stage++) {
        size_t count;
        const weft_action *at = weft_schedule_actions(p->s, stage, &count);
        for (size_t i = 0; i < count; i++, time++)
            if (at[i].kind == WEFT_ACTION_F || at[i].kind == WEFT_ACTION_B)
                *part_time(p, at[i].kind, stage, at[i].chunk, at[i].microbatch) = *time;
    }
    return p->parts != NULL;
}

static svg_colour message_colour(weft_action_kind kind)
{
    return svg_mix(kinds[kind].colour, SVG_INK, kind == WEFT_ACTION_F ? 0.2 : 0.4);
}

/* From the end of the computation that makes a tensor to the beginning of the one that needs it, in the room between
 * the stages. */
static void draw_message(const picture *p, uint32_t stage, const weft_action *a)
{
    bool forward = a->kind == WEFT_ACTION_SEND_F;
    weft_action_kind kind = forward ? WEFT_ACTION_F : WEFT_ACTION_B;
    uint32_t stages = weft_schedule_stages(p->s);
    uint32_t part = a->chunk * stages + stage + (forward ? 1u : UINT32_MAX); /* the one behind, or before */
    const weft_action_time *made = part_time(p, kind, stage, a->chunk, a->microbatch);
    const weft_action_time *needed = part_time(p, kind, part % stages, part / stages, a->microbatch);
    bool down = part % stages > stage;
    double from = at_stage(p, stage) + (down ? p->row : 0);
    double to = at_stage(p, part % stages) + (down ? 0 : p->row);
    double beside = (forward ? -1 : 1) * fmin(0.06 * p->slot, 2); /* of one that goes the other way at the same time */
    svg_arrow(p->out, at_slot(p, made->end) + beside, from, at_slot(p, needed->begin) + beside, to,
              between(2, 0.3 * p->gap, 4.5), message_colour(kind), between(0.4, 0.06 * p->gap, 0.9));
}

static void draw_messages(const picture *p)
{
    svg_group_open(p->out, "messages");
    for (uint32_t stage = 0; stage < weft_schedule_stages(p->s); stage++) {
        size_t count;
        const weft_action *at = weft_schedule_actions(p->s, stage, &count);
        for (size_t i = 0; i < count; i++)
            if (at[i].kind == WEFT_ACTION_SEND_F || at[i].kind == WEFT_ACTION_SEND_B)
                draw_message(p, stage, &at[i]);
    }
    svg_group_close(p->out);
}

/* ---- rows ---- */

static void draw_bubbles(const picture *p)
{
    svg_group_open(p->out, "bubble");
    for (uint32_t stage = 0; stage < weft_schedule_stages(p->s); stage++)
        svg_rect(p->out, (svg_box){p->left, at_stage(p, stage), p->line->slots * p->slot, p->row},
                 &(svg_style){.fill = SVG_SHADE}, NULL);
    svg_group_close(p->out);
}

static void draw_action(const picture *p, uint32_t stage, const weft_action *a, const weft_action_time *time)
{
    char tip[96];
    svg_box box = {at_slot(p, time->begin), at_stage(p, stage), (time->end - time->begin) * p->slot, p->row};
    svg_style style = {.fill = shade(p, a->kind, a->chunk), .line = SVG_PAPER};
    style.line_width = between(0.3, 0.06 * box.width, 1);
    snprintf(tip, sizeof tip, "%s%" PRIu32 ".%" PRIu32 " of stage %" PRIu32 ", from %" PRIu32 " to %" PRIu32,
             weft_action_string(a->kind), a->microbatch, a->chunk, stage, time->begin, time->end);
    svg_rect(p->out, box, &style, tip);
    if (p->number > 0)
        svg_text(p->out, box.x + box.width / 2, box.y + box.height / 2,
                 &(svg_type){.size = p->number, .colour = svg_ink_on(style.fill), .anchor = SVG_MIDDLE}, "%" PRIu32,
                 a->microbatch);
}

static void draw_stages(const picture *p)
{
    const weft_action_time *time = p->line->times;
    for (uint32_t stage = 0; stage < weft_schedule_stages(p->s); stage++) {
        size_t count;
        const weft_action *at = weft_schedule_actions(p->s, stage, &count);
        svg_group_open(p->out, "stage");
        svg_text(p->out, p->left - 8, at_stage(p, stage) + p->row / 2,
                 &(svg_type){.size = SVG_SMALL, .colour = SVG_INK, .anchor = SVG_END}, "stage %" PRIu32, stage);
        for (size_t i = 0; i < count; i++, time++)
            if (timeline_computes(&at[i]))
                draw_action(p, stage, &at[i], time);
        svg_group_close(p->out);
    }
}

/* ---- around them ---- */

static void draw_axis(const picture *p)
{
    const svg_type ticks = {.size = SVG_SMALL, .colour = SVG_MUTED, .anchor = SVG_MIDDLE};
    double y = p->axis_y, step = svg_tick_step(fmax(60 / p->slot, 1));
    svg_line(p->out, p->left, y, at_slot(p, p->line->slots), y, SVG_MUTED, 1);
    for (double at = 0; at <= p->line->slots; at += step) {
        svg_line(p->out, at_slot(p, at), y, at_slot(p, at), y + 4, SVG_MUTED, 1);
        svg_text(p->out, at_slot(p, at), y + 13, &ticks, "%.0f", at);
    }
    svg_text(p->out, p->left, y + 30, &(svg_type){.size = SVG_SMALL, .colour = SVG_MUTED}, "%s", p->unit);
}

static bool has_kind(const picture *p, weft_action_kind kind)
{
    size_t count;
    const weft_action *at = weft_schedule_actions(p->s, 0, &count);
    for (size_t i = 0; i < count; i++)
        if (at[i].kind == kind)
            return true;
    return kind == WEFT_ACTION_W && p->line->split;
}

/* Of a chunk, its forward and its backward. */
static void explain_chunk(picture *p, uint32_t chunk)
{
    char text[32];
    snprintf(text, sizeof text, "chunk %" PRIu32, chunk);
    legend_add(&p->legend, LEGEND_BOX, shade(p, WEFT_ACTION_F, chunk), text)->right = shade(p, WEFT_ACTION_B, chunk);
}

static void explain(picture *p)
{
    enum { CHUNKS_SHOWN = 8 };
    uint32_t chunks = weft_schedule_chunks(p->s);
    for (weft_action_kind kind = WEFT_ACTION_F; kind <= last_kind; kind++)
        if (has_kind(p, kind))
            legend_add(&p->legend, LEGEND_BOX, kinds[kind].colour, kinds[kind].name);
    for (uint32_t chunk = 0; chunks > 1 && chunk < chunks; chunk++)
        if (chunk < CHUNKS_SHOWN - 1 || chunk == chunks - 1)
            explain_chunk(p, chunk);
    if (weft_schedule_stages(p->s) > 1) {
        legend_add(&p->legend, LEGEND_ARROW, message_colour(WEFT_ACTION_F), "activations");
        if (has_kind(p, WEFT_ACTION_B))
            legend_add(&p->legend, LEGEND_ARROW, message_colour(WEFT_ACTION_B), "gradients");
    }
    legend_add(&p->legend, LEGEND_BOX, SVG_SHADE, "bubble");
}

static void draw_words(const picture *p)
{
    svg_heading(p->out, p->title, p->about);
    legend_draw(&p->legend, p->out, p->left, p->legend_y, p->width - SVG_MARGIN - p->left);
}

bool picture_draw(FILE *out, const timeline *line, const weft_times_config *times, const char *name)
{
    picture p = {.out = out, .line = line, .s = line->schedule};
    name_picture(&p, name);
    name_unit(&p, times);
    explain(&p);
    measure(&p);
    if (!find_parts(&p))
        return false;
    svg_open(out, p.width, p.height, p.title);
    draw_bubbles(&p);
    draw_messages(&p);
    draw_stages(&p);
    draw_axis(&p);
    draw_words(&p);
    svg_close(out);
    free(p.parts);
    return true;
}
