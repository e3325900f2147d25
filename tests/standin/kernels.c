/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels: a launch runs the body that was made known for it. What nvcc's code asks for when it is loaded is taken. */
#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>

#include "grid.h"
#include "queue.h"

#define API STANDIN_API

typedef struct list {
    const standin_kernel *kernels;
    size_t count;
    struct list *next;
} list;

static list *known;

void standin_kernels_add(const standin_kernel *kernels, size_t count)
{
    list *l = malloc(sizeof *l);
    if (!l)
        abort();
    standin_lock();
    *l = (list){kernels, count, known};
    known = l;
    standin_unlock();
}

static const standin_kernel *find(const void *entry)
{
    for (const list *l = known; l; l = l->next)
        for (size_t i = 0; i < l->count; i++)
            if (l->kernels[i].entry == entry)
                return &l->kernels[i];
    return NULL;
}

typedef struct launch {
    const standin_kernel *kernel;
    unsigned char *argument;
} launch;

static bool run(void *state)
{
    launch *l = state;
    standin_range ranges[STANDIN_RANGES];
    standin_grid_kernel(l->kernel->name, ranges, l->kernel->touches(l->argument, ranges));
    l->kernel->body(l->argument);
    return true;
}

static void drop(void *state)
{
    launch *l = state;
    free(l->argument);
    free(l);
}

/* ---- how much shared memory a kernel may ask for ---- */

enum { SHARED_GIVEN = 48 * 1024, SHARED_MOST = 227 * 1024 };

typedef struct allowance {
    const void *function;
    int device;
    size_t shared_bytes;
    struct allowance *next;
} allowance;

static allowance *allowances;

static _Atomic int asked;

API int standin_shared_asked(void)
{
    return asked;
}

static allowance *allowance_of(const void *function, int device)
{
    allowance *a = allowances;
    while (a && (a->function != function || a->device != device))
        a = a->next;
    return a;
}

API cudaError_t cudaFuncSetAttribute(const void *function, enum cudaFuncAttribute attribute, int value)
{
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 || value > SHARED_MOST)
        return cudaErrorInvalidValue;
    int device;
    cudaError_t error = cudaGetDevice(&device);
    if (error != cudaSuccess)
        return error;
    asked++;
    standin_lock();
    allowance *a = allowance_of(function, device);
    if (!a) {
        a = malloc(sizeof *a);
        if (!a)
            abort();
        *a = (allowance){function, device, 0, allowances};
        allowances = a;
    }
    a->shared_bytes = (size_t)value;
    standin_unlock();
    return cudaSuccess;
}

static bool may_share(const void *function, int device, size_t bytes)
{
    const allowance *a = allowance_of(function, device);
    return bytes <= (a && a->shared_bytes > SHARED_GIVEN ? a->shared_bytes : SHARED_GIVEN);
}

/* ---- launches ---- */

API cudaError_t cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **arguments, size_t shared_bytes,
                                 cudaStream_t handle)
{
    enum { THREADS_MOST = 1024 };
    int device;
    cudaError_t error = cudaGetDevice(&device);
    if (error != cudaSuccess)
        return error;
    if (!grid.x || !grid.y || !grid.z || !block.x || !block.y || !block.z ||
        (size_t)block.x * block.y * block.z > THREADS_MOST)
        return cudaErrorInvalidConfiguration;
    standin_lock();
    const standin_kernel *kernel = find(function);
    cudaStream_t stream = standin_stream_of(handle, device);
    error = !kernel                                      ? cudaErrorInvalidDeviceFunction
            : !stream                                    ? cudaErrorInvalidResourceHandle
            : !may_share(function, device, shared_bytes) ? cudaErrorInvalidValue
                                                         : cudaSuccess;
    if (error == cudaSuccess) {
        standin_range ranges[STANDIN_RANGES];
        launch *l = malloc(sizeof *l);
        if (!l || !(l->argument = malloc(kernel->argument_bytes)))
            abort();
        l->kernel = kernel;
        memcpy(l->argument, arguments[0], kernel->argument_bytes);
        size_t count = kernel->touches(l->argument, ranges);
        error = standin_stream_task(stream, &(standin_task){kernel->name, ranges, count, run, drop, l});
        if (error != cudaSuccess || stream->capturing)
            drop(l);
    }
    standin_unlock();
    return error;
}

/* ---- asked for by nvcc's code: kernels are known by their bodies alone ---- */

API void **__cudaRegisterFatBinary(void *image);
API void **__cudaRegisterFatBinary(void *image)
{
    static void *handle;
    (void)image;
    return &handle;
}

API void __cudaRegisterFatBinaryEnd(void **handle);
API void __cudaRegisterFatBinaryEnd(void **handle)
{
    (void)handle;
}

API void __cudaUnregisterFatBinary(void **handle);
API void __cudaUnregisterFatBinary(void **handle)
{
    (void)handle;
}

API void __cudaRegisterFunction(void **handle, const char *function, char *name, const char *device_name, int limit,
                                void *thread, void *block_index, void *block, void *grid, int *warp);
API void __cudaRegisterFunction(void **handle, const char *function, char *name, const char *device_name, int limit,
                                void *thread, void *block_index, void *block, void *grid, int *warp)
{
    (void)handle, (void)function, (void)name, (void)device_name, (void)limit;
    (void)thread, (void)block_index, (void)block, (void)grid, (void)warp;
}

API char __cudaInitModule(void **handle);
API char __cudaInitModule(void **handle)
{
    (void)handle;
    return 0;
}

API cudaError_t __cudaGetKernel(const void **kernel, const void *function);
API cudaError_t __cudaGetKernel(const void **kernel, const void *function)
{
    *kernel = function;
    return cudaSuccess;
}

API cudaError_t __cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **arguments, size_t shared_bytes,
                                   cudaStream_t stream);
API cudaError_t __cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **arguments, size_t shared_bytes,
                                   cudaStream_t stream)
{
    return cudaLaunchKernel(kernel, grid, block, arguments, shared_bytes, stream);
}

static _Thread_local struct {
    dim3 grid, block;
    size_t shared_bytes;
    void *stream;
} pushed;

API unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes, void *stream);
API unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes, void *stream)
{
    pushed.grid = grid, pushed.block = block;
    pushed.shared_bytes = shared_bytes;
    pushed.stream = stream;
    return 0;
}

API cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared_bytes, void *stream);
API cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared_bytes, void *stream)
{
    *grid = pushed.grid, *block = pushed.block;
    *shared_bytes = pushed.shared_bytes;
    *(void **)stream = pushed.stream;
    return cudaSuccess;
}
