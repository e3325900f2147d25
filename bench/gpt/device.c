/* SPDX-License-Identifier: Apache-2.0 */
/* Opens a rank's GPU by the module for it. */
#include "gpt/device.h"

#include <dlfcn.h>
#include <weft/world.h>

#include "complain.h"
#include "gpt/cuda/module.h"
#include "gpu_module.h"

#define TEXT(symbol)    TEXT_OF(symbol)
#define TEXT_OF(symbol) #symbol

int gpt_gpu_open(weft_world *world, const gpt_shape *shape, gpt_device **device_out, gpt_failure *failure)
{
    gpu_module found;
    int index;
    if (weft_world_device(world, WEFT_DEVICE_CUDA, &index) != WEFT_OK)
        return gpt_fail(failure, EXIT_FAILED, "--device cuda: %s", weft_last_error());
    void *module = gpu_module_find(&found);
    gpt_cuda_module_function *open = NULL;
    if (module)
        *(void **)&open = dlsym(module, TEXT(GPT_CUDA_MODULE));
    if (!open)
        return gpt_fail(failure, EXIT_FAILED, "--device cuda: %s", module ? "its module has no entry" : found.why_not);
    return open(shape, index, device_out, failure);
}
