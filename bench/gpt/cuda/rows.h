/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that take a row at a time: on a GPU a block of threads shares each row, and its sums and maxima are made in
 * one fixed order; the host's body is a team of one.
 *
 *     struct row_sums {
 *         static const char *name() { return "row_sums"; }
 *         const float *x;
 *         float *sums;
 *         size_t width, count;   // count: rows
 *         template <typename Team> WEFT_KERNEL void operator()(size_t row, const Team &team) const
 *         {
 *             float sum = 0;
 *             for (size_t i = team.first(); i < width; i += team.size())
 *                 sum += x[row * width + i];
 *             sum = team.sum(sum);
 *             if (team.first() == 0)
 *                 sums[row] = sum;
 *         }
 *         size_t touches(standin_range *r) const { ... }
 *     };
 *     gpt_cuda::launch_rows(row_sums{x, sums, width, rows}, stream); */
#ifndef WEFT_BENCH_GPT_CUDA_ROWS_H
#define WEFT_BENCH_GPT_CUDA_ROWS_H
#include "gpt/cuda/warp.h"

namespace gpt_cuda
{

enum { ROW_WARPS = 8, ROW_THREADS = ROW_WARPS * LANES };

/* One thread alone. */
struct lone {
    WEFT_KERNEL size_t first() const
    {
        return 0;
    }
    WEFT_KERNEL size_t size() const
    {
        return 1;
    }
    template <typename T> WEFT_KERNEL T sum(T x) const
    {
        return x;
    }
    WEFT_KERNEL float max(float x) const
    {
        return x;
    }
};

template <typename Kernel> void run_rows(const void *argument)
{
    const Kernel &kernel = *static_cast<const Kernel *>(argument);
    for (size_t row = 0; row < kernel.count; row++)
        kernel(row, lone());
}

#ifdef __CUDACC__
/* A block. What is shared is used again at once, so every call ends with all threads behind it. */
struct block {
    double *shared;
    WEFT_KERNEL size_t first() const
    {
#ifdef __CUDA_ARCH__
        return threadIdx.x;
#else
        return 0;
#endif
    }
    WEFT_KERNEL size_t size() const
    {
        return ROW_THREADS;
    }
    template <typename T, typename Join> WEFT_KERNEL T reduce(T x, Join join) const
    {
#ifdef __CUDA_ARCH__
        T *values = reinterpret_cast<T *>(shared); /* one a warp */
        for (int across = LANES / 2; across > 0; across /= 2)
            x = join(x, __shfl_xor_sync(0xffffffff, x, across));
        if (threadIdx.x % LANES == 0)
            values[threadIdx.x / LANES] = x;
        __syncthreads();
        x = values[0];
        for (unsigned i = 1; i < ROW_WARPS; i++)
            x = join(x, values[i]);
        __syncthreads();
#endif
        return x;
    }
    struct plus {
        template <typename T> WEFT_KERNEL T operator()(T a, T b) const
        {
            return a + b;
        }
    };
    struct larger {
        WEFT_KERNEL float operator()(float a, float b) const
        {
            return a > b ? a : b;
        }
    };
    template <typename T> WEFT_KERNEL T sum(T x) const
    {
        return reduce(x, plus());
    }
    WEFT_KERNEL float max(float x) const
    {
        return reduce(x, larger());
    }
};

template <typename Kernel> __global__ void __launch_bounds__(ROW_THREADS) each_row(const Kernel kernel)
{
    __shared__ double shared[ROW_WARPS];
    const block team = {shared};
    for (size_t row = blockIdx.x; row < kernel.count; row += gridDim.x)
        kernel(row, team);
}
template <typename Kernel> const void *row_entry()
{
    return reinterpret_cast<const void *>(&each_row<Kernel>);
}
#else
template <typename Kernel> const void *row_entry()
{
    return reinterpret_cast<const void *>(&run_rows<Kernel>);
}
#endif

template <typename Kernel> weft_result launch_rows(const Kernel &kernel, weft_stream stream)
{
    const size_t most = 65535;
    if (!kernel.count)
        return WEFT_OK;
    return weft::launch_as(row_entry<Kernel>(), run_rows<Kernel>, (unsigned)(kernel.count < most ? kernel.count : most),
                           ROW_THREADS, kernel, stream);
}

} // namespace gpt_cuda
#endif
