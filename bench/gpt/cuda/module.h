/* SPDX-License-Identifier: Apache-2.0 */
/* How the command and the module for GPUs, libweft-gpt-cuda.so, know each other. */
#ifndef WEFT_BENCH_GPT_CUDA_MODULE_H
#define WEFT_BENCH_GPT_CUDA_MODULE_H
#include "gpt/ops.h"

/* What the module exports: open GPU number @p index of the process for models of this shape, and make it current in the
 * calling thread. */
#define GPT_CUDA_MODULE gpt_cuda_open
typedef int(gpt_cuda_module_function)(const gpt_shape *shape, int index, gpt_device **device_out, gpt_failure *failure);

#endif
