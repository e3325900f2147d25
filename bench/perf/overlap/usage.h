/* SPDX-License-Identifier: Apache-2.0 */
/* Processor time: of this process, of its threads but the caller, and what the kernel of this host spends on network
 * traffic outside of processes. */
#ifndef WEFT_BENCH_PERF_OVERLAP_USAGE_H
#define WEFT_BENCH_PERF_OVERLAP_USAGE_H

typedef struct overlap_usage {
    double user_ms, system_ms; /* of the process */
    double others_ms;          /* of its threads but this one */
    double softirq_ms;         /* of all cores of the host; in steps of 10 ms */
} overlap_usage;

overlap_usage overlap_usage_now(void);

#endif
