/* SPDX-License-Identifier: Apache-2.0 */
/** @file  Modules of a program: shared objects beside weft's own, for what not every machine can load. */
#ifndef WEFT_MODULE_H
#define WEFT_MODULE_H
#include <stddef.h>
#include <weft/result.h>
WEFT_BEGIN_DECLS

/** Load the first @p file that can be, in the folders of WEFT_MODULE_PATH, then in @p folder, then where weft's library
 *  is. It stays loaded, and its symbols are nobody else's; handlers of signals stay those of the program. A module that
 *  is linked to another copy of weft than the program is left out.
 *  @param file    "libweft-gpt-cuda.so".   @param folder  NULL or "": none.
 *  @param symbol  that it must have.       @param symbol_out  given for good.
 *  @param path    copied to, cut at @p path_bytes: the last that was found, or "" (NULL and 0: not wanted).
 *  Threads: any.  Blocks: local.
 *  Errors: E_INVALID, E_NOT_FOUND (there is no such file), E_UNSUPPORTED (the last cannot be loaded: says why). */
WEFT_API WEFT_NODISCARD weft_result weft_module_open(const char *file, const char *folder, const char *symbol,
                                                     void **symbol_out, char *path, size_t path_bytes);

WEFT_END_DECLS
#endif
