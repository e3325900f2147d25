/* SPDX-License-Identifier: Apache-2.0 */
/* Turns signals into events. One that was ignored when the launcher started (nohup, a shell's &) stays ignored by
 * everybody. */
#include "run/signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

bool signals_take(signals *s)
{
    static const int forwarded[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT};
    sigset_t set;
    struct sigaction action;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof forwarded / sizeof *forwarded; i++)
        if (sigaction(forwarded[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
            sigaddset(&set, forwarded[i]);
    sigaddset(&set, SIGCHLD);
    signal(SIGCHLD, SIG_DFL);
    sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, &s->broken_pipe);
    s->fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (s->fd < 0)
        return false;
    sigaddset(&set, SIGTTIN); /* reading the terminal in the background is then an error and no stop */
    return sigprocmask(SIG_BLOCK, &set, &s->mask) == 0;
}

void signals_give_back(const signals *s)
{
    sigaction(SIGPIPE, &s->broken_pipe, NULL);
    sigprocmask(SIG_SETMASK, &s->mask, NULL);
}

int signals_next(const signals *s)
{
    struct signalfd_siginfo info;
    return read(s->fd, &info, sizeof info) == sizeof info ? (int)info.ssi_signo : 0;
}
