/* SPDX-License-Identifier: Apache-2.0 */
/** @file  Comms: ordered sets of ranks with one backend behind each. Collectives of one comm run in the order in which
 *         they are started, the same on all its ranks; comms never hold each other up. */
#ifndef WEFT_COMM_H
#define WEFT_COMM_H
#include <weft/result.h>
#include <weft/world.h>
WEFT_BEGIN_DECLS

typedef struct weft_comm weft_comm; /**< A set of ranks that communicate. */

#define WEFT_COMM_NAME_MAX 63 /**< Longest name of a comm, in bytes. */

enum {
    WEFT_COMM_EXACT = 1, /**< Refuse a backend whose sums depend on more than the inputs and the ranks. */
    WEFT_COMM_NO_P2P = 2 /**< Collectives only: no channels, and none of the memory that messages take. */
};

typedef struct weft_comm_config {
    size_t size;           /**< Set by WEFT_COMM_CONFIG_INIT. */
    const char *backend;   /**< Copied. "local"; NULL = that of the world. */
    uint32_t works;        /**< Most works in flight; 0 = 64, on a GPU 256; rounded up to a multiple of 64. A start that
                                finds all of them finished on streams, but not ended, waits for the GPU. */
    uint32_t p2p_channels; /**< Channels of p2p messages, 0 ... n-1; 0 = 2, with WEFT_COMM_NO_P2P none. */
    uint32_t timeout_ms;   /**< For operations on this comm; 0 = that of the world. */
    uint32_t flags;        /**< WEFT_COMM_*. */
    weft_device device;    /**< Where the buffers of its operations lie. On a GPU they run in the order of its streams;
                                the host's stream then means: after what the host has waited for, and finish blocks. */
    uint32_t most_ctas;    /**< What an operation on a GPU may take of it at most, in CTAs, 0 = what the library below
                                likes (WEFT_MOST_CTAS); */
    uint32_t least_ctas;   /**< and what it takes at least, 0 = the same (WEFT_LEAST_CTAS). */
    uint32_t p2p_peer_count; /**< With p2p_peers: how many they are. */
    const int *p2p_peers;    /**< Copied. The members, by their numbers in the comm, that this rank exchanges messages
                                  with, as each of them names this rank; messages to others are refused. NULL = with
                                  all. A backend that connects ranks in pairs does that when the comm is made, and on
                                  GPUs, in a comm of more than 64 members, only for pairs that are named. */
    void *native; /**< Borrowed as long as the comm: a communicator of the library behind the backend for it to use
                       instead of its own, see weft/nccl.h; NULL = none. On all members or none. */
} weft_comm_config;
#define WEFT_COMM_CONFIG_INIT WEFT_SIZED_INIT(weft_comm_config)

/** Begin to make a comm. Only its members take part; they meet under its name, so the order between comms does not
 *  matter, and between the two halves anything else may be done.
 *  A member that cannot make its part ends the creation for all, with its message.
 *  @param name    copied; at most 63 bytes; unique in its world while the comm lives. Names that begin with "weft." are
 *                 weft's own.
 *  @param ranks   copied; @p count world ranks without repetition, this rank among them; its index there is its rank in
 *                 the comm. NULL with a count of 0: all ranks of the world, in order.
 *  @param config  copied; NULL = defaults; must be equal on all members.
 *  @param comm_out  given, finished or not; release with weft_comm_destroy().
 *  Threads: setup.  Blocks: local.
 *  Errors: E_INVALID, E_RANGE, E_NO_MEMORY, E_NOT_FOUND (no such backend), E_UNSUPPORTED, E_BUSY (this rank has 256
 *  comms already). */
WEFT_API WEFT_NODISCARD weft_result weft_comm_create_start(weft_world *world, const char *name, const int *ranks,
                                                           int count, const weft_comm_config *config,
                                                           weft_comm **comm_out);
/** Wait until all members are there, have compared what they asked for, and are connected. On failure the comm can
 *  only be destroyed; the members that still wait for this rank then hear why, and all may try again.
 *  Threads: setup.  Blocks: peers.  Collective.
 *  Errors: E_STATE, E_MISMATCH (names a rank and what differs), E_TIMEOUT (names who is missing), E_PEER_LOST,
 *  E_ABORTED (or what it was aborted with, here or by a member), and what another member's weft_comm_create_start()
 *  gave. */
WEFT_API WEFT_NODISCARD weft_result weft_comm_create_finish(weft_comm *comm);
/** Both halves in one call; on failure *comm_out is NULL. Threads: setup. Blocks: peers. Collective.
 *  Errors: those of both. */
WEFT_API WEFT_NODISCARD weft_result weft_comm_create(weft_world *world, const char *name, const int *ranks, int count,
                                                     const weft_comm_config *config, weft_comm **comm_out);

/** This rank's number in the comm. Threads: any. Blocks: never. */
WEFT_API int weft_comm_rank(const weft_comm *comm);
/** How many ranks the comm has. Threads: any. Blocks: never. */
WEFT_API int weft_comm_size(const weft_comm *comm);
/** The world rank of member @p rank; -1 if there is none. Threads: any. Blocks: never. */
WEFT_API int weft_comm_world_rank(const weft_comm *comm, int rank);
/** The name it was created under. Borrowed: as long as the comm. Threads: any. Blocks: never. */
WEFT_API const char *weft_comm_name(const weft_comm *comm);
/** The name of the backend behind it. Static text. Threads: any. Blocks: never. */
WEFT_API const char *weft_comm_backend(const weft_comm *comm);
/** What it was made with, every default filled in. Threads: any. Blocks: never. Errors: E_INVALID (no size set). */
WEFT_API WEFT_NODISCARD weft_result weft_comm_config_get(const weft_comm *comm, weft_comm_config *config_out);
/** The communicator of the library behind its backend, for what weft does not do: the headers of single libraries, as
 *  weft/nccl.h, say what it is and how it may be used.
 *  @param native_out  borrowed as long as the comm, and until it fails.
 *  Threads: one at a time for the comm.  Blocks: never.
 *  Errors: E_INVALID, E_STATE (it is not made yet), E_UNSUPPORTED (there is none), and how the comm failed. */
WEFT_API WEFT_NODISCARD weft_result weft_comm_native(weft_comm *comm, void **native_out);
/** The world it belongs to. Threads: any. Blocks: never. */
WEFT_API weft_world *weft_comm_world(const weft_comm *comm);

/** How the comm failed, WEFT_OK if it has not: the first verdict this rank saw. A failed comm takes no more operations;
 *  finish what is started, then destroy.
 *  @param text  the message is copied there, cut at @p text_bytes; NULL and 0: not wanted.
 *  Threads: any.  Blocks: never. */
WEFT_API weft_result weft_comm_error(const weft_comm *comm, char *text, size_t text_bytes);

/** Find out whether all ranks are well, and go on or end together: WEFT_OK if every rank says so, else on every rank
 *  what the lowest rank that failed says, and weft_last_error() there is its message, led by its number ("rank 3: ").
 *  Takes no memory, so that want of memory can be agreed on. If the comm itself fails meanwhile, a rank that has failed
 *  gets its own result back, the others the comm's.
 *  @param mine  how this rank fared.   @param why  copied, cut at 480 bytes; NULL = weft_last_error(); without meaning
 *  if all is well.
 *  Threads: one at a time for the comm.  Blocks: peers.  Collective.
 *  Errors: E_INVALID (no comm: returns alone), what a rank gave, and those of weft_collective_run(). */
WEFT_API WEFT_NODISCARD weft_result weft_comm_agree(weft_comm *comm, weft_result mine, const char *why);

/** Fail the comm with E_ABORTED on this rank, and tell the others. Operations in flight end with that error; they must
 *  still be finished. The first verdict stays: aborting a failed comm changes nothing.
 *  An operation of a failed comm ends when no other rank writes into its buffers any more. A rank that does not say so,
 *  as one that is stopped, is waited for 5 s, or the comm's timeout_ms if that is less; then the operation ends with
 *  E_STUCK, the message names the rank, and the buffers must be left alone while that rank lives.
 *  Threads: any.  Blocks: never.  Errors: E_INVALID. */
WEFT_API weft_result weft_comm_abort(weft_comm *comm);
/** The same, and whoever waits for this rank is told why.
 *  @param why  copied, cut at about 200 bytes; NULL or "" = no reason.
 *  Threads: any.  Blocks: never.  Errors: E_INVALID. */
WEFT_API weft_result weft_comm_abort_because(weft_comm *comm, const char *why);

/** Give the comm back; NULL is fine. Every work on it must have been finished; one that was not is reported and lost,
 *  and fails the comm for its peers (E_ABORTED). They are not waited for: the buffers of a lost work must be left alone
 *  until its peers have ended it.  Threads: setup.  Blocks: local. */
WEFT_API void weft_comm_destroy(weft_comm *comm);

WEFT_END_DECLS
#endif
