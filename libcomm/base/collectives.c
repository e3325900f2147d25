/* SPDX-License-Identifier: Apache-2.0 */
/* The table of collectives. */
#include "base/collectives.h"

#include <stdio.h>

#include "base/dtype.h"

const weft__collective_row weft__collectives[] = {
    [WEFT_ALL_REDUCE] = {"all_reduce", WEFT__ONE_PART, WEFT__ONE_PART, WEFT__EVERYBODY, WEFT__EVERYBODY, true},
    [WEFT_REDUCE_SCATTER] = {"reduce_scatter", WEFT__PART_PER_RANK, WEFT__ONE_PART, WEFT__EVERYBODY, WEFT__EVERYBODY,
                             true},
    [WEFT_ALL_GATHER] = {"all_gather", WEFT__ONE_PART, WEFT__PART_PER_RANK, WEFT__EVERYBODY, WEFT__EVERYBODY},
    [WEFT_BROADCAST] = {"broadcast", WEFT__ONE_PART, WEFT__ONE_PART, WEFT__ROOT, WEFT__EVERYBODY},
    [WEFT_REDUCE] = {"reduce", WEFT__ONE_PART, WEFT__ONE_PART, WEFT__EVERYBODY, WEFT__ROOT, true},
    [WEFT_ALL_TO_ALL] = {"all_to_all", WEFT__PART_PER_RANK, WEFT__PART_PER_RANK, WEFT__EVERYBODY, WEFT__EVERYBODY},
    [WEFT_BARRIER] = {"barrier", WEFT__NO_PART, WEFT__NO_PART, WEFT__NOBODY, WEFT__NOBODY},
};

_Static_assert(sizeof weft__collectives / sizeof *weft__collectives == WEFT_COLLECTIVE_KINDS,
               "each collective has a row");

const char *weft_collective_string(weft_collective_kind kind)
{
    return weft__is_collective(kind) ? weft__collectives[kind].name : "?";
}

void weft__collective_describe(const weft_collective *c, char *text, size_t bytes)
{
    if (!weft__is_collective(c->kind)) {
        snprintf(text, bytes, "collective %d", (int)c->kind);
        return;
    }
    const weft__collective_row *row = &weft__collectives[c->kind];
    size_t used = (size_t)snprintf(text, bytes, "%s", row->name);
    if (row->send != WEFT__NO_PART && used < bytes)
        used += (size_t)snprintf(text + used, bytes - used, " of %zu %s", c->count, weft_dtype_string(c->dtype));
    if (row->reduces && used < bytes)
        used += (size_t)snprintf(text + used, bytes - used, ", %s", weft_reduction_string(c->reduction));
    if (weft__is_rooted(row) && used < bytes)
        snprintf(text + used, bytes - used, ", root %d", c->root);
}

bool weft__collective_same(const weft_collective *a, const weft_collective *b)
{
    return a->kind == b->kind && a->count == b->count && a->dtype == b->dtype && a->reduction == b->reduction &&
           (!weft__is_rooted(&weft__collectives[a->kind]) || a->root == b->root);
}
