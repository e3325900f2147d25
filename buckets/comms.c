/* SPDX-License-Identifier: Apache-2.0 */
/* Comms of a set's own over the ranks of the given ones, so that nobody else's operations get in between. */
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"
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
        weft__bucket_lane *lane = &set->lanes[i];
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
    int used = snprintf(name, sizeof name, "%s.%s.%s", weft_comm_name(r->given), r->name, r->purpose);
    if (used > WEFT_COMM_NAME_MAX)
        return weft__fail(WEFT_E_INVALID, "set '%s': the comm's name '%s.%s.%s' is %d bytes long, the most are %d",
                          r->name, weft_comm_name(r->given), r->name, r->purpose, used, WEFT_COMM_NAME_MAX);
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
    weft_result result = weft_comm_config_get(r->given, &config);
    config.works = r->works;
    config.p2p_channels = 0;
    config.flags |= WEFT_COMM_NO_P2P;
    if (result == WEFT_OK)
        result = weft_comm_create_start(world, name, ranks, size, &config, r->made);
    free(ranks);
    return result;
}

/* Start all, then finish all: the order between comms does not matter. */
static weft_result make_all(weft_world *world, const request *list, size_t count)
{
    weft_result result = WEFT_OK;
    size_t started = 0;
    while (started < count && result == WEFT_OK) {
        result = start(world, &list[started]);
        started += result == WEFT_OK;
    }
    for (size_t i = 0; i < started; i++) {
        weft_result finished = weft_comm_create_finish(*list[i].made);
        if (result == WEFT_OK)
            result = finished;
    }
    return result;
}

weft_result weft__comms_make(weft_buckets *set)
{
    request *list = weft__alloc((7 + set->sum_comm_count) * sizeof *list);
    if (!list)
        return WEFT_E_NO_MEMORY;
    weft_result result = make_all(set->world, list, list_requests(set, list));
    free(list);
    return result;
}

void weft__comms_release(weft_buckets *set)
{
    for (size_t i = 0; i < 2; i++) {
        weft_comm_destroy(set->lanes[i].reduce_comm);
        weft_comm_destroy(set->lanes[i].gather_comm);
        weft_comm_destroy(set->lanes[i].replica_comm);
    }
    weft_comm_destroy(set->norm_comm);
    for (size_t i = 0; i < set->sum_comm_count; i++)
        weft_comm_destroy(set->sum_comms[i].comm);
}
