/* SPDX-License-Identifier: Apache-2.0 */
/** @file  The cluster: where every rank sits. Each rank has a place, and near ranks have near places: hosts lie one
 *         behind the other in order of their lowest rank; inside a host ranks follow the order of the machine if each
 *         has a GPU of its own, or all are bound to disjoint PUs; else they follow their numbers. Ranks keep their
 *         numbers. Every rank computes the same from the same data. */
#ifndef WEFT_CLUSTER_H
#define WEFT_CLUSTER_H
#include <weft/machine.h>
#include <weft/result.h>
#include <weft/world.h>
WEFT_BEGIN_DECLS

typedef struct weft_cluster weft_cluster; /**< The placement of all ranks; it does not change. */

/** What a set of ranks crosses, from the best to the worst. */
typedef enum weft_level {
    WEFT_LEVEL_NOTHING = 0, /**< They share a cache; GPUs: a link island or a NUMA node. */
    WEFT_LEVEL_CACHE = 1,   /**< One NUMA node, but no cache that all share. */
    WEFT_LEVEL_NUMA = 2,
    WEFT_LEVEL_PACKAGE = 3,
    WEFT_LEVEL_ISLAND = 4,  /**< Not all have links to each other, though the machine has links. */
    WEFT_LEVEL_UNKNOWN = 5, /**< One host; more is not known. */
    WEFT_LEVEL_HOST = 6
} weft_level;
#define WEFT_LEVELS 7 /**< How many there are. */

/** "nothing", "cache", "NUMA node", "package", "link island", "unknown", "host"; "?" for what is none. Static text.
 *  Threads: any.  Blocks: never. */
WEFT_API const char *weft_level_string(weft_level level);

/** Place ranks that are described by plain data: a plan, with no rank running.
 *  @param ranks  copied; where rank 0, 1, ... runs.   @param cluster_out  given, release with weft_cluster_destroy().
 *  Threads: any.  Blocks: never.
 *  Errors: E_INVALID (two ranks use one GPU: names both and the GPU), E_NO_MEMORY. */
WEFT_API WEFT_NODISCARD weft_result weft_cluster_create(const weft_location *ranks, int count,
                                                        weft_cluster **cluster_out);
/** Place the ranks of @p world: they tell each other where they run. Hosts are those of the world. If one rank
 *  fails, all do, with its message.
 *  @param here  copied; where this rank runs, from weft_machine_locate(); its host is ignored. NULL = where the calling
 *  thread runs on this host.   @param cluster_out  given, release with weft_cluster_destroy().
 *  Threads: setup.  Blocks: peers.  Collective.
 *  Errors: those of weft_machine_open(), weft_comm_create(), weft_all_gather_run() and weft_cluster_create(). */
WEFT_API WEFT_NODISCARD weft_result weft_cluster_open(weft_world *world, const weft_location *here,
                                                      weft_cluster **cluster_out);
/** Give the cluster back; NULL is fine. Threads: owner. Blocks: local. */
WEFT_API void weft_cluster_destroy(weft_cluster *cluster);

/** How many ranks, and places, there are. Threads: any. Blocks: never. */
WEFT_API int weft_cluster_size(const weft_cluster *cluster);
/** Which rank sits at @p place; WEFT_NONE for no place. Threads: any. Blocks: never. */
WEFT_API int weft_cluster_rank(const weft_cluster *cluster, int place);
/** The place of @p rank; WEFT_NONE for no rank. Threads: any. Blocks: never. */
WEFT_API int weft_cluster_place(const weft_cluster *cluster, int rank);
/** Where @p rank runs, its host counted as below; NULL for no rank. Borrowed: as long as the cluster.
 *  Threads: any.  Blocks: never. */
WEFT_API const weft_location *weft_cluster_location(const weft_cluster *cluster, int rank);
/** How many hosts there are; they are counted in the order of their lowest rank. Threads: any. Blocks: never. */
WEFT_API int weft_cluster_hosts(const weft_cluster *cluster);
/** The name of @p host: what its lowest rank calls it, or "host3"; NULL for no host. Borrowed: as long as the cluster.
 *  Threads: any.  Blocks: never. */
WEFT_API const char *weft_cluster_host_name(const weft_cluster *cluster, int host);
/** The worst level that a set of @p count ranks crosses. Threads: any. Blocks: never. */
WEFT_API weft_level weft_cluster_level(const weft_cluster *cluster, const int *ranks, int count);

WEFT_END_DECLS
#endif
