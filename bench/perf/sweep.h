/* SPDX-License-Identifier: Apache-2.0 */
/* All rows that were asked for, one after the other, on this rank. */
#ifndef WEFT_BENCH_PERF_SWEEP_H
#define WEFT_BENCH_PERF_SWEEP_H
#include <stdatomic.h>
#include <weft/world.h>

#include "perf/settings.h"

typedef struct perf_job {
    const perf_settings *settings;
    const char *name; /* of the whole */
    bool bind;        /* ranks are threads that nobody has put on cores */
    _Atomic int code; /* of the exit, where no operation failed; the same from every rank */
} perf_job;

/* The body of one rank; @p argument is a perf_job. */
weft_result perf_sweep(weft_world *world, void *argument);

#endif
