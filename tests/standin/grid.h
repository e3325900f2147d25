/* SPDX-License-Identifier: Apache-2.0 */
/* The threads of a kernel's blocks, each with a stack of its own on one thread of the host: they take turns, in an
 * order that is drawn, wherever they meet. What a warp does together is done for all its lanes at once, with the
 * fragments of the PTX ISA ("Matrix Fragments for mma.m16n8k16 with floating point type", "ldmatrix"). Shared memory
 * begins as NaNs; an asynchronous copy makes its destination NaNs until somebody has waited for it, as late as it may
 * come. */
#ifndef STANDIN_GRID_H
#define STANDIN_GRID_H
#include "standin.h"
#ifdef __cplusplus
extern "C" {
#endif

/* Run @p thread as every thread of every block. Called by bodies of kernels. */
STANDIN_API void standin_grid(unsigned blocks, unsigned threads, size_t shared_bytes,
                              void (*thread)(const void *argument, unsigned block, void *shared), const void *argument);

/* For those threads. Their number in the block; */
STANDIN_API unsigned standin_thread(void);
/* all threads of the block, or all lanes of the warp, come here before one goes on; */
STANDIN_API void standin_sync_block(void);
STANDIN_API void standin_sync_warp(void);
/* the value of the lane whose number differs in the bits of @p mask; */
STANDIN_API float standin_shuffle_xor(float value, unsigned mask);
/* ldmatrix.x4: four matrices of 8 x 8 words of 16 bits, lane i says where row i % 8 of matrix i / 8 is; */
STANDIN_API void standin_load_matrices(uint32_t fragment[4], const void *row, bool transposed);
/* mma.m16n8k16 of bf16: c += a b; */
STANDIN_API void standin_multiply_add(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1);
/* cp.async of 4 or 16 bytes, or zeros; its group, and the wait until at most @p pending groups are under way; */
STANDIN_API void standin_copy(void *shared, const void *global, size_t bytes, bool zero);
STANDIN_API void standin_copy_commit(void);
STANDIN_API void standin_copy_wait(unsigned pending);
/* and plain accesses to the device's memory, before they are made: within what the kernel says it touches. */
STANDIN_API void standin_global(const void *global, size_t bytes, bool writes);

/* What the kernel that this thread of the host runs touches; borrowed until it has run. */
void standin_grid_kernel(const char *name, const standin_range *ranges, size_t count);

#ifdef __cplusplus
}
#endif
#endif
