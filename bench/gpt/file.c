/* SPDX-License-Identifier: Apache-2.0 */
/* Opens and maps data files. */
#include "gpt/file.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "complain.h"

/* Each rank reads all of the data, so it must be a file. A pipe without a writer must not keep open() waiting. */
int gpt_file_open(const char *path, size_t *count_out, gpt_failure *failure)
{
    struct stat entry;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &entry) < 0)
        gpt_fail(failure, EXIT_FAILED, "cannot read the data file '%s': %s", path, strerror(errno));
    else if (!S_ISREG(entry.st_mode))
        gpt_fail(failure, EXIT_FAILED, "the data '%s' is neither a file nor a folder", path);
    else if ((uintmax_t)entry.st_size > SIZE_MAX)
        gpt_fail(failure, EXIT_FAILED, "the data file '%s' is too large for this machine", path);
    else {
        *count_out = (size_t)entry.st_size;
        return fd;
    }
    if (fd >= 0)
        close(fd);
    return -1;
}

/* ---- files that somebody shortens while they are mapped ---- */

/* What is mapped, and what to say; ranks may be threads. Of more files than these the signal says it. */
static struct watched {
    atomic_bool taken;
    _Atomic(const unsigned char *) bytes;
    size_t count;
    char text[512];
} watched[64];
enum { WATCHED = sizeof watched / sizeof *watched };

static void complain_shortened(int number, siginfo_t *info, void *context)
{
    uintptr_t at = (uintptr_t)info->si_addr;
    (void)context;
    for (struct watched *w = watched; w < watched + WATCHED; w++) {
        uintptr_t begin = (uintptr_t)atomic_load(&w->bytes);
        if (begin && at >= begin && at - begin < w->count) {
            ssize_t written = write(STDERR_FILENO, w->text, strlen(w->text));
            (void)written;
            _exit(EXIT_FAILED);
        }
    }
    signal(number, SIG_DFL); /* something else: it comes again, and ends this process */
}

static void watch(const gpt_mapping *mapping, const char *path)
{
    struct watched *w = watched;
    while (w < watched + WATCHED && atomic_exchange(&w->taken, true))
        w++;
    if (w == watched + WATCHED)
        return;
    snprintf(w->text, sizeof w->text, "weft: the data file '%.400s' has become shorter while it was read", path);
    for (char *c = w->text; *c; c++)
        *c = iscntrl((unsigned char)*c) ? '?' : *c;
    strcat(w->text, "\n");
    w->count = mapping->count;
    atomic_store(&w->bytes, mapping->bytes);
    sigaction(SIGBUS, &(struct sigaction){.sa_sigaction = complain_shortened, .sa_flags = SA_SIGINFO}, NULL);
}

static void unwatch(const gpt_mapping *mapping)
{
    for (struct watched *w = watched; w < watched + WATCHED; w++)
        if (atomic_load(&w->bytes) == mapping->bytes) {
            atomic_store(&w->bytes, NULL);
            atomic_store(&w->taken, false);
        }
}

/* ---- mapping ---- */

int gpt_file_map(gpt_mapping *mapping, const char *path, gpt_failure *failure)
{
    *mapping = (gpt_mapping){0};
    size_t count = 0;
    int fd = gpt_file_open(path, &count, failure);
    if (fd < 0)
        return failure->code;
    void *bytes = count ? mmap(NULL, count, PROT_READ, MAP_SHARED, fd, 0) : NULL;
    int code = 0;
    if (bytes == MAP_FAILED)
        code = gpt_fail(failure, EXIT_FAILED, "cannot map the data file '%s': %s", path, strerror(errno));
    else
        *mapping = (gpt_mapping){bytes, count};
    if (mapping->count)
        watch(mapping, path);
    close(fd);
    return code;
}

void gpt_file_unmap(gpt_mapping *mapping)
{
    if (mapping->count) {
        unwatch(mapping);
        munmap((void *)mapping->bytes, mapping->count);
    }
    *mapping = (gpt_mapping){0};
}
