/* SPDX-License-Identifier: Apache-2.0 */
/* Finds places in the tree; pure. */
#include "bootstrap/tree.h"

int weft__tree_fan = WEFT__TREE_FAN;

static weft__place place_with(int rank, int parent, int end)
{
    int others = end - rank - 1;
    return (weft__place){rank, parent, end, others < weft__tree_fan ? others : weft__tree_fan};
}

weft__place weft__tree_place(int rank, int size)
{
    weft__place place = place_with(0, -1, size);
    while (place.rank != rank) {
        int index = 0;
        while (weft__tree_child(&place, index + 1) <= rank)
            index++;
        place = place_with(weft__tree_child(&place, index), place.rank, weft__tree_child(&place, index + 1));
    }
    return place;
}
