/* SPDX-License-Identifier: Apache-2.0 */
/* Private memory, and pages. */
#ifndef WEFT_BASE_MEMORY_H
#define WEFT_BASE_MEMORY_H
#include <stddef.h>

#define WEFT__LINE 128 /* What two cores should not share: a cache line and its neighbour. */
#define WEFT__PAGE 4096

/* Have the line at @p at taken from other cores' caches: it is going to be written. */
static inline void weft__fetch_to_write(const void *at)
{
#if defined(__x86_64__)
    __asm__ volatile("prefetchw %0" : : "m"(*(const char *)at)); /* does nothing on a CPU that lacks it */
#else
    __builtin_prefetch(at, 1);
#endif
}

static inline size_t weft__least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static inline size_t weft__round_up(size_t value, size_t multiple)
{
    size_t rest = value % multiple;
    return rest ? value + (multiple - rest) : value;
}

/* Zeroed memory on a line, or NULL after a message; give back with free(). */
void *weft__alloc(size_t bytes);
/* A copy of @p text, or NULL after a message; NULL for NULL. */
char *weft__copy_text(const char *text);
/* Zeroed private pages (a child has copies), or NULL after a message. */
void *weft__map_pages(size_t bytes);
void weft__unmap_pages(void *pages, size_t bytes);

/* For tests: the allocation with this number (from 1) fails; 0 = none. How many there have been. */
void weft__alloc_fail_at(long number);
long weft__alloc_count(void);

#endif
