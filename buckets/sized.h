/* SPDX-License-Identifier: Apache-2.0 */
/* Structs that begin with their size, so that callers and library may be of different versions. @p type is
 * what a message calls a struct. */
#ifndef WEFT_BUCKETS_SIZED_H
#define WEFT_BUCKETS_SIZED_H
#include <string.h>

#include "base/error.h"

static inline weft_result weft__check_sized(const void *given, const char *type)
{
    size_t size = *(const size_t *)given;
    if (size < sizeof size || size > 4096)
        return weft__fail(WEFT_E_INVALID, "%s.size is %zu: begin with its INIT", type, size);
    return WEFT_OK;
}

/* Copy what @p given has over the defaults in @p own; @p given may be NULL. */
static inline weft_result weft__take_sized(void *own, size_t own_size, const void *given, const char *type)
{
    if (!given)
        return WEFT_OK;
    WEFT_TRY(weft__check_sized(given, type));
    size_t size = *(const size_t *)given;
    memcpy(own, given, size < own_size ? size : own_size);
    *(size_t *)own = own_size;
    return WEFT_OK;
}

/* The other way round: fill as much of @p given as it has; its size stays. */
static inline weft_result weft__give_sized(void *given, const void *own, size_t own_size, const char *type)
{
    WEFT_TRY(weft__check_sized(given, type));
    size_t size = *(const size_t *)given;
    memcpy(given, own, size < own_size ? size : own_size);
    *(size_t *)given = size;
    return WEFT_OK;
}

#endif
