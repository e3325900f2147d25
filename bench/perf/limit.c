/* SPDX-License-Identifier: Apache-2.0 */
/* Tells what a rank must read and write for an operation in which everything is done once: sums are made where their
 * parts meet, copies go straight. */
#include "perf/limit.h"

bool perf_limit_of(const perf_subject *s, bool in_place, perf_limit *limit_out)
{
    const perf_operation *o = s->operation;
    size_t bytes = weft_dtype_bytes(s->dtype), ranks = (size_t)s->ranks;
    perf_limit limit = {.in_place = in_place};
    if (o->reduces) { /* a reduce is one to a single rank's memory, by all */
        bool parted = o->send == PERF_PART_PER_RANK;
        limit.parts = ranks;
        limit.summed = parted ? s->count : s->count / ranks;
        limit.written = o->collective == WEFT_ALL_REDUCE ? ranks : 1;
        *limit_out = limit;
        return s->dtype == WEFT_FP32 && s->reduction == WEFT_SUM;
    }
    for (int i = 0; perf_receives(s) && i < perf_pieces(s); i++) {
        perf_piece piece = o->piece(s, i);
        if (!in_place || piece.source != s->rank) /* else it lies there already */
            limit.copied += piece.count * bytes;
    }
    *limit_out = limit;
    return true;
}

double perf_limit_moved(const perf_limit *limit)
{
    bool lies_there = limit->in_place && limit->parts == 1; /* the sum of one */
    return (double)limit->copied + (lies_there ? 0 : (double)limit->summed * (double)limit->parts * sizeof(float));
}

const perf_limit_ways *perf_limit_ways_here(void)
{
#ifdef PERF_LIMIT_X86
    if (__builtin_cpu_supports("avx512f"))
        return &perf_limit_ways_avx512;
    if (__builtin_cpu_supports("avx2"))
        return &perf_limit_ways_avx2;
#endif
    return &perf_limit_ways_baseline;
}
