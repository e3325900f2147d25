/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the module of `weft gpt` for GPUs: where weft looks for modules, and beside the command. The command itself
 * knows nothing of CUDA. */
#include "gpu_module.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <weft/module.h>

#include "gpt/cuda/module.h"

#define TEXT(symbol)    TEXT_OF(symbol)
#define TEXT_OF(symbol) #symbol

void *gpu_module_find(gpu_module *m)
{
    char folder[4096];
    ssize_t bytes = readlink("/proc/self/exe", folder, sizeof folder - 1);
    folder[bytes > 0 ? bytes : 0] = 0;
    char *slash = strrchr(folder, '/');
    if (slash)
        *slash = 0;
    void *entry;
    weft_result result = weft_module_open("libweft-gpt-cuda.so", slash ? folder : NULL, TEXT(GPT_CUDA_MODULE), &entry,
                                          m->path, sizeof m->path);
    if (result == WEFT_OK)
        return entry;
    snprintf(m->why_not, sizeof m->why_not, "%s", weft_last_error());
    return NULL;
}
