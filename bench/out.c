/* SPDX-License-Identifier: Apache-2.0 */
/* Opens and closes files of results. A full disk shows itself only at the end: what was lost before is told there. */
#include "out.h"

#include <errno.h>
#include <string.h>

#include "complain.h"

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
