/* SPDX-License-Identifier: Apache-2.0 */
/* The tree of a world: along it ranks pass on what all are to know, so that none of them sends it to more than a few.
 * A rank stands for the ranks from its own on to before `end`, and shares them out among its children, in order:
 * neighbours stay together. Up to WEFT__TREE_FAN + 1 ranks all are children of rank 0. */
#ifndef WEFT_BOOTSTRAP_TREE_H
#define WEFT_BOOTSTRAP_TREE_H

#define WEFT__TREE_FAN 16

extern int weft__tree_fan; /* children that a rank has at most; changed by tests alone, on all ranks alike */

typedef struct weft__place {
    int rank, parent; /* parent -1: rank 0 */
    int end;
    int children;
} weft__place;

weft__place weft__tree_place(int rank, int size);
/* The first rank of child @p index, which is the child itself; of the one behind the last: the end. */
static inline int weft__tree_child(const weft__place *place, int index)
{
    long long others = place->end - place->rank - 1;
    return place->rank + 1 + (int)(others * index / (place->children ? place->children : 1));
}

#endif
