/* SPDX-License-Identifier: Apache-2.0 */
/* Reads lists of hosts and of tasks as Slurm writes them. */
#include "bootstrap/slurm.h"

#include <limits.h>
#include <string.h>

/* What of "[001-003,7]" comes first: "001". Leaves *list behind the bracket; NULL: it does not make sense. */
static const char *first_of_bracket(const char **list, size_t *bytes)
{
    const char *first = *list + 1, *end = strpbrk(first, "[]");
    *bytes = strspn(first, "0123456789");
    if (!end || *end != ']' || *bytes == 0 || !strchr("-,]", first[*bytes]))
        return NULL;
    *list = end + 1;
    return first;
}

bool weft__slurm_first_host(const char *list, char *host, size_t room)
{
    size_t used = 0;
    while (*list && *list != ',') {
        const char *part = list;
        size_t bytes = strcspn(list, "[],");
        if (*list == '[' && !(part = first_of_bracket(&list, &bytes)))
            return false;
        if (part == list)
            list += bytes;
        if (bytes == 0 || bytes >= room - used)
            return false;
        memcpy(host + used, part, bytes);
        used += bytes;
    }
    host[used] = 0;
    return used > 0;
}

/* A number above 0, or -1. */
static int take_number(const char **text)
{
    long value = 0;
    const char *begin = *text;
    for (; **text >= '0' && **text <= '9' && value <= INT_MAX; (*text)++)
        value = value * 10 + (**text - '0');
    return *text == begin || value > INT_MAX || value == 0 ? -1 : (int)value;
}

int weft__slurm_tasks(const char *list, int node)
{
    while (node >= 0) {
        int tasks = take_number(&list), times = 1;
        if (strncmp(list, "(x", 2) == 0) {
            list += 2;
            times = take_number(&list);
            if (*list++ != ')')
                return -1;
        }
        if (tasks < 0 || times < 0 || (*list && *list != ','))
            return -1;
        if (node < times)
            return tasks;
        node -= times;
        if (!*list++)
            return -1;
    }
    return -1;
}
