/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a comm: memory and a number of its own, ways to its members, and in the end leave. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "net.h"

#define STAGE_EACH_BYTES ((size_t)256 << 10) /* of each member that may be under way to be summed, at least; */
#define STAGE_EACH       2                   /* or so many records */
#define STAGE_MANY_BYTES ((size_t)9 << 20) /* of all together, if there are several: those ahead do not wait at once */
#define STASH_RECORDS    4                 /* of a stream that nobody has asked for yet, if there is room for it, */
#define LEAST_RECORDS    2                 /* and at least: half of it holds one, so that senders never get stuck */
#define MIB              ((size_t)1 << 20)
#define TOLD_BYTES       (WEFT__NET_HEAD_BYTES + WEFT__NET_TEXT_BYTES)

/* ------------------------------------------------------------------------------------------- memory */

void weft__net_comm_free(weft__net_comm *nc)
{
    if (nc->memory)
        munmap(nc->memory, nc->memory_bytes);
    free(nc->peers);
    free(nc->lanes);
    free(nc->plan.in);
    free(nc->plan.out);
    free(nc->sources);
    free(nc);
}

static size_t stage_bytes_of(const weft__carrier *carrier, int count)
{
    size_t others = (size_t)count - 1;
    size_t all = (others > 1 ? STAGE_MANY_BYTES : carrier->stage_bytes) / carrier->record_bytes;
    size_t each = (all + others - 1) / others, least = STAGE_EACH_BYTES / carrier->record_bytes;
    least = least > STAGE_EACH ? least : STAGE_EACH;
    return (each > least ? each : least) * (carrier->record_bytes - WEFT__NET_HEAD_BYTES);
}

static size_t others_of(const weft__net_comm *nc)
{
    return (size_t)nc->count - 1;
}

static void lay_out(weft__net_comm *nc)
{
    size_t n = (size_t)nc->count, lanes = n * nc->streams;
    unsigned char *at = nc->memory;
    for (size_t i = 0; i < lanes; i++) {
        int member = (int)(i / nc->streams);
        weft__net_lane_open(&nc->lanes[i], nc, member, (int)(i % nc->streams), member == nc->rank ? NULL : at);
        at += member == nc->rank ? 0 : weft__net_lane_memory(nc);
    }
    nc->stage = at;
    at += (n + 1) * nc->stage_bytes;
    for (size_t i = 0; i < n * WEFT__NET_TOLD; i++, at += TOLD_BYTES)
        nc->peers[i / WEFT__NET_TOLD].told[i % WEFT__NET_TOLD] = (weft__net_slot){.nc = nc, .record = at};
}

static void *map_with_stash_of(weft__net_comm *nc, size_t records)
{
    nc->stash_bytes = records * nc->net->carrier->record_bytes;
    nc->memory_bytes = others_of(nc) * nc->streams * weft__net_lane_memory(nc) +
                       ((size_t)nc->count + 1) * nc->stage_bytes + (size_t)nc->count * WEFT__NET_TOLD * TOLD_BYTES;
    void *memory =
        mmap(NULL, nc->memory_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

/* All that operations need, taken now: they do not ask for memory. Pages that are never used cost nothing but
 * addresses, and these a limit, or a machine that does not overcommit. */
static weft_result map_memory(weft__net_comm *nc)
{
    nc->stage_bytes = stage_bytes_of(nc->net->carrier, nc->count);
    nc->memory = map_with_stash_of(nc, STASH_RECORDS);
    if (!nc->memory)
        nc->memory = map_with_stash_of(nc, LEAST_RECORDS);
    if (nc->memory) {
        lay_out(nc);
        return WEFT_OK;
    }
    return weft_backend_error(
        WEFT_E_NO_MEMORY,
        "comm %s: %zu MiB of addresses, for what comes unasked from %zu ranks on %u streams of %zu "
        "KiB each, cannot be had, though most of them are never used (ulimit -v, "
        "vm.overcommit_memory, fewer p2p_channels)",
        nc->name, (nc->memory_bytes + MIB - 1) / MIB, others_of(nc), nc->streams, nc->stash_bytes >> 10);
}

static weft_result alloc_parts(weft__net_comm *nc)
{
    size_t n = (size_t)nc->count;
    nc->peers = calloc(n, sizeof *nc->peers);
    nc->lanes = calloc(n * nc->streams, sizeof *nc->lanes);
    nc->plan.in = calloc(2 * n, sizeof *nc->plan.in);
    nc->plan.out = calloc(2 * n, sizeof *nc->plan.out);
    nc->sources = calloc(n, sizeof *nc->sources);
    if (!nc->peers || !nc->lanes || !nc->plan.in || !nc->plan.out || !nc->sources)
        return weft_backend_error(WEFT_E_NO_MEMORY, "no memory for comm %s of %d ranks", nc->name, nc->count);
    return map_memory(nc);
}

/* ------------------------------------------------------------------------------------------- making it */

/* A number that no comm of this world has, or had lately: what comes late for an old one is known by it. */
static bool take_number(weft__net_comm *nc)
{
    weft__net *net = nc->net;
    for (int i = 0; i < WEFT__NET_COMMS; i++) {
        uint32_t number = ++net->last_number;
        if (!number || net->comms[number % WEFT__NET_COMMS])
            continue;
        nc->number = number;
        net->comms[number % WEFT__NET_COMMS] = nc;
        return true;
    }
    return false;
}

static weft_result fill_card(const weft__net_comm *nc, unsigned char *card)
{
    const weft__net *net = nc->net;
    weft__net_card mine = {.version = WEFT__NET_VERSION, .comm = nc->number, .stash_bytes = (uint32_t)nc->stash_bytes};
    size_t bytes = 0;
    weft_result result =
        net->carrier->address(net->carries, card + sizeof mine, WEFT__NET_CARD_BYTES - sizeof mine, &bytes);
    mine.address_bytes = (uint32_t)bytes;
    memcpy(card, &mine, sizeof mine);
    return result;
}

weft_result weft__net_comm_create(void *state, const weft_backend_comm *comm, void **comm_out, unsigned char *card)
{
    weft__net_comm *nc = calloc(1, sizeof *nc);
    if (!nc)
        return weft_backend_error(WEFT_E_NO_MEMORY, "no memory for comm %s", comm->name);
    nc->net = state;
    nc->comm = comm->comm;
    nc->name = comm->name;
    nc->rank = comm->rank;
    nc->count = comm->count;
    nc->ranks = comm->ranks;
    nc->streams = 1 + comm->p2p_channels;
    nc->parts_from = comm->p2p_channels - comm->part_channels;
    nc->tail = &nc->head;
    weft_result result = alloc_parts(nc);
    if (result == WEFT_OK && !take_number(nc))
        result = weft_backend_error(WEFT_E_BUSY, "comm %s: a rank can have %d comms", comm->name, WEFT__NET_COMMS);
    if (result == WEFT_OK && (result = fill_card(nc, card)) != WEFT_OK)
        nc->net->comms[nc->number % WEFT__NET_COMMS] = NULL;
    if (result != WEFT_OK) {
        weft__net_comm_free(nc);
        return result;
    }
    *comm_out = nc;
    return WEFT_OK;
}

/* ------------------------------------------------------------------------------------------- connecting */

static weft_result read_card(weft__net_comm *nc, int member, const unsigned char *card)
{
    weft__net *net = nc->net;
    weft__net_card theirs;
    memcpy(&theirs, card, sizeof theirs);
    if (theirs.version != WEFT__NET_VERSION)
        return weft_backend_error(
            WEFT_E_MISMATCH, "comm %s: rank %d speaks version %u of the protocol of %s, rank %d %d", nc->name,
            nc->ranks[member], theirs.version, net->carrier->name, nc->ranks[nc->rank], WEFT__NET_VERSION);
    nc->peers[member].comm = theirs.comm;
    if (theirs.address_bytes > WEFT__NET_CARD_BYTES - sizeof theirs ||
        theirs.stash_bytes < LEAST_RECORDS * net->carrier->record_bytes)
        return weft_backend_error(WEFT_E_BUG, "comm %s: rank %d has no card", nc->name, nc->ranks[member]);
    for (uint32_t s = 0; s < nc->streams; s++)
        weft__net_lane_may_send(weft__net_lane_of(nc, member, s), theirs.stash_bytes);
    weft_result result =
        net->carrier->reach(net->carries, nc->ranks[member], card + sizeof theirs, theirs.address_bytes);
    if (result != WEFT_OK)
        return result;
    net->ways[nc->ranks[member]].reached = true;
    const char *why;
    result = weft__net_lost(net, nc->ranks[member], &why);
    if (result == WEFT_OK)
        return WEFT_OK;
    return weft_backend_error(result, "comm %s: the way from rank %d to rank %d is lost: %s", nc->name,
                              nc->ranks[nc->rank], nc->ranks[member], why);
}

/* Who waited here for the others would wait for what they may do only after they have finished another comm. So a hello
 * goes out and opens the way in the background; a way that cannot be opened fails the comm. */
weft_result weft__net_comm_connect(void *comm, const unsigned char *cards)
{
    weft__net_comm *nc = comm;
    for (int i = 0; i < nc->count; i++) {
        weft_result result = i == nc->rank ? WEFT_OK : read_card(nc, i, cards + (size_t)i * WEFT__NET_CARD_BYTES);
        if (result != WEFT_OK)
            return result;
    }
    nc->connected = true;
    for (int i = 0; i < nc->count; i++)
        if (i != nc->rank)
            weft__net_tell(nc, i, WEFT__NET_HELLO, WEFT_OK, "");
    return WEFT_OK;
}

/* ------------------------------------------------------------------------------------------- giving it up */

static bool has_operations(const weft__net_comm *nc)
{
    return nc->head || nc->p2p_left;
}

void weft__net_comm_leave(void *comm)
{
    weft__net_comm *nc = comm;
    char text[WEFT__NET_TEXT_BYTES];
    if (has_operations(nc) && !nc->failed) {
        snprintf(text, sizeof text, "rank %d has destroyed comm %s with operations in flight", nc->ranks[nc->rank],
                 nc->name);
        weft__net_comm_abort(nc, WEFT_E_ABORTED, text);
    }
    for (int i = 0; nc->connected && i < nc->count; i++)
        if (i != nc->rank)
            weft__net_tell(nc, i, WEFT__NET_LEAVE, WEFT_OK, "");
    nc->failed = true; /* it hears nothing more */
}

static void unlink_active(weft__net_comm *nc)
{
    for (weft__net_comm **link = &nc->net->active; *link; link = &(*link)->next)
        if (*link == nc) {
            *link = nc->next;
            break;
        }
    nc->active = false;
}

void weft__net_comm_destroy(void *comm)
{
    weft__net_comm *nc = comm;
    weft__net *net = nc->net;
    if (nc->active)
        unlink_active(nc);
    net->comms[nc->number % WEFT__NET_COMMS] = NULL;
    if (!nc->held) {
        weft__net_comm_free(nc);
        return;
    }
    nc->active = true; /* never again among those that are */
    nc->next = net->gone;
    net->gone = nc;
}
