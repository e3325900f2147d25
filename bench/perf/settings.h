/* SPDX-License-Identifier: Apache-2.0 */
/* What the command line asks `weft perf` for. */
#ifndef WEFT_BENCH_PERF_SETTINGS_H
#define WEFT_BENCH_PERF_SETTINGS_H
#include <stdbool.h>

#include "option.h"
#include "perf/operations.h"

enum { PERF_OPERATIONS_MAX = 16, PERF_IN_FLIGHT_MAX = 64, PERF_ROUNDS_MAX = 1000 };

typedef enum perf_buffer_mode { PERF_ROTATED, PERF_SAME, PERF_REWRITTEN } perf_buffer_mode;
typedef enum perf_memory { PERF_HEAP, PERF_MALLOC } perf_memory;
typedef enum perf_blocking {
    PERF_BACK_TO_BACK,
    PERF_BARRIER_INSIDE,
    PERF_WAIT_ONLY,
    PERF_BARRIER_OUTSIDE
} perf_blocking;

typedef struct perf_settings {
    int threads, gpus;
    size_t min_bytes, max_bytes, step_bytes;
    double factor;
    int iterations; /* 0: by time */
    int warmup, aggregate, cycles, check;
    const char *reduction, *dtype, *root;
    int blocking, average, timestamps, per_iteration;
    int timeout_s, unalign;
    int only_zero; /* options that have no other value here */
    option_texts backends;
    int rounds; /* 0: 1, or with several backends 15 */
    int buffers, memory;
    size_t rotate_bytes; /* 0: as large as the last cache */
    double row_ms;
    bool limits, limits_only, contend;
    const char *json, *csv;

    const perf_operation *operations[PERF_OPERATIONS_MAX];
    int operation_count;
    weft_dtype dtypes[WEFT_DTYPES];
    int dtype_count;
    weft_reduction reductions[WEFT_REDUCTIONS];
    int reduction_count;
    int first_root; /* -1: every rank */
} perf_settings;

/* OPTIONS_GO, or the code to exit with. argv[0] is not looked at; @p only: operations are given by the name of the
 * program, and none may follow. */
int perf_settings_read(perf_settings *s, const perf_operation *only, int argc, char **argv);

/* As nccl-tests calls them. */
const char *perf_dtype_name(weft_dtype dtype);
const char *perf_reduction_name(weft_reduction reduction);
const char *perf_buffer_mode_name(int mode);
bool perf_can_reduce(weft_dtype dtype, weft_reduction reduction);

/* The size after @p bytes, or 0 behind the last. */
size_t perf_next_size(const perf_settings *s, size_t bytes);

#endif
