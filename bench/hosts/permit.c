/* SPDX-License-Identifier: Apache-2.0 */
/* Knows the errors, and the words, with which kernels say that they do not permit or have something. */
#include "hosts/permit.h"

#include <errno.h>
#include <string.h>

#include "complain.h"

static const int lacks[] = {EPERM, EACCES, ENOSYS, ENOSPC, EUSERS, ENODEV, ENXIO, ENOENT, EOPNOTSUPP};
static const char *const words_for_it[] = {"not permitted", "not supported", "unknown"};

int permit_cannot(const char *what)
{
    int why = errno, code = EXIT_FAILED;
    for (size_t i = 0; i < sizeof lacks / sizeof *lacks; i++)
        if (why == lacks[i])
            code = EXIT_NOT_PERMITTED;
    return complain(code, "cannot %s: %s", what, strerror(why));
}

int permit_refused(const char *tool, const char *words)
{
    int code = EXIT_FAILED;
    for (size_t i = 0; i < sizeof words_for_it / sizeof *words_for_it; i++)
        if (strcasestr(words, words_for_it[i]))
            code = EXIT_NOT_PERMITTED;
    return complain(code, "%s: %s", tool, words);
}
