/* SPDX-License-Identifier: Apache-2.0 */
/* What the calls of the CUDA runtime share. */
#ifndef STANDIN_RUNTIME_H
#define STANDIN_RUNTIME_H
#include <cuda_runtime_api.h>

/* The thread's device. */
int standin_current(void);
/* Keep an error for cudaGetLastError(); returns @p error. */
cudaError_t standin_end(cudaError_t error);
cudaError_t standin_check_device(int device);

#endif
