/* SPDX-License-Identifier: Apache-2.0 */
/* Where threads run, and how near two cores are to each other. */
#ifndef WEFT_BENCH_PERF_CORES_H
#define WEFT_BENCH_PERF_CORES_H

/* If this process may use a core for each of its ranks, put the calling thread on its own. */
void perf_bind_thread(int rank, int ranks);
/* The processor that the calling thread is on. */
int perf_cpu_now(void);

enum { PERF_FAR_NS = 160 }; /* what takes longer is called far */
/* Two threads, one on each processor, send a flag to and fro for about @p ms: median ns one way; NAN if they cannot be
 * there both. */
double perf_probe(int cpu, int other_cpu, double ms);

#endif
