/* SPDX-License-Identifier: Apache-2.0 */
/* Reading what UCX has found. */
#include "fabric.h"

#include <stdio.h>
#include <string.h>

/* What names of transports of fabrics begin with. Devices may be called anything, and so may what stands before. */
static bool is_fabric(const char *transport)
{
    static const char *const begins[] = {"rc_", "dc_", "ud_", "ugni_", "srd"};
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
        if (strncmp(transport, begins[i], strlen(begins[i])) == 0)
            return true;
    return false;
}

/* The last word of a line about a resource, NULL of another line: "rc_mlx5/mlx5_0:1". */
static const char *resource_of(const char *line, size_t bytes, size_t *name_bytes_out)
{
    static const char is_one[] = "resource ";
    const char *found = memmem(line, bytes, is_one, sizeof is_one - 1);
    size_t end = bytes, begin;
    if (!found)
        return NULL;
    while (end > 0 && strchr(" \t\r", line[end - 1]))
        end--;
    for (begin = end; begin > 0 && !strchr(" \t", line[begin - 1]); begin--)
        ;
    *name_bytes_out = end - begin;
    return memchr(line + begin, '/', end - begin) ? line + begin : NULL;
}

bool weft__ucx_fabric_in(const char *info, char *name_out, size_t bytes)
{
    for (size_t line_bytes; *info; info += line_bytes + (info[line_bytes] == '\n')) {
        size_t name_bytes;
        line_bytes = strcspn(info, "\n");
        const char *name = resource_of(info, line_bytes, &name_bytes);
        if (!name || !is_fabric(name))
            continue;
        snprintf(name_out, bytes, "%.*s", (int)name_bytes, name);
        return true;
    }
    snprintf(name_out, bytes, "%s", "");
    return false;
}
