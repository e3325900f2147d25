/* SPDX-License-Identifier: Apache-2.0 */
/* Structs that begin with their size, so that callers and library may be of different versions. @p type is what a
 * message calls a struct. */
#ifndef WEFT_BASE_SIZED_H
#define WEFT_BASE_SIZED_H
#include <stddef.h>
#include <weft/result.h>

/* Does @p given have a size that makes sense? */
weft_result weft__check_sized(const void *given, const char *type);
/* Copy what @p given has over the defaults in @p own, whose size becomes @p own_bytes. What it has beyond that must be
 * zero: a field of a later version that nobody uses. NULL = defaults. */
weft_result weft__take_sized(void *own, size_t own_bytes, const void *given, const char *type);
/* The other way round: fill as much of @p given as it has, zeros behind what is known here; its size stays. */
weft_result weft__give_sized(void *given, const void *own, size_t own_bytes, const char *type);

#endif
