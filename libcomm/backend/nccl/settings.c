/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL as it is here: its version, those of its calls that not every version has, and what the environment sets it and
 * CUDA to. Weft sets nothing there. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/nccl/nccl_backend.h"

/* ------------------------------------------------------------------------------------------- the library */

static weft__nccl_calls library;

static void look_up(void)
{
    (void)ncclGetVersion(&library.version);
    *(void **)&library.comm_register = dlsym(RTLD_DEFAULT, "ncclCommRegister");
    *(void **)&library.comm_deregister = dlsym(RTLD_DEFAULT, "ncclCommDeregister");
}

const weft__nccl_calls *weft__nccl_library(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, look_up);
    return &library;
}

/* ------------------------------------------------------------------------------------------- buffers it knows */

static bool can_register(void)
{
    const weft__nccl_calls *calls = weft__nccl_library();
    return calls->comm_register && calls->comm_deregister;
}

/* Of memory of cudaMalloc() NCCL makes use with NCCL_LEGACY_CUDA_REGISTER alone (transport/p2p.cc of 2.28.9). Without,
 * to register it only costs: where collectives go by multicast every call asks the host's other ranks about buffers
 * that are known, in a gather that waits for them, to find that they cannot be used (nvlsRegisterBuffer() in
 * transport/nvls.cc). */
static bool has_use_of_buffers(void)
{
    const char *legacy = getenv("NCCL_LEGACY_CUDA_REGISTER");
    return can_register() && legacy && atoi(legacy) != 0;
}

weft_result weft__nccl_attach(void *comm, void *memory, size_t bytes)
{
    weft__nccl_comm *nc = comm;
    if (!has_use_of_buffers() || !bytes || nc->phase != WEFT__NCCL_READY)
        return WEFT_OK;
    void **attached = realloc(nc->attached, (nc->attached_count + 1) * sizeof *attached);
    if (!attached)
        return weft_backend_error(WEFT_E_NO_MEMORY, "comm %s: no memory for a handle", nc->name);
    nc->attached = attached;
    int before = weft__nccl_enter(nc->nccl);
    void **handle = &attached[nc->attached_count];
    ncclResult_t result = library.comm_register(nc->core->lanes[WEFT__NCCL_COLLECTIVES].comm, memory, bytes, handle);
    weft__nccl_leave(before);
    nc->attached_count += result == ncclSuccess;
    if (result != ncclSuccess) /* it works without */
        weft_backend_log(WEFT_LOG_WARN, "comm %s: NCCL does not register %zu bytes: %s", nc->name, bytes,
                         ncclGetErrorString(result));
    return WEFT_OK;
}

void weft__nccl_detach_all(weft__nccl_comm *nc)
{
    int before = weft__nccl_enter(nc->nccl);
    for (size_t i = 0; i < nc->attached_count; i++)
        (void)library.comm_deregister(nc->core->lanes[WEFT__NCCL_COLLECTIVES].comm, nc->attached[i]);
    nc->attached_count = 0;
    weft__nccl_leave(before);
}

/* ------------------------------------------------------------------------------------------- what is set */

static bool concerns(const char *setting)
{
    static const char *const starts[] = {"NCCL_", "CUDA_DEVICE_MAX_CONNECTIONS=", "CUDA_VISIBLE_DEVICES=",
                                         "CUDA_LAUNCH_BLOCKING=", "CUDA_MODULE_LOADING="};
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
        if (strncmp(setting, starts[i], strlen(starts[i])) == 0)
            return true;
    return false;
}

static void tell_environment(weft_backend_tell_line *line, void *cookie)
{
    for (char **entry = environ; entry && *entry; entry++) {
        char name[64];
        const char *value = strchr(*entry, '=');
        if (!value || !concerns(*entry))
            continue;
        snprintf(name, sizeof name, "%.*s", (int)(value - *entry), *entry);
        line(cookie, name, value + 1, "from the environment");
    }
}

void weft__nccl_tell(void *state, weft_backend_tell_line *line, void *cookie)
{
    char version[32];
    int v = weft__nccl_library()->version, cuda = 0;
    (void)state;
    snprintf(version, sizeof version, "%d.%d.%d", v / 10000, v / 100 % 100, v % 100);
    line(cookie, "NCCL", version, "");
    if (cudaRuntimeGetVersion(&cuda) == cudaSuccess) {
        snprintf(version, sizeof version, "%d.%d", cuda / 1000, cuda % 1000 / 10);
        line(cookie, "CUDA runtime", version, "");
    }
    line(cookie, "NCCL, buffers of buckets", has_use_of_buffers() ? "registered" : "not registered",
         can_register() ? "of memory of cudaMalloc() NCCL makes use with NCCL_LEGACY_CUDA_REGISTER=1 only"
                        : "this version has no ncclCommRegister()");
    tell_environment(line, cookie);
}

static void log_line(void *cookie, const char *name, const char *value, const char *note)
{
    (void)cookie;
    weft_backend_log(WEFT_LOG_INFO, "backend nccl: %s: %s%s%s%s", name, value, *note ? " (" : "", note,
                     *note ? ")" : "");
}

static void log_all(void)
{
    weft__nccl_tell(NULL, log_line, NULL);
}

void weft__nccl_log_settings(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, log_all);
}
