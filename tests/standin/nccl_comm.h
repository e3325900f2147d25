/* SPDX-License-Identifier: Apache-2.0 */
/* A communicator, as the calls that make it and those that use it know it. */
#ifndef STANDIN_NCCL_COMM_H
#define STANDIN_NCCL_COMM_H
#include <nccl.h>
#include <pthread.h>

#include "nccl_meet.h"

struct ncclComm {
    standin_room room;
    int rank, ranks, device;
    int least_ctas, most_ctas; /* as the config says */
    pthread_t meeting;
    bool meets; /* a thread meets the others */
    bool joined[STANDIN_WAYS];
    _Atomic ncclResult_t state;
    _Atomic bool aborted;
    _Atomic int holds; /* of the caller, and of each task */
    uint64_t rounds;   /* of collectives; only the task at hand */
    uint64_t queued;   /* tasks */
    _Atomic uint64_t ended;
};

/* Keep the text for ncclGetLastError(); returns @p result. */
ncclResult_t standin_nccl_fail(ncclResult_t result, const char *text);
/* This rank connects a way, if it has not. */
void standin_nccl_join(ncclComm_t comm, standin_way way);
/* Let go of it; the last one frees it. */
void standin_nccl_release(ncclComm_t comm);
void standin_nccl_pause_us(long us);

#endif
