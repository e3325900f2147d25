/* SPDX-License-Identifier: Apache-2.0 */
/* Segments: one a rank, mapped by every rank of the host. A segment begins with a header that says who is asleep,
 * and the rank's board; then holds the rank's heap. Only its owner grows it; nothing is left behind after a crash. */
#ifndef WEFT_SHARED_SEGMENT_H
#define WEFT_SHARED_SEGMENT_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <weft/result.h>

#include "base/memory.h"
#include "shared/board.h"

#define WEFT__HUGE_PAGE ((size_t)2 << 20)

/* Who of a rank is to be woken: the value is that of `asleep`, and bells[value - 1] the eventfd. */
enum { WEFT__AWAKE = 0, WEFT__ENGINE_SLEEPS = 1, WEFT__CALLER_SLEEPS = 2 };

typedef struct weft__segment_header {
    uint64_t magic;
    int32_t rank;
    _Atomic uint32_t cache_worth; /* what was measured of this machine's caches by its first rank; 0 = not yet */
    _Alignas(WEFT__LINE) _Atomic uint32_t asleep;
    _Alignas(WEFT__LINE) _Atomic uint64_t bytes; /* of the file, this header included */
    weft__board board;
} weft__segment_header;

typedef struct weft__segment_fds {
    int memory, bells[2], process; /* -1 = none; process: a pidfd */
} weft__segment_fds;

typedef struct weft__segment {
    weft__segment_header *header;
    unsigned char *base;
    size_t reserved;        /* address space */
    size_t populated_bytes; /* of this mapping */
    weft__segment_fds fds;
} weft__segment;

/* Make this rank's segment with @p reserve bytes of address space (0 = the memory of the machine). */
weft_result weft__segment_create(int rank, size_t reserve, weft__segment *segment);
/* Give back the address space behind the first @p bytes, if there is more: of the owner, before others map it. */
void weft__segment_limit(weft__segment *segment, size_t bytes);
/* Map the segment of another process; takes @p fds, also on failure. */
weft_result weft__segment_map(weft__segment_fds fds, size_t reserve, weft__segment *segment);
/* All who were to see it do: of another process's the mapping is enough, and the file is closed. */
void weft__segment_settle(weft__segment *segment);
/* Unmap and close; a zeroed one is fine. */
void weft__segment_unmap(weft__segment *segment);
/* The owner's: make the file at least @p bytes long, its pages present here. E_NO_MEMORY says what is missing. */
weft_result weft__segment_grow(weft__segment *segment, size_t bytes);
/* Make a bounded piece of what the owner has added present in this mapping too. Is there more? */
bool weft__segment_populate(weft__segment *segment);

/* Write the bell @p who (WEFT__ENGINE_SLEEPS, WEFT__CALLER_SLEEPS). */
void weft__segment_ring(const weft__segment *segment, uint32_t who);
/* The owner's: take up what was rung. */
void weft__segment_hear(const weft__segment *segment, uint32_t who);
/* Wake the rank if it sleeps. The caller has published, sequentially consistent, what there is to see. */
static inline void weft__segment_wake(const weft__segment *segment)
{
    if (atomic_load(&segment->header->asleep) == WEFT__AWAKE)
        return;
    uint32_t who = atomic_exchange(&segment->header->asleep, WEFT__AWAKE);
    if (who != WEFT__AWAKE)
        weft__segment_ring(segment, who);
}

#endif
