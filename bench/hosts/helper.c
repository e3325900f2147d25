/* SPDX-License-Identifier: Apache-2.0 */
/* Leads a helper from its start to its service. Its first complaint comes back through a pipe. */
#include "hosts/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "complain.h"
#include "hosts/permit.h"

typedef struct readiness {
    int code;
    char complaint[500]; /* all of it fits into a pipe at once */
} readiness;

bool helpers_open(int alive[2])
{
    return pipe2(alive, O_CLOEXEC) == 0;
}

static _Noreturn void live(const helper *h, const int alive[2], int report)
{
    readiness r = {.code = EXIT_DONE};
    sigset_t all;
    close(alive[1]);
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    setsid(); /* what is sent to the command's group is not for the helper */
    complain_into(r.complaint, sizeof r.complaint);
    r.code = h->prepare(h->argument);
    bool told = write(report, &r, sizeof r) == sizeof r;
    close(report);
    complain_into(NULL, 0);
    if (told && r.code == EXIT_DONE)
        h->serve(h->argument, alive[0]);
    _exit(r.code);
}

/* As fork(), but into namespaces, and with a descriptor for the child. */
static pid_t fork_into(uint64_t namespaces, int *pidfd)
{
    struct clone_args how = {
        .flags = namespaces | CLONE_PIDFD, .pidfd = (uint64_t)(uintptr_t)pidfd, .exit_signal = SIGCHLD};
    return (pid_t)syscall(SYS_clone3, &how, sizeof how);
}

int helper_start(const helper *h, const int alive[2], pid_t *pid, int *pidfd)
{
    int report[2];
    readiness r;
    if (pipe2(report, O_CLOEXEC) < 0)
        return complain(EXIT_FAILED, "cannot make a pipe: %s", strerror(errno));
    *pid = fork_into(h->namespaces, pidfd);
    if (*pid == 0)
        live(h, alive, report[1]);
    int code = *pid < 0 ? permit_cannot("make a process with namespaces of its own") : EXIT_DONE;
    close(report[1]);
    if (code != EXIT_DONE) {
        close(report[0]);
        return code;
    }
    ssize_t got;
    while ((got = read(report[0], &r, sizeof r)) < 0 && errno == EINTR)
        ;
    close(report[0]);
    if (got == sizeof r && r.code == EXIT_DONE)
        return EXIT_DONE;
    close(*pidfd);
    waitpid(*pid, NULL, 0);
    if (got != sizeof r)
        return complain(EXIT_FAILED, "a process that is to make a host has died");
    return complain(r.code, "%s", r.complaint);
}
