/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the cores, by the affinity mask and the lists of hardware threads in sysfs. */
#include "cores.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool has(const cpus *set, int cpu)
{
    return CPU_ISSET_S((size_t)cpu, sizeof *set, set->sets);
}

/* The first allowed CPU in a list such as "0,4-5". */
static int first_in_list(const char *list, const cpus *allowed)
{
    while (*list) {
        char *end;
        long first = strtol(list, &end, 10), last = first;
        if (end == list)
            break;
        if (*end == '-')
            last = strtol(end + 1, &end, 10);
        for (long cpu = first; cpu >= 0 && cpu <= last && cpu < CORES_CPUS; cpu++)
            if (has(allowed, (int)cpu))
                return (int)cpu;
        list = *end == ',' ? end + 1 : "";
    }
    return -1;
}

static int first_sibling(const char *sysfs, const cpus *allowed, int cpu)
{
    char path[512], list[4096];
    snprintf(path, sizeof path, "%s/cpu%d/topology/thread_siblings_list", sysfs, cpu);
    FILE *file = fopen(path, "re");
    int first = file && fgets(list, sizeof list, file) ? first_in_list(list, allowed) : -1;
    if (file)
        fclose(file);
    return first >= 0 ? first : cpu;
}

void cores_find(const char *sysfs, const cpus *allowed, cores *found)
{
    found->count = 0;
    for (int cpu = 0; cpu < CORES_CPUS; cpu++) {
        found->first[cpu] = (short)(has(allowed, cpu) ? first_sibling(sysfs, allowed, cpu) : -1);
        found->count += found->first[cpu] == cpu;
    }
}

bool cores_of_process(cores *found)
{
    cpus allowed;
    memset(&allowed, 0, sizeof allowed);
    if (sched_getaffinity(0, sizeof allowed, allowed.sets) < 0)
        return false;
    cores_find("/sys/devices/system/cpu", &allowed, found);
    return true;
}

void cores_pick(const cores *all, int index, int count, cpus *picked)
{
    memset(picked, 0, sizeof *picked);
    int begin = index % all->count, number = 0;
    for (int first = 0; first < CORES_CPUS; first++) {
        if (all->first[first] != first)
            continue;
        bool chosen = (number++ - begin + all->count) % all->count < count;
        for (int cpu = first; chosen && cpu < CORES_CPUS; cpu++)
            if (all->first[cpu] == first)
                CPU_SET_S((size_t)cpu, sizeof *picked, picked->sets);
    }
}

void cores_share_of(const cores *all, int index, int count, int *first_out, int *count_out)
{
    *first_out = index * all->count / count;
    *count_out = (index + 1) * all->count / count - *first_out;
}

bool cores_bind(const cores *all, int index, int count)
{
    cpus picked;
    cores_pick(all, index, count, &picked);
    return sched_setaffinity(0, sizeof picked, picked.sets) == 0;
}

void cores_share(int index, int count)
{
    cores all;
    if (cores_of_process(&all) && all.count >= count)
        (void)cores_bind(&all, index, 1);
}
