/* SPDX-License-Identifier: Apache-2.0 */
/* Tries out whether the last-level cache takes stores faster than memory does: by copies that are a little too large
 * for a core's own cache. */
#include "backend/local/cache.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"

/* What a virtual machine says of the last level may be the size of all of it, however many share it unseen. */
#define MOST_SHARED ((uint64_t)32 << 20)
#define PATIENCE_NS 3000000           /* for a copy and its first touch, which take half a millisecond */
#define APART       ((size_t)17 * 64) /* so that the two buffers do not meet in the same sets of a cache */

static uint64_t cache_bytes(int name)
{
    long bytes = sysconf(name);
    return bytes > 0 ? (uint64_t)bytes : 0;
}

static uint64_t own_bytes(void)
{
    return cache_bytes(_SC_LEVEL2_CACHE_SIZE);
}

static uint64_t shared_bytes(int ranks)
{
    uint64_t share = ranks > 0 ? cache_bytes(_SC_LEVEL3_CACHE_SIZE) / (uint64_t)ranks : 0;
    return share < MOST_SHARED ? share : MOST_SHARED;
}

static void copy(void *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
}

typedef void copier(void *to, const void *from, size_t bytes);

/* Ticks of the second time: the first one finds in the cache what the one before has left. */
static uint64_t time_copy(copier *by, void *to, const void *from, size_t bytes)
{
    by(to, from, bytes);
    uint64_t begin = weft__ticks();
    by(to, from, bytes);
    return weft__ticks() - begin;
}

static uint32_t measure(const weft__vector *vector)
{
    size_t bytes = (size_t)own_bytes();
    unsigned char *from = weft__map_pages(2 * bytes + APART);
    if (!from)
        return WEFT__CACHE_OWN;
    unsigned char *to = from + bytes + APART;
    uint64_t begin_ns = weft__now_ns(), stored = 1, past = 0;
    memset(from, 1, bytes); /* else it is one page of zeros */
    copy(to, from, bytes);
    if (weft__now_ns() - begin_ns < PATIENCE_NS) { /* else nothing can be told here, and slowly */
        stored = time_copy(copy, to, from, bytes);
        past = time_copy(vector->copy_past, to, from, bytes);
    }
    weft__unmap_pages(from, 2 * bytes + APART);
    return stored <= past ? WEFT__CACHE_SHARED : WEFT__CACHE_OWN;
}

uint32_t weft__cache_measure(const weft__vector *vector)
{
    static _Atomic uint32_t known;
    uint32_t worth = atomic_load_explicit(&known, memory_order_relaxed);
    if (worth == WEFT__CACHE_UNKNOWN) {
        worth = own_bytes() && shared_bytes(1) > own_bytes() ? measure(vector) : WEFT__CACHE_SHARED;
        atomic_store_explicit(&known, worth, memory_order_relaxed);
    }
    return worth;
}

uint64_t weft__cache_hot_bytes(uint32_t worth, int ranks)
{
    uint64_t own = own_bytes(), shared = shared_bytes(ranks);
    return worth == WEFT__CACHE_SHARED && shared > own ? shared : own;
}
