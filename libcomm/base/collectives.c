/* SPDX-License-Identifier: Apache-2.0 */
/* The table of collectives. */
#include "base/collectives.h"

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
