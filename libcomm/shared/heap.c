/* SPDX-License-Identifier: Apache-2.0 */
/* Allocating memory that all ranks of the host can read, out of this rank's segment. Large buffers begin at staggered
 * offsets: arrays that share their offset in a huge page fight for the same cache sets and memory banks. */
#include "shared/heap.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#define ALIGNMENT     256
#define LARGE         ((size_t)256 << 10)
#define STAGGER_STEPS 7

weft_result weft__heap_open(weft__heap *heap, weft__segment *segment)
{
    memset(heap, 0, sizeof *heap);
    heap->segment = segment;
    heap->allocations = (uint32_t)segment->header->rank;
    pthread_mutex_init(&heap->lock, NULL);
    return WEFT_OK;
}

size_t weft__heap_close(weft__heap *heap)
{
    size_t in_use = 0;
    for (weft__heap_block *b = heap->blocks, *next; b; b = next) {
        next = b->next;
        in_use += b->used;
        free(b);
    }
    heap->blocks = NULL;
    pthread_mutex_destroy(&heap->lock);
    return in_use;
}

static weft__heap_block *new_block(size_t offset, size_t bytes, bool clean, weft__heap_block *next)
{
    weft__heap_block *block = weft__alloc(sizeof *block);
    if (block)
        *block = (weft__heap_block){.offset = offset, .bytes = bytes, .clean = clean, .next = next};
    return block;
}

/* Odd multiples of a page, and five lines more, so that neither pages nor sets coincide. */
static size_t stagger_of(weft__heap *heap, size_t bytes)
{
    if (bytes < LARGE)
        return 0;
    size_t step = heap->allocations++ % STAGGER_STEPS;
    return (2 * step + 1) * WEFT__PAGE + 5 * ALIGNMENT;
}

static weft__heap_block *find_free(weft__heap *heap, size_t bytes)
{
    for (weft__heap_block *b = heap->blocks; b; b = b->next)
        if (!b->used && b->bytes >= bytes)
            return b;
    return NULL;
}

/* Lengthen the segment so that its last block is free and has room for @p bytes. */
static weft_result extend(weft__heap *heap, size_t bytes, weft__heap_block **block_out)
{
    weft__heap_block **end = &heap->blocks;
    while (*end && (*end)->next)
        end = &(*end)->next;
    weft__heap_block *last = *end;
    size_t old_end = last ? last->offset + last->bytes : WEFT__HUGE_PAGE;
    size_t start = last && !last->used ? last->offset : old_end;
    if (bytes > heap->segment->reserved - start)
        return weft__fail(WEFT_E_NO_MEMORY, "the heap may have %zu bytes, %zu are in use and %zu more are wanted",
                          heap->segment->reserved, start, bytes);
    WEFT_TRY(weft__segment_grow(heap->segment, start + bytes));
    size_t new_end = heap->segment->populated_bytes;
    if (last && !last->used) {
        last->bytes = new_end - start;
        *block_out = last;
        return WEFT_OK;
    }
    *block_out = new_block(start, new_end - start, true, NULL);
    if (!*block_out)
        return WEFT_E_NO_MEMORY;
    *(last ? &last->next : end) = *block_out;
    return WEFT_OK;
}

/* Use the first @p bytes of a free block, and split off the rest. */
static weft_result use_block(weft__heap_block *block, size_t bytes)
{
    if (block->bytes > bytes) {
        weft__heap_block *rest = new_block(block->offset + bytes, block->bytes - bytes, block->clean, block->next);
        if (!rest)
            return WEFT_E_NO_MEMORY;
        block->bytes = bytes;
        block->next = rest;
    }
    block->used = true;
    return WEFT_OK;
}

static weft_result alloc_locked(weft__heap *heap, size_t bytes, void **memory_out)
{
    size_t stagger = stagger_of(heap, bytes);
    size_t wanted = weft__round_up(bytes ? bytes : 1, ALIGNMENT) + stagger;
    if (wanted < bytes)
        return weft__fail(WEFT_E_NO_MEMORY, "no memory for %zu bytes", bytes);
    weft__heap_block *block = find_free(heap, wanted);
    if (!block)
        WEFT_TRY(extend(heap, wanted, &block));
    WEFT_TRY(use_block(block, wanted));
    *memory_out = heap->segment->base + block->offset + stagger;
    if (!block->clean)
        memset(*memory_out, 0, wanted - stagger);
    block->clean = false;
    return WEFT_OK;
}

weft_result weft__heap_alloc(weft__heap *heap, size_t bytes, void **memory_out)
{
    pthread_mutex_lock(&heap->lock);
    weft_result result = alloc_locked(heap, bytes, memory_out);
    pthread_mutex_unlock(&heap->lock);
    return result;
}

static void merge_with_next(weft__heap_block *block)
{
    weft__heap_block *next = block->next;
    if (!next || next->used || block->used)
        return;
    block->bytes += next->bytes;
    block->clean = block->clean && next->clean;
    block->next = next->next;
    free(next);
}

bool weft__heap_free(weft__heap *heap, void *memory)
{
    size_t offset = (size_t)((unsigned char *)memory - heap->segment->base);
    bool found = false;
    pthread_mutex_lock(&heap->lock);
    for (weft__heap_block *b = heap->blocks, *before = NULL; b && !found; before = b, b = b->next) {
        found = b->used && offset >= b->offset && offset < b->offset + b->bytes;
        if (!found)
            continue;
        b->used = false;
        merge_with_next(b);
        if (before)
            merge_with_next(before);
        break;
    }
    pthread_mutex_unlock(&heap->lock);
    return found;
}
