/* SPDX-License-Identifier: Apache-2.0 */
/* How much a rank may move before what it wrote is better written past the cache when it is written again. While it
 * lies in the core's own cache ordinary stores win everywhere. Whether they do so in the last level, which others
 * share, depends on the machine: behind some meshes it takes them more slowly than memory takes stores that need no
 * fetch. That is measured. */
#ifndef WEFT_LOCAL_CACHE_H
#define WEFT_LOCAL_CACHE_H
#include <stddef.h>
#include <stdint.h>

#include "device/vector.h"

enum { WEFT__CACHE_UNKNOWN, WEFT__CACHE_OWN, WEFT__CACHE_SHARED }; /* the largest that is worth storing to */

/* Measures it, once in a process: about 2 ms. */
uint32_t weft__cache_measure(const weft__vector *vector);
/* Bytes that a rank may move, if @p ranks share the last level; 0 = not known, nothing is cold. */
uint64_t weft__cache_hot_bytes(uint32_t worth, int ranks);

#endif
