/* SPDX-License-Identifier: Apache-2.0 */
/* The comms of this rank along the axes of a mesh. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/groups.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/verdict.h"

enum { NAME_MAX_BYTES = 40 }; /* leaves room for the number of the group */

/* Groups along the same axes are told apart by their number: "dp-cp.3". */
static weft_result name_comm(const weft_group_comm *wanted, int index, char name[WEFT_COMM_NAME_MAX + 1])
{
    char axes[WEFT_AXES_TEXT_MAX + 1];
    const char *begin = wanted->name ? wanted->name : weft_axes_text(wanted->axes, axes);
    if (!*begin || strlen(begin) > NAME_MAX_BYTES)
        return weft__fail(WEFT_E_INVALID, "group name '%s' is empty or longer than %d bytes", begin, NAME_MAX_BYTES);
    snprintf(name, WEFT_COMM_NAME_MAX + 1, "%s.%d", begin, index);
    return WEFT_OK;
}

static weft_result start_one(weft_world *world, const weft_mesh *mesh, const weft_cluster *cluster, int *ranks,
                             weft_group_comm *wanted)
{
    char name[WEFT_COMM_NAME_MAX + 1];
    int index;
    WEFT_TRY(weft_groups_of(mesh, cluster, wanted->axes, weft_world_rank(world), &index, NULL));
    WEFT_TRY(name_comm(wanted, index, name));
    WEFT_TRY(weft_groups_ranks(mesh, cluster, wanted->axes, index, ranks));
    return weft_comm_create_start(world, name, ranks, weft_mesh_size(mesh, wanted->axes), wanted->config,
                                  &wanted->comm);
}

weft_result weft_groups_connect(weft_world *world, const weft_mesh *mesh, const weft_cluster *cluster,
                                weft_group_comm *comms, int count)
{
    if (!comms && count > 0)
        return weft__fail(WEFT_E_INVALID, "%d comms of groups, and no list of them", count);
    for (int i = 0; i < count; i++)
        comms[i].comm = NULL;
    if (!world || !mesh || weft_mesh_places(mesh) != weft_world_size(world))
        return weft__fail(WEFT_E_INVALID, "groups of %d places in a world of %d ranks",
                          mesh ? weft_mesh_places(mesh) : 0, world ? weft_world_size(world) : 0);
    int *ranks = weft__alloc((size_t)weft_world_size(world) * sizeof *ranks);
    if (!ranks)
        return WEFT_E_NO_MEMORY;
    weft__verdict first = {0}; /* all are tried, so that members do not differ in which they have tried */
    for (int i = 0; i < count; i++)
        weft__verdict_add(&first, start_one(world, mesh, cluster, ranks, &comms[i]));
    for (int i = 0; i < count; i++)
        if (comms[i].comm)
            weft__verdict_add(&first, weft_comm_create_finish(comms[i].comm));
    free(ranks);
    if (first.result < 0)
        weft_groups_disconnect(comms, count);
    return weft__verdict_result(&first);
}

void weft_groups_disconnect(weft_group_comm *comms, int count)
{
    for (int i = 0; i < count; i++) {
        weft_comm_destroy(comms[i].comm);
        comms[i].comm = NULL;
    }
}
