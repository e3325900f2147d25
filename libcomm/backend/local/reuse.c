/* SPDX-License-Identifier: Apache-2.0 */
/* Guessing whether a buffer still lies in the cache, by a small table of those written last, indexed by a hash of their
 * address: forgetting one is harmless. */
#include "backend/local/reuse.h"

#define WORTH_IT ((size_t)16 << 10) /* shorter writes stay in the first caches until they are read */

bool weft__reuse_is_cold(weft__reuse *reuse, const void *at, size_t bytes, size_t traffic)
{
    uint64_t before = reuse->moved;
    reuse->moved += traffic;
    if (bytes < WORTH_IT || !reuse->hot_bytes)
        return false;
    size_t place = (size_t)(((uint64_t)(uintptr_t)at >> 6) * 0x9e3779b97f4a7c15ull >> 56) % WEFT__REUSES;
    bool known = reuse->last[place].at == at;
    uint64_t since = before - reuse->last[place].when;
    reuse->last[place].at = at;
    reuse->last[place].when = reuse->moved;
    return !known || since + traffic > reuse->hot_bytes;
}
