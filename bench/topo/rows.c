/* SPDX-License-Identifier: Apache-2.0 */
/* Draws the groups of a plan as a table: lists of ranks are broken between groups where that is possible, and cut
 * where they are too long. */
#include "topo/rows.h"

#include <stdlib.h>
#include <string.h>

#include "complain.h"
#include "plural.h"

enum { LETTERS = 11, HEAD = 20, LINE = 16, BELOW = 6, LINES_MOST = 4 }; /* pixels; the last, lines */
enum { GROUPS_AT = 50, LEVEL_AT = 165, RANKS_AT = 316 };                /* where columns begin, pixels */

static bool fill_row(const plan *p, weft_axes axes, axis_row *row)
{
    weft_crossing crossing;
    char level[32];
    if (weft_groups_crossing(p->mesh, p->cluster, axes, &crossing) < 0)
        return complain(0, "%s", weft_last_error());
    weft_axes_text(axes, row->name);
    snprintf(row->groups, sizeof row->groups, "%d group%s of %d", crossing.groups, plural(crossing.groups, "s"),
             weft_mesh_size(p->mesh, axes));
    snprintf(row->level, sizeof row->level, "%s", plan_level(p, crossing.worst, level));
    row->ranks = plan_groups(p, axes);
    return row->ranks != NULL;
}

bool rows_fill(axis_rows *rows, const plan *p)
{
    weft_axes axes;
    *rows = (axis_rows){0};
    for (; rows->count < ROWS_MOST && (axes = plan_axes(p, rows->count, false)); rows->count++)
        if (!fill_row(p, axes, &rows->at[rows->count]))
            return false;
    return true;
}

void rows_free(axis_rows *rows)
{
    for (int i = 0; i < rows->count; i++)
        free(rows->at[i].ranks);
    rows->count = 0;
}

/* How much of @p ranks fits in a line: whole groups, or at least whole numbers. */
static size_t line_length(const char *ranks, double width)
{
    size_t room = (size_t)(width / svg_text_width("0", LETTERS)) - 1, length = strlen(ranks);
    if (length <= room)
        return length;
    for (size_t i = room; i > room / 2; i--)
        if (ranks[i - 1] == ';')
            return i;
    for (size_t i = room; i > 0; i--)
        if (ranks[i - 1] == ',' || ranks[i - 1] == ';')
            return i;
    return room;
}

/* Returns how many lines there are. */
static int draw_ranks(const char *ranks, FILE *out, double x, double y, double width)
{
    int line = 0;
    for (size_t length; *ranks && line < LINES_MOST; line++, ranks += length) {
        length = line_length(ranks, width);
        bool cut = line == LINES_MOST - 1 && ranks[length];
        if (out)
            svg_text(out, x, y + line * LINE, &(svg_type){.size = LETTERS, .colour = SVG_INK}, "%.*s%s", (int)length,
                     ranks, cut ? "\u2026" : "");
    }
    return line;
}

static void draw_cells(FILE *out, double x, double y, svg_colour colour, const char *const texts[3], bool bold)
{
    svg_type type = {.size = LETTERS, .colour = colour, .bold = bold};
    svg_text(out, x, y, &type, "%s", texts[0]);
    type.bold = false;
    svg_text(out, x + GROUPS_AT, y, &type, "%s", texts[1]);
    svg_text(out, x + LEVEL_AT, y, &type, "%s", texts[2]);
}

static void draw_head(FILE *out, svg_box box, double y)
{
    static const char *const words[] = {"axis", "groups", "worst level crossed"};
    draw_cells(out, box.x, y, SVG_MUTED, words, false);
    svg_text(out, box.x + RANKS_AT, y, &(svg_type){.size = LETTERS, .colour = SVG_MUTED}, "ranks");
    svg_line(out, box.x, y + 9, box.x + box.width, y + 9, SVG_FRAME, 0.8);
}

double rows_draw(const axis_rows *rows, FILE *out, svg_box box)
{
    double y = box.y + HEAD / 2.0;
    if (!rows->count)
        return 0;
    if (out) {
        svg_group_open(out, "groups");
        draw_head(out, box, y);
    }
    y += HEAD;
    for (const axis_row *row = rows->at; row < rows->at + rows->count; row++) {
        if (out)
            draw_cells(out, box.x, y, SVG_INK, (const char *[]){row->name, row->groups, row->level}, true);
        y += draw_ranks(row->ranks, out, box.x + RANKS_AT, y, box.width - RANKS_AT) * LINE + BELOW;
    }
    if (out)
        svg_group_close(out);
    return y - LINE / 2.0 - box.y;
}
