/* SPDX-License-Identifier: Apache-2.0 */
/* What communicates: a set of buckets as a trainer has it, or one operation by itself. */
#ifndef WEFT_BENCH_PERF_OVERLAP_SUBJECT_H
#define WEFT_BENCH_PERF_OVERLAP_SUBJECT_H
#include <weft/weft.h>

#include "perf/overlap/shape.h"

typedef struct overlap_subject {
    const overlap_shape *shape;
    weft_world *world;
    weft_params *params; /* one a bucket */
    weft_buckets *set;
    weft_collective one; /* if there is no set */
    weft_comm *comm;
    void *send, *recv;
    weft_work work;
} overlap_subject;

/* A part of a step: pieces of computing, and the calls around them. Without a call there is nothing to do there. */
typedef struct overlap_phase {
    const char *name;
    weft_collective_kind kind;
    weft_result (*prepare)(overlap_subject *s); /* not timed, and not before computing alone */
    weft_result (*enter)(overlap_subject *s);
    weft_result (*before)(overlap_subject *s, size_t piece);
    weft_result (*after)(overlap_subject *s, size_t piece);
    weft_result (*leave)(overlap_subject *s);
    bool is_forward; /* its pieces go from the last bucket to the first */
} overlap_phase;

/* A set over the ranks of @p comm, with a param and a bucket for each size. Collective. */
weft_result overlap_subject_buckets(overlap_subject *s, weft_comm *comm, const overlap_shape *shape);
/* One operation of the only size: all-reduce of as many bytes, else the bytes of all ranks. */
weft_result overlap_subject_one(overlap_subject *s, weft_comm *comm, const overlap_shape *shape,
                                weft_collective_kind kind);
/* Give all back; nothing may be in flight. */
void overlap_subject_close(overlap_subject *s);

enum { OVERLAP_PHASES = 2 };
extern const overlap_phase overlap_step[OVERLAP_PHASES]; /* of a set: backward, forward */
extern const overlap_phase overlap_alone;                /* of one operation; its kind is that of the subject */

#endif
