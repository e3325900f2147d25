/* SPDX-License-Identifier: Apache-2.0 */
/* A whole run: starts the ranks, passes on what they write and what signals come, ends all when one fails. */
#ifndef WEFT_BENCH_RUN_LAUNCHER_H
#define WEFT_BENCH_RUN_LAUNCHER_H
#include <stdbool.h>

typedef struct launch_config {
    int ranks;
    bool threads, bind, prefix;
    double timeout_s;    /* 0 = none */
    double last_words_s; /* from the first failure to SIGTERM for the others */
    double grace_s;      /* from SIGTERM to SIGKILL */
    char **command;      /* ends with NULL */
} launch_config;

/* Returns the code to exit with. */
int launch(const launch_config *config);

#endif
