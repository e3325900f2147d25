/* SPDX-License-Identifier: Apache-2.0 */
/* The ranks of a benchmark: those of a launcher, or threads of this process. */
#ifndef WEFT_BENCH_PERF_RANKS_H
#define WEFT_BENCH_PERF_RANKS_H
#include <weft/world.h>

/* Run @p body on all ranks: on @p threads threads, or if that is 1, on the rank or ranks that this process is meant to
 * be. The exit code, behind a complaint if it is not EXIT_DONE. */
int perf_ranks_run(int threads, const weft_world_config *config, weft_rank_function body, void *argument);

/* Complain if a launcher has started several ranks: @p threads of one process are all the ranks there are. EXIT_DONE,
 * or the code to exit with. */
int perf_ranks_refuse_launcher(int threads);

#endif
