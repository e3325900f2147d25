/* SPDX-License-Identifier: Apache-2.0 */
/* A child that becomes the tool, with its lines on standard input and its complaint in a pipe. */
#include "hosts/tool.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "complain.h"
#include "hosts/permit.h"

enum { EXIT_NO_TOOL = 127 };

static int file_of(const char *text)
{
    int fd = memfd_create("batch", MFD_CLOEXEC);
    size_t n = strlen(text);
    if (fd >= 0 && write(fd, text, n) == (ssize_t)n && lseek(fd, 0, SEEK_SET) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

static _Noreturn void become(const char *tool, int pidfd, int input, int says)
{
    dup2(says, STDERR_FILENO);
    dup2(STDERR_FILENO, STDOUT_FILENO);
    dup2(input, STDIN_FILENO);
    if (pidfd >= 0 && setns(pidfd, CLONE_NEWNET) < 0) {
        fprintf(stderr, "cannot enter the network of a host: %s\n", strerror(errno));
        _exit(EXIT_FAILED);
    }
    execlp(tool, tool, "-batch", "-", NULL);
    if (chdir("/usr/sbin") == 0) /* not in the PATH of everybody */
        execl(tool, tool, "-batch", "-", NULL);
    _exit(EXIT_NO_TOOL);
}

/* Keep the first line of all that comes. */
static void read_line(int fd, char *line, size_t bytes)
{
    char rest[256];
    size_t used = 0;
    for (ssize_t n; (n = read(fd, rest, sizeof rest)) > 0;) {
        size_t kept = (size_t)n < bytes - 1 - used ? (size_t)n : bytes - 1 - used;
        memcpy(line + used, rest, kept);
        used += kept;
    }
    line[used] = 0;
    line[strcspn(line, "\n")] = 0;
}

int tool_run(const char *tool, int pidfd, const char *batch)
{
    int says[2], status = 0, input = file_of(batch);
    char words[300];
    if (input < 0 || pipe2(says, O_CLOEXEC) < 0)
        return complain(EXIT_FAILED, "cannot start '%s': %s", tool, strerror(errno));
    pid_t child = fork();
    if (child == 0)
        become(tool, pidfd, input, says[1]);
    close(input);
    close(says[1]);
    read_line(says[0], words, sizeof words);
    close(says[0]);
    if (child < 0 || waitpid(child, &status, 0) != child)
        return complain(EXIT_FAILED, "cannot start '%s'", tool);
    if (status == 0)
        return EXIT_DONE;
    if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_NO_TOOL)
        return complain(EXIT_NOT_PERMITTED, "there is no '%s' on this machine (package iproute2)", tool);
    return permit_refused(tool, words);
}
