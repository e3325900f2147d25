/* SPDX-License-Identifier: Apache-2.0 */
/* Structs of callers, as this version knows them. */
#include "base/sized.h"

#include <string.h>

#include "base/error.h"

#define SIZE_MOST 4096 /* more is a size that was never set */

static size_t size_of(const void *given)
{
    size_t size;
    memcpy(&size, given, sizeof size);
    return size;
}

weft_result weft__check_sized(const void *given, const char *type)
{
    size_t size = size_of(given);
    if (size < sizeof size || size > SIZE_MOST)
        return weft__fail(WEFT_E_INVALID, "%s.size is %zu: begin with its INIT", type, size);
    return WEFT_OK;
}

weft_result weft__take_sized(void *own, size_t own_bytes, const void *given, const char *type)
{
    if (given) {
        WEFT_TRY(weft__check_sized(given, type));
        size_t size = size_of(given);
        for (size_t i = own_bytes; i < size; i++)
            if (((const unsigned char *)given)[i])
                return weft__fail(WEFT_E_INVALID, "%s.size is %zu, here %zu: a field that is not known here is set",
                                  type, size, own_bytes);
        memcpy(own, given, size < own_bytes ? size : own_bytes);
    }
    memcpy(own, &own_bytes, sizeof own_bytes);
    return WEFT_OK;
}

weft_result weft__give_sized(void *given, const void *own, size_t own_bytes, const char *type)
{
    WEFT_TRY(weft__check_sized(given, type));
    size_t size = size_of(given);
    if (size > own_bytes)
        memset((char *)given + own_bytes, 0, size - own_bytes);
    memcpy(given, own, size < own_bytes ? size : own_bytes);
    memcpy(given, &size, sizeof size);
    return WEFT_OK;
}
