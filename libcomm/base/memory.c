/* SPDX-License-Identifier: Apache-2.0 */
/* Every allocation of the library passes here, so that tests can count them and make each fail. */
#include "base/memory.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/error.h"

static _Atomic long allocations;
static _Atomic long fail_at;

void weft__alloc_fail_at(long number)
{
    atomic_store(&allocations, 0);
    atomic_store(&fail_at, number);
}

long weft__alloc_count(void)
{
    return atomic_load(&allocations);
}

static int must_fail(void)
{
    long number = atomic_fetch_add(&allocations, 1) + 1;
    return number == atomic_load(&fail_at);
}

void *weft__alloc(size_t bytes)
{
    size_t rounded = weft__round_up(bytes ? bytes : 1, WEFT__LINE);
    void *memory = must_fail() || rounded < bytes ? NULL : aligned_alloc(WEFT__LINE, rounded);
    if (!memory) {
        (void)weft__fail(WEFT_E_NO_MEMORY, "no memory for %zu bytes", bytes);
        return NULL;
    }
    return memset(memory, 0, rounded);
}

char *weft__copy_text(const char *text)
{
    if (!text)
        return NULL;
    size_t bytes = strlen(text) + 1;
    char *copy = weft__alloc(bytes);
    return copy ? memcpy(copy, text, bytes) : NULL;
}

void *weft__map_pages(size_t bytes)
{
    void *pages = must_fail()
                      ? MAP_FAILED
                      : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pages == MAP_FAILED) {
        (void)weft__fail(WEFT_E_NO_MEMORY, "no memory for %zu bytes of pages", bytes);
        return NULL;
    }
    return pages;
}

void weft__unmap_pages(void *pages, size_t bytes)
{
    if (pages)
        munmap(pages, bytes);
}
