/* SPDX-License-Identifier: Apache-2.0 */
/* Place <-> coordinates for one order of axes. */
#include "grid.h"

#include <limits.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"

const char *const weft__dim_names[WEFT__DIMS] = {"tp", "pp", "dp", "ep", "cp"};

int weft__grid_dim(const char *name, size_t bytes)
{
    for (int dim = 0; dim < WEFT__DIMS; dim++)
        if (bytes == 2 && strncasecmp(name, weft__dim_names[dim], 2) == 0)
            return dim;
    return -1;
}

/* The dims that @p order names, in their order. */
static weft_result read_order(const char *order, int *dims, int *count)
{
    unsigned seen = 0;
    *count = 0;
    for (const char *at = order;; at++) {
        size_t bytes = strcspn(at, "-");
        int dim = weft__grid_dim(at, bytes);
        if (dim < 0)
            return weft__fail(WEFT_E_INVALID, "order '%s': '%.*s' is not one of tp, cp, ep, dp, pp", order, (int)bytes,
                              at);
        if (seen >> dim & 1)
            return weft__fail(WEFT_E_INVALID, "order '%s' has %s twice", order, weft__dim_names[dim]);
        seen |= 1u << dim;
        dims[(*count)++] = dim;
        at += bytes;
        if (!*at)
            return WEFT_OK;
    }
}

/* Axes that were left out have size 1 and go outside. */
static weft_result complete_order(const char *order, const int *sizes, const char *const *names, int *dims, int count)
{
    for (int dim = 0; dim < WEFT__DIMS; dim++) {
        int named = 0;
        for (int i = 0; i < count; i++)
            named |= dims[i] == dim;
        if (named)
            continue;
        if (sizes[dim] != 1)
            return weft__fail(WEFT_E_INVALID, "order '%s' lacks %s, but %s is %d", order, weft__dim_names[dim],
                              names[dim], sizes[dim]);
        dims[count++] = dim;
    }
    return WEFT_OK;
}

static weft_result set_strides(weft__grid *grid)
{
    int64_t places = 1;
    char *text = grid->order;
    for (int i = 0; i < WEFT__DIMS; i++) {
        int dim = grid->dims[i];
        grid->strides[dim] = (int)places;
        places *= grid->sizes[dim];
        if (places > INT_MAX)
            return weft__fail(WEFT_E_INVALID, "sizes multiply to more than %d places", INT_MAX);
        memcpy(text, weft__dim_names[dim], 2);
        text[2] = i + 1 < WEFT__DIMS ? '-' : 0;
        text += 3;
    }
    grid->places = (int)places;
    return WEFT_OK;
}

weft_result weft__grid_make(const char *order, const int sizes[WEFT__DIMS], const char *const names[WEFT__DIMS],
                            weft__grid *grid)
{
    weft__grid g = {0};
    int named;
    if (!order)
        order = WEFT__ORDER_DEFAULT;
    for (int dim = 0; dim < WEFT__DIMS; dim++) {
        if (sizes[dim] < 1)
            return weft__fail(WEFT_E_INVALID, "%s is %d, not 1 or more", names[dim], sizes[dim]);
        g.sizes[dim] = sizes[dim];
    }
    if (sizes[WEFT__EP] > 1 && sizes[WEFT__CP] > 1)
        return weft__fail(WEFT_E_INVALID, "ep %d and cp %d in one grid: it is of experts or dense", sizes[WEFT__EP],
                          sizes[WEFT__CP]);
    WEFT_TRY(read_order(order, g.dims, &named));
    WEFT_TRY(complete_order(order, sizes, names, g.dims, named));
    WEFT_TRY(set_strides(&g));
    *grid = g;
    return WEFT_OK;
}

int weft__grid_group_size(const weft__grid *grid, unsigned mask)
{
    int size = 1;
    for (int dim = 0; dim < WEFT__DIMS; dim++)
        if (mask >> dim & 1)
            size *= grid->sizes[dim];
    return size;
}

int weft__grid_coordinate(const weft__grid *grid, int dim, int place)
{
    return place / grid->strides[dim] % grid->sizes[dim];
}

/* The place whose coordinates in the dims of @p mask are the digits of @p number; 0 in the others. */
static int place_of_digits(const weft__grid *grid, unsigned mask, int number)
{
    int place = 0;
    for (int i = 0; i < WEFT__DIMS; i++) {
        int dim = grid->dims[i];
        if (!(mask >> dim & 1))
            continue;
        place += number % grid->sizes[dim] * grid->strides[dim];
        number /= grid->sizes[dim];
    }
    return place;
}

/* The inverse: the digits of @p place in the dims of @p mask. */
static int digits_of_place(const weft__grid *grid, unsigned mask, int place)
{
    int number = 0, unit = 1;
    for (int i = 0; i < WEFT__DIMS; i++) {
        int dim = grid->dims[i];
        if (!(mask >> dim & 1))
            continue;
        number += weft__grid_coordinate(grid, dim, place) * unit;
        unit *= grid->sizes[dim];
    }
    return number;
}

void weft__grid_group(const weft__grid *grid, unsigned mask, int index, int *places)
{
    int base = place_of_digits(grid, ~mask, index), size = weft__grid_group_size(grid, mask);
    for (int member = 0; member < size; member++)
        places[member] = base + place_of_digits(grid, mask, member);
}

void weft__grid_group_of(const weft__grid *grid, unsigned mask, int place, int *index, int *member)
{
    *index = digits_of_place(grid, ~mask, place);
    *member = digits_of_place(grid, mask, place);
}
