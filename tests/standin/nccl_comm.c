/* SPDX-License-Identifier: Apache-2.0 */
/* The calls of NCCL that make communicators, end them and tell of them. */
#include "nccl_comm.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "standin.h"

#define API STANDIN_API

static _Thread_local char last_text[256];

ncclResult_t standin_nccl_fail(ncclResult_t result, const char *text)
{
    snprintf(last_text, sizeof last_text, "%s", text);
    return result;
}

API ncclResult_t ncclGetVersion(int *version)
{
    *version = NCCL_VERSION_CODE;
    return ncclSuccess;
}

API ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    standin_room_name(id);
    return ncclSuccess;
}

void standin_nccl_pause_us(long us)
{
    nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
}

static void *meet(void *memory)
{
    ncclComm_t comm = memory;
    while (!standin_room_full(&comm->room, comm->ranks) && !comm->aborted)
        standin_nccl_pause_us(100);
    comm->state = ncclSuccess;
    return NULL;
}

void standin_nccl_release(ncclComm_t comm)
{
    if (atomic_fetch_sub(&comm->holds, 1) != 1)
        return;
    standin_room_leave(&comm->room);
    free(comm);
}

void standin_nccl_join(ncclComm_t comm, standin_way way)
{
    if (!comm->joined[way])
        atomic_fetch_add(&comm->room.hall->joined[way], 1);
    comm->joined[way] = true;
}

static _Atomic int alive;

API int standin_nccl_alive(void)
{
    return alive;
}

API ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm_out, int ranks, ncclUniqueId id, int rank,
                                        ncclConfig_t *config)
{
    *comm_out = NULL;
    if (ranks < 1 || ranks > STANDIN_NCCL_RANKS || rank < 0 || rank >= ranks || !*id.internal)
        return standin_nccl_fail(ncclInvalidArgument, "ranks, rank or id make no sense");
    if (config && config->magic != 0xcafebeef)
        return standin_nccl_fail(ncclInvalidArgument, "the config was not initialized");
    ncclComm_t comm = calloc(1, sizeof *comm);
    if (!comm || cudaGetDevice(&comm->device) != cudaSuccess || !standin_room_enter(&comm->room, &id, ranks)) {
        free(comm);
        return standin_nccl_fail(ncclSystemError, "no device, or no shared memory");
    }
    comm->rank = rank, comm->ranks = ranks;
    comm->least_ctas = config ? config->minCTAs : NCCL_CONFIG_UNDEF_INT;
    comm->most_ctas = config ? config->maxCTAs : NCCL_CONFIG_UNDEF_INT;
    comm->holds = 1;
    alive++;
    comm->state = ncclInProgress;
    const char *late = getenv("NCCL_RUNTIME_CONNECT");
    for (int way = 0; late && atoi(late) == 0 && way < STANDIN_WAYS; way++)
        standin_nccl_join(comm, (standin_way)way);
    *comm_out = comm;
    if (!config || config->blocking != 0) {
        meet(comm);
        return ncclSuccess;
    }
    comm->meets = pthread_create(&comm->meeting, NULL, meet, comm) == 0;
    return comm->meets ? ncclInProgress : standin_nccl_fail(ncclSystemError, "no thread");
}

static _Atomic int registered;

API int standin_nccl_registered(void)
{
    return registered;
}

API void standin_nccl_ctas(void *handle, int *least_out, int *most_out)
{
    const ncclComm_t comm = handle;
    *least_out = comm->least_ctas;
    *most_out = comm->most_ctas;
}

static ncclResult_t end_comm(ncclComm_t comm, bool abort)
{
    if (!comm)
        return standin_nccl_fail(ncclInvalidArgument, "no communicator");
    if (abort)
        comm->aborted = true;
    while (!abort && comm->ended < comm->queued)
        standin_nccl_pause_us(50);
    if (comm->meets)
        pthread_join(comm->meeting, NULL);
    if (standin_fault("slow"))
        standin_nccl_pause_us(300000);
    standin_nccl_release(comm);
    alive--;
    return ncclSuccess;
}

API ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    return comm ? ncclSuccess : standin_nccl_fail(ncclInvalidArgument, "no communicator");
}

API ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    return end_comm(comm, false);
}

API ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    return end_comm(comm, true);
}

API ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error)
{
    *error = standin_fault("async") ? ncclRemoteError : comm->state;
    return ncclSuccess;
}

API ncclResult_t ncclCommCount(const ncclComm_t comm, int *count)
{
    *count = comm->ranks;
    return ncclSuccess;
}

API ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int *device)
{
    *device = comm->device;
    return ncclSuccess;
}

API ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *rank)
{
    *rank = comm->rank;
    return ncclSuccess;
}

API ncclResult_t ncclCommRegister(const ncclComm_t comm, void *memory, size_t bytes, void **handle)
{
    (void)bytes;
    *handle = memory;
    atomic_fetch_add(&registered, comm ? 1 : 0);
    return comm ? ncclSuccess : standin_nccl_fail(ncclInvalidArgument, "no communicator");
}

API ncclResult_t ncclCommDeregister(const ncclComm_t comm, void *handle)
{
    (void)handle;
    atomic_fetch_sub(&registered, comm ? 1 : 0);
    return comm ? ncclSuccess : standin_nccl_fail(ncclInvalidArgument, "no communicator");
}

API ncclResult_t ncclMemAlloc(void **memory, size_t bytes)
{
    return cudaMalloc(memory, bytes) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

API ncclResult_t ncclMemFree(void *memory)
{
    return cudaFree(memory) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

API const char *ncclGetErrorString(ncclResult_t result)
{
    static const char *const texts[] = {"no error",       "unhandled cuda error", "unhandled system error",
                                        "internal error", "invalid argument",     "invalid usage",
                                        "remote error",   "in progress"};
    return (size_t)result < sizeof texts / sizeof *texts ? texts[result] : "unknown result";
}

API const char *ncclGetLastError(ncclComm_t comm)
{
    (void)comm;
    return last_text;
}
