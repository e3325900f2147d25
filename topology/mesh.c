/* SPDX-License-Identifier: Apache-2.0 */
/* The axes of parallelism over all places: a dense grid, and one for experts, in the same order. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <weft/mesh.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/sized.h"
#include "grid.h"

struct weft_mesh {
    weft__grid dense, expert;
};

/* Which dim of which grid an axis is; pp is in both. */
static const struct axis {
    weft_axes axis;
    const char *name;
    int dim;
    int dense, expert;
} axes_table[] = {
    {WEFT_AXIS_TP, "tp", WEFT__TP, 1, 0}, {WEFT_AXIS_DP, "dp", WEFT__DP, 1, 0},
    {WEFT_AXIS_CP, "cp", WEFT__CP, 1, 0}, {WEFT_AXIS_ETP, "etp", WEFT__TP, 0, 1},
    {WEFT_AXIS_EP, "ep", WEFT__EP, 0, 1}, {WEFT_AXIS_EDP, "edp", WEFT__DP, 0, 1},
    {WEFT_AXIS_PP, "pp", WEFT__PP, 1, 1},
};

enum { AXES = sizeof axes_table / sizeof *axes_table };

weft_result weft_axes_parse(const char *text, weft_axes *axes_out)
{
    weft_axes axes = 0;
    if (!text || !axes_out)
        return weft__fail(WEFT_E_INVALID, "axes are read from no text, or without a place for them");
    for (const char *at = text;; at++) {
        size_t bytes = strcspn(at, "-"), i = 0;
        while (i < AXES && (strlen(axes_table[i].name) != bytes || strncmp(at, axes_table[i].name, bytes) != 0))
            i++;
        if (i == AXES)
            return weft__fail(WEFT_E_INVALID, "axes '%s': '%.*s' is not one of tp, cp, dp, pp, etp, ep, edp", text,
                              (int)bytes, at);
        if (axes & axes_table[i].axis)
            return weft__fail(WEFT_E_INVALID, "axes '%s' have %s twice", text, axes_table[i].name);
        axes |= axes_table[i].axis;
        at += bytes;
        if (!*at)
            break;
    }
    *axes_out = axes;
    return WEFT_OK;
}

char *weft_axes_text(weft_axes axes, char *text)
{
    char *end = text;
    for (size_t i = 0; i < AXES; i++) {
        if (!(axes & axes_table[i].axis))
            continue;
        if (end > text)
            *end++ = '-';
        size_t bytes = strlen(axes_table[i].name);
        memcpy(end, axes_table[i].name, bytes);
        end += bytes;
    }
    *end = 0;
    return text;
}

/* The grid that has all of @p axes, and their dims there; NULL if none has, or there are no axes. */
static const weft__grid *grid_of(const weft_mesh *mesh, weft_axes axes, unsigned *mask)
{
    int dense = 1, expert = 1;
    weft_axes known = 0;
    *mask = 0;
    for (size_t i = 0; i < AXES; i++) {
        if (!(axes & axes_table[i].axis))
            continue;
        known |= axes_table[i].axis;
        dense &= axes_table[i].dense;
        expert &= axes_table[i].expert;
        *mask |= 1u << axes_table[i].dim;
    }
    if (axes == 0 || known != axes)
        return NULL;
    return dense ? &mesh->dense : expert ? &mesh->expert : NULL;
}

static weft_result need_grid(const weft_mesh *mesh, weft_axes axes, const weft__grid **grid, unsigned *mask)
{
    char text[WEFT_AXES_TEXT_MAX + 1];
    if (!mesh)
        return weft__fail(WEFT_E_INVALID, "groups of no mesh");
    *grid = grid_of(mesh, axes, mask);
    if (*grid)
        return WEFT_OK;
    return weft__fail(WEFT_E_INVALID,
                      "axes '%s' (%#x) are of no one grid: neither of tp, cp, dp, pp nor of etp, ep, edp, pp",
                      weft_axes_text(axes, text), (unsigned)axes);
}

/* A size that the user gave, under the user's name for it. */
static weft_result check_size(const char *name, int size, int may_be_rest)
{
    if (size >= 1 || (may_be_rest && size == WEFT_MESH_REST))
        return WEFT_OK;
    return weft__fail(WEFT_E_INVALID, "%s is %d, not 1 or more", name, size);
}

static weft_result check_sizes(const weft_mesh_config *c)
{
    WEFT_TRY(check_size("tp", c->tp, 0));
    WEFT_TRY(check_size("cp", c->cp, 0));
    WEFT_TRY(check_size("pp", c->pp, 0));
    WEFT_TRY(check_size("dp", c->dp, 1));
    WEFT_TRY(check_size("ep", c->ep, 0));
    return check_size("etp", c->etp, 1);
}

/* a * b, or SIZE_MAX if that is too much; sizes are positive ints, three of them may overflow 64 bits. */
static int64_t times(int64_t a, int64_t b)
{
    int64_t product;
    return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

static weft_result find_dp(int places, const weft_mesh_config *c, int *dp)
{
    int64_t others = times(times(c->tp, c->cp), c->pp);
    if (c->dp != WEFT_MESH_REST) {
        int64_t product = times(others, c->dp);
        if (product != places)
            return weft__fail(WEFT_E_INVALID, "tp %d * cp %d * dp %d * pp %d = %lld, but there are %d ranks", c->tp,
                              c->cp, c->dp, c->pp, (long long)product, places);
    }
    if (places % others != 0)
        return weft__fail(WEFT_E_INVALID, "tp %d * cp %d * pp %d = %lld does not divide %d ranks", c->tp, c->cp, c->pp,
                          (long long)others, places);
    *dp = (int)(places / others);
    return WEFT_OK;
}

static weft_result find_edp(int places, int etp, const weft_mesh_config *c, int *edp)
{
    int64_t others = times(times(etp, c->ep), c->pp);
    if (places % others != 0)
        return weft__fail(WEFT_E_INVALID, "etp %d * ep %d * pp %d = %lld does not divide %d ranks", etp, c->ep, c->pp,
                          (long long)others, places);
    *edp = (int)(places / others);
    return WEFT_OK;
}

/* Both grids must have the same pipelines: a stage holds dense layers and experts. */
static weft_result check_pipelines(const weft_mesh *mesh)
{
    int dense = mesh->dense.strides[WEFT__PP], expert = mesh->expert.strides[WEFT__PP];
    if (mesh->dense.sizes[WEFT__PP] == 1 || dense == expert)
        return WEFT_OK;
    return weft__fail(WEFT_E_INVALID,
                      "order %s: stages would be %d ranks apart, but %d for experts (etp %d * ep %d is not tp %d * cp "
                      "%d): let the order end in pp",
                      mesh->dense.order, dense, expert, mesh->expert.sizes[WEFT__TP], mesh->expert.sizes[WEFT__EP],
                      mesh->dense.sizes[WEFT__TP], mesh->dense.sizes[WEFT__CP]);
}

static const char *const expert_names[WEFT__DIMS] = {
    [WEFT__TP] = "etp", [WEFT__PP] = "pp", [WEFT__DP] = "edp", [WEFT__EP] = "ep", [WEFT__CP] = "cp"};

static weft_result make_grids(int places, const weft_mesh_config *c, weft_mesh *mesh)
{
    int dp = 0, edp = 0, etp = c->etp == WEFT_MESH_REST ? c->tp : c->etp;
    WEFT_TRY(check_sizes(c));
    WEFT_TRY(find_dp(places, c, &dp));
    WEFT_TRY(find_edp(places, etp, c, &edp));
    const int dense[WEFT__DIMS] = {
        [WEFT__TP] = c->tp, [WEFT__CP] = c->cp, [WEFT__EP] = 1, [WEFT__DP] = dp, [WEFT__PP] = c->pp};
    const int expert[WEFT__DIMS] = {
        [WEFT__TP] = etp, [WEFT__CP] = 1, [WEFT__EP] = c->ep, [WEFT__DP] = edp, [WEFT__PP] = c->pp};
    WEFT_TRY(weft__grid_make(c->order, dense, weft__dim_names, &mesh->dense));
    WEFT_TRY(weft__grid_make(c->order, expert, expert_names, &mesh->expert));
    return check_pipelines(mesh);
}

weft_result weft_mesh_create(int places, const weft_mesh_config *config, weft_mesh **mesh_out)
{
    if (!mesh_out)
        return weft__fail(WEFT_E_INVALID, "a mesh is made without a place for it");
    *mesh_out = NULL;
    weft_mesh_config own = WEFT_MESH_CONFIG_INIT;
    WEFT_TRY(weft__take_sized(&own, sizeof own, config, "weft_mesh_config"));
    if (own.flags)
        return weft__fail(WEFT_E_INVALID, "flags of a mesh config are %#x, not 0", (unsigned)own.flags);
    if (places < 1)
        return weft__fail(WEFT_E_INVALID, "a mesh over %d places", places);
    weft_mesh *mesh = weft__alloc(sizeof *mesh);
    if (!mesh)
        return WEFT_E_NO_MEMORY;
    weft_result result = make_grids(places, &own, mesh);
    if (result < 0) {
        free(mesh);
        return result;
    }
    *mesh_out = mesh;
    return WEFT_OK;
}

void weft_mesh_destroy(weft_mesh *mesh)
{
    free(mesh);
}

int weft_mesh_places(const weft_mesh *mesh)
{
    return mesh->dense.places;
}

const char *weft_mesh_order(const weft_mesh *mesh)
{
    return mesh->dense.order;
}

int weft_mesh_size(const weft_mesh *mesh, weft_axes axes)
{
    unsigned mask;
    const weft__grid *grid = grid_of(mesh, axes, &mask);
    return grid ? weft__grid_group_size(grid, mask) : 0;
}

int weft_mesh_groups(const weft_mesh *mesh, weft_axes axes)
{
    int size = weft_mesh_size(mesh, axes);
    return size ? mesh->dense.places / size : 0;
}

static weft_result check_place(const weft_mesh *mesh, int place)
{
    if (place >= 0 && place < mesh->dense.places)
        return WEFT_OK;
    return weft__fail(WEFT_E_RANGE, "there is no place %d among %d", place, mesh->dense.places);
}

weft_result weft_mesh_coordinates(const weft_mesh *mesh, int place, weft_coordinates *coordinates_out)
{
    if (!mesh || !coordinates_out)
        return weft__fail(WEFT_E_INVALID, "coordinates without a mesh, or without a place for them");
    WEFT_TRY(check_place(mesh, place));
    *coordinates_out = (weft_coordinates){
        .tp = weft__grid_coordinate(&mesh->dense, WEFT__TP, place),
        .cp = weft__grid_coordinate(&mesh->dense, WEFT__CP, place),
        .dp = weft__grid_coordinate(&mesh->dense, WEFT__DP, place),
        .pp = weft__grid_coordinate(&mesh->dense, WEFT__PP, place),
        .etp = weft__grid_coordinate(&mesh->expert, WEFT__TP, place),
        .ep = weft__grid_coordinate(&mesh->expert, WEFT__EP, place),
        .edp = weft__grid_coordinate(&mesh->expert, WEFT__DP, place),
    };
    return WEFT_OK;
}

weft_result weft_mesh_place(const weft_mesh *mesh, const weft_coordinates *coordinates, int *place_out)
{
    if (!mesh || !coordinates || !place_out)
        return weft__fail(WEFT_E_INVALID, "a place of a mesh without the mesh, its coordinates, or room for it");
    const int wanted[WEFT__DIMS] = {[WEFT__TP] = coordinates->tp,
                                    [WEFT__CP] = coordinates->cp,
                                    [WEFT__DP] = coordinates->dp,
                                    [WEFT__PP] = coordinates->pp};
    int place = 0;
    for (int dim = 0; dim < WEFT__DIMS; dim++) {
        if (wanted[dim] < 0 || wanted[dim] >= mesh->dense.sizes[dim])
            return weft__fail(WEFT_E_RANGE, "there is no coordinate %d in %s, whose size is %d", wanted[dim],
                              weft__dim_names[dim], mesh->dense.sizes[dim]);
        place += wanted[dim] * mesh->dense.strides[dim];
    }
    *place_out = place;
    return WEFT_OK;
}

weft_result weft_mesh_group(const weft_mesh *mesh, weft_axes axes, int index, int *places_out)
{
    const weft__grid *grid;
    unsigned mask = 0;
    WEFT_TRY(need_grid(mesh, axes, &grid, &mask));
    if (!places_out)
        return weft__fail(WEFT_E_INVALID, "a group of a mesh without a place for it");
    int groups = weft_mesh_groups(mesh, axes);
    if (index < 0 || index >= groups)
        return weft__fail(WEFT_E_RANGE, "there is no group %d among %d", index, groups);
    weft__grid_group(grid, mask, index, places_out);
    return WEFT_OK;
}

weft_result weft_mesh_group_of(const weft_mesh *mesh, weft_axes axes, int place, int *index_out, int *member_out)
{
    const weft__grid *grid;
    unsigned mask = 0;
    int index, member;
    WEFT_TRY(need_grid(mesh, axes, &grid, &mask));
    if (!index_out)
        return weft__fail(WEFT_E_INVALID, "which group of a mesh, without a place for it");
    WEFT_TRY(check_place(mesh, place));
    weft__grid_group_of(grid, mask, place, &index, &member);
    *index_out = index;
    if (member_out)
        *member_out = member;
    return WEFT_OK;
}
