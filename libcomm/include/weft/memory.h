/* SPDX-License-Identifier: Apache-2.0 */
/** @file  Memory that operations reach without a copy. Any memory may be used in operations; this is the fast kind. */
#ifndef WEFT_MEMORY_H
#define WEFT_MEMORY_H
#include <weft/result.h>
#include <weft/world.h>
WEFT_BEGIN_DECLS

/** Allocate @p bytes, zeroed, on a boundary of at least 256 bytes, its pages present in every process that shares it.
 *  @param memory_out  given, release with weft_memory_free() before the world is closed.
 *  Threads: any.  Blocks: local.  Errors: E_INVALID, E_NO_MEMORY (says how much was wanted and is left), E_SYSTEM. */
WEFT_API WEFT_NODISCARD weft_result weft_memory_alloc(weft_world *world, size_t bytes, void **memory_out);
/** The same where @p device reaches it without a copy; of a GPU only by that GPU. On the host it is
 *  weft_memory_alloc().
 *  Threads: any.  Blocks: local, a GPU until it has done all it was given.
 *  Errors: the same, and E_NO_DEVICE. */
WEFT_API WEFT_NODISCARD weft_result weft_memory_alloc_on(weft_world *world, weft_device device, size_t bytes,
                                                         void **memory_out);
/** Give @p memory back; NULL is fine. No operation may be using it. That of a GPU goes once no operation is in flight
 *  there, and is kept if one is stuck (E_STUCK).  Threads: any.  Blocks: local, peers on a GPU. */
WEFT_API void weft_memory_free(weft_world *world, void *memory);

WEFT_END_DECLS
#endif
