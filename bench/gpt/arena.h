/* SPDX-License-Identifier: Apache-2.0 */
/* One piece of memory cut into many. The same code runs twice: without memory to add up what it takes, then to take
 * it. */
#ifndef WEFT_BENCH_GPT_ARENA_H
#define WEFT_BENCH_GPT_ARENA_H
#include <stddef.h>

typedef struct gpt_arena {
    char *memory; /* NULL: only count */
    size_t used_bytes;
} gpt_arena;

/* The next @p bytes, on a boundary of 256 if the memory is on one. */
static inline void *gpt_arena_take(gpt_arena *arena, size_t bytes)
{
    void *piece = arena->memory ? arena->memory + arena->used_bytes : NULL;
    arena->used_bytes += (bytes + 255) / 256 * 256;
    return piece;
}

#endif
