/* SPDX-License-Identifier: Apache-2.0 */
/* The cores that this process may use: CPUs that are threads of one core count once. */
#ifndef WEFT_BENCH_CORES_H
#define WEFT_BENCH_CORES_H
#include <sched.h>
#include <stdbool.h>

enum { CORES_CPUS = 8192 }; /* the most that Linux is built for */

typedef struct cpus {
    cpu_set_t sets[CORES_CPUS / CPU_SETSIZE];
} cpus;

typedef struct cores {
    int count;
    short first[CORES_CPUS]; /* of each CPU the first one of its core that may be used; -1 = may not be used itself */
} cores;

/* From the affinity of this process. False: errno says why. */
bool cores_of_process(cores *found);
/* From @p allowed and the lists of siblings in @p sysfs ("/sys/devices/system/cpu"); a CPU without list is a core. */
void cores_find(const char *sysfs, const cpus *allowed, cores *found);
/* The CPUs of @p count cores from number @p index on; round robin. */
void cores_pick(const cores *all, int index, int count, cpus *picked);
/* What @p index of @p count gets when they are divided among so many, at most as many as there are. */
void cores_share_of(const cores *all, int index, int count, int *first_out, int *count_out);
/* Put the calling thread on those. False: errno says why. */
bool cores_bind(const cores *all, int index, int count);
/* Put the calling thread, number @p index of @p count, on a core of its own, if this process may use so many. */
void cores_share(int index, int count);

#endif
