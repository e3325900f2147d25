/* SPDX-License-Identifier: Apache-2.0 */
/* The creation of a set succeeds on all of its ranks, or on none. */
#include "base/error.h"
#include "set.h"

static bool has_member(const weft_comm *comm, int world_rank)
{
    for (int i = 0; i < weft_comm_size(comm); i++)
        if (weft_comm_world_rank(comm, i) == world_rank)
            return true;
    return false;
}

static bool reaches_beyond(const weft_comm *comm, const weft_comm *known)
{
    for (int i = 0; i < weft_comm_size(comm); i++)
        if (!has_member(known, weft_comm_world_rank(comm, i)))
            return true;
    return false;
}

/* The norm comm first; then, where replicas have norms of their own, on to them. */
weft_result weft__agree(const weft_buckets_comms *comms, weft_result mine)
{
    weft_comm *norm = comms->norm ? comms->norm : comms->shard;
    weft_comm *const others[] = {comms->shard, comms->replica, comms->expert_shard, comms->expert_replica};
    weft_result result = weft_comm_agree(norm, mine, NULL);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (others[i] && reaches_beyond(others[i], norm))
            result = weft_comm_agree(others[i], result, NULL);
    return result;
}
