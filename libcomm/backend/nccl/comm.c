/* SPDX-License-Identifier: Apache-2.0 */
/* Comms: made, connected, aborted and given back, by helpers where NCCL waits for other ranks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/nccl/nccl_backend.h"

#define STUCK_MS 5000

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
        if (core->lanes[i].comm && !core->lanes[i].is_given)
            (void)ncclCommAbort(core->lanes[i].comm);
        if (core->lanes[i].stream)
            (void)cudaStreamSynchronize(core->lanes[i].stream); /* calls of the host use the core */
        if (core->lanes[i].stream)
            (void)cudaStreamDestroy(core->lanes[i].stream);
    }
    if (core->entry)
        (void)cudaEventDestroy(core->entry);
    (void)cudaFree(core->scratch);
    (void)cudaFree(core->byte);
    (void)cudaFree(core->words);
    (void)cudaFreeHost(core->mine);
    (void)cudaFreeHost(core->told);
    free(core->ranks);
    free(core->peers);
    free(core);
}

/* Those named, or all of a comm that is small enough. */
static bool list_peers(weft__nccl_core *core, const weft_backend_comm *what)
{
    bool few = what->count <= WEFT__NCCL_CONNECTED_MOST;
    const int *named = what->config->p2p_peers;
    core->exchanges = few && what->p2p_channels;
    core->peer_count = named ? what->config->p2p_peer_count : few && what->p2p_channels ? (uint32_t)what->count : 0;
    core->peers = malloc(((size_t)core->peer_count + 1) * sizeof *core->peers);
    core->ranks = malloc((size_t)what->count * sizeof *core->ranks);
    if (!core->peers || !core->ranks)
        return false;
    for (uint32_t i = 0; i < core->peer_count; i++)
        core->peers[i] = named ? named[i] : (int)i;
    memcpy(core->ranks, what->ranks, (size_t)what->count * sizeof *core->ranks);
    return true;
}

/* A communicator of the program's is of the same members, or none. */
static weft_result take_native(const weft__nccl_comm *nc, const weft_backend_comm *what, weft__nccl_lane *lane)
{
    ncclComm_t given = what->config->native;
    int count = -1, rank = -1, device = -1;
    if (!given)
        return WEFT_OK;
    ncclResult_t result = ncclCommCount(given, &count);
    if (result == ncclSuccess)
        result = ncclCommUserRank(given, &rank);
    if (result == ncclSuccess)
        result = ncclCommCuDevice(given, &device);
    if (result != ncclSuccess)
        return weft__nccl_told(what->name, "the given communicator", result);
    if (count != what->count || rank != what->rank)
        return weft_backend_error(WEFT_E_INVALID,
                                  "comm %s: this is rank %d of %d, but rank %d of %d in the given communicator",
                                  what->name, what->rank, what->count, rank, count);
    if (device != nc->nccl->device)
        return weft_backend_error(WEFT_E_INVALID, "comm %s: this rank has GPU %d, but the given communicator GPU %d",
                                  what->name, nc->nccl->device, device);
    lane->comm = given;
    lane->is_given = true;
    return WEFT_OK;
}

static weft_result make_core(weft__nccl_comm *nc, const weft_backend_comm *what)
{
    weft__nccl_core *core = nc->core = calloc(1, sizeof *nc->core);
    if (!core)
        return weft_backend_error(WEFT_E_NO_MEMORY, "comm %s: no memory for it", what->name);
    core->holds = 1;
    core->helpers = nc->nccl->helpers;
    core->device = nc->nccl->device, core->priority = nc->nccl->greatest;
    core->rank = what->rank, core->count = what->count;
    core->lane_count = what->p2p_channels ? WEFT__NCCL_LANES : 1;
    core->least_ctas = what->config->least_ctas, core->most_ctas = what->config->most_ctas;
    core->works = what->config->works;
    core->hold_ms = (int)(nc->stuck_ns * 1e-6);
    if (!list_peers(core, what))
        return weft_backend_error(WEFT_E_NO_MEMORY, "comm %s: no memory for it", what->name);
    return take_native(nc, what, &core->lanes[WEFT__NCCL_COLLECTIVES]);
}

/* ------------------------------------------------------------------------------------------- cards */

/* Lists of peers are compared as far as they fit on a card: of some 14 000 members. */
size_t weft__nccl_card_bytes(int count)
{
    size_t bytes = sizeof(weft__nccl_card) + ((size_t)count + 7) / 8;
    return bytes <= WEFT_BACKEND_CARD_BYTES ? bytes : sizeof(weft__nccl_card);
}

static bool tells_peers(int count)
{
    return weft__nccl_card_bytes(count) > sizeof(weft__nccl_card);
}

/* Does member @p i name member @p j? */
static bool names(const unsigned char *cards, int count, int i, int j)
{
    const unsigned char *bits = cards + (size_t)i * weft__nccl_card_bytes(count) + sizeof(weft__nccl_card);
    return bits[j / 8] >> j % 8 & 1;
}

/* A pair is connected by both, or each would wait for the other. */
static weft_result compare_peers(const weft__nccl_comm *nc, const unsigned char *cards)
{
    int count = nc->core->count;
    for (int i = 0; tells_peers(count) && i < count; i++)
        for (int j = i + 1; j < count; j++)
            if (names(cards, count, i, j) != names(cards, count, j, i)) {
                int names_other = names(cards, count, i, j) ? i : j, other = names_other == i ? j : i;
                return weft_backend_error(WEFT_E_MISMATCH,
                                          "comm %s: p2p_peers of rank %d names rank %d, but not the reverse", nc->name,
                                          nc->core->ranks[names_other], nc->core->ranks[other]);
            }
    return WEFT_OK;
}

/* Member 0 says where communicators meet. */
static weft_result write_card(weft__nccl_comm *nc, unsigned char *bytes)
{
    weft__nccl_card card = {.check = nc->check};
    for (uint32_t i = 0; i < nc->core->lane_count && nc->core->rank == 0; i++) {
        if (nc->core->lanes[i].is_given)
            continue;
        ncclResult_t result = ncclGetUniqueId(&card.ids[i]);
        if (result != ncclSuccess)
            return weft__nccl_told(nc->name, "an id for a communicator", result);
    }
    memcpy(nc->core->ids, card.ids, sizeof card.ids);
    memset(bytes, 0, weft__nccl_card_bytes(nc->core->count));
    memcpy(bytes, &card, sizeof card);
    for (uint32_t i = 0; tells_peers(nc->core->count) && i < nc->core->peer_count; i++)
        bytes[sizeof card + (size_t)nc->core->peers[i] / 8] |= (unsigned char)(1 << nc->core->peers[i] % 8);
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
    nc->check = what->check;
    if (!what->config)
        return weft_backend_error(WEFT_E_UNSUPPORTED, "comm %s: nccl is no part of another backend", what->name);
    nc->stuck_ns = 1e6 * (what->config->timeout_ms < STUCK_MS ? what->config->timeout_ms : STUCK_MS);
    nc->serial = 0x6e63636c00000001u + atomic_fetch_add(&serial, 1);
    snprintf(nc->name, sizeof nc->name, "%s", what->name);
    weft__nccl_clear(nc);
    nc->nccl->stuck_ns = nc->stuck_ns > nc->nccl->stuck_ns ? nc->stuck_ns : nc->nccl->stuck_ns;
    nc->next = nc->nccl->comms;
    nc->nccl->comms = nc;
    int before = weft__nccl_enter(nc->nccl);
    weft_result result = make_core(nc, what);
    if (result == WEFT_OK)
        result = write_card(nc, card);
    weft__nccl_leave(before);
    return result;
}

/* Where communicators meet; and what is compared by one is compared by all. */
static void read_cards(weft__nccl_comm *nc, const unsigned char *cards)
{
    for (int i = 0; i < nc->core->count && nc->core->count > 1; i++) {
        weft__nccl_card card;
        memcpy(&card, cards + (size_t)i * weft__nccl_card_bytes(nc->core->count), sizeof card);
        nc->check |= card.check != 0;
        if (i == 0)
            memcpy(nc->core->ids, card.ids, sizeof card.ids);
    }
}

weft_result weft__nccl_comm_connect(void *comm, const unsigned char *cards)
{
    weft__nccl_comm *nc = comm;
    if (nc->phase == WEFT__NCCL_NEW) {
        weft_result result = compare_peers(nc, cards);
        if (result != WEFT_OK)
            return result;
        read_cards(nc, cards);
        nc->phase = WEFT__NCCL_CONNECTING;
        weft__nccl_help(nc->core, weft__nccl_connect_all);
    }
    if (!atomic_load(&nc->core->helped))
        return WEFT_PENDING;
    if (nc->core->result != WEFT_OK)
        return weft_backend_error(nc->core->result, "comm %s: %s", nc->name, nc->core->text);
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
    if (nc->core)
        atomic_store(&nc->core->ending, true);
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
    if (!helped && since_abort(nc) < nc->stuck_ns)
        return false;
    nc->phase = WEFT__NCCL_ENDED;
    if (stuck)
        weft_backend_fail(nc->comm, WEFT_E_STUCK, "comm %s: NCCL has not ended its operations: %s", nc->name,
                          helped ? nc->core->text : "it was given time enough");
    weft__nccl_give_back(nc, stuck ? WEFT_E_STUCK : nc->verdict);
    return true;
}

void weft__nccl_comm_leave(void *comm)
{
    weft__nccl_comm *nc = comm;
    nc->left = true;
    if (nc->phase == WEFT__NCCL_READY)
        weft__nccl_detach_all(nc); /* the memory may go next */
    if (nc->core)
        atomic_store(&nc->core->ending, true);
    weft__nccl_clear(nc);
}

static void unlink_comm(weft__nccl_comm *nc)
{
    for (weft__nccl_comm **link = &nc->nccl->comms; *link; link = &(*link)->next)
        if (*link == nc) {
            *link = nc->next;
            return;
        }
}

void *weft__nccl_native(void *comm)
{
    const weft__nccl_comm *nc = comm;
    return nc->phase == WEFT__NCCL_READY ? nc->core->lanes[WEFT__NCCL_COLLECTIVES].comm : NULL;
}

void weft__nccl_comm_destroy(void *comm)
{
    weft__nccl_comm *nc = comm;
    unlink_comm(nc);
    for (size_t i = 0; i < nc->event_count; i++)
        (void)cudaEventDestroy(nc->events[i]);
    free(nc->events);
    free(nc->attached);
    if (nc->core)
        weft__nccl_help_last(nc->core, nc->phase == WEFT__NCCL_READY ? weft__nccl_destroy_all : NULL);
    free(nc);
}
