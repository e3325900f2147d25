/* SPDX-License-Identifier: Apache-2.0 */
/* What the user of `weft perf overlap` asks for. */
#ifndef WEFT_BENCH_PERF_OVERLAP_OPTIONS_H
#define WEFT_BENCH_PERF_OVERLAP_OPTIONS_H
#include <weft/collective.h>

#include "perf/overlap/compute.h"
#include "perf/overlap/shape.h"

typedef struct overlap_options {
    const char *bytes, *compute, *backend, *json, *svg;
    int buckets, one, rounds, threads, timeout_s;
    double ratio, compute_ms, forward, row_s, within_ms, factor;
    size_t min_bytes, max_bytes;
    bool sweep;

    overlap_kernel kernel;
    weft_collective_kind operation; /* of --one */
    overlap_shape shape;            /* without --sweep; with it, all bytes in one bucket */
} overlap_options;

/* OPTIONS_GO, or the code to exit with. */
int overlap_options_read(overlap_options *o, int argc, char **argv);

/* The first shape of a sweep, and the next: false behind the last. */
bool overlap_options_first(const overlap_options *o, overlap_shape *shape);
bool overlap_options_next(const overlap_options *o, overlap_shape *shape);
/* The most buckets of any. */
size_t overlap_options_most(const overlap_options *o);

#endif
