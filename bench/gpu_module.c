/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the module of `weft gpt` for GPUs: in the folders of WEFT_MODULE_PATH, then beside the command, then where
 * weft's library is. The command itself knows nothing of CUDA. */
#include "gpu_module.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <weft/version.h>

#define MODULE "libweft-gpt-cuda.so"

static void *try(const char *folder, size_t bytes, gpu_module *m)
{
    char path[sizeof m->path];
    if (!bytes || snprintf(path, sizeof path, "%.*s/" MODULE, (int)bytes, folder) >= (int)sizeof path ||
        access(path, F_OK) != 0)
        return NULL;
    void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    memcpy(m->path, path, sizeof path);
    if (!module)
        snprintf(m->why_not, sizeof m->why_not, "%.250s", dlerror());
    return module;
}

static void *try_beside(const char *file, gpu_module *m)
{
    const char *slash = file ? strrchr(file, '/') : NULL;
    return slash ? try(file, (size_t)(slash - file), m) : NULL;
}

void *gpu_module_find(gpu_module *m)
{
    m->path[0] = 0;
    snprintf(m->why_not, sizeof m->why_not,
             "there is no " MODULE " in WEFT_MODULE_PATH, or beside the command or weft's library");
    void *module = NULL;
    for (const char *folders = getenv("WEFT_MODULE_PATH"); !module && folders && *folders;) {
        size_t bytes = strcspn(folders, ":");
        module = try(folders, bytes, m);
        folders += bytes + (folders[bytes] == ':');
    }
    char command[4096];
    ssize_t bytes = readlink("/proc/self/exe", command, sizeof command - 1);
    command[bytes > 0 ? bytes : 0] = 0;
    Dl_info library;
    if (!module)
        module = try_beside(command, m);
    if (!module && dladdr((void *)(uintptr_t)weft_version_string, &library))
        module = try_beside(library.dli_fname, m);
    return module;
}
