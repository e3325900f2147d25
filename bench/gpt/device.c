/* SPDX-License-Identifier: Apache-2.0 */
/* Opens a rank's GPU by the module for it. */
#include "gpt/device.h"

#include <weft/world.h>

#include "complain.h"
#include "gpt/cuda/module.h"
#include "gpu_module.h"

int gpt_gpu_open(weft_world *world, const gpt_shape *shape, gpt_device **device_out, gpt_failure *failure)
{
    gpu_module found;
    int index;
    if (weft_world_device(world, WEFT_DEVICE_CUDA, &index) != WEFT_OK)
        return gpt_fail(failure, EXIT_FAILED, "--device cuda: %s", weft_last_error());
    gpt_cuda_module_function *open = NULL;
    *(void **)&open = gpu_module_find(&found);
    if (!open)
        return gpt_fail(failure, EXIT_FAILED, "--device cuda: %s", found.why_not);
    return open(shape, index, device_out, failure);
}
