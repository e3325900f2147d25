/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the module for GPUs: in the folders of WEFT_MODULE_PATH, then beside the command, then where weft's library is.
 * The command itself knows nothing of CUDA. */
#include "gpt/device.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <weft/version.h>

#include "complain.h"
#include "gpt/cuda/module.h"

#define MODULE          "libweft-gpt-cuda.so"
#define TEXT(symbol)    TEXT_OF(symbol)
#define TEXT_OF(symbol) #symbol

static void *try(const char *folder, size_t bytes, char why[256])
{
    char path[4200];
    if (!bytes || snprintf(path, sizeof path, "%.*s/" MODULE, (int)bytes, folder) >= (int)sizeof path ||
        access(path, F_OK) != 0)
        return NULL;
    void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!module)
        snprintf(why, 256, "%.250s", dlerror());
    return module;
}

static void *try_beside(const char *file, char why[256])
{
    const char *slash = file ? strrchr(file, '/') : NULL;
    return slash ? try(file, (size_t)(slash - file), why) : NULL;
}

static void *find_module(char why[256])
{
    snprintf(why, 256, "there is no " MODULE " in WEFT_MODULE_PATH, or beside the command or weft's library");
    void *module = NULL;
    for (const char *folders = getenv("WEFT_MODULE_PATH"); !module && folders && *folders;) {
        size_t bytes = strcspn(folders, ":");
        module = try(folders, bytes, why);
        folders += bytes + (folders[bytes] == ':');
    }
    char command[4096];
    ssize_t bytes = readlink("/proc/self/exe", command, sizeof command - 1);
    command[bytes > 0 ? bytes : 0] = 0;
    Dl_info library;
    if (!module)
        module = try_beside(command, why);
    if (!module && dladdr((void *)(uintptr_t)weft_version_string, &library))
        module = try_beside(library.dli_fname, why);
    return module;
}

int gpt_gpu_open(weft_world *world, const gpt_shape *shape, gpt_device **device_out, gpt_failure *failure)
{
    char why[256];
    int index;
    if (gpt_fail_weft(failure, weft_world_device(world, WEFT_DEVICE_CUDA, &index)))
        return failure->code;
    void *module = find_module(why);
    gpt_cuda_module_function *open = NULL;
    if (module)
        *(void **)&open = dlsym(module, TEXT(GPT_CUDA_MODULE));
    if (!open)
        return gpt_fail(failure, EXIT_FAILED, "--device cuda: %s", module ? "its module has no entry" : why);
    return open(shape, index, device_out, failure);
}
