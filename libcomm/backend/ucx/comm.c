/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a comm: memory and a number of its own, ways to its members, and in the end leave. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "ucx.h"

#define STAGE_CHUNKS      32 /* that may be under way to be summed, of all members together, */
#define STAGE_CHUNKS_EACH 4  /* and of each at least */
#define TOLD_BYTES        (WEFT__UCX_HEAD_BYTES + WEFT__UCX_TEXT_BYTES)

/* ------------------------------------------------------------------------------------------- memory */

void weft__ucx_comm_free(weft__ucx_comm *uc)
{
    if (uc->memory)
        munmap(uc->memory, uc->memory_bytes);
    free(uc->peers);
    free(uc->lanes);
    free(uc->plan.in);
    free(uc->plan.out);
    free(uc->sources);
    free(uc);
}

static size_t stage_bytes_of(int count)
{
    size_t others = (size_t)count - 1, each = (STAGE_CHUNKS + others - 1) / others;
    return (each > STAGE_CHUNKS_EACH ? each : STAGE_CHUNKS_EACH) * WEFT__UCX_CHUNK_BYTES;
}

/* All that operations need, taken now. Pages that are never used cost nothing. */
static bool map_memory(weft__ucx_comm *uc)
{
    size_t n = (size_t)uc->count, lanes = n * uc->streams;
    uc->stage_bytes = stage_bytes_of(uc->count);
    uc->memory_bytes = lanes * weft__lane_memory() + (n + 1) * uc->stage_bytes + n * WEFT__UCX_TOLD * TOLD_BYTES;
    void *memory =
        mmap(NULL, uc->memory_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return false;
    unsigned char *at = uc->memory = memory;
    for (size_t i = 0; i < lanes; i++, at += weft__lane_memory())
        weft__lane_open(&uc->lanes[i], uc, (int)(i / uc->streams), (int)(i % uc->streams), at);
    uc->stage = at;
    at += (n + 1) * uc->stage_bytes;
    for (size_t i = 0; i < n * WEFT__UCX_TOLD; i++, at += TOLD_BYTES)
        uc->peers[i / WEFT__UCX_TOLD].told[i % WEFT__UCX_TOLD] = (weft__ucx_slot){.uc = uc, .record = at};
    return true;
}

static bool alloc_parts(weft__ucx_comm *uc)
{
    size_t n = (size_t)uc->count;
    uc->peers = calloc(n, sizeof *uc->peers);
    uc->lanes = calloc(n * uc->streams, sizeof *uc->lanes);
    uc->plan.in = calloc(2 * n, sizeof *uc->plan.in);
    uc->plan.out = calloc(2 * n, sizeof *uc->plan.out);
    uc->sources = calloc(n, sizeof *uc->sources);
    return uc->peers && uc->lanes && uc->plan.in && uc->plan.out && uc->sources && map_memory(uc);
}

/* ------------------------------------------------------------------------------------------- making it */

/* A number that no comm of this world has, or had lately: what comes late for an old one is known by it. */
static bool take_number(weft__ucx_comm *uc)
{
    weft__ucx *ucx = uc->ucx;
    for (int i = 0; i < WEFT__UCX_COMMS; i++) {
        uint32_t number = ++ucx->last_number;
        if (ucx->comms[number % WEFT__UCX_COMMS])
            continue;
        uc->number = number;
        ucx->comms[number % WEFT__UCX_COMMS] = uc;
        return true;
    }
    return false;
}

static weft_result fill_card(const weft__ucx_comm *uc, unsigned char *card)
{
    const weft__ucx *ucx = uc->ucx;
    weft__ucx_card mine = {
        .version = WEFT__UCX_VERSION, .comm = uc->number, .address_bytes = (uint32_t)ucx->address_bytes};
    if (sizeof mine + ucx->address_bytes > WEFT__UCX_CARD_BYTES)
        return weft_backend_error(
            WEFT_E_UNSUPPORTED,
            "ucx: this rank has %zu bytes of addresses, more than the %zu that a card holds; name "
            "fewer transports or devices in UCX_TLS or UCX_NET_DEVICES",
            ucx->address_bytes, WEFT__UCX_CARD_BYTES - sizeof mine);
    memcpy(card, &mine, sizeof mine);
    memcpy(card + sizeof mine, ucx->address, ucx->address_bytes);
    return WEFT_OK;
}

weft_result weft__ucx_comm_create(void *state, const weft_backend_comm *comm, void **comm_out, unsigned char *card)
{
    weft__ucx_comm *uc = calloc(1, sizeof *uc);
    if (!uc)
        return weft_backend_error(WEFT_E_NO_MEMORY, "ucx: no memory for comm %s", comm->name);
    uc->ucx = state;
    uc->comm = comm->comm;
    uc->name = comm->name;
    uc->rank = comm->rank;
    uc->count = comm->count;
    uc->ranks = comm->ranks;
    uc->streams = 1 + comm->p2p_channels;
    uc->tail = &uc->head;
    weft_result result = WEFT_OK;
    if (!alloc_parts(uc))
        result =
            weft_backend_error(WEFT_E_NO_MEMORY, "ucx: no memory for comm %s of %d ranks", comm->name, comm->count);
    else if (!take_number(uc))
        result = weft_backend_error(WEFT_E_BUSY, "ucx: comm %s: a rank can have %d comms", comm->name, WEFT__UCX_COMMS);
    if (result == WEFT_OK && (result = fill_card(uc, card)) != WEFT_OK)
        uc->ucx->comms[uc->number % WEFT__UCX_COMMS] = NULL;
    if (result != WEFT_OK) {
        weft__ucx_comm_free(uc);
        return result;
    }
    *comm_out = uc;
    return WEFT_OK;
}

/* ------------------------------------------------------------------------------------------- connecting */

static weft_result read_card(weft__ucx_comm *uc, int member, const unsigned char *card)
{
    weft__ucx_card theirs;
    memcpy(&theirs, card, sizeof theirs);
    if (theirs.version != WEFT__UCX_VERSION)
        return weft_backend_error(WEFT_E_MISMATCH,
                                  "ucx: comm %s: rank %d speaks version %u of the protocol, rank %d %d", uc->name,
                                  uc->ranks[member], theirs.version, uc->ranks[uc->rank], WEFT__UCX_VERSION);
    uc->peers[member].comm = theirs.comm;
    weft_result result = weft__ucx_endpoint_make(uc->ucx, uc->ranks[member], card + sizeof theirs);
    ucs_status_t status = weft__ucx_endpoint_of(uc, member)->status;
    if (result != WEFT_OK || status == UCS_OK)
        return result;
    return weft_backend_error(WEFT_E_PEER_LOST, "ucx: comm %s: the way from rank %d to rank %d is lost: %s", uc->name,
                              uc->ranks[uc->rank], uc->ranks[member], ucs_status_string(status));
}

/* Who waited here for the others would wait for what they may do only after they have finished another comm. So a hello
 * goes out and opens the way in the background; a way that cannot be opened fails the comm. */
weft_result weft__ucx_comm_connect(void *comm, const unsigned char *cards)
{
    weft__ucx_comm *uc = comm;
    for (int i = 0; i < uc->count; i++) {
        weft_result result = i == uc->rank ? WEFT_OK : read_card(uc, i, cards + (size_t)i * WEFT__UCX_CARD_BYTES);
        if (result != WEFT_OK)
            return result;
    }
    uc->connected = true;
    for (int i = 0; i < uc->count; i++)
        if (i != uc->rank)
            weft__ucx_tell(uc, i, WEFT__UCX_HELLO, WEFT_OK, "");
    return WEFT_OK;
}

/* ------------------------------------------------------------------------------------------- giving it up */

static bool has_operations(const weft__ucx_comm *uc)
{
    return uc->head || uc->p2p_left;
}

void weft__ucx_comm_leave(void *comm)
{
    weft__ucx_comm *uc = comm;
    char text[WEFT__UCX_TEXT_BYTES];
    if (has_operations(uc) && !uc->failed) {
        snprintf(text, sizeof text, "rank %d has destroyed comm %s with operations in flight", uc->ranks[uc->rank],
                 uc->name);
        weft__ucx_comm_abort(uc, WEFT_E_ABORTED, text);
    }
    for (int i = 0; uc->connected && i < uc->count; i++)
        if (i != uc->rank)
            weft__ucx_tell(uc, i, WEFT__UCX_LEAVE, WEFT_OK, "");
    uc->failed = true; /* it hears nothing more */
}

static void unlink_active(weft__ucx_comm *uc)
{
    for (weft__ucx_comm **link = &uc->ucx->active; *link; link = &(*link)->next)
        if (*link == uc) {
            *link = uc->next;
            break;
        }
    uc->active = false;
}

void weft__ucx_comm_destroy(void *comm)
{
    weft__ucx_comm *uc = comm;
    weft__ucx *ucx = uc->ucx;
    if (uc->active)
        unlink_active(uc);
    ucx->comms[uc->number % WEFT__UCX_COMMS] = NULL;
    if (!uc->held) {
        weft__ucx_comm_free(uc);
        return;
    }
    uc->active = true; /* never again among those that are */
    uc->next = ucx->gone;
    ucx->gone = uc;
}
