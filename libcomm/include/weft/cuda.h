/* SPDX-License-Identifier: Apache-2.0 */
/** @file  CUDA's streams as weft's. Not part of weft.h: it includes CUDA's own header. */
#ifndef WEFT_CUDA_H
#define WEFT_CUDA_H
#include <cuda_runtime_api.h>
#include <weft/stream.h>

/** Any stream of the rank's GPU, the legacy default stream (0) and the per-thread one included.
 *  Threads: any. Blocks: never. */
static inline weft_stream weft_cuda_stream(cudaStream_t stream)
{
    weft_stream s;
    s.handle = (void *)stream;
    s.kind = WEFT_DEVICE_CUDA;
    return s;
}

#endif
