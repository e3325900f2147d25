/* SPDX-License-Identifier: Apache-2.0 */
/* Draws what the colours of a picture mean: entries follow each other in lines, as the words of a text do. */
#include "legend.h"

#include <math.h>

enum { SAMPLE = 14, SPACE = 6, BETWEEN = 16, LETTERS = 11 }; /* pixels */

legend_entry *legend_add(legend *l, legend_mark mark, svg_colour colour, const char *text)
{
    legend_entry *e = &l->entries[l->count < LEGEND_MOST ? l->count++ : LEGEND_MOST - 1];
    *e = (legend_entry){.mark = mark, .left = colour, .right = colour};
    snprintf(e->text, sizeof e->text, "%s", text);
    return e;
}

static double entry_width(const legend_entry *e)
{
    return SAMPLE + SPACE + svg_text_width(e->text, LETTERS);
}

double legend_width(const legend *l)
{
    double widest = 0;
    for (int i = 0; i < l->count; i++)
        widest = fmax(widest, entry_width(&l->entries[i]));
    return widest;
}

static void draw_sample(FILE *out, const legend_entry *e, double x, double y)
{
    svg_box box = {x, y - SAMPLE / 2.0, SAMPLE, SAMPLE};
    svg_style style = {.fill = e->left, .line = SVG_MUTED, .line_width = e->dashed ? 1 : 0, .dashed = e->dashed};
    if (e->mark == LEGEND_ARROW) {
        svg_arrow(out, x, y, x + SAMPLE, y, 4.5, e->left, 1);
        return;
    }
    svg_rect(out, box, &style, NULL);
    box.x += box.width /= 2;
    style.fill = e->right;
    if (e->right != e->left)
        svg_rect(out, box, &style, NULL);
}

double legend_draw(const legend *l, FILE *out, double x, double y, double width)
{
    double at = x;
    if (out)
        svg_group_open(out, "legend");
    for (const legend_entry *e = l->entries; e < l->entries + l->count; e++) {
        double room = entry_width(e);
        if (at > x && at + room > x + width) {
            at = x;
            y += LEGEND_LINE;
        }
        if (out) {
            draw_sample(out, e, at, y);
            svg_text(out, at + SAMPLE + SPACE, y, &(svg_type){.size = LETTERS, .colour = SVG_INK}, "%s", e->text);
        }
        at += room + BETWEEN;
    }
    if (out)
        svg_group_close(out);
    return y;
}
