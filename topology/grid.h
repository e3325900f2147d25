/* SPDX-License-Identifier: Apache-2.0 */
/* One grid: five axes in an order over a number of places, and the groups along any of them. */
#ifndef WEFT_TOPOLOGY_GRID_H
#define WEFT_TOPOLOGY_GRID_H
#include <weft/result.h>

/* In the order in which axes that an order leaves out are appended. */
enum { WEFT__TP, WEFT__PP, WEFT__DP, WEFT__EP, WEFT__CP, WEFT__DIMS };

extern const char *const weft__dim_names[WEFT__DIMS];

#define WEFT__ORDER_DEFAULT "tp-cp-ep-dp-pp"

typedef struct weft__grid {
    int places;
    int dims[WEFT__DIMS];    /* from the innermost to the outermost */
    int sizes[WEFT__DIMS];   /* by dim */
    int strides[WEFT__DIMS]; /* by dim: how many places apart neighbours are */
    char order[16];          /* in full, lower case */
} weft__grid;

/* @p order NULL = default; @p names: what messages call the sizes. E_INVALID says what is wrong with the order or a
 * size. */
weft_result weft__grid_make(const char *order, const int sizes[WEFT__DIMS], const char *const names[WEFT__DIMS],
                            weft__grid *grid);
/* The dim named by @p bytes letters of @p name; -1 = none. */
int weft__grid_dim(const char *name, size_t bytes);

/* @p mask has bit d for dim d. Group and member numbers run over the dims in order, the innermost first. */
int weft__grid_group_size(const weft__grid *grid, unsigned mask);
void weft__grid_group(const weft__grid *grid, unsigned mask, int index, int *places);
void weft__grid_group_of(const weft__grid *grid, unsigned mask, int place, int *index, int *member);
int weft__grid_coordinate(const weft__grid *grid, int dim, int place);

#endif
