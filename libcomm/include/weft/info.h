/* SPDX-License-Identifier: Apache-2.0 */
/** @file  What weft is here: its version and instruction set, the modules that it found, the backends that can carry
 *         the ranks of a world, and its variables. For those who describe it; `weft info` prints it. */
#ifndef WEFT_INFO_H
#define WEFT_INFO_H
#include <weft/world.h>
WEFT_BEGIN_DECLS

typedef enum weft_info_kind {
    WEFT_INFO_LIBRARY,  /**< "version", "vectors": the instruction set of sums and casts; "hot": bytes that a rank
                             moves before what it overwrites is stored past the caches; "GPUs": how many the process
                             sees, or "none" and why. */
    WEFT_INFO_MODULE,   /**< A file that may hold a backend or a device: "loaded", or why it is left out. */
    WEFT_INFO_BACKEND,  /**< What it can do for the ranks of the world: "collectives, messages, ordered sums"; or why it
                             is left out. */
    WEFT_INFO_CHOICE,   /**< Members of a comm, "0-3": the backend that would carry it. */
    WEFT_INFO_VARIABLE, /**< Of the environment: its value in force. */
    WEFT_INFO_SETTING   /**< Of a library below a backend: its version, or what it is set to, as the backend says. */
} weft_info_kind;

/** One fact. Borrowed until the visit returns. */
typedef struct weft_info {
    size_t size; /**< Of this struct, as the library has it. */
    weft_info_kind kind;
    const char *name, *value;
    const char *note; /**< More about it, or "". */
    int is_default;   /**< WEFT_INFO_VARIABLE: it is not set. */
} weft_info;

typedef void weft_info_visit(void *cookie, const weft_info *fact);

/** Tell all facts, in the order of their kinds. Modules are loaded for that.
 *  @param world  borrowed; NULL: without the facts about ranks.   @param cookie  borrowed until return.
 *  Threads: setup.  Blocks: local.
 *  Errors: E_INVALID, E_NO_MEMORY, and what a backend of a module says that cannot be opened. */
WEFT_API WEFT_NODISCARD weft_result weft_info_tell(weft_world *world, weft_info_visit *visit, void *cookie);

WEFT_END_DECLS
#endif
