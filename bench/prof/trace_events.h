/* SPDX-License-Identifier: Apache-2.0 */
/* A run as trace events (JSON), which ui.perfetto.dev and chrome://tracing show: a process for each rank; in it tracks
 * for steps, computing, waiting, marked spans, and one for each comm; an arrow from where an operation was started to
 * where it was finished, from a message's sender to its receiver, and from who came late to who waited; and counters of
 * what is in flight and of the share of each step that was exposed. */
#ifndef WEFT_BENCH_PROF_TRACE_EVENTS_H
#define WEFT_BENCH_PROF_TRACE_EVENTS_H
#include <stdio.h>

#include "prof/split.h"

/* False: no memory. What could not be written is left to whoever closes @p out. */
bool prof_trace_events(FILE *out, const prof_split *split);

#endif
