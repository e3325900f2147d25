/* SPDX-License-Identifier: Apache-2.0 */
/* A 64-bit hash for comparing what ranks hold (FNV-1a); not for secrets. */
#ifndef WEFT_BASE_HASH_H
#define WEFT_BASE_HASH_H
#include <stddef.h>
#include <stdint.h>

#define WEFT__HASH_START 0xcbf29ce484222325ull

static inline uint64_t weft__hash(uint64_t hash, const void *bytes, size_t count)
{
    const unsigned char *b = bytes;
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ b[i]) * 0x100000001b3ull;
    return hash;
}

#endif
