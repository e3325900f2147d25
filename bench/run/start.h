/* SPDX-License-Identifier: Apache-2.0 */
/* Starts the process of one rank. */
#ifndef WEFT_BENCH_RUN_START_H
#define WEFT_BENCH_RUN_START_H
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "cores.h"
#include "run/keeper.h"
#include "run/signals.h"

/* Hosts to start ranks on, in place of this one. */
typedef struct start_hosts {
    const int *pidfds;      /* of a process on each: ranks start in its namespaces */
    int ranks_each;         /* the first ones on the first host, and so on */
    const char *rendezvous; /* that all of them reach */
    bool torch;             /* say who a rank is as torchrun does, too */
} start_hosts;

/* What all ranks share. */
typedef struct start_plan {
    char **command; /* ends with NULL */
    int ranks;
    bool threads;             /* one process that makes them of threads */
    const cores *cores;       /* bind there; NULL = do not bind */
    bool share;               /* divide them, else one a rank, in turn */
    const start_hosts *hosts; /* NULL = this one */
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
