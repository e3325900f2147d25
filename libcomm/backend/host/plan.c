/* SPDX-License-Identifier: Apache-2.0 */
/* The table of collectives: how each is cut into cells, and what it does at each station. */
#include "backend/host/part.h"

static size_t extent_part(const weft__host_comm *hc, const weft_op *op)
{
    (void)hc;
    return op->what.count;
}

static size_t extent_nothing(const weft__host_comm *hc, const weft_op *op)
{
    (void)hc, (void)op;
    return 0;
}

/* Elements of a message. */
static size_t most_piece(const weft__host_comm *hc, const weft_op *op)
{
    return hc->piece_bytes / weft__dtype_bytes(weft__sum_type(op));
}

static size_t most_of_all(const weft__host_comm *hc, const weft_op *op)
{
    return most_piece(hc, op) * (size_t)hc->count;
}

#define SUM                                                                                                   \
    {                                                                                                         \
        weft__sum_enter, weft__sum_first_far, weft__sum_combine, weft__sum_second_far, weft__sum_second_near, \
            weft__sum_leave                                                                                   \
    }

const weft__host_kind weft__host_kinds[] = {
    [WEFT_ALL_REDUCE] = {extent_part, most_of_all, SUM},
    [WEFT_REDUCE] = {extent_part, most_of_all, SUM},
    [WEFT_REDUCE_SCATTER] = {extent_part,
                             most_piece,
                             {weft__scatter_enter, weft__scatter_first_far, weft__scatter_combine}},
    [WEFT_ALL_GATHER] = {extent_part,
                         most_piece,
                         {[WEFT__FIRST_FAR] = weft__gather_first_far, [WEFT__SECOND_NEAR] = weft__gather_second_near}},
    [WEFT_BROADCAST] = {extent_part,
                        most_of_all,
                        {[WEFT__FIRST_FAR] = weft__broadcast_first_far,
                         [WEFT__SECOND_FAR] = weft__broadcast_second_far,
                         [WEFT__SECOND_NEAR] = weft__broadcast_second_near}},
    [WEFT_ALL_TO_ALL] = {extent_part, most_piece, {weft__exchange_enter, weft__exchange_first_far}},
    [WEFT_BARRIER] = {extent_nothing, most_piece, {weft__barrier_enter, weft__barrier_first_far}},
};

_Static_assert(sizeof weft__host_kinds / sizeof *weft__host_kinds == WEFT_COLLECTIVE_KINDS,
               "each collective goes through the stations");
