/* SPDX-License-Identifier: Apache-2.0 */
/* Two name spaces for comms: what begins with "weft." is made by weft for itself. */
#include "base/reserved.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"

#define PREFIX     "weft."
#define HASH_BYTES 17 /* '~' and the digits */

weft_result weft__reserved_check(const char *name, uint32_t flags)
{
    if (!(flags & WEFT__COMM_OWN) && strncmp(name, PREFIX, sizeof PREFIX - 1) == 0)
        return weft__fail(WEFT_E_INVALID, "comm %s: names that begin with '" PREFIX "' are weft's own", name);
    return WEFT_OK;
}

void weft__reserved_name(const char *const *parts, size_t count, char name[WEFT_COMM_NAME_MAX + 1])
{
    size_t used = sizeof PREFIX - 1;
    uint64_t hash = WEFT__HASH_START;
    bool whole = true;
    memcpy(name, PREFIX, sizeof PREFIX);
    for (size_t i = 0; i < count; i++) {
        size_t bytes = strlen(parts[i]), room = WEFT_COMM_NAME_MAX - used;
        hash = weft__hash(hash, parts[i], bytes + 1);
        whole = whole && bytes + (i > 0) <= room && !strchr(parts[i], '/');
        used += (size_t)snprintf(name + used, room + 1, "%s%s", i ? "/" : "", parts[i]);
        used = used < WEFT_COMM_NAME_MAX ? used : WEFT_COMM_NAME_MAX;
    }
    if (whole)
        return;
    used = used < WEFT_COMM_NAME_MAX - HASH_BYTES ? used : WEFT_COMM_NAME_MAX - HASH_BYTES;
    snprintf(name + used, HASH_BYTES + 1, "~%016" PRIx64, hash);
}
