/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel is a struct: its members are its arguments, and its call does one element. On a GPU as many threads share
 * the elements as it can run; a body for the host does them one after the other. It says what it reads and writes, so
 * that a stand-in for a GPU can run it and see to the order of accesses.
 *
 *     struct double_all {
 *         static const char *name() { return "double_all"; }
 *         float *x;
 *         size_t count;
 *         WEFT_KERNEL void operator()(size_t i) const { x[i] *= 2; }
 *         size_t touches(standin_range *r) const { r[0] = {x, count * sizeof *x, true}; return 1; }
 *     };
 *     weft_result result = weft::launch(double_all{x, count}, stream);
 *
 * A prepare() answers what stands for the kernel in a thread: what all its elements need is computed there, once. */
#ifndef WEFT_DEVICE_CUDA_KERNEL_H
#define WEFT_DEVICE_CUDA_KERNEL_H
#include <atomic>
#include <cuda_runtime.h>
#include <stddef.h>
#include <stdint.h>
#include <weft/backend.h>

/* ---- what a stand-in asks for ---- */

extern "C" {
typedef struct standin_range {
    const void *memory;
    size_t bytes;
    bool writes;
} standin_range;

typedef struct standin_kernel {
    const void *entry;
    const char *name;
    size_t argument_bytes;
    size_t (*touches)(const void *argument, standin_range *ranges);
    void (*body)(const void *argument);
} standin_kernel;

/* Absent with CUDA's own runtime. */
extern void standin_kernels_add(const standin_kernel *kernels, size_t count) __attribute__((weak));
}

#ifdef __CUDACC__
#define WEFT_KERNEL __host__ __device__ __forceinline__
#else
#define WEFT_KERNEL inline __attribute__((always_inline))
#endif

namespace weft
{

enum { KERNEL_THREADS = 256 };
static const size_t KERNEL_BLOCKS = 132 * 16; /* at most: enough for the largest GPU there is */

/* What a kernel reads, and what it writes. */
template <typename T> standin_range reads(const T *memory, size_t count)
{
    return {memory, count * sizeof *memory, false};
}

template <typename T> standin_range writes(T *memory, size_t count)
{
    return {memory, count * sizeof *memory, true};
}

/* What a kernel with a prepare() does once for all elements of a thread. */
template <typename Kernel> WEFT_KERNEL auto prepared(const Kernel &kernel, int) -> decltype(kernel.prepare())
{
    return kernel.prepare();
}
template <typename Kernel> WEFT_KERNEL const Kernel &prepared(const Kernel &kernel, long)
{
    return kernel;
}

template <typename Kernel> void run_body(const void *argument)
{
    const Kernel &kernel = *static_cast<const Kernel *>(argument);
    const auto &element = prepared(kernel, 0);
    for (size_t i = 0; i < kernel.count; i++)
        element(i);
}

template <typename Kernel> size_t ask_touches(const void *argument, standin_range *ranges)
{
    return static_cast<const Kernel *>(argument)->touches(ranges);
}

#ifdef __CUDACC__
template <typename Kernel> __global__ void __launch_bounds__(KERNEL_THREADS) each(const Kernel kernel)
{
    const auto &element = prepared(kernel, 0);
    size_t step = (size_t)gridDim.x * KERNEL_THREADS;
    for (size_t i = (size_t)blockIdx.x * KERNEL_THREADS + threadIdx.x; i < kernel.count; i += step)
        element(i);
}
template <typename Kernel> const void *entry_of()
{
    return reinterpret_cast<const void *>(&each<Kernel>);
}
#else
template <typename Kernel> const void *entry_of()
{
    return reinterpret_cast<const void *>(&run_body<Kernel>);
}
#endif

/* A stand-in hears of a kernel before its first launch. */
inline bool tell(const standin_kernel *kernel)
{
    if (standin_kernels_add)
        standin_kernels_add(kernel, 1);
    return true;
}

/* Allow a kernel so much shared memory where this thread is, once: @p devices has a bit for each where it was. */
inline cudaError_t allow_shared(const void *entry, size_t bytes, std::atomic<uint64_t> *devices)
{
    int device = 0;
    cudaError_t error = cudaGetDevice(&device);
    const uint64_t bit = device < 64 ? (uint64_t)1 << device : 0;
    if (error != cudaSuccess || (devices->load(std::memory_order_relaxed) & bit))
        return error;
    error = cudaFuncSetAttribute(entry, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    if (error == cudaSuccess)
        devices->fetch_or(bit, std::memory_order_relaxed);
    return error;
}

/* Queue @p entry, whose one argument is @p argument, with a body for the host. @p shared_bytes: of a block, besides
 * what the kernel declares itself, and always as many. */
template <typename Argument>
weft_result launch_as(const void *entry, void (*body)(const void *), unsigned blocks, unsigned threads,
                      const Argument &argument, weft_stream stream, size_t shared_bytes = 0)
{
    const size_t given = 48 << 10; /* what a kernel may use without asking */
    static const standin_kernel kernel = {entry, Argument::name(), sizeof argument, ask_touches<Argument>, body};
    static const bool told = tell(&kernel);
    static std::atomic<uint64_t> allowed;
    (void)told;
    void *arguments[] = {const_cast<Argument *>(&argument)};
    cudaError_t error = cudaSuccess;
    if (shared_bytes > given)
        error = allow_shared(entry, shared_bytes, &allowed);
    if (error == cudaSuccess)
        error = cudaLaunchKernel(entry, dim3(blocks), dim3(threads), arguments, shared_bytes,
                                 static_cast<cudaStream_t>(stream.handle));
    if (error == cudaSuccess)
        return WEFT_OK;
    return weft_backend_error(WEFT_E_SYSTEM, "kernel %s: %s", Argument::name(), cudaGetErrorString(error));
}

template <typename Kernel> weft_result launch(const Kernel &kernel, weft_stream stream)
{
    if (!kernel.count)
        return WEFT_OK;
    size_t blocks = (kernel.count + KERNEL_THREADS - 1) / KERNEL_THREADS;
    return launch_as(entry_of<Kernel>(), run_body<Kernel>, (unsigned)(blocks < KERNEL_BLOCKS ? blocks : KERNEL_BLOCKS),
                     KERNEL_THREADS, kernel, stream);
}

} // namespace weft
#endif
