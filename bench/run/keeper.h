/* SPDX-License-Identifier: Apache-2.0 */
/* Ends what the launcher leaves behind when it is killed: the kernel ends the ranks, but not what the ranks started. */
#ifndef WEFT_BENCH_RUN_KEEPER_H
#define WEFT_BENCH_RUN_KEEPER_H
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

typedef struct keeper {
    _Atomic pid_t *groups; /* of each rank its process group, 0 = none; memory shared with all children */
    int count;
    pid_t pid;
    int alive; /* writing end of a pipe; the keeper kills the groups when the last copy is closed */
} keeper;

/* False: errno says why. */
bool keeper_start(keeper *k, int count);
/* All groups have ended. */
void keeper_stop(keeper *k);

#endif
