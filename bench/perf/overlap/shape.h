/* SPDX-License-Identifier: Apache-2.0 */
/* How large the buckets are, in the order in which they are reduced. Bytes are those of gradients, which are fp32. */
#ifndef WEFT_BENCH_PERF_OVERLAP_SHAPE_H
#define WEFT_BENCH_PERF_OVERLAP_SHAPE_H
#include <stdbool.h>
#include <stddef.h>

enum { OVERLAP_BUCKETS_MOST = 4096, OVERLAP_ELEMENT = 4 /* bytes */ };

typedef struct overlap_shape {
    size_t count;
    size_t begins[OVERLAP_BUCKETS_MOST + 1]; /* bytes before each bucket; behind the last: all */
} overlap_shape;

static inline size_t overlap_shape_bytes(const overlap_shape *shape, size_t index)
{
    return shape->begins[index + 1] - shape->begins[index];
}

static inline size_t overlap_shape_total(const overlap_shape *shape)
{
    return shape->begins[shape->count];
}

/* @p total in @p count parts that differ by an element at most. Each needs an element. */
bool overlap_shape_even(overlap_shape *shape, size_t total, size_t count);
/* As a list says: "4M,1M,512K". OPTIONS_GO, or the code after a complaint. */
int overlap_shape_read(overlap_shape *shape, const char *list);

#endif
