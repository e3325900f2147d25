/* SPDX-License-Identifier: Apache-2.0 */
/* The heap in this rank's segment: first fit over a list of blocks that is kept outside of it. */
#ifndef WEFT_SHARED_HEAP_H
#define WEFT_SHARED_HEAP_H
#include <pthread.h>

#include "shared/segment.h"

typedef struct weft__heap_block {
    size_t offset, bytes; /* in the segment */
    bool used;
    bool clean;                    /* still zero, as the file gave it */
    struct weft__heap_block *next; /* by offset; neighbours that are both free are one */
} weft__heap_block;

typedef struct weft__heap {
    weft__segment *segment;
    weft__heap_block *blocks;
    pthread_mutex_t lock;
    uint32_t allocations; /* so far: staggers the next one */
} weft__heap;

weft_result weft__heap_open(weft__heap *heap, weft__segment *segment);
/* Forget all blocks; says how many were still in use. */
size_t weft__heap_close(weft__heap *heap);
/* Zeroed memory on a boundary of 256 bytes. */
weft_result weft__heap_alloc(weft__heap *heap, size_t bytes, void **memory_out);
/* False: @p memory is not from here. */
bool weft__heap_free(weft__heap *heap, void *memory);

#endif
