/* SPDX-License-Identifier: Apache-2.0 */
/* Draws a plan: each host as nested boxes with the ranks in them, and below a line for the groups of each axis. */
#include <math.h>
#include <stdlib.h>

#include "complain.h"
#include "legend.h"
#include "out.h"
#include "plural.h"
#include "topo/rows.h"
#include "topo/tiles.h"

enum { HOST_GAP = 16, LEAST_WIDTH = 720 }; /* pixels */

static const svg_colour colours[] = {SVG_BLUE,      SVG_ORANGE, SVG_GREEN,  SVG_SKY,
                                     SVG_VERMILION, SVG_PURPLE, SVG_YELLOW, 0x999999};
enum { COLOURS = sizeof colours / sizeof *colours };

typedef struct drawing {
    FILE *out;
    const plan *p;
    tiles tiles;
    weft_axes coloured; /* a colour is a group along these; 0 = there is one colour */
    int *rank_at;       /* by object, for the host at hand; WEFT_NONE = nobody */
    arranged *hosts;    /* where each is */
    double badge;       /* width of a rank */
    int homeless_rows;  /* rows of ranks of which only the host is known, on the host with most */
    double width, height, hosts_width, top, legend_y, rows_y;
    axis_rows rows;
    legend legend;
    char title[256], about[256];
} drawing;

/* ---- words ---- */

static const struct {
    weft_axes axis;
    size_t field;
} coordinates[] = {
    {WEFT_AXIS_TP, offsetof(weft_coordinates, tp)},   {WEFT_AXIS_CP, offsetof(weft_coordinates, cp)},
    {WEFT_AXIS_DP, offsetof(weft_coordinates, dp)},   {WEFT_AXIS_PP, offsetof(weft_coordinates, pp)},
    {WEFT_AXIS_ETP, offsetof(weft_coordinates, etp)}, {WEFT_AXIS_EP, offsetof(weft_coordinates, ep)},
    {WEFT_AXIS_EDP, offsetof(weft_coordinates, edp)},
};
enum { COORDINATES = sizeof coordinates / sizeof *coordinates };

/* Is the place on this axis told in words? */
static bool is_told(const drawing *d, int coordinate)
{
    weft_axes axes, axis = coordinates[coordinate].axis;
    for (int i = 0; (axes = plan_axes(d->p, i, false)); i++)
        if (axes == axis)
            return axis != d->coloured;
    return false;
}

/* "dp1 pp0". */
static const char *place_text(const drawing *d, const weft_coordinates *at, char text[128])
{
    size_t used = 0;
    text[0] = 0;
    for (int i = 0; i < COORDINATES; i++) {
        char name[WEFT_AXES_TEXT_MAX + 1];
        if (is_told(d, i))
            used += (size_t)snprintf(text + used, 128 - used, "%s%s%d", used ? " " : "",
                                     weft_axes_text(coordinates[i].axis, name),
                                     *(const int *)((const char *)at + coordinates[i].field));
    }
    return text;
}

static void name_drawing(drawing *d)
{
    const plan *p = d->p;
    int hosts = weft_cluster_hosts(p->cluster);
    size_t used = (size_t)snprintf(d->title, sizeof d->title, "%d rank%s on %d host%s:", p->ranks,
                                   plural(p->ranks, "s"), hosts, plural(hosts, "s"));
    for (int i = 0; i < COORDINATES; i++) {
        char name[WEFT_AXES_TEXT_MAX + 1];
        int size = weft_mesh_size(p->mesh, coordinates[i].axis);
        if (i < 4 ? size > 1 || coordinates[i].axis == WEFT_AXIS_TP : is_told(d, i))
            used += (size_t)snprintf(d->title + used, sizeof d->title - used, " %s %d,",
                                     weft_axes_text(coordinates[i].axis, name), size);
    }
    snprintf(d->title + used - 1, sizeof d->title - used + 1, ", order %s", weft_mesh_order(p->mesh));
    snprintf(d->about, sizeof d->about, "the machine%s: %.200s", hosts == 1 ? "" : ", as all hosts are taken to be",
             weft_machine_source(p->machine));
}

static void explain_ranks(drawing *d)
{
    char text[112] = "a rank", name[WEFT_AXES_TEXT_MAX + 1];
    int groups = d->coloured ? weft_mesh_groups(d->p->mesh, d->coloured) : 1;
    size_t used = 0;
    if (d->coloured)
        used = (size_t)snprintf(text, sizeof text, "ranks, coloured by their %s group%s",
                                weft_axes_text(d->coloured, name), groups > COLOURS ? " (colours come again)" : "");
    const char *between = "; below, their places along ";
    for (int i = 0; i < COORDINATES; i++)
        if (is_told(d, i)) {
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", between,
                                     weft_axes_text(coordinates[i].axis, name));
            between = ", ";
        }
    legend_add(&d->legend, LEGEND_BOX, colours[0], text)->right = colours[groups > 1];
}

static void explain(drawing *d)
{
    const tiles *t = &d->tiles;
    bool forbidden = false;
    explain_ranks(d);
    for (int i = 0; i < t->count; i++)
        forbidden |= !t->at[i].allowed && t->at[i].kind == TILE_CORE;
    if (forbidden)
        legend_add(&d->legend, LEGEND_BOX, SVG_PAPER, "may not be used")->dashed = true;
}

/* ---- sizes ---- */

/* The widest that a rank's number or place can be. */
static double badge_width(const drawing *d)
{
    char number[16], place[128];
    const weft_mesh *mesh = d->p->mesh;
    weft_coordinates last;
    if (weft_mesh_coordinates(mesh, d->p->ranks - 1, &last) < 0)
        return 0;
    snprintf(number, sizeof number, "%d", d->p->ranks - 1);
    return fmax(fmax(svg_text_width(place_text(d, &last, place), TILE_SMALL), svg_text_width(number, 12)) + 6, 46);
}

static int badges_in_row(const drawing *d)
{
    int count = (int)((d->tiles.at[0].box.width - 2 * TILE_PAD + TILE_GAP) / (d->badge + TILE_GAP));
    return count > 1 ? count : 1;
}

static int host_of(const plan *p, int rank)
{
    return weft_cluster_location(p->cluster, rank)->host;
}

/* Ranks of a host have places behind each other. */
static void count_homeless(drawing *d)
{
    int most = 0, here = 0;
    for (int place = 0; place < d->p->ranks; place++) {
        int rank = weft_cluster_rank(d->p->cluster, place);
        if (place && host_of(d->p, rank) != host_of(d->p, weft_cluster_rank(d->p->cluster, place - 1)))
            here = 0;
        here += d->p->objects[rank] == WEFT_NONE;
        most = here > most ? here : most;
    }
    d->homeless_rows = (most + badges_in_row(d) - 1) / badges_in_row(d);
}

static double homeless_height(const drawing *d)
{
    return d->homeless_rows ? SVG_LINE + d->homeless_rows * (TILE_BADGE + TILE_GAP) : 0;
}

static void measure(drawing *d)
{
    int hosts = weft_cluster_hosts(d->p->cluster);
    double height, host_width = d->tiles.at[0].box.width;
    for (int host = 0; host < hosts; host++) {
        const char *name = weft_cluster_host_name(d->p->cluster, host);
        host_width = fmax(host_width, 1.1 * svg_text_width(name, TILE_LABEL) + 2 * TILE_PAD); /* it is bold */
    }
    count_homeless(d);
    for (int host = 0; host < hosts; host++) {
        d->hosts[host].box.width = host_width;
        d->hosts[host].box.height = d->tiles.at[0].box.height + homeless_height(d);
    }
    arrange(d->hosts, hosts, HOST_GAP, &d->hosts_width, &height);
    d->width = fmax(fmax(d->hosts_width, LEAST_WIDTH), svg_heading_width(d->title, d->about));
    d->width = ceil(fmax(d->width, legend_width(&d->legend)) + 2 * SVG_MARGIN);
    d->top = SVG_BELOW_HEADING;
    d->legend_y = d->top + height + SVG_LINE + 4;
    d->rows_y = legend_draw(&d->legend, NULL, SVG_MARGIN, d->legend_y, d->width - 2 * SVG_MARGIN) + SVG_LINE;
    double rows_height = rows_draw(&d->rows, NULL, (svg_box){SVG_MARGIN, d->rows_y, d->width - 2 * SVG_MARGIN, 0});
    d->height = ceil(d->rows_y + rows_height + SVG_MARGIN - (d->rows.count ? 0 : SVG_LINE / 2.0));
}

/* ---- hosts ---- */

static void draw_rank(const drawing *d, int rank, svg_box box)
{
    weft_coordinates at = {0};
    char place[128], tip[192];
    int group = 0;
    if (weft_mesh_coordinates(d->p->mesh, weft_cluster_place(d->p->cluster, rank), &at) < 0 ||
        (d->coloured && weft_groups_of(d->p->mesh, d->p->cluster, d->coloured, rank, &group, NULL) < 0))
        return; /* no such rank */
    svg_style style = {.fill = colours[group % COLOURS], .radius = 3};
    svg_type type = {.size = 12, .colour = svg_ink_on(style.fill), .anchor = SVG_MIDDLE, .bold = true};
    double middle = box.x + box.width / 2;
    place_text(d, &at, place);
    snprintf(tip, sizeof tip, "rank %d, place %d%s%s", rank, weft_cluster_place(d->p->cluster, rank),
             *place ? ": " : "", place);
    svg_group_open(d->out, "rank");
    svg_rect(d->out, box, &style, tip);
    svg_text(d->out, middle, box.y + (*place ? 9 : box.height / 2), &type, "%d", rank);
    type.size = TILE_SMALL;
    type.bold = false;
    if (*place)
        svg_text(d->out, middle, box.y + 20, &type, "%s", place);
    svg_group_close(d->out);
}

static void draw_frame(const drawing *d, const tile *t, svg_box box, const char *label)
{
    svg_style style = {.line = SVG_FRAME, .line_width = 1, .radius = 4};
    style.fill = t->depth % 2 ? SVG_PAPER : svg_mix(SVG_PAPER, SVG_SHADE, 0.55);
    style.dashed = !t->allowed;
    svg_rect(d->out, box, &style, NULL);
    svg_text(d->out, box.x + TILE_PAD, box.y + 11,
             &(svg_type){.size = TILE_LABEL, .colour = SVG_INK, .bold = t->depth == 0}, "%s", label);
}

static void draw_cell(const drawing *d, const tile *t, svg_box box)
{
    svg_style style = {.fill = SVG_PAPER, .line = SVG_FRAME, .line_width = 0.8, .radius = 3, .dashed = !t->allowed};
    svg_type type = {.size = TILE_LABEL, .colour = t->allowed ? SVG_INK : SVG_MUTED, .anchor = SVG_MIDDLE};
    double middle = box.x + box.width / 2;
    int rank = WEFT_NONE;
    if (t->kind > TILE_CORE)
        style.fill = svg_mix(SVG_PAPER, t->kind == TILE_GPU ? SVG_GREEN : SVG_PURPLE, 0.14);
    svg_rect(d->out, box, &style, NULL);
    svg_text(d->out, middle, box.y + 10, &type, "%s", t->label);
    type.size = TILE_SMALL;
    type.colour = SVG_MUTED;
    if (*t->detail)
        svg_text(d->out, middle, box.y + 21, &type, "%s", t->detail);
    for (int i = t->first; t->seat && i < t->end && rank == WEFT_NONE; i++)
        rank = d->rank_at[i];
    if (rank != WEFT_NONE)
        draw_rank(d, rank, (svg_box){box.x + 4, box.y + box.height - TILE_BADGE - 4, box.width - 8, TILE_BADGE});
}

static void draw_homeless(const drawing *d, const int *ranks, int count, svg_box host)
{
    double y = host.y + d->tiles.at[0].box.height + 8;
    svg_text(d->out, host.x + TILE_PAD, y, &(svg_type){.size = TILE_LABEL, .colour = SVG_MUTED},
             "somewhere on this host:");
    for (int i = 0; i < count; i++) {
        int row = i / badges_in_row(d), column = i % badges_in_row(d);
        svg_box box = {host.x + TILE_PAD + column * (d->badge + TILE_GAP), y + 10 + row * (TILE_BADGE + TILE_GAP),
                       d->badge, TILE_BADGE};
        draw_rank(d, ranks[i], box);
    }
}

/* The host of the ranks from place @p first to before @p end. */
static void draw_host(const drawing *d, int host, int first, int end, int *homeless)
{
    const plan *p = d->p;
    const weft_object *machine = weft_machine_object(p->machine, 0);
    svg_box box = d->hosts[host].box;
    char label[192];
    int count = 0;
    box.x += SVG_MARGIN;
    box.y += d->top;
    for (int i = 0; i < machine->end; i++)
        d->rank_at[i] = WEFT_NONE;
    for (int place = first; place < end; place++) {
        int rank = weft_cluster_rank(p->cluster, place);
        if (p->objects[rank] == WEFT_NONE)
            homeless[count++] = rank;
        else
            d->rank_at[p->objects[rank]] = rank;
    }
    snprintf(label, sizeof label, "%s", weft_cluster_host_name(p->cluster, host));
    svg_group_open(d->out, "host");
    draw_frame(d, &d->tiles.at[0], box, label);
    for (int i = 1; i < d->tiles.count; i++) {
        const tile *t = &d->tiles.at[i];
        svg_box at = {box.x + t->box.x, box.y + t->box.y, t->box.width, t->box.height};
        if (t->kind == TILE_FRAME)
            draw_frame(d, t, at, t->label);
        else
            draw_cell(d, t, at);
    }
    if (count)
        draw_homeless(d, homeless, count, box);
    svg_group_close(d->out);
}

static void draw_hosts(const drawing *d, int *homeless)
{
    const plan *p = d->p;
    for (int first = 0, end; first < p->ranks; first = end) {
        int host = host_of(p, weft_cluster_rank(p->cluster, first));
        for (end = first + 1; end < p->ranks && host_of(p, weft_cluster_rank(p->cluster, end)) == host;)
            end++;
        draw_host(d, host, first, end, homeless);
    }
}

/* ---- all of it ---- */

static bool prepare(drawing *d)
{
    d->coloured = plan_axes(d->p, 0, false);
    d->badge = badge_width(d);
    int objects = weft_machine_object(d->p->machine, 0)->end, hosts = weft_cluster_hosts(d->p->cluster);
    d->rank_at = calloc((size_t)objects, sizeof *d->rank_at);
    d->hosts = calloc((size_t)hosts, sizeof *d->hosts);
    if (!d->rank_at || !d->hosts || !tiles_make(&d->tiles, d->p, d->badge))
        return complain(0, "no memory for the picture");
    name_drawing(d);
    explain(d);
    if (!rows_fill(&d->rows, d->p))
        return false;
    measure(d);
    return true;
}

static void draw(const drawing *d, int *homeless)
{
    svg_open(d->out, d->width, d->height, d->title);
    svg_heading(d->out, d->title, d->about);
    draw_hosts(d, homeless);
    legend_draw(&d->legend, d->out, SVG_MARGIN, d->legend_y, d->width - 2 * SVG_MARGIN);
    rows_draw(&d->rows, d->out, (svg_box){SVG_MARGIN, d->rows_y, d->width - 2 * SVG_MARGIN, 0});
    svg_close(d->out);
}

static int draw_into(drawing *d, const char *path)
{
    int *homeless = malloc((size_t)d->p->ranks * sizeof *homeless), code = EXIT_DONE;
    if (!homeless)
        return complain(EXIT_FAILED, "no memory for the picture");
    d->out = out_open(path);
    if (d->out)
        draw(d, homeless);
    if (!d->out || !out_close(d->out))
        code = out_complain(path);
    free(homeless);
    return code;
}

int plan_draw(const plan *p, const char *path)
{
    drawing d = {.p = p};
    int code = prepare(&d) ? draw_into(&d, path) : EXIT_FAILED;
    rows_free(&d.rows);
    tiles_free(&d.tiles);
    free(d.rank_at);
    free(d.hosts);
    return code;
}
