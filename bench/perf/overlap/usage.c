/* SPDX-License-Identifier: Apache-2.0 */
/* Reads getrusage(), clocks of processor time, and /proc/stat. */
#include "perf/overlap/usage.h"

#include <stdio.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static double ms_of(struct timeval t)
{
    return (double)t.tv_sec * 1e3 + (double)t.tv_usec * 1e-3;
}

static double clock_ms(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static double softirq_ms(void)
{
    double ticks = 0;
    FILE *file = fopen("/proc/stat", "re");
    if (!file)
        return 0;
    if (fscanf(file, "cpu %*f %*f %*f %*f %*f %*f %lf", &ticks) != 1)
        ticks = 0;
    fclose(file);
    return ticks * 1e3 / (double)sysconf(_SC_CLK_TCK);
}

overlap_usage overlap_usage_now(void)
{
    struct rusage r;
    getrusage(RUSAGE_SELF, &r);
    double others = clock_ms(CLOCK_PROCESS_CPUTIME_ID) - clock_ms(CLOCK_THREAD_CPUTIME_ID);
    return (overlap_usage){ms_of(r.ru_utime), ms_of(r.ru_stime), others, softirq_ms()};
}
