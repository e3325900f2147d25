/* SPDX-License-Identifier: Apache-2.0 */
/* Comms: made, connected, aborted and given back, by helpers where NCCL waits for other ranks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/nccl/nccl_backend.h"

#define STUCK_NS 5e9 /* what NCCL has not let go of by then is given up */

weft_result weft__nccl_told(const char *name, const char *what, ncclResult_t result)
{
    if (result == ncclSuccess)
        return WEFT_OK;
    return weft_backend_error(WEFT_E_SYSTEM, "comm %s: NCCL: %s: %s (%.200s)", name, what, ncclGetErrorString(result),
                              ncclGetLastError(NULL));
}

weft_result weft__nccl_cuda_told(const char *name, const char *what, cudaError_t error)
{
    if (error == cudaSuccess)
        return WEFT_OK;
    return weft_backend_error(WEFT_E_SYSTEM, "comm %s: CUDA: %s: %s", name, what, cudaGetErrorString(error));
}

/* ------------------------------------------------------------------------------------------- parts */

int weft__nccl_enter(const weft__nccl *nccl)
{
    int before = nccl->device;
    (void)cudaGetDevice(&before);
    (void)cudaSetDevice(nccl->device);
    return before;
}

void weft__nccl_leave(int before)
{
    (void)cudaSetDevice(before);
}

/* Communicators of a comm that was given up while they were made are still there. */
void weft__nccl_core_release(weft__nccl_core *core)
{
    if (atomic_fetch_sub(&core->holds, 1) != 1)
        return;
    for (uint32_t i = 0; i < core->lane_count; i++) {
        if (core->lanes[i].comm)
            (void)ncclCommAbort(core->lanes[i].comm);
        if (core->lanes[i].stream)
            (void)cudaStreamDestroy(core->lanes[i].stream);
    }
    if (core->scratch)
        (void)cudaFree(core->scratch);
    free(core);
}

/* Collectives come first: computing waits for them as a whole. */
static cudaError_t make_lanes(const weft__nccl *nccl, weft__nccl_core *core)
{
    cudaError_t error = cudaMalloc((void **)&core->scratch, (size_t)core->count + 2);
    for (uint32_t i = 0; i < core->lane_count && error == cudaSuccess; i++)
        error = cudaStreamCreateWithPriority(&core->lanes[i].stream, cudaStreamNonBlocking, nccl->greatest);
    return error;
}

static weft_result make_core(weft__nccl_comm *nc, const weft_backend_comm *what)
{
    uint32_t lanes = what->p2p_channels ? WEFT__NCCL_LANES : 1;
    nc->core = calloc(1, sizeof *nc->core);
    if (!nc->core)
        return weft_backend_error(WEFT_E_NO_MEMORY, "comm %s: no memory for it", what->name);
    nc->core->holds = 1;
    nc->core->device = nc->nccl->device;
    nc->core->rank = what->rank, nc->core->count = what->count;
    nc->core->lane_count = lanes;
    nc->core->connects = what->count <= WEFT__NCCL_CONNECTED_MOST;
    cudaError_t error = make_lanes(nc->nccl, nc->core);
    if (error == cudaSuccess)
        error = cudaEventCreateWithFlags(&nc->entry, cudaEventDisableTiming);
    return weft__nccl_cuda_told(nc->name, "streams and events of it", error);
}

/* Member 0 says where communicators meet. */
static weft_result write_card(weft__nccl_comm *nc, unsigned char *card)
{
    for (uint32_t i = 0; i < nc->core->lane_count && nc->core->rank == 0; i++) {
        ncclUniqueId *id = &nc->core->ids[i];
        ncclResult_t result = ncclGetUniqueId(id);
        if (result != ncclSuccess)
            return weft__nccl_told(nc->name, "an id for a communicator", result);
        memcpy(card + i * sizeof *id, id, sizeof *id);
    }
    return WEFT_OK;
}

weft_result weft__nccl_comm_create(void *state, const weft_backend_comm *what, void **comm_out, unsigned char *card)
{
    static _Atomic uint64_t serial;
    weft__nccl_comm *nc = calloc(1, sizeof *nc);
    if (!nc)
        return weft_backend_error(WEFT_E_NO_MEMORY, "comm %s: no memory for it", what->name);
    *comm_out = nc;
    nc->nccl = state;
    nc->comm = what->comm;
    nc->serial = 0x6e63636c00000001u + atomic_fetch_add(&serial, 1);
    snprintf(nc->name, sizeof nc->name, "%s", what->name);
    nc->tail = &nc->head;
    nc->next = nc->nccl->comms;
    nc->nccl->comms = nc;
    int before = weft__nccl_enter(nc->nccl);
    weft_result result = make_core(nc, what);
    if (result == WEFT_OK)
        result = write_card(nc, card);
    weft__nccl_leave(before);
    return result;
}

weft_result weft__nccl_comm_connect(void *comm, const unsigned char *cards)
{
    weft__nccl_comm *nc = comm;
    if (nc->phase == WEFT__NCCL_NEW) {
        if (nc->core->rank > 0)
            memcpy(nc->core->ids, cards, nc->core->lane_count * sizeof *nc->core->ids);
        nc->phase = WEFT__NCCL_CONNECTING;
        weft__nccl_help(nc->core, weft__nccl_connect_all);
    }
    if (!atomic_load(&nc->core->helped))
        return WEFT_PENDING;
    if (nc->core->result != WEFT_OK)
        return weft_backend_error(nc->core->result, "comm %s: NCCL: %s", nc->name, nc->core->text);
    nc->phase = WEFT__NCCL_READY;
    return WEFT_OK;
}

/* ------------------------------------------------------------------------------------------- ends */

/* A communicator in the making cannot be aborted: its helper is left to itself, and what it uses with it. */
void weft__nccl_comm_abort(void *comm, weft_result result, const char *text)
{
    weft__nccl_comm *nc = comm;
    (void)text;
    nc->verdict = result;
    if (nc->phase == WEFT__NCCL_READY) {
        nc->phase = WEFT__NCCL_ENDING;
        nc->ending_since = 0;
        weft__nccl_help(nc->core, weft__nccl_abort_all);
        return;
    }
    nc->phase = WEFT__NCCL_ENDED;
    weft__nccl_give_back(nc, result);
}

/* Nanoseconds since the abort. */
static double since_abort(weft__nccl_comm *nc)
{
    uint64_t now = weft_trace_now(nc->nccl->world);
    if (!nc->ending_since)
        nc->ending_since = now;
    return weft_trace_ns(nc->nccl->world, now - nc->ending_since);
}

bool weft__nccl_end_aborted(weft__nccl_comm *nc)
{
    bool helped = atomic_load(&nc->core->helped), stuck = !helped || nc->core->result != WEFT_OK;
    if (!helped && since_abort(nc) < STUCK_NS)
        return false;
    nc->phase = WEFT__NCCL_ENDED;
    if (stuck)
        weft_backend_fail(nc->comm, WEFT_E_STUCK, "comm %s: NCCL has not ended its operations: %s", nc->name,
                          helped ? nc->core->text : "it was given 5 s");
    weft__nccl_give_back(nc, stuck ? WEFT_E_STUCK : nc->verdict);
    return true;
}

void weft__nccl_comm_leave(void *comm)
{
    weft__nccl_comm *nc = comm;
    nc->left = true;
    nc->head = NULL;
    nc->tail = &nc->head;
}

static void unlink_comm(weft__nccl_comm *nc)
{
    for (weft__nccl_comm **link = &nc->nccl->comms; *link; link = &(*link)->next)
        if (*link == nc) {
            *link = nc->next;
            return;
        }
}

void weft__nccl_comm_destroy(void *comm)
{
    weft__nccl_comm *nc = comm;
    unlink_comm(nc);
    for (size_t i = 0; i < nc->event_count; i++)
        (void)cudaEventDestroy(nc->events[i]);
    if (nc->entry)
        (void)cudaEventDestroy(nc->entry);
    free(nc->events);
    if (nc->core)
        weft__nccl_help_last(nc->core, nc->phase == WEFT__NCCL_READY ? weft__nccl_destroy_all : NULL);
    free(nc);
}
