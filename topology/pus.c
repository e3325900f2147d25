/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of PUs. */
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include <weft/machine.h>

#include "base/error.h"

void weft_pus_add(weft_pus *pus, int pu)
{
    if (pu >= 0 && pu < WEFT_PUS_MAX)
        pus->words[pu / 64] |= (uint64_t)1 << (pu % 64);
}

int weft_pus_has(const weft_pus *pus, int pu)
{
    return pu >= 0 && pu < WEFT_PUS_MAX && (pus->words[pu / 64] >> (pu % 64) & 1);
}

int weft_pus_count(const weft_pus *pus)
{
    int count = 0;
    for (size_t i = 0; i < sizeof pus->words / sizeof *pus->words; i++)
        count += __builtin_popcountll(pus->words[i]);
    return count;
}

/* The first PU from @p pu on that is in the set (or, with @p in = 0, is not). */
static int next_pu(const weft_pus *pus, int pu, int in)
{
    while (pu < WEFT_PUS_MAX && weft_pus_has(pus, pu) != in)
        pu++;
    return pu;
}

char *weft_pus_text(const weft_pus *pus, char *text, size_t bytes)
{
    if (bytes == 0)
        return text;
    size_t used = 0;
    *text = 0;
    for (int first = next_pu(pus, 0, 1); first < WEFT_PUS_MAX;) {
        int end = next_pu(pus, first, 0);
        char run[32];
        int n = snprintf(run, sizeof run, end - first > 1 ? "%s%d-%d" : "%s%d", used ? "," : "", first, end - 1);
        if (used + (size_t)n >= bytes) {
            if (bytes > 3)
                memcpy(text + (used + 4 <= bytes ? used : bytes - 4), "...", 4);
            break;
        }
        memcpy(text + used, run, (size_t)n + 1);
        used += (size_t)n;
        first = next_pu(pus, end, 1);
    }
    return text;
}

weft_result weft_pus_of_thread(weft_pus *pus_out)
{
    weft_pus pus = {{0}};
    if (!pus_out)
        return weft__fail(WEFT_E_INVALID, "the PUs of a thread without a place for them");
    if (sched_getaffinity(0, sizeof pus, (cpu_set_t *)&pus) != 0)
        return weft__fail_errno("cannot ask on which PUs this thread may run");
    *pus_out = pus;
    return WEFT_OK;
}
