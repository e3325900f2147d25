/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and writes short files of the kernel, under /proc and /sys, each in one piece, as such files want it. */
#include "hosts/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static void close_keeping_errno(int fd)
{
    int why = errno;
    close(fd);
    errno = why;
}

bool file_read(const char *path, char *line, size_t bytes)
{
    line[0] = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t n = read(fd, line, bytes - 1);
    close_keeping_errno(fd);
    line[n > 0 ? n : 0] = 0;
    line[strcspn(line, "\n")] = 0;
    return n >= 0;
}

bool file_write(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    size_t n = strlen(text);
    bool written = write(fd, text, n) == (ssize_t)n;
    close_keeping_errno(fd);
    return written;
}
