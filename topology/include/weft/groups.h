/* SPDX-License-Identifier: Apache-2.0 */
/** @file  Groups: the ranks that sit along the axes of a mesh, and this rank's comms with them. From launch to comms:
 *
 *      @code
 *      weft_result make_comms(weft_world *world, weft_group_comm comms[3])
 *      {
 *          const weft_group_comm wanted[3] = {{WEFT_AXIS_TP, NULL, NULL, NULL},
 *                                             {WEFT_AXIS_PP, NULL, NULL, NULL},
 *                                             {WEFT_AXIS_DP | WEFT_AXIS_CP, NULL, NULL, NULL}};
 *          for (int i = 0; i < 3; i++)
 *              comms[i] = wanted[i];
 *          weft_cluster *cluster = NULL;
 *          weft_mesh *mesh = NULL;
 *          weft_mesh_config layout = WEFT_MESH_CONFIG_INIT;
 *          layout.tp = 2, layout.pp = 2; // data parallel ranks are the rest
 *          weft_result result = weft_cluster_open(world, NULL, &cluster);
 *          if (result == WEFT_OK)
 *              result = weft_mesh_create(weft_world_size(world), &layout, &mesh);
 *          if (result == WEFT_OK)
 *              result = weft_groups_connect(world, mesh, cluster, comms, 3); // fills comms[i].comm
 *          weft_mesh_destroy(mesh);
 *          weft_cluster_destroy(cluster);
 *          return result;
 *      }
 *      @endcode
 *
 *  A cluster of NULL means that rank n sits at place n: plans, and worlds whose launcher has seen to it. */
#ifndef WEFT_GROUPS_H
#define WEFT_GROUPS_H
#include <weft/cluster.h>
#include <weft/comm.h>
#include <weft/mesh.h>
WEFT_BEGIN_DECLS

/** The ranks of group @p index along @p axes, in the order of their places: weft_mesh_size() of them into
 *  @p ranks_out.
 *  Threads: any.  Blocks: never.  Errors: E_INVALID (axes of no one grid; mesh and cluster differ in size), E_RANGE. */
WEFT_API WEFT_NODISCARD weft_result weft_groups_ranks(const weft_mesh *mesh, const weft_cluster *cluster,
                                                      weft_axes axes, int index, int *ranks_out);
/** The group along @p axes that @p rank is in, and which of its members it is (NULL = not wanted).
 *  Threads: any.  Blocks: never.  Errors: E_INVALID, E_RANGE. */
WEFT_API WEFT_NODISCARD weft_result weft_groups_of(const weft_mesh *mesh, const weft_cluster *cluster, weft_axes axes,
                                                   int rank, int *index_out, int *member_out);
/** All groups along @p axes as "0,1;2,3", cut at @p bytes; *needed_out (NULL = not wanted) is the whole length
 *  without the final zero.
 *  Threads: any.  Blocks: never.  Errors: E_INVALID, E_NO_MEMORY. */
WEFT_API WEFT_NODISCARD weft_result weft_groups_text(const weft_mesh *mesh, const weft_cluster *cluster, weft_axes axes,
                                                     char *text, size_t bytes, size_t *needed_out);

/** What the groups along some axes cross. */
typedef struct weft_crossing {
    weft_level worst;    /**< Of all groups. */
    int groups;          /**< How many there are. */
    int at[WEFT_LEVELS]; /**< How many have each level as their worst. */
    int first_worst;     /**< The first group at the worst level. */
    int off_island;      /**< How many do not lie inside one link island. */
} weft_crossing;
/** Tell what the groups along @p axes cross; without a cluster that is not known.
 *  Threads: any.  Blocks: never.  Errors: E_INVALID, E_NO_MEMORY. */
WEFT_API WEFT_NODISCARD weft_result weft_groups_crossing(const weft_mesh *mesh, const weft_cluster *cluster,
                                                         weft_axes axes, weft_crossing *crossing_out);
/** Refuse a plan in which a group along @p axes crosses @p level or worse: a tensor parallel group its host, say. The
 *  message counts them and names the ranks of the first.
 *  Threads: any.  Blocks: never.  Errors: E_INVALID, E_NO_MEMORY, E_STATE (it crosses). */
WEFT_API WEFT_NODISCARD weft_result weft_groups_keep_within(const weft_mesh *mesh, const weft_cluster *cluster,
                                                            weft_axes axes, weft_level level);

/** A comm of this rank along some axes. */
typedef struct weft_group_comm {
    weft_axes axes;
    const char *name;               /**< Borrowed. Begins the name of the comm; NULL = the axes, "dp-cp". At most 40
                                         bytes; to have two comms along the same axes, name them apart. */
    const weft_comm_config *config; /**< Borrowed. NULL = defaults. */
    weft_comm *comm;                /**< Given, release with weft_comm_destroy(). */
} weft_group_comm;
/** Make this rank's comm along each of the axes asked for: all are started, then all are finished, so that it does
 *  not matter in which order ranks list them. Only the groups this rank is in are made, by their members alone. If
 *  one fails, all of this call are given back, and every `comm` is NULL.
 *  Threads: setup.  Blocks: peers.  Collective: every rank of @p world, with the same axes and names.
 *  Errors: E_INVALID, those of weft_comm_create_start() and weft_comm_create_finish(). */
WEFT_API WEFT_NODISCARD weft_result weft_groups_connect(weft_world *world, const weft_mesh *mesh,
                                                        const weft_cluster *cluster, weft_group_comm *comms, int count);
/** Destroy the comms that weft_groups_connect() made, and set them to NULL. Threads: setup. Blocks: local. */
WEFT_API void weft_groups_disconnect(weft_group_comm *comms, int count);

WEFT_END_DECLS
#endif
