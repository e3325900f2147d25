/* SPDX-License-Identifier: Apache-2.0 */
/* The heap as users see it. */
#include <weft/memory.h>

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "device/gpu.h"
#include "world.h"

#define ALIGNMENT 256

/* A world of one rank shares nothing. */
static weft_result alloc_private(size_t bytes, void **memory_out)
{
    size_t rounded = weft__round_up(bytes ? bytes : 1, ALIGNMENT);
    void *memory = rounded < bytes ? NULL : aligned_alloc(ALIGNMENT, rounded);
    if (!memory)
        return weft__fail(WEFT_E_NO_MEMORY, "no memory for %zu bytes", bytes);
    *memory_out = memset(memory, 0, rounded);
    return WEFT_OK;
}

weft_result weft_memory_alloc(weft_world *world, size_t bytes, void **memory_out)
{
    if (!world || !memory_out)
        return weft__fail(WEFT_E_INVALID, "memory without a world, or without a place for it");
    *memory_out = NULL;
    WEFT_TRY(weft__world_alive(world));
    if (!world->segments)
        return alloc_private(bytes, memory_out);
    WEFT_TRY(weft__heap_alloc(&world->heap, bytes, memory_out));
    /* The engines of the others make these pages present over there, before an operation would. */
    for (int r = 0; r < world->size && !world->config.team; r++)
        if (r != world->rank && world->segments[r] && bytes >= WEFT__HUGE_PAGE)
            weft__segment_ring(world->segments[r], WEFT__ENGINE_SLEEPS);
    return WEFT_OK;
}

weft_result weft_memory_alloc_on(weft_world *world, weft_device device, size_t bytes, void **memory_out)
{
    weft__device *gpu;
    if (device == WEFT_DEVICE_HOST)
        return weft_memory_alloc(world, bytes, memory_out);
    if (!world || !memory_out)
        return weft__fail(WEFT_E_INVALID, "memory without a world, or without a place for it");
    *memory_out = NULL;
    WEFT_TRY(weft__world_alive(world));
    WEFT_TRY(weft__gpu_of(world, device, &gpu));
    return gpu->calls->alloc(gpu, bytes, memory_out);
}

void weft_memory_free(weft_world *world, void *memory)
{
    if (!memory || weft__world_alive(world) != WEFT_OK)
        return;
    if (weft__gpu_owns(world, memory)) {
        weft__gpu_release(world, memory);
        return;
    }
    if (!world->segments)
        free(memory);
    else if (!weft__heap_free(&world->heap, memory))
        weft__log(WEFT_LOG_ERROR, "memory that is not of this world was given back");
}
