/* SPDX-License-Identifier: Apache-2.0 */
/* Lays a machine out as boxes in boxes: goes down the tree of objects and makes tiles, then up the tree of tiles and
 * gives them sizes, then down again and gives them places. */
#include "topo/tiles.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct builder {
    tiles *t;
    const plan *p;
    double badge_width;
    double cell_width[TILE_KINDS], cell_height[TILE_KINDS]; /* of all cells of a kind */
} builder;

static const weft_object *object_at(const builder *b, int index)
{
    return weft_machine_object(b->p->machine, index);
}

/* ---- objects to tiles ---- */

static void make_below(builder *b, int object, int tile_index);

static int add_tile(builder *b, tile_kind kind, int parent, int first, int end)
{
    tile *t = &b->t->at[b->t->count];
    *t = (tile){.kind = kind, .parent = parent, .first = first, .end = end, .allowed = object_at(b, first)->allowed};
    t->depth = parent < 0 ? 0 : b->t->at[parent].depth + 1;
    return b->t->count++;
}

static void add_label(tile *t, const weft_object *o)
{
    char text[48], size[32] = "";
    size_t used = strlen(t->label);
    if (o->kind == WEFT_OBJECT_CACHE)
        snprintf(text, sizeof text, "L%d", o->level);
    else
        object_text(o, text);
    if (o->bytes)
        size_text(o->bytes, size);
    snprintf(t->label + used, sizeof t->label - used, "%s%s%s%s", used ? " \u00b7 " : "", text, *size ? ", " : "",
             size);
}

static bool is_frame(const builder *b, int index)
{
    weft_object_kind kind = object_at(b, index)->kind;
    return kind < WEFT_OBJECT_CORE && !machine_is_chain(b->p->machine, index);
}

static int make_frame(builder *b, int index, int parent)
{
    int end = object_at(b, index)->end, frame = add_tile(b, TILE_FRAME, parent, index, end);
    add_label(&b->t->at[frame], object_at(b, index));
    while (index + 1 < end && object_at(b, index + 1)->end == end && is_frame(b, index + 1))
        add_label(&b->t->at[frame], object_at(b, ++index));
    make_below(b, index, frame);
    return end;
}

static int make_cores(builder *b, int index, int parent)
{
    bool each = b->p->on == WEFT_OBJECT_CORE;
    int last = each ? index : machine_last_alike(b->p->machine, index), end = object_at(b, last)->end;
    tile *t = &b->t->at[add_tile(b, TILE_CORE, parent, index, end)];
    t->seat = each;
    char cores[48], pus[64];
    machine_chains_text(b->p->machine, index, last, cores, pus, sizeof pus);
    snprintf(t->label, sizeof t->label, "%s", *cores ? cores : pus);
    snprintf(t->detail, sizeof t->detail, "%s", *cores ? pus : "");
    return end;
}

static int make_gpu(builder *b, int index, int parent)
{
    const weft_object *o = object_at(b, index);
    const weft_links *links = weft_machine_links(b->p->machine, 0);
    tile *t = &b->t->at[add_tile(b, TILE_GPU, parent, index, o->end)];
    t->seat = b->p->on == WEFT_OBJECT_GPU;
    object_text(o, t->label);
    if (o->island >= 0 && links)
        snprintf(t->detail, sizeof t->detail, "%.20s island %d", links->name, o->island);
    else
        snprintf(t->detail, sizeof t->detail, "%.20s", o->pci_id);
    return o->end;
}

/* Switches beside each other share a cell. */
static bool join_switches(builder *b, const weft_object *o, int parent)
{
    tile *t = &b->t->at[b->t->count - 1];
    const weft_object *first = object_at(b, t->first);
    if (o->kind != WEFT_OBJECT_SWITCH || first->kind != o->kind || t->parent != parent)
        return false;
    t->end = o->end;
    snprintf(t->label, sizeof t->label, "switches %d-%d", first->number, o->number);
    return true;
}

static int make_device(builder *b, int index, int parent)
{
    const weft_object *o = object_at(b, index);
    if (o->kind == WEFT_OBJECT_GPU)
        return make_gpu(b, index, parent);
    if (join_switches(b, o, parent))
        return o->end;
    tile *t = &b->t->at[add_tile(b, TILE_DEVICE, parent, index, o->end)];
    object_text(o, t->label);
    if (o->kind == WEFT_OBJECT_NIC)
        snprintf(t->detail, sizeof t->detail, "%.20s", *o->name ? o->name : o->pci_id);
    return o->end;
}

static void make_below(builder *b, int object, int parent)
{
    for (int i = object + 1, end = object_at(b, object)->end; i < end;) {
        weft_object_kind kind = object_at(b, i)->kind;
        if (kind == WEFT_OBJECT_BRIDGE) {
            make_below(b, i, parent);
            i = object_at(b, i)->end;
        } else if (kind > WEFT_OBJECT_BRIDGE) {
            i = make_device(b, i, parent);
        } else {
            i = (is_frame(b, i) ? make_frame : make_cores)(b, i, parent);
        }
    }
}

/* ---- sizes ---- */

static double row_height(const arranged *items, int from, int to)
{
    double height = 0;
    for (int i = from; i < to; i++)
        height = fmax(height, items[i].box.height);
    return height;
}

/* Fill rows no wider than @p most, but with one box at least. */
static void fill_rows(arranged *items, int count, double gap, double most, double *width, double *height)
{
    double x = 0, y = 0;
    int row = 0;
    *width = 0;
    for (int i = 0; i < count; i++) {
        if (i > row && (x + items[i].box.width > most + 0.5 || items[i].kind != items[row].kind)) {
            y += row_height(items, row, i) + gap;
            x = 0;
            row = i;
        }
        items[i].box.x = x;
        items[i].box.y = y;
        *width = fmax(*width, x + items[i].box.width);
        x += items[i].box.width + gap;
    }
    *height = count ? y + row_height(items, row, count) : 0;
}

/* How far from well it looks: too high, too wide, or much of it empty. */
static double ugliness(double width, double height, double filled)
{
    const double aspect = 1.6;
    return fmax(width, aspect * height) * (1 + 2 * (1 - filled / (width * height)));
}

void arrange(arranged *items, int count, double gap, double *width, double *height)
{
    double most = 0, best = 0, best_cost = INFINITY, filled = 0;
    for (int i = 0; i < count; i++)
        filled += items[i].box.width * items[i].box.height;
    for (int i = 0, next = 0; i < count; i++) {
        most += items[i].box.width + (i ? gap : 0);
        if (i < next)
            continue;
        next = i + 1 + i / 32;
        fill_rows(items, count, gap, most, width, height);
        double cost = ugliness(*width, *height, filled);
        if (cost < best_cost - 0.5)
            best_cost = cost, best = most;
    }
    fill_rows(items, count, gap, best, width, height);
}

static void measure_cells(builder *b)
{
    for (int i = 0; i < b->t->count; i++) {
        const tile *t = &b->t->at[i];
        double text = fmax(svg_text_width(t->label, TILE_LABEL), svg_text_width(t->detail, TILE_SMALL));
        double height = 6 + TILE_LABEL + (*t->detail ? TILE_SMALL + 3 : 0) + 5;
        double width = fmax(text, t->seat ? b->badge_width : 0) + 8;
        b->cell_width[t->kind] = fmax(b->cell_width[t->kind], width);
        b->cell_height[t->kind] = fmax(b->cell_height[t->kind], height + (t->seat ? TILE_BADGE + 3 : 0));
    }
}

enum { FRAME_HEAD = TILE_LABEL + 10 };

/* Frames beside each other that nearly have one size get it. */
static void even_out(tiles *t, int parent)
{
    const double nearly = 0.8;
    double width = 0, height = 0;
    for (int pass = 0; pass < 2; pass++)
        for (tile *at = t->at + parent + 1; at < t->at + t->count && at->depth > t->at[parent].depth; at++) {
            if (at->parent != parent || at->kind != TILE_FRAME)
                continue;
            width = fmax(width, at->box.width);
            height = fmax(height, at->box.height);
            at->box.width = at->box.width >= nearly * width ? width : at->box.width;
            at->box.height = at->box.height >= nearly * height ? height : at->box.height;
        }
}

/* Put what is inside a frame, whose sizes are known, beside each other; places are counted from the frame's corner. */
static bool measure_frame(builder *b, int frame)
{
    tile *at = b->t->at, *f = &at[frame];
    int inside = 0;
    even_out(b->t, frame);
    arranged *items = malloc((size_t)b->t->count * sizeof *items);
    if (!items)
        return false;
    for (int i = frame + 1; i < b->t->count && at[i].depth > f->depth; i++)
        if (at[i].parent == frame)
            items[inside++] = (arranged){at[i].box, at[i].kind};
    double width, height;
    arrange(items, inside, TILE_GAP, &width, &height);
    for (int i = frame + 1, k = 0; k < inside; i++)
        if (at[i].parent == frame) {
            at[i].box.x = items[k].box.x + TILE_PAD;
            at[i].box.y = items[k++].box.y + FRAME_HEAD;
        }
    free(items);
    f->box.width = fmax(width, svg_text_width(f->label, TILE_LABEL)) + 2 * TILE_PAD;
    f->box.height = FRAME_HEAD + height + (inside ? TILE_PAD : 0);
    return true;
}

bool tiles_make(tiles *t, const plan *p, double badge_width)
{
    builder b = {.t = t, .p = p, .badge_width = badge_width};
    int objects = weft_machine_object(p->machine, 0)->end;
    *t = (tiles){.at = calloc((size_t)objects, sizeof *t->at)};
    if (!t->at)
        return false;
    int root = add_tile(&b, TILE_FRAME, -1, 0, objects);
    make_below(&b, 0, root);
    measure_cells(&b);
    for (int i = t->count - 1; i >= 0; i--) {
        tile *at = &t->at[i];
        at->box.width = b.cell_width[at->kind];
        at->box.height = b.cell_height[at->kind];
        if (at->kind == TILE_FRAME && !measure_frame(&b, i)) {
            tiles_free(t);
            return false;
        }
    }
    for (int i = 1; i < t->count; i++) {
        t->at[i].box.x += t->at[t->at[i].parent].box.x;
        t->at[i].box.y += t->at[t->at[i].parent].box.y;
    }
    return true;
}

void tiles_free(tiles *t)
{
    free(t->at);
    *t = (tiles){0};
}
