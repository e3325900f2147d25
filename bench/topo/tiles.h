/* SPDX-License-Identifier: Apache-2.0 */
/* The boxes that a machine is drawn as: frames around frames and cells. A frame in a frame of its own is one with it;
 * PCI bridges are left out; what is alike and carries no rank shares a cell. */
#ifndef WEFT_BENCH_TOPO_TILES_H
#define WEFT_BENCH_TOPO_TILES_H
#include "svg.h"
#include "topo/topo.h"

enum { TILE_LABEL = 10, TILE_SMALL = 8, TILE_PAD = 8, TILE_GAP = 6, TILE_BADGE = 27 /* pixels */ };

typedef enum tile_kind { TILE_FRAME, TILE_CORE, TILE_GPU, TILE_DEVICE, TILE_KINDS } tile_kind;

typedef struct tile {
    tile_kind kind;
    int parent, depth; /* the tile around it; -1 = none */
    int first, end;    /* the objects it stands for, with all below; those of a frame begin with its own */
    bool allowed;
    bool seat; /* for a rank */
    svg_box box;
    char label[112], detail[64];
} tile;

typedef struct tiles {
    tile *at; /* in depth-first order; the first is the machine */
    int count;
} tiles;

/* @p badge_width: the room that a rank takes in the cell of what it runs on. False: no memory. */
bool tiles_make(tiles *t, const plan *p, double badge_width);
void tiles_free(tiles *t);

/* Boxes side by side in rows, from left to right: x and y of each, counted from 0, and the size of the whole, which is
 * rather wide than high. A row holds boxes of one kind. */
typedef struct arranged {
    svg_box box;
    int kind;
} arranged;
void arrange(arranged *items, int count, double gap, double *width, double *height);

#endif
