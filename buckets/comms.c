/* SPDX-License-Identifier: Apache-2.0 */
/* Comms of a set's own over the ranks of the given ones, so that nobody else's operations get in between. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/reserved.h"
#include "base/verdict.h"
#include "set.h"
#include "set_gpu.h"

#define MOST_WORKS 4096 /* that a comm can have in flight */

/* A comm of ours. */
typedef struct request {
    weft_comm *given;
    const char *name, *purpose; /* with these it is told from others over the given one */
    uint32_t works;             /* most that are in flight at a time */
    weft_comm **made;
} request;

struct weft__comms {
    int *ranks; /* room for those of one */
    char number[16];
    size_t count;
    request list[];
};

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
    list[count++] = (request){set->norm, set->comms->number, "norm", 1, &set->norm_comm};
    for (size_t i = 0; i < set->sum_comm_count; i++) {
        weft__sum_comm *sum = &set->sum_comms[i];
        list[count++] = (request){sum->given, sum->name, "sum", sum->ops, &sum->comm};
    }
    return count;
}

static weft_result check_works(const weft_buckets *set, const request *r)
{
    if (r->works > MOST_WORKS)
        return weft__fail(WEFT_E_RANGE,
                          "set '%s': %u operations in flight to %s over comm '%s', the most are %d: make the buckets "
                          "larger",
                          set->name, r->works, r->purpose, weft_comm_name(r->given), MOST_WORKS);
    return WEFT_OK;
}

weft_result weft__comms_plan(weft_buckets *set)
{
    size_t most = 7 + set->sum_comm_count;
    set->comms = weft__alloc(sizeof *set->comms + most * sizeof *set->comms->list);
    if (!set->comms)
        return WEFT_E_NO_MEMORY;
    set->comms->ranks = weft__alloc((size_t)weft_world_size(set->world) * sizeof *set->comms->ranks);
    if (!set->comms->ranks)
        return WEFT_E_NO_MEMORY;
    set->comms->count = list_requests(set, set->comms->list);
    for (size_t i = 0; i < set->comms->count; i++)
        WEFT_TRY(check_works(set, &set->comms->list[i]));
    return WEFT_OK;
}

/* Nothing else about a comm like the given one can be invalid. */
static weft_result refuse_name(const weft_buckets *set, const request *r)
{
    if (r->name != set->name)
        return weft__fail(WEFT_E_INVALID, "set '%s': the name '%s' of a sum is taken", set->name, r->name);
    return weft__fail(WEFT_E_INVALID, "set '%s': the name is taken; set weft_buckets_config.name", set->name);
}

static weft_result start(const weft_buckets *set, const request *r)
{
    char name[WEFT_COMM_NAME_MAX + 1];
    weft__reserved_name((const char *const[]){weft_comm_name(r->given), r->name, r->purpose}, 3, name);
    int size = weft_comm_size(r->given), *ranks = set->comms->ranks;
    for (int i = 0; i < size; i++)
        ranks[i] = weft_comm_world_rank(r->given, i);
    weft_comm_config config = WEFT_COMM_CONFIG_INIT;
    weft_result result = weft_comm_config_get(r->given, &config);
    config.works = r->works;
    config.p2p_channels = config.p2p_peer_count = 0;
    config.p2p_peers = NULL;
    config.native = NULL; /* it is the given comm's */
    config.flags |= WEFT_COMM_NO_P2P | WEFT__COMM_OWN;
    if (set->gpu && config.device == WEFT_DEVICE_HOST) { /* the given one is only talked on */
        config.device = set->gpu->device->calls->kind;
        config.backend = NULL;
    }
    if (result == WEFT_OK)
        result = weft_comm_create_start(set->world, name, ranks, size, &config, r->made);
    return result == WEFT_E_INVALID ? refuse_name(set, r) : result;
}

/* Sets are made in one order on all ranks of the norm comm, which have just agreed on this one: its number tells it
 * from others there, whose names may differ from rank to rank. */
static void number_set(weft_buckets *set)
{
    set->norm_number = weft__reserved_number(set->norm);
    snprintf(set->comms->number, sizeof set->comms->number, "%" PRIu32, set->norm_number);
}

/* All of them, also behind a failure: ranks must not differ in how often they have used a name. */
weft_result weft__comms_start(weft_buckets *set)
{
    weft__verdict first = {0};
    number_set(set);
    for (size_t i = 0; i < set->comms->count; i++)
        weft__verdict_add(&first, start(set, &set->comms->list[i]));
    return weft__verdict_result(&first);
}

weft_result weft__comms_finish(weft_buckets *set)
{
    weft__verdict first = {0};
    for (size_t i = 0; i < set->comms->count; i++)
        weft__verdict_add(&first, weft_comm_create_finish(*set->comms->list[i].made));
    return weft__verdict_result(&first);
}

void weft__comms_release(weft_buckets *set)
{
    if (!set->comms)
        return;
    for (size_t i = 0; i < set->comms->count; i++) {
        weft_comm *comm = *set->comms->list[i].made;
        set->is_stuck |= comm && !weft__comm_comes_to_rest(comm);
        weft_comm_destroy(comm);
    }
    free(set->comms->ranks);
    free(set->comms);
}
