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

void weft__asked_describe(const weft_asked *asked, char *text, size_t bytes)
{
    weft_collective c = {.kind = (weft_collective_kind)asked->kind,
                         .dtype = (weft_dtype)asked->dtype,
                         .reduction = (weft_reduction)asked->reduction,
                         .root = asked->root,
                         .count = (size_t)asked->count};
    weft__collective_describe(&c, text, bytes);
}

bool weft__collective_same(const weft_collective *a, const weft_collective *b)
{
    weft_asked asked_a = weft__collective_asked(a), asked_b = weft__collective_asked(b);
    return weft__asked_same(&asked_a, &asked_b);
}

/* ------------------------------------------------------------------------------------------- marks */

enum { COUNT_BITS = 32, NUMBER_BITS = 12, ROOT_BITS = 11, CODE_BITS = 3 };

_Static_assert(COUNT_BITS + NUMBER_BITS + ROOT_BITS + 3 * CODE_BITS == 64, "a mark is one word");
_Static_assert(WEFT_COLLECTIVE_KINDS < 1 << CODE_BITS && WEFT_DTYPES <= 1 << CODE_BITS &&
                   WEFT_REDUCTIONS <= 1 << CODE_BITS,
               "codes have room (that of the kind begins at 1): a new kind or dtype takes CODE_BITS from the others");

static uint64_t put(uint64_t mark, uint64_t value, int bits)
{
    return mark << bits | (value & (((uint64_t)1 << bits) - 1));
}

static uint64_t take(uint64_t *mark, int bits)
{
    uint64_t value = *mark & (((uint64_t)1 << bits) - 1);
    *mark >>= bits;
    return value;
}

uint64_t weft__collective_mark(const weft_collective *c, uint64_t number)
{
    weft_asked asked = weft__collective_asked(c);
    uint64_t mark = put(0, asked.count, COUNT_BITS);
    mark = put(mark, number, NUMBER_BITS);
    mark = put(mark, (uint64_t)asked.root, ROOT_BITS);
    mark = put(mark, asked.reduction, CODE_BITS);
    mark = put(mark, asked.dtype, CODE_BITS);
    return put(mark, (uint64_t)asked.kind + 1, CODE_BITS);
}

weft_asked weft__collective_marked(uint64_t mark)
{
    weft_asked asked = {.kind = (uint8_t)(take(&mark, CODE_BITS) - 1)};
    asked.dtype = (uint8_t)take(&mark, CODE_BITS);
    asked.reduction = (uint8_t)take(&mark, CODE_BITS);
    asked.root = (int32_t)take(&mark, ROOT_BITS);
    (void)take(&mark, NUMBER_BITS);
    asked.count = mark;
    return asked;
}
