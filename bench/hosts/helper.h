/* SPDX-License-Identifier: Apache-2.0 */
/* A child that serves as long as this process lives: it prepares, says that it is ready or why not, and goes on. It
 * ends when a pipe ends, which the kernel sees to however this process dies. */
#ifndef WEFT_BENCH_HOSTS_HELPER_H
#define WEFT_BENCH_HOSTS_HELPER_H
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct helper {
    int (*prepare)(void *argument);         /* returns EXIT_DONE, or after a complaint another code */
    void (*serve)(void *argument, int end); /* returns once @p end, a descriptor, can be read */
    void *argument;
    uint64_t namespaces; /* CLONE_NEW...: it has these for itself, and is process 1 of a new pid namespace */
} helper;

/* The pipe whose end is the end of all helpers. False: errno says why. */
bool helpers_open(int alive[2]);
/* Start one and wait until it is ready. EXIT_DONE, or after a complaint the code to exit with. */
int helper_start(const helper *h, const int alive[2], pid_t *pid, int *pidfd);

#endif
