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
#include "base/reserved.h"
#include "base/verdict.h"

static weft_result find_out_where(weft_location *here)
{
    weft_machine *machine;
    WEFT_TRY(weft_machine_open(NULL, &machine));
    weft_result result = weft_machine_locate(machine, NULL, WEFT_NONE, here);
    weft_machine_close(machine);
    return result;
}

static weft_result connect_all(weft_world *world, weft_comm **comm_out)
{
    char name[WEFT_COMM_NAME_MAX + 1];
    weft__reserved_name((const char *const[]){"cluster"}, 1, name);
    weft_comm_config config = WEFT_COMM_CONFIG_INIT;
    config.flags = WEFT__COMM_OWN | WEFT_COMM_NO_P2P;
    return weft_comm_create(world, name, NULL, 0, &config, comm_out);
}

/* With what every rank says, or what has gone wrong on one. */
static weft_result place_all(weft_comm *comm, const weft__verdict *mine, const weft_location *here, weft_location *all,
                             weft_cluster **cluster_out)
{
    WEFT_TRY(weft_comm_agree(comm, (weft_result)mine->result, mine->text));
    WEFT_TRY(weft_all_gather_run(comm, here, all, sizeof *here, WEFT_UINT8, WEFT_STREAM_HOST));
    int size = weft_comm_size(comm);
    for (int r = 0; r < size; r++)
        all[r].host = weft_world_host(weft_comm_world(comm), r);
    return weft_comm_agree(comm, weft_cluster_create(all, size, cluster_out), NULL);
}

weft_result weft_cluster_open(weft_world *world, const weft_location *here, weft_cluster **cluster_out)
{
    if (!cluster_out)
        return weft__fail(WEFT_E_INVALID, "a cluster is opened without a place for it");
    *cluster_out = NULL;
    if (!world)
        return weft__fail(WEFT_E_INVALID, "a cluster is opened without a world");
    weft__verdict mine = {0};
    weft_location own = WEFT_LOCATION_INIT(0);
    if (here)
        own = *here;
    else
        weft__verdict_add(&mine, find_out_where(&own));
    if (!*own.host_name && gethostname(own.host_name, sizeof own.host_name - 1) != 0)
        *own.host_name = 0;
    weft_location *all = weft__alloc((size_t)weft_world_size(world) * sizeof *all);
    weft__verdict_add(&mine, all ? WEFT_OK : WEFT_E_NO_MEMORY);
    weft_comm *comm = NULL;
    weft_result result = connect_all(world, &comm);
    if (result == WEFT_OK)
        result = place_all(comm, &mine, &own, all, cluster_out);
    if (result != WEFT_OK) {
        weft_cluster_destroy(*cluster_out);
        *cluster_out = NULL;
    }
    weft_comm_destroy(comm);
    free(all);
    return result;
}
