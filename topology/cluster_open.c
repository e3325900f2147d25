/* SPDX-License-Identifier: Apache-2.0 */
/* The cluster of a running world: ranks tell each other where they run. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <weft/cluster.h>
#include <weft/collective.h>
#include <weft/comm.h>

#include "base/error.h"
#include "base/memory.h"

static weft_result find_out_where(weft_location *here)
{
    weft_machine *machine;
    WEFT_TRY(weft_machine_open(NULL, &machine));
    weft_result result = weft_machine_locate(machine, NULL, WEFT_NONE, here);
    weft_machine_close(machine);
    return result;
}

static weft_result gather(weft_world *world, const weft_location *here, weft_location *all)
{
    int size = weft_world_size(world);
    int *ranks = weft__alloc((size_t)size * sizeof *ranks);
    if (!ranks)
        return WEFT_E_NO_MEMORY;
    for (int r = 0; r < size; r++)
        ranks[r] = r;
    weft_comm *comm = NULL;
    weft_result result = weft_comm_create(world, "cluster", ranks, size, NULL, &comm);
    if (result == WEFT_OK)
        result = weft_all_gather_run(comm, here, all, sizeof *here, WEFT_UINT8, WEFT_STREAM_HOST);
    weft_comm_destroy(comm);
    free(ranks);
    return result;
}

weft_result weft_cluster_open(weft_world *world, const weft_location *here, weft_cluster **cluster_out)
{
    *cluster_out = NULL;
    if (!world)
        return weft__fail(WEFT_E_INVALID, "a cluster is opened without a world");
    weft_location own;
    if (here)
        own = *here;
    else
        WEFT_TRY(find_out_where(&own));
    if (!*own.host_name && gethostname(own.host_name, sizeof own.host_name - 1) != 0)
        *own.host_name = 0;
    int size = weft_world_size(world);
    weft_location *all = weft__alloc((size_t)size * sizeof *all);
    if (!all)
        return WEFT_E_NO_MEMORY;
    weft_result result = gather(world, &own, all);
    for (int r = 0; r < size; r++)
        all[r].host = weft_world_host(world, r);
    if (result == WEFT_OK)
        result = weft_cluster_create(all, size, cluster_out);
    free(all);
    return result;
}
