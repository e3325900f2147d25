/* SPDX-License-Identifier: Apache-2.0 */
/* Which part of the vocabulary is a rank's own. */
#ifndef WEFT_BENCH_GPT_CUDA_VOCABULARY_H
#define WEFT_BENCH_GPT_CUDA_VOCABULARY_H
#include "device/cuda/kernel.h"

namespace gpt_cuda
{

/* The row of a token among this rank's; `valid` if it is another's. */
WEFT_KERNEL size_t local_row(int32_t token, size_t first, size_t valid)
{
    size_t row = (size_t)token - first; /* wraps to something large below */
    return row < valid ? row : valid;
}

} // namespace gpt_cuda
#endif
