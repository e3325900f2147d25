/* SPDX-License-Identifier: Apache-2.0 */
/* Starts the process of one rank. */
#ifndef WEFT_BENCH_RUN_START_H
#define WEFT_BENCH_RUN_START_H
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "run/cores.h"
#include "run/keeper.h"
#include "run/signals.h"

/* What all ranks share. */
typedef struct start_plan {
    char **command; /* ends with NULL */
    int ranks;
    bool threads;       /* one process that makes them of threads */
    const cores *cores; /* bind there; NULL = do not bind */
    char rendezvous[96];
    const signals *signals;
    const keeper *keeper;
    struct rlimit files; /* RLIMIT_NOFILE of the ranks */
} start_plan;

typedef struct started {
    pid_t pid;     /* of the first process, and of its group */
    int output[2]; /* reading ends of its standard output and error; do not block */
} started;

enum { START_EXIT_CANNOT_RUN = 126, START_EXIT_NOT_FOUND = 127 }; /* as shells have it */

/* Start @p rank with @p input as standard input, -1 = /dev/null, and wait until its program runs. 0, or after a message
 * on stderr the code to exit with. */
int start_rank(const start_plan *plan, int rank, int input, started *started_out);

#endif
