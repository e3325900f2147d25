/* SPDX-License-Identifier: Apache-2.0 */
/* What tests of comms of GPUs share. */
#ifndef STANDIN_GPU_COMM_H
#define STANDIN_GPU_COMM_H
#include <cuda_runtime_api.h>
#include <weft/cuda.h>

#include "harness/ranks.h"
#include "standin.h"

#define OK(call) CHECK_MSG((call) == WEFT_OK, "%s: %s", #call, weft_last_error())

static inline weft_comm *gpu_comm(weft_world *world, const char *name)
{
    weft_comm_config config = WEFT_COMM_CONFIG_INIT;
    config.device = WEFT_DEVICE_CUDA;
    return all_ranks(world, name, &config);
}

static inline cudaStream_t new_stream(void)
{
    cudaStream_t stream;
    CHECK_INT(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    return stream;
}

static inline float *new_floats(weft_world *world, size_t count)
{
    void *memory;
    OK(weft_memory_alloc_on(world, WEFT_DEVICE_CUDA, count * sizeof(float), &memory));
    return memory;
}

/* The rank's GPU, current. */
static inline int use_gpu(weft_world *world)
{
    int index;
    OK(weft_world_device(world, WEFT_DEVICE_CUDA, &index));
    CHECK_INT(cudaSetDevice(index), cudaSuccess);
    return index;
}

#endif
