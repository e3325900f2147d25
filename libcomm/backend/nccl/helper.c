/* SPDX-License-Identifier: Apache-2.0 */
/* Threads for the calls of NCCL that wait for other ranks, and the jobs that end communicators. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "backend/nccl/nccl_backend.h"

#define LOOK_NS 1000000 /* between two looks at who still helps */

/* ------------------------------------------------------------------------------------------- helpers */

weft__nccl_helpers *weft__nccl_helpers_open(void)
{
    weft__nccl_helpers *helpers = calloc(1, sizeof *helpers);
    if (helpers)
        helpers->holds = 1;
    return helpers;
}

static void let_go(weft__nccl_helpers *helpers)
{
    if (atomic_fetch_sub(&helpers->holds, 1) == 1)
        free(helpers);
}

int weft__nccl_helpers_close(weft__nccl_helpers *helpers, double most_ns)
{
    int left;
    while ((left = atomic_load(&helpers->holds) - 1) > 0 && most_ns > 0) {
        nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
        most_ns -= LOOK_NS;
    }
    let_go(helpers);
    return left;
}

/* ------------------------------------------------------------------------------------------- threads */

typedef struct job {
    weft__nccl_core *core;
    void (*run)(weft__nccl_core *core);
} job;

static void *work(void *memory)
{
    job j = *(job *)memory;
    weft__nccl_helpers *helpers = j.core->helpers;
    free(memory);
    (void)cudaSetDevice(j.core->device);
    if (j.run)
        j.run(j.core);
    atomic_store(&j.core->helped, true);
    weft__nccl_core_release(j.core);
    let_go(helpers);
    return NULL;
}

/* The program's signals are for its own threads. */
static bool spawn(job *j)
{
    sigset_t all, before;
    pthread_t thread;
    atomic_fetch_add(&j->core->helpers->holds, 1);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool made = pthread_create(&thread, NULL, work, j) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (made)
        pthread_detach(thread); /* who waits counts it */
    else
        let_go(j->core->helpers);
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

bool weft__nccl_failed(weft__nccl_core *core, const char *what, ncclResult_t result)
{
    if (result == ncclSuccess)
        return false;
    core->result = WEFT_E_SYSTEM;
    snprintf(core->text, sizeof core->text, "NCCL: %s: %s (%.150s)", what, ncclGetErrorString(result),
             ncclGetLastError(NULL));
    return true;
}

bool weft__nccl_failed_in_cuda(weft__nccl_core *core, const char *what, cudaError_t error)
{
    if (error == cudaSuccess)
        return false;
    core->result = error == cudaErrorMemoryAllocation ? WEFT_E_NO_MEMORY : WEFT_E_SYSTEM;
    snprintf(core->text, sizeof core->text, "CUDA: %s: %s", what, cudaGetErrorString(error));
    return true;
}

void weft__nccl_abort_all(weft__nccl_core *core)
{
    for (uint32_t i = 0; i < core->lane_count; i++) {
        if (core->lanes[i].comm)
            (void)weft__nccl_failed(core, "aborting a communicator", ncclCommAbort(core->lanes[i].comm));
        core->lanes[i].comm = NULL;
    }
    for (uint32_t i = 0; i < core->lane_count; i++)
        (void)weft__nccl_failed_in_cuda(core, "waiting for an aborted stream",
                                        cudaStreamSynchronize(core->lanes[i].stream));
}

void weft__nccl_destroy_all(weft__nccl_core *core)
{
    for (uint32_t i = 0; i < core->lane_count; i++)
        if (core->lanes[i].comm && !core->lanes[i].is_given)
            (void)ncclCommDestroy(core->lanes[i].comm);
    for (uint32_t i = 0; i < core->lane_count; i++)
        core->lanes[i].comm = NULL;
}
