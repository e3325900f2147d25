/* SPDX-License-Identifier: Apache-2.0 */
/* Opens and maps data files. */
#include "gpt/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
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
    close(fd);
    return code;
}

void gpt_file_unmap(gpt_mapping *mapping)
{
    if (mapping->count)
        munmap((void *)mapping->bytes, mapping->count);
    *mapping = (gpt_mapping){0};
}
