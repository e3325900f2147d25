/* SPDX-License-Identifier: Apache-2.0 */
/* Comms of a set's own over the ranks of the given ones, so that nobody else's operations get in between. */
#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/reserved.h"
#include "base/verdict.h"
#include "set.h"

#define MOST_WORKS 4096 /* that a comm can have in flight */

/* A comm to be made. */
typedef struct request {
    weft_comm *given;
    const char *name, *purpose;
    uint32_t works; /* most that are in flight at a time */
    weft_comm **made;
} request;

static size_t list_requests(weft_buckets *set, request *list)
{
    size_t count = 0;
    for (size_t i = 0; i < 2; i++) {
        weft__lane *lane = &set->lanes[i];
        const char *reduce = i ? "expert-reduce" : "reduce", *gather = i ? "expert-gather" : "gather";
        const char *replica = i ? "expert-replica" : "replica";
        if (!lane->shard)
            continue;
        list[count++] = (request){lane->shard, set->name, reduce, lane->buckets, &lane->reduce_comm};
        list[count++] = (request){lane->shard, set->name, gather, lane->buckets, &lane->gather_comm};
        if (lane->replica)
            list[count++] = (request){lane->replica, set->name, replica, lane->buckets, &lane->replica_comm};
    }
    list[count++] = (request){set->norm, set->name, "norm", 1, &set->norm_comm};
    for (size_t i = 0; i < set->sum_comm_count; i++) {
        weft__sum_comm *sum = &set->sum_comms[i];
        list[count++] = (request){sum->given, sum->name, "sum", sum->ops, &sum->comm};
    }
    return count;
}

static weft_result start(weft_world *world, const request *r)
{
    char name[WEFT_COMM_NAME_MAX + 1];
    weft__reserved_name((const char *const[]){weft_comm_name(r->given), r->name, r->purpose}, 3, name);
    if (r->works > MOST_WORKS)
        return weft__fail(WEFT_E_RANGE,
                          "set '%s': %u operations in flight on comm '%s', the most are %d: make the buckets larger",
                          r->name, r->works, name, MOST_WORKS);
    int size = weft_comm_size(r->given);
    int *ranks = weft__alloc((size_t)size * sizeof *ranks);
    if (!ranks)
        return WEFT_E_NO_MEMORY;
    for (int i = 0; i < size; i++)
        ranks[i] = weft_comm_world_rank(r->given, i);
    weft_comm_config config = WEFT_COMM_CONFIG_INIT;
    config.backend = weft_comm_backend(r->given);
    config.works = r->works;
    config.flags = WEFT__COMM_OWN;
    weft_result result = weft_comm_create_start(world, name, ranks, size, &config, r->made);
    free(ranks);
    return result;
}

weft_result weft__comms_start(weft_buckets *set)
{
    request *list = weft__alloc((7 + set->sum_comm_count) * sizeof *list);
    weft_result result = list ? WEFT_OK : WEFT_E_NO_MEMORY;
    size_t count = list ? list_requests(set, list) : 0;
    for (size_t i = 0; i < count && result == WEFT_OK; i++)
        result = start(set->world, &list[i]);
    free(list);
    return result;
}

/* Call @p visit for every comm of the set's own, and return the first failure. */
static weft_result each_comm(weft_buckets *set, weft_result (*visit)(weft_comm *comm))
{
    weft__verdict first = {0};
    for (size_t i = 0; i < 2; i++) {
        weft__lane *lane = &set->lanes[i];
        weft_comm *const comms[] = {lane->reduce_comm, lane->gather_comm, lane->replica_comm};
        for (size_t k = 0; k < sizeof comms / sizeof *comms; k++)
            weft__verdict_add(&first, comms[k] ? visit(comms[k]) : WEFT_OK);
    }
    weft__verdict_add(&first, set->norm_comm ? visit(set->norm_comm) : WEFT_OK);
    for (size_t i = 0; i < set->sum_comm_count; i++)
        weft__verdict_add(&first, set->sum_comms[i].comm ? visit(set->sum_comms[i].comm) : WEFT_OK);
    return weft__verdict_result(&first);
}

weft_result weft__comms_finish(weft_buckets *set)
{
    return each_comm(set, weft_comm_create_finish);
}

static weft_result destroy(weft_comm *comm)
{
    weft_comm_destroy(comm);
    return WEFT_OK;
}

void weft__comms_release(weft_buckets *set)
{
    (void)each_comm(set, destroy);
}
