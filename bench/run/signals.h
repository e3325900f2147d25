/* SPDX-License-Identifier: Apache-2.0 */
/* The signals of the launcher: read from a descriptor, passed on to the ranks, and given back as they were to them. */
#ifndef WEFT_BENCH_RUN_SIGNALS_H
#define WEFT_BENCH_RUN_SIGNALS_H
#include <signal.h>
#include <stdbool.h>

typedef struct signals {
    int fd;                       /* signalfd: SIGCHLD and what is forwarded */
    sigset_t mask;                /* before signals_take() */
    struct sigaction broken_pipe; /* SIGPIPE before signals_take() */
} signals;

/* False: errno says why. */
bool signals_take(signals *s);
/* In a child: as if signals_take() had not been. */
void signals_give_back(const signals *s);
/* The next one that came, 0 = none. */
int signals_next(const signals *s);

#endif
