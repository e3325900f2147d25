/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps lines for people until they are printed. */
#include "prof/lines.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void prof_add_line(char ***lines, size_t *count, const char *format, va_list arguments)
{
    char line[512];
    vsnprintf(line, sizeof line, format, arguments);
    char **more = realloc(*lines, (*count + 1) * sizeof *more);
    if (!more)
        return;
    *lines = more;
    more[*count] = strdup(line);
    *count += more[*count] != NULL;
}

void prof_free_lines(char **lines, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(lines[i]);
    free(lines);
}
