/* SPDX-License-Identifier: Apache-2.0 */
/* Whether what is about to be overwritten still lies in a cache. If it does, ordinary stores are fastest; if not, they
 * would fetch it first only to throw it away, and stores past the cache save a third to a half of the traffic. Told by
 * how many bytes this rank has moved since it last wrote there. */
#ifndef WEFT_LOCAL_REUSE_H
#define WEFT_LOCAL_REUSE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WEFT__REUSES 256

typedef struct weft__reuse {
    uint64_t moved;     /* bytes so far */
    uint64_t hot_bytes; /* so many may be moved before a place is cold; 0 = not known: nothing is */
    struct {
        const void *at;
        uint64_t when;    /* of `moved` */
    } last[WEFT__REUSES]; /* by address; a place that another one took is cold */
} weft__reuse;

/* This rank is about to write @p bytes at @p at, moving @p traffic bytes in all: will it have moved too much since it
 * has last been there, when it comes to its end? */
bool weft__reuse_is_cold(weft__reuse *reuse, const void *at, size_t bytes, size_t traffic);

#endif
