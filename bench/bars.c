/* SPDX-License-Identifier: Apache-2.0 */
/* Draws bars of times: all to one scale, with a number in each part that has the room. */
#include "bars.h"

#include <math.h>

#include "legend.h"

enum { TOP = 4, TOTAL = 90 /* pixels behind a bar */, LETTERS = 12 };

const bars_part bars_step[BARS_STEP] = {
    {"computing only", SVG_BLUE}, {"hidden", SVG_GREEN}, {"exposed", SVG_ORANGE}, {"idle", SVG_FRAME}};

static double sum_of(const bars *b, const bars_row *row)
{
    double sum = 0;
    for (int i = 0; i < b->part_count; i++)
        sum += row->ms[i];
    return sum;
}

static void draw_row(FILE *out, const bars *b, const bars_row *row, double longest, double y)
{
    double x = b->who, scale = longest > 0 ? (b->width - b->who - TOTAL) / longest : 0, middle = y + b->bar / 2;
    double letters = fmin(LETTERS, b->bar - 1);
    int decimals = longest < 1 ? 3 : longest < 10 ? 2 : 1;
    char text[64];
    svg_group_open(out, "times");
    svg_text(out, 0, middle, &(svg_type){.size = letters, .colour = SVG_INK}, "%s", row->who);
    for (int i = 0; i < b->part_count; i++) {
        svg_box box = {x, y, row->ms[i] * scale, b->bar};
        svg_colour colour = b->parts[i].colour;
        snprintf(text, sizeof text, "%s: %.3f ms", b->parts[i].name, row->ms[i]);
        svg_rect(out, box, &(svg_style){.fill = colour}, text);
        snprintf(text, sizeof text, "%.*f", decimals, row->ms[i]);
        if (svg_text_width(text, letters) + 4 <= box.width)
            svg_text(out, x + box.width / 2, middle,
                     &(svg_type){.size = letters, .colour = svg_ink_on(colour), .anchor = SVG_MIDDLE}, "%s", text);
        x += box.width;
    }
    svg_text(out, x + 8, middle, &(svg_type){.size = letters, .colour = SVG_INK}, "%.*f ms", decimals, sum_of(b, row));
    svg_group_close(out);
}

void bars_draw(FILE *out, const bars *b)
{
    double longest = 0, legend_y = b->row_count * (b->bar + b->gap) + LEGEND_LINE;
    legend meaning = {0};
    for (int i = 0; i < b->row_count; i++)
        longest = fmax(longest, sum_of(b, &b->rows[i]));
    for (int i = 0; i < b->part_count; i++)
        legend_add(&meaning, LEGEND_BOX, b->parts[i].colour, b->parts[i].name);
    svg_open(out, b->width, legend_y + LEGEND_LINE, b->title);
    for (int i = 0; i < b->row_count; i++)
        draw_row(out, b, &b->rows[i], longest, TOP + i * (b->bar + b->gap));
    legend_draw(&meaning, out, b->who, legend_y, b->width - b->who);
    svg_close(out);
}
