/* SPDX-License-Identifier: Apache-2.0 */
/* What the threads of a block do together: on a GPU each of these is an instruction of the PTX ISA, on the host a call
 * of the stand-in, which gives every thread a stack of its own. */
#ifndef WEFT_BENCH_GPT_CUDA_WARP_H
#define WEFT_BENCH_GPT_CUDA_WARP_H
#include <math.h>

#include "device/cuda/kernel.h"
#include "gpt/math/bf16.h"

/* Absent with CUDA's own runtime. */
extern "C" {
extern void standin_grid(unsigned blocks, unsigned threads, size_t shared_bytes,
                         void (*thread)(const void *argument, unsigned block, void *shared), const void *argument)
    __attribute__((weak));
extern unsigned standin_thread(void) __attribute__((weak));
extern void standin_sync_block(void) __attribute__((weak));
extern void standin_sync_warp(void) __attribute__((weak));
extern float standin_shuffle_xor(float value, unsigned mask) __attribute__((weak));
extern void standin_load_matrices(uint32_t fragment[4], const void *row, bool transposed) __attribute__((weak));
extern void standin_multiply_add(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1) __attribute__((weak));
extern void standin_copy(void *shared, const void *global, size_t bytes, bool zero) __attribute__((weak));
extern void standin_copy_commit(void) __attribute__((weak));
extern void standin_copy_wait(unsigned pending) __attribute__((weak));
extern void standin_global(const void *global, size_t bytes, bool writes) __attribute__((weak));
}

namespace gpt_cuda
{

enum { LANES = 32 };

/* 16 bytes of bf16: what one access moves at most. */
struct alignas(16) piece {
    uint16_t channel[8];
};

#ifdef __CUDA_ARCH__

WEFT_KERNEL unsigned thread()
{
    return threadIdx.x;
}

WEFT_KERNEL void sync_block()
{
    __syncthreads();
}

WEFT_KERNEL void sync_warp()
{
    __syncwarp();
}

WEFT_KERNEL float shuffle_xor(float value, unsigned mask)
{
    return __shfl_xor_sync(0xffffffff, value, (int)mask);
}

WEFT_KERNEL unsigned shared_address(const void *shared)
{
    return (unsigned)__cvta_generic_to_shared(shared);
}

/* Four matrices of 8 x 8: lane i says where row i % 8 of matrix i / 8 is. */
WEFT_KERNEL void load_matrices(uint32_t (&fragment)[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(fragment[0]), "=r"(fragment[1]), "=r"(fragment[2]), "=r"(fragment[3])
                 : "r"(shared_address(row))
                 : "memory");
}

WEFT_KERNEL void load_matrices_transposed(uint32_t (&fragment)[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(fragment[0]), "=r"(fragment[1]), "=r"(fragment[2]), "=r"(fragment[3])
                 : "r"(shared_address(row))
                 : "memory");
}

/* c += a b: 16 x 16 by 16 x 8. */
WEFT_KERNEL void multiply_add(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* Copies to shared memory: they go on by themselves, in groups; `zero`: nothing is read, and zeros arrive. */
WEFT_KERNEL void copy(piece *shared, const void *global, bool zero)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(shared)), "l"(global),
                 "r"(zero ? 0 : 16)
                 : "memory");
}

WEFT_KERNEL void copy(float *shared, const float *global, bool zero)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_address(shared)), "l"(global),
                 "r"(zero ? 0 : 4)
                 : "memory");
}

WEFT_KERNEL void copy_commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* All of this thread's have arrived; sync_block() says so of the others'. */
WEFT_KERNEL void copy_wait()
{
    asm volatile("cp.async.wait_group 0;" ::: "memory");
}

template <typename T> WEFT_KERNEL T load(const T *global)
{
    return *global;
}

template <typename T> WEFT_KERNEL void store(T *global, T value)
{
    *global = value;
}

/* 2 to the power of x, within 2 units of the last place. */
WEFT_KERNEL float power_of_2(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* Two in a word, the first in its low half. */
WEFT_KERNEL uint32_t pair(float first, float second)
{
    uint32_t word;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
    return word;
}

#else

WEFT_KERNEL unsigned thread()
{
    return standin_thread();
}

WEFT_KERNEL void sync_block()
{
    standin_sync_block();
}

WEFT_KERNEL void sync_warp()
{
    standin_sync_warp();
}

WEFT_KERNEL float shuffle_xor(float value, unsigned mask)
{
    return standin_shuffle_xor(value, mask);
}

WEFT_KERNEL void load_matrices(uint32_t (&fragment)[4], const void *row)
{
    standin_load_matrices(fragment, row, false);
}

WEFT_KERNEL void load_matrices_transposed(uint32_t (&fragment)[4], const void *row)
{
    standin_load_matrices(fragment, row, true);
}

WEFT_KERNEL void multiply_add(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    standin_multiply_add(c, a, b0, b1);
}

WEFT_KERNEL void copy(piece *shared, const void *global, bool zero)
{
    standin_copy(shared, global, sizeof *shared, zero);
}

WEFT_KERNEL void copy(float *shared, const float *global, bool zero)
{
    standin_copy(shared, global, sizeof *shared, zero);
}

WEFT_KERNEL void copy_commit()
{
    standin_copy_commit();
}

WEFT_KERNEL void copy_wait()
{
    standin_copy_wait(0);
}

template <typename T> WEFT_KERNEL T load(const T *global)
{
    standin_global(global, sizeof *global, false);
    return *global;
}

template <typename T> WEFT_KERNEL void store(T *global, T value)
{
    standin_global(global, sizeof *global, true);
    *global = value;
}

WEFT_KERNEL float power_of_2(float x)
{
    return exp2f(x);
}

WEFT_KERNEL uint32_t pair(float first, float second)
{
    return math_float_to_bf16(first) | (uint32_t)math_float_to_bf16(second) << 16;
}

#endif

WEFT_KERNEL unsigned lane()
{
    return thread() % LANES;
}

WEFT_KERNEL unsigned warp()
{
    return thread() / LANES;
}

} // namespace gpt_cuda
#endif
