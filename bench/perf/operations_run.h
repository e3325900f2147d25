/* SPDX-License-Identifier: Apache-2.0 */
/* `weft perf OPERATION...` and `weft perf limits`. */
#ifndef WEFT_BENCH_PERF_OPERATIONS_RUN_H
#define WEFT_BENCH_PERF_OPERATIONS_RUN_H

int perf_operations(int argc, char **argv);
int perf_limits(int argc, char **argv);
/* Called by the name of a program of nccl-tests, such as all_reduce_perf: argv is main()'s. -1: @p argv[0] is no such
 * name. */
int perf_as_program(int argc, char **argv);

#endif
