/* SPDX-License-Identifier: Apache-2.0 */
/* Says complaints on stderr, or keeps them for who will say them. */
#include "complain.h"

#include <stdarg.h>
#include <stdio.h>

static char *kept; /* where complaints go; NULL: stderr */
static size_t kept_bytes;

void complain_into(char *text, size_t bytes)
{
    kept = text;
    kept_bytes = bytes;
}

/* What came from outside, such as a file's name, may hold newlines and commands to a terminal. */
static void make_printable(char *line)
{
    for (char *c = line; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = '?';
}

int complain(int code, const char *format, ...)
{
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    make_printable(line);
    if (kept)
        snprintf(kept, kept_bytes, "%s", line);
    else
        fprintf(stderr, "weft: %s\n", line);
    return code;
}
