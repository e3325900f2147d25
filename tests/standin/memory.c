/* SPDX-License-Identifier: Apache-2.0 */
/* The calls of the CUDA runtime on memory: allocation, copies and fills. */
#include <stdlib.h>
#include <string.h>

#include "queue.h"
#include "runtime.h"
#include "shadow.h"

#define API STANDIN_API

enum { ALIGNMENT = 512 };
static const size_t device_bytes = (size_t)64 << 30;

/* ---- memory: CUDA's calls that make it or give it back may wait for all that the device was given ("Implicit
 * Synchronization" in the CUDA C++ programming guide), so these do; but nobody may rely on that. ---- */

static cudaError_t allocate(void **memory, size_t bytes, standin_where where)
{
    cudaError_t error = standin_check_device(standin_current());
    *memory = NULL;
    if (error != cudaSuccess || !bytes)
        return standin_end(error);
    size_t rounded = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    *memory = bytes > device_bytes ? NULL : aligned_alloc(ALIGNMENT, rounded);
    if (!*memory)
        return standin_end(cudaErrorMemoryAllocation);
    memset(*memory, 0xa5, rounded); /* nobody may rely on zeros */
    standin_lock();
    standin_device_wait(standin_current());
    standin_shadow_add(*memory, bytes, where, standin_current());
    standin_unlock();
    return cudaSuccess;
}

/* Behind everything that its device was given, as CUDA's may. */
static cudaError_t release(void *memory, standin_where where)
{
    if (!memory)
        return cudaSuccess;
    standin_lock();
    int device;
    bool known = standin_shadow_find(memory, &device) == where;
    if (known) {
        standin_device_wait(device);
        known = standin_shadow_remove(memory, where);
    }
    standin_unlock();
    if (!known)
        return standin_end(cudaErrorInvalidValue);
    free(memory);
    return cudaSuccess;
}

API cudaError_t cudaMalloc(void **memory, size_t bytes)
{
    return allocate(memory, bytes, STANDIN_DEVICE);
}

API cudaError_t cudaFree(void *memory)
{
    return release(memory, STANDIN_DEVICE);
}

API cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned flags)
{
    (void)flags;
    return allocate(memory, bytes, STANDIN_PINNED);
}

API cudaError_t cudaMallocHost(void **memory, size_t bytes)
{
    return allocate(memory, bytes, STANDIN_PINNED);
}

API cudaError_t cudaFreeHost(void *memory)
{
    return release(memory, STANDIN_PINNED);
}

API cudaError_t cudaMemGetInfo(size_t *left, size_t *total)
{
    standin_lock();
    *total = device_bytes;
    *left = device_bytes - standin_shadow_device_bytes(standin_current());
    standin_unlock();
    return standin_end(standin_check_device(standin_current()));
}

API cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *memory)
{
    int device;
    standin_lock();
    standin_where where = standin_shadow_find(memory, &device);
    standin_unlock();
    memset(attributes, 0, sizeof *attributes);
    attributes->device = where == STANDIN_UNKNOWN ? -2 : device;
    attributes->type = where == STANDIN_DEVICE   ? cudaMemoryTypeDevice
                       : where == STANDIN_PINNED ? cudaMemoryTypeHost
                                                 : cudaMemoryTypeUnregistered;
    attributes->devicePointer = where == STANDIN_UNKNOWN ? NULL : (void *)memory;
    attributes->hostPointer = where == STANDIN_DEVICE ? NULL : (void *)memory;
    return cudaSuccess;
}

/* ---- copies ---- */

typedef struct copy {
    void *to;
    const void *from; /* NULL: fill with `byte` */
    int byte;
    size_t bytes;
    void *staged; /* what pageable memory held when the call was made */
} copy;

static bool run_copy(void *state)
{
    copy *c = state;
    if (c->from)
        memmove(c->to, c->from, c->bytes);
    else
        memset(c->to, c->byte, c->bytes);
    return true;
}

static void free_copy(void *state)
{
    copy *c = state;
    free(c->staged);
    free(c);
}

/* Queue @p what: ranges of memory that is not the device's are left out, so pageable memory is copied or waited for. */
static cudaError_t queue_copy(const char *name, const copy *what, cudaStream_t handle, bool wait)
{
    int device;
    standin_range ranges[2];
    size_t count = 0;
    copy *c = malloc(sizeof *c);
    if (!c)
        return standin_end(cudaErrorMemoryAllocation);
    *c = *what;
    standin_lock();
    cudaStream_t stream = standin_stream_of(handle, standin_current());
    bool from_host = c->from && standin_shadow_find(c->from, &device) == STANDIN_UNKNOWN;
    bool to_host = standin_shadow_find(c->to, &device) == STANDIN_UNKNOWN;
    if (from_host && (c->staged = malloc(c->bytes ? c->bytes : 1)) != NULL)
        c->from = memcpy(c->staged, c->from, c->bytes);
    else if (c->from)
        ranges[count++] = (standin_range){c->from, c->bytes, false};
    if (!to_host)
        ranges[count++] = (standin_range){c->to, c->bytes, true};
    cudaError_t error = cudaErrorInvalidResourceHandle;
    if (stream)
        error = standin_stream_task(stream, &(standin_task){name, ranges, count, run_copy, free_copy, c});
    if (error != cudaSuccess || stream->capturing)
        free_copy(c);
    else if (wait || to_host)
        standin_stream_synchronize(stream);
    standin_unlock();
    return standin_end(error);
}

static cudaError_t copy_bytes(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream,
                              bool wait)
{
    cudaError_t error = standin_check_device(standin_current());
    if (error != cudaSuccess)
        return standin_end(error);
    if ((unsigned)kind > cudaMemcpyDefault)
        return standin_end(cudaErrorInvalidMemcpyDirection);
    if (bytes && (!to || !from))
        return standin_end(cudaErrorInvalidValue);
    return bytes ? queue_copy("copy", &(copy){.to = to, .from = from, .bytes = bytes}, stream, wait) : cudaSuccess;
}

API cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    return copy_bytes(to, from, bytes, kind, stream, false);
}

API cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    return copy_bytes(to, from, bytes, kind, cudaStreamLegacy, true);
}

static cudaError_t fill_bytes(void *memory, int byte, size_t bytes, cudaStream_t stream, bool wait)
{
    cudaError_t error = standin_check_device(standin_current());
    if (error != cudaSuccess)
        return standin_end(error);
    if (bytes && !memory)
        return standin_end(cudaErrorInvalidValue);
    return bytes ? queue_copy("set", &(copy){.to = memory, .byte = byte, .bytes = bytes}, stream, wait) : cudaSuccess;
}

API cudaError_t cudaMemsetAsync(void *memory, int byte, size_t bytes, cudaStream_t stream)
{
    return fill_bytes(memory, byte, bytes, stream, false);
}

API cudaError_t cudaMemset(void *memory, int byte, size_t bytes)
{
    return fill_bytes(memory, byte, bytes, cudaStreamLegacy, true);
}
