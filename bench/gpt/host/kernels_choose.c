/* SPDX-License-Identifier: Apache-2.0 */
/* Picks the kernels that this processor can run. libcomm picks its own in the same way, but out of sight: this command
 * uses its public headers only. */
#include <stdbool.h>

#include "gpt/host/kernels.h"

extern const gpt_kernels gpt_kernels_baseline;
#ifdef GPT_KERNELS_X86
extern const gpt_kernels gpt_kernels_avx2, gpt_kernels_avx512;

static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2");
}

static bool has_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
#endif

static bool always(void)
{
    return true;
}

static const struct {
    const gpt_kernels *kernels;
    bool (*runs)(void);
} tables[] = {
    {&gpt_kernels_baseline, always},
#ifdef GPT_KERNELS_X86
    {&gpt_kernels_avx2, has_avx2},
    {&gpt_kernels_avx512, has_avx512},
#endif
};
enum { TABLES = sizeof tables / sizeof *tables };

const gpt_kernels *gpt_kernels_at(int index)
{
    return index >= 0 && index < TABLES && tables[index].runs() ? tables[index].kernels : NULL;
}

const gpt_kernels *gpt_kernels_best(void)
{
    const gpt_kernels *best = NULL;
    for (int i = 0; i < TABLES; i++)
        if (tables[i].runs())
            best = tables[i].kernels;
    return best;
}
