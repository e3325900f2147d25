/* SPDX-License-Identifier: Apache-2.0 */
/* Opens and closes files of results. A full disk shows itself only at the end: what was lost before is told there. */
#include "out.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <string.h>
#include <sys/stat.h>

#include "complain.h"

/* ---- what is read ---- */

static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

static bool is_in(const struct stat *file, const char *folder, const char *pattern)
{
    bool found = false;
    DIR *directory = opendir(folder);
    for (const struct dirent *entry; directory && !found && (entry = readdir(directory));) {
        struct stat other;
        found = fnmatch(pattern, entry->d_name, 0) == 0 && fstatat(dirfd(directory), entry->d_name, &other, 0) == 0 &&
                is_same(file, &other);
    }
    if (directory)
        closedir(directory);
    return found;
}

int out_spare(const char *option, const char *path, const char *input, const char *pattern)
{
    struct stat written, read;
    if (!path || !input || strcmp(path, "-") == 0 || stat(path, &written) != 0 || stat(input, &read) != 0)
        return EXIT_DONE;
    if (!S_ISREG(written.st_mode)) /* a terminal, a pipe: nothing is lost */
        return EXIT_DONE;
    bool hit = S_ISDIR(read.st_mode) ? is_in(&written, input, pattern) : is_same(&written, &read);
    return hit ? complain(EXIT_USAGE, "%s '%s' would overwrite what is read: name another file", option, path)
               : EXIT_DONE;
}

int out_apart(const char *option, const char *path, const char *other_option, const char *other_path)
{
    if (!path || !other_path || strcmp(path, other_path) != 0)
        return EXIT_DONE;
    return complain(EXIT_USAGE, "%s and %s cannot both be %s", option, other_option, out_name(path));
}

/* ---- opening and closing ---- */

FILE *out_open(const char *path)
{
    return strcmp(path, "-") == 0 ? stdout : fopen(path, "w");
}

bool out_close(FILE *out)
{
    bool lost = ferror(out);
    errno = 0;
    if ((out == stdout || out == stderr ? fflush(out) : fclose(out)) == 0 && !lost)
        return true;
    errno = errno ? errno : EIO;
    return false;
}

const char *out_name(const char *path)
{
    return strcmp(path, "-") == 0 ? "standard output" : path;
}

int out_complain(const char *path)
{
    return complain(EXIT_FAILED, "cannot write '%s': %s", out_name(path), strerror(errno));
}
