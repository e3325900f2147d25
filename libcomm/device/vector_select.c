/* SPDX-License-Identifier: Apache-2.0 */
/* Which instruction sets this machine can run. */
#include <stdatomic.h>
#include <stdbool.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "device/vector_host.h"

static bool always(void)
{
    return true;
}

#if defined(__x86_64__)
static bool has_f16c(void)
{
    unsigned a, b, c = 0, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && has_f16c();
}

static bool has_avx512(void)
{
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}
#endif

/* Each needs what the one before needs. */
static const struct {
    const weft__vector *table;
    bool (*runs_here)(void);
} sets[] = {
    {&weft__vector_baseline, always},
#if defined(__x86_64__)
    {&weft__vector_avx2, has_avx2},
    {&weft__vector_avx512, has_avx512},
#endif
};

const weft__vector *weft__vector_host_at(int index)
{
    if (index < 0 || index >= (int)(sizeof sets / sizeof *sets) || !sets[index].runs_here())
        return NULL;
    return sets[index].table;
}

/* Asking the processor takes a microsecond on virtual machines: once is enough. */
const weft__vector *weft__vector_host(void)
{
    static _Atomic(const weft__vector *) chosen;
    const weft__vector *table = atomic_load_explicit(&chosen, memory_order_relaxed);
    if (table)
        return table;
    int best = 0;
    while (weft__vector_host_at(best + 1))
        best++;
    atomic_store_explicit(&chosen, sets[best].table, memory_order_relaxed);
    return sets[best].table;
}
