/* SPDX-License-Identifier: Apache-2.0 */
/* What kernels include: with the stand-in only the runtime's interface, since kernels have bodies for the host. */
#ifndef STANDIN_CUDA_RUNTIME_H
#define STANDIN_CUDA_RUNTIME_H
#include <cuda_runtime_api.h>
#endif
