/* SPDX-License-Identifier: Apache-2.0 */
/** @file  The world: what one rank opens. It knows its number, the others, its device, and carries the progress of all
 *         operations. Two worlds may live in one process: that is how threads become ranks (they form a team). */
#ifndef WEFT_WORLD_H
#define WEFT_WORLD_H
#include <weft/result.h>
#include <weft/stream.h>
WEFT_BEGIN_DECLS

typedef struct weft_world weft_world; /**< One rank's view of all ranks. */
typedef struct weft_team weft_team;   /**< A fixed number of threads of one process that are each a rank. */

typedef struct weft_world_config {
    size_t size;                    /**< Set by WEFT_WORLD_CONFIG_INIT. */
    weft_team *team;                /**< Borrowed, outlives the world: a thread rank. NULL = a process. */
    int rank;                       /**< This rank, if ranks > 0. */
    int ranks;                      /**< How many; 0 = as the launcher or the team says (then rank is the team's). */
    const char *rendezvous;         /**< Copied. Where ranks meet; NULL = WEFT_RENDEZVOUS, else the launcher's. */
    const char *host_id;            /**< Copied. Equal text = same host, for placement; NULL = WEFT_HOST_ID. */
    const char *backend;            /**< Copied. For comms that name none; NULL = WEFT_BACKEND, else chosen. */
    const char *trace;              /**< Copied. Folder of trace files; NULL = WEFT_TRACE, else none. */
    uint32_t timeout_ms;            /**< Of every operation; 0 = WEFT_TIMEOUT_MS, else 600 000. */
    uint32_t rendezvous_timeout_ms; /**< Of meeting and making comms; 0 = WEFT_RENDEZVOUS_TIMEOUT_MS, else 120 000. */
    uint64_t heap_bytes;            /**< Address space kept for weft_memory_alloc(); 0 = WEFT_HEAP_MIB, else the
                                         machine's memory. Heaps of one host have 64 TiB together. */
    uint32_t trace_records;         /**< Records of the trace ring, a power of two; 0 = 8192. */
    uint32_t flags;                 /**< 0. */
    const char *device; /**< Copied. The GPU of this rank, "cuda:2"; NULL = WEFT_DEVICE, else its local rank, modulo
                             how many GPUs the process sees. It is opened when it is first asked for. */
} weft_world_config;
#define WEFT_WORLD_CONFIG_INIT WEFT_SIZED_INIT(weft_world_config)

/** Open the world of this rank and meet the others. Who this rank is comes, in this order, from @p config, from
 *  WEFT_RANK and WEFT_SIZE (set by `weft run`), from torchrun (RANK, WORLD_SIZE), from Open MPI (OMPI_COMM_WORLD_RANK,
 *  OMPI_COMM_WORLD_SIZE), PALS (PALS_RANKID, PMI_SIZE), MPICH (PMI_RANK, PMI_SIZE), or a step of Slurm's srun; with
 *  none of them the world has one rank. A world of one rank opens no socket and starts no thread. If one rank fails,
 *  all do, with its result and its message; only a rank that cannot find out who it is or where the others meet, or a
 *  process that has no memory even for meeting them, returns alone, and the others name it as missing at the deadline.
 *  @param config    copied; NULL = defaults.   @param world_out  given, release with weft_world_close().
 *  Threads: any.  Blocks: peers.  Collective.
 *  Errors: E_INVALID, E_RANGE, E_SYSTEM, E_NO_MEMORY, E_UNSUPPORTED, E_PEER_LOST, E_MISMATCH (ranks differ in size,
 *  version or configuration, or two have the same number), E_TIMEOUT (names the missing ranks). */
WEFT_API WEFT_NODISCARD weft_result weft_world_open(const weft_world_config *config, weft_world **world_out);

/** This rank's number, from 0. Threads: any. Blocks: never. */
WEFT_API int weft_world_rank(const weft_world *world);
/** How many ranks there are. Threads: any. Blocks: never. */
WEFT_API int weft_world_size(const weft_world *world);
/** The number of @p rank's host: hosts are counted in the order of their lowest rank; -1 for no rank.
 *  Threads: any. Blocks: never. */
WEFT_API int weft_world_host(const weft_world *world, int rank);
/** This rank's number among the ranks of its host. Threads: any. Blocks: never. */
WEFT_API int weft_world_local_rank(const weft_world *world);

/** The number of this rank's GPU among those that the process sees, which is opened if it was not yet.
 *  Threads: any.  Blocks: local.  Errors: E_NO_DEVICE (says why), E_INVALID. */
WEFT_API WEFT_NODISCARD weft_result weft_world_device(weft_world *world, weft_device device, int *index_out);

/** Wait for what is queued on @p stream and report the first operation that failed late. On the host stream, where
 *  every finish tells its own result, this returns the first error of any comm of this world.
 *  Threads: any.  Blocks: peers on a device stream, else never.  Errors: any late error of an operation. */
WEFT_API WEFT_NODISCARD weft_result weft_world_check(weft_world *world, weft_stream stream);

/** Give up: fail every comm of this world on this rank, and tell the others why. Whoever waits for this rank ends with
 *  @p result too and knows the cause, so that one call in each rank that fails ends all of them. Comms that have failed
 *  keep their verdict; operations in flight end, and must still be finished.
 *  @param result  a failure: what made this rank give up.
 *  @param why     copied, cut at 255 bytes; one line that names the thing.
 *  Threads: any.  Blocks: local.  Errors: E_INVALID. */
WEFT_API weft_result weft_world_abort(weft_world *world, weft_result result, const char *why);

/** Close the world; NULL is fine. Every comm must have been destroyed and every buffer given back before; what is
 *  left is reported and given back. Peers are not waited for, but in a world that spans machines rank 0 stays up to 5 s
 *  for ranks that have not closed theirs, since it passes on what they tell each other; once it has gone, ranks of
 *  different machines cannot make comms any more (E_PEER_LOST), and those that they have go on. Each rank waits up to
 *  2 s until what it said last has been heard, and up to 5 s until what it sent last through a network has been read,
 *  both of which take no time unless others are stopped.
 *  Threads: owner.  Blocks: local, in a world that spans machines, or used a network, peers for that long. */
WEFT_API void weft_world_close(weft_world *world);

/** Make a team of @p ranks thread ranks. Each of its threads then opens its world with the team in the config. A team
 *  whose opening has failed is of no more use.
 *  @param team_out  given, release with weft_team_destroy() when every world of it is closed.
 *  Threads: any.  Blocks: local.  Errors: E_INVALID, E_NO_MEMORY. */
WEFT_API WEFT_NODISCARD weft_result weft_team_create(int ranks, weft_team **team_out);
/** Give the team back; NULL is fine. Threads: owner. Blocks: local. */
WEFT_API void weft_team_destroy(weft_team *team);

/** The body of one rank. @p world is the rank's own, open; it is closed when the function returns. */
typedef weft_result (*weft_rank_function)(weft_world *world, void *argument);
/** Run @p function on @p ranks new threads, each a rank of a new team, and wait for all of them.
 *  @param config    copied for every rank, its team and rank set; NULL = defaults.
 *  @param argument  borrowed until return.
 *  Threads: any.  Blocks: peers.  Errors: those of opening, or the first that a rank returned, lowest rank first. */
WEFT_API WEFT_NODISCARD weft_result weft_team_run(int ranks, const weft_world_config *config,
                                                  weft_rank_function function, void *argument);
/** Run @p function as the rank, or the ranks, that this process is meant to be: with WEFT_THREADS=n (set by
 *  `weft run --threads`) as a team of n threads, else as the one rank of the launcher. The same program then runs
 *  both ways.
 *  @param config    copied; NULL = defaults; without team.   @param argument  borrowed until return.
 *  Threads: any.  Blocks: peers.  Errors: those of opening, or what the function returned. */
WEFT_API WEFT_NODISCARD weft_result weft_world_run(const weft_world_config *config, weft_rank_function function,
                                                   void *argument);

WEFT_END_DECLS
#endif
