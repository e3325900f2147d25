/* SPDX-License-Identifier: Apache-2.0 */
/* Params that are summed over further ranks: their list, and the comms that they need. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "set.h"

static weft_result take_one(weft_buckets *set, const weft_buckets_sum *given, weft__sum *sum)
{
    const weft_param *param = weft_params_get(set->params, given->param);
    const char *wrong = !param                                       ? "does not exist"
                        : param->flags & WEFT_PARAM_FROZEN           ? "is frozen"
                        : !given->comm                               ? "has no comm to be summed over"
                        : weft_comm_world(given->comm) != set->world ? "is to be summed in another world"
                                                                     : NULL;
    if (wrong)
        return weft__fail(WEFT_E_INVALID, "set '%s': param %u%s%s%s is to be summed, but %s", set->name, given->param,
                          param ? " ('" : "", param ? param->name : "", param ? "')" : "", wrong);
    sum->param = given->param;
    sum->given = given->comm;
    sum->name = weft__copy_text(given->name ? given->name : set->name);
    return sum->name ? WEFT_OK : WEFT_E_NO_MEMORY;
}

static int compare_comms(const void *a, const void *b)
{
    const weft__sum_comm *x = a, *y = b;
    int order = strcmp(weft_comm_name(x->given), weft_comm_name(y->given));
    return order ? order : strcmp(x->name, y->name);
}

/* The comm of a sum; NULL if it is not listed yet. */
static weft__sum_comm *find_comm(weft_buckets *set, const weft__sum *sum)
{
    for (size_t i = 0; i < set->sum_comm_count; i++) {
        weft__sum_comm *known = &set->sum_comms[i];
        if (known->given == sum->given && strcmp(known->name, sum->name) == 0)
            return known;
    }
    return NULL;
}

/* One comm for all sums over the same ranks under the same name. Sorted by name all ranks have them in one order. */
static void group(weft_buckets *set)
{
    for (size_t i = 0; i < set->sum_count; i++)
        if (!find_comm(set, &set->sums[i]))
            set->sum_comms[set->sum_comm_count++] =
                (weft__sum_comm){.given = set->sums[i].given, .name = set->sums[i].name};
    qsort(set->sum_comms, set->sum_comm_count, sizeof *set->sum_comms, compare_comms);
    for (size_t i = 0; i < set->sum_count; i++) {
        set->sums[i].comm = find_comm(set, &set->sums[i]);
        set->sums[i].comm->ops++;
    }
}

weft_result weft__sums_take(weft_buckets *set, const weft_buckets_comms *comms)
{
    set->sums = weft__alloc(comms->sum_count * sizeof *set->sums);
    set->sum_comms = weft__alloc(comms->sum_count * sizeof *set->sum_comms);
    if (!set->sums || !set->sum_comms)
        return WEFT_E_NO_MEMORY;
    for (size_t i = 0; i < comms->sum_count; i++) {
        WEFT_TRY(take_one(set, &comms->sums[i], &set->sums[i]));
        set->sum_count++;
    }
    group(set);
    return WEFT_OK;
}

void weft__sums_release(weft_buckets *set)
{
    for (size_t i = 0; i < set->sum_count; i++)
        free(set->sums[i].name);
    free(set->sums);
    free(set->sum_comms);
}
