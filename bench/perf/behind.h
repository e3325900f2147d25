/* SPDX-License-Identifier: Apache-2.0 */
/* `weft perf behind`: small operations while a large one is under way. */
#ifndef WEFT_BENCH_PERF_BEHIND_H
#define WEFT_BENCH_PERF_BEHIND_H

int perf_behind(int argc, char **argv);

#endif
