/* SPDX-License-Identifier: Apache-2.0 */
/* How near two cores are to each other. */
#ifndef WEFT_BENCH_PERF_PROBE_H
#define WEFT_BENCH_PERF_PROBE_H

enum { PERF_FAR_NS = 160 }; /* what takes longer is called far */
/* Two threads, one on each processor, send a flag to and fro for about @p ms: median ns one way; NAN if they cannot be
 * there both. */
double perf_probe(int cpu, int other_cpu, double ms);

#endif
