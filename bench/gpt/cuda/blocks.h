/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels whose blocks of threads share memory: each is run by THREADS threads, PER_SM or more at a time on a
 * multiprocessor, with SHARED_BYTES of their own.
 *
 *     struct reverse {
 *         static const char *name() { return "reverse"; }
 *         enum { THREADS = 128, PER_SM = 2, SHARED_BYTES = 128 * sizeof(float) };
 *         float *x;
 *         unsigned blocks;
 *         WEFT_KERNEL void operator()(unsigned block, void *shared) const { ... }
 *         size_t touches(standin_range *r) const { ... }
 *     };
 *     gpt_cuda::launch_blocks(reverse{x, blocks}, stream); */
#ifndef WEFT_BENCH_GPT_CUDA_BLOCKS_H
#define WEFT_BENCH_GPT_CUDA_BLOCKS_H
#include "gpt/cuda/warp.h"

namespace gpt_cuda
{

template <typename Kernel> void run_thread(const void *argument, unsigned block, void *shared)
{
    (*static_cast<const Kernel *>(argument))(block, shared);
}

template <typename Kernel> void run_blocks(const void *argument)
{
    standin_grid(static_cast<const Kernel *>(argument)->blocks, Kernel::THREADS, Kernel::SHARED_BYTES,
                 run_thread<Kernel>, argument);
}

#ifdef __CUDACC__
/* The numbers are for whoever reads the entry's name: `bench/gpu/check`. */
template <typename Kernel, unsigned THREADS, unsigned SHARED_BYTES>
__global__ void __launch_bounds__(THREADS, Kernel::PER_SM) each_block(const Kernel kernel)
{
    extern __shared__ piece shared[];
    kernel(blockIdx.x, shared);
}
template <typename Kernel> const void *blocks_entry()
{
    return reinterpret_cast<const void *>(&each_block<Kernel, Kernel::THREADS, Kernel::SHARED_BYTES>);
}
#else
template <typename Kernel> const void *blocks_entry()
{
    return reinterpret_cast<const void *>(&run_blocks<Kernel>);
}
#endif

template <typename Kernel> weft_result launch_blocks(const Kernel &kernel, weft_stream stream)
{
    return weft::launch_as(blocks_entry<Kernel>(), run_blocks<Kernel>, kernel.blocks, Kernel::THREADS, kernel, stream,
                           Kernel::SHARED_BYTES);
}

} // namespace gpt_cuda
#endif
