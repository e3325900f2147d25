/* SPDX-License-Identifier: Apache-2.0 */
/* Faults on purpose: one call of one kind is not what it should be. */
#include <cuda_runtime_api.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "standin.h"

bool standin_fault(const char *kind)
{
    static _Atomic long count;
    const char *wanted = getenv("STANDIN_FAULT");
    size_t length = strlen(kind);
    int device;
    if (!wanted || strncmp(wanted, kind, length) != 0 || wanted[length] != ':' ||
        cudaGetDevice(&device) != cudaSuccess || device != 0)
        return false;
    return atomic_fetch_add(&count, 1) + 1 == atol(wanted + length + 1);
}
