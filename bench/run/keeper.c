/* SPDX-License-Identifier: Apache-2.0 */
/* The keeper is a child in a session of its own that waits for the end of a pipe, which is the end of the launcher. */
#include "run/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static size_t groups_bytes(int count)
{
    return (size_t)count * sizeof(_Atomic pid_t);
}

static _Noreturn void keep(const keeper *k, int end_of_launcher)
{
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    setsid(); /* what is sent to the launcher's group is not for the keeper */
    prctl(PR_SET_NAME, "weft-keeper");
    char byte;
    while (read(end_of_launcher, &byte, 1) < 0 && errno == EINTR)
        ;
    for (int i = 0; i < k->count; i++)
        if (k->groups[i] > 0)
            kill(-k->groups[i], SIGKILL);
    _exit(0);
}

bool keeper_start(keeper *k, int count)
{
    int ends[2];
    *k = (keeper){.count = count, .alive = -1};
    k->groups = mmap(NULL, groups_bytes(count), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (k->groups == MAP_FAILED)
        return false;
    if (pipe2(ends, O_CLOEXEC) < 0)
        goto unmap;
    k->pid = fork();
    if (k->pid < 0)
        goto close_ends;
    if (k->pid == 0) {
        close(ends[1]);
        keep(k, ends[0]);
    }
    close(ends[0]);
    k->alive = ends[1];
    return true;

close_ends:
    close(ends[0]);
    close(ends[1]);
unmap:
    munmap(k->groups, groups_bytes(count));
    return false;
}

void keeper_stop(keeper *k)
{
    close(k->alive);
    while (waitpid(k->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    munmap(k->groups, groups_bytes(k->count));
}
