/* SPDX-License-Identifier: Apache-2.0 */
/* Threads for the calls of NCCL that wait for other ranks: making communicators, aborting and destroying them. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "backend/nccl/nccl_backend.h"

typedef struct job {
    weft__nccl_core *core;
    void (*run)(weft__nccl_core *core);
} job;

static void *work(void *memory)
{
    job j = *(job *)memory;
    free(memory);
    (void)cudaSetDevice(j.core->device);
    if (j.run)
        j.run(j.core);
    atomic_store(&j.core->helped, true);
    weft__nccl_core_release(j.core);
    return NULL;
}

/* The program's signals are for its own threads. */
static bool spawn(job *j)
{
    sigset_t all, before;
    pthread_t thread;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool made = pthread_create(&thread, NULL, work, j) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (made)
        pthread_detach(thread);
    return made;
}

void weft__nccl_help(weft__nccl_core *core, void (*run)(weft__nccl_core *core))
{
    atomic_store(&core->helped, false);
    core->result = WEFT_OK;
    atomic_fetch_add(&core->holds, 1);
    weft__nccl_help_last(core, run);
}

void weft__nccl_help_last(weft__nccl_core *core, void (*run)(weft__nccl_core *core))
{
    job *j = malloc(sizeof *j);
    if (j) {
        *j = (job){core, run};
        if (spawn(j))
            return;
        free(j);
    }
    core->result = WEFT_E_SYSTEM;
    snprintf(core->text, sizeof core->text, "no thread for it");
    atomic_store(&core->helped, true);
    weft__nccl_core_release(core);
}

/* ------------------------------------------------------------------------------------------- jobs */

static bool failed(weft__nccl_core *core, const char *what, ncclResult_t result)
{
    if (result == ncclSuccess)
        return false;
    core->result = WEFT_E_SYSTEM;
    snprintf(core->text, sizeof core->text, "%s: %s (%.150s)", what, ncclGetErrorString(result),
             ncclGetLastError(NULL));
    return true;
}

static bool failed_in_cuda(weft__nccl_core *core, const char *what, cudaError_t error)
{
    if (error == cudaSuccess)
        return false;
    core->result = WEFT_E_SYSTEM;
    snprintf(core->text, sizeof core->text, "%s: %s", what, cudaGetErrorString(error));
    return true;
}

/* A byte to everybody and from everybody: NCCL connects pairs when they first meet. */
static bool meet_everybody(weft__nccl_core *core, const weft__nccl_lane *lane)
{
    unsigned char *scratch = core->scratch + 1;
    ncclResult_t result = ncclGroupStart();
    for (int r = 0; r < core->count && result == ncclSuccess; r++) {
        if (r == core->rank)
            continue;
        result = ncclSend(scratch, 1, ncclUint8, r, lane->comm, lane->stream);
        if (result == ncclSuccess)
            result = ncclRecv(scratch + 1 + r, 1, ncclUint8, r, lane->comm, lane->stream);
    }
    ncclResult_t ended = ncclGroupEnd();
    return !failed(core, "connecting pairs of ranks", result == ncclSuccess ? ended : result);
}

static bool use_once(weft__nccl_core *core, uint32_t index)
{
    const weft__nccl_lane *lane = &core->lanes[index];
    if (index == WEFT__NCCL_COLLECTIVES)
        return !failed(core, "the first all-reduce",
                       ncclAllReduce(core->scratch, core->scratch, 1, ncclUint8, ncclSum, lane->comm, lane->stream));
    return !core->connects || meet_everybody(core, lane);
}

void weft__nccl_connect_all(weft__nccl_core *core)
{
    for (uint32_t i = 0; i < core->lane_count; i++) {
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
        if (failed(core, "making a communicator",
                   ncclCommInitRankConfig(&core->lanes[i].comm, core->count, core->ids[i], core->rank, &config)) ||
            !use_once(core, i) ||
            failed_in_cuda(core, "waiting for the first use", cudaStreamSynchronize(core->lanes[i].stream)))
            return;
    }
}

void weft__nccl_abort_all(weft__nccl_core *core)
{
    for (uint32_t i = 0; i < core->lane_count; i++) {
        if (core->lanes[i].comm)
            (void)failed(core, "aborting a communicator", ncclCommAbort(core->lanes[i].comm));
        core->lanes[i].comm = NULL;
    }
    for (uint32_t i = 0; i < core->lane_count; i++)
        (void)failed_in_cuda(core, "waiting for an aborted stream", cudaStreamSynchronize(core->lanes[i].stream));
}

void weft__nccl_destroy_all(weft__nccl_core *core)
{
    for (uint32_t i = 0; i < core->lane_count; i++)
        if (core->lanes[i].comm)
            (void)ncclCommDestroy(core->lanes[i].comm);
    for (uint32_t i = 0; i < core->lane_count; i++)
        core->lanes[i].comm = NULL;
}
