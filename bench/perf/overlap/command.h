/* SPDX-License-Identifier: Apache-2.0 */
/* `weft perf overlap`: how much communication hides behind computing. */
#ifndef WEFT_BENCH_PERF_OVERLAP_COMMAND_H
#define WEFT_BENCH_PERF_OVERLAP_COMMAND_H

int perf_overlap(int argc, char **argv);

#endif
