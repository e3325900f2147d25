/* SPDX-License-Identifier: Apache-2.0 */
/* Failure: how it is told and noticed, how operations are given back, and what one that does not end waits for. */
#include <stdio.h>

#include "net.h"

/* ------------------------------------------------------------------------------------------- giving back */

/* The operations that messages of this queue belong to, each once. */
static weft_op *unlink_ops(const weft__net_queue *queue, weft_op *ops)
{
    for (const weft__net_parcel *p = queue->first; p; p = p->next) {
        weft__net_batch *batch = p->op->memory;
        if (!batch->left)
            continue; /* has been listed */
        batch->left = 0;
        p->op->next = ops;
        ops = p->op;
    }
    return ops;
}

static void give_back(weft__net_comm *nc, weft_result result)
{
    const weft__net *net = nc->net;
    weft_op *ops = nc->head;
    if (net->carrier->drop)
        net->carrier->drop(net->carries, nc);
    for (int i = 0; i < nc->count; i++)
        for (uint32_t s = 0; s < nc->streams; s++) {
            weft__net_lane *lane = weft__net_lane_of(nc, i, s);
            if (s > 0) {
                ops = unlink_ops(&lane->in, ops);
                ops = unlink_ops(&lane->out, ops);
            }
            weft__net_lane_drop(lane);
        }
    nc->head = NULL;
    nc->tail = &nc->head;
    nc->begun = false;
    nc->busy_lanes = NULL;
    nc->p2p_left = 0;
    for (weft_op *next; ops; ops = next) {
        next = ops->next;
        weft_backend_done(ops, result);
    }
}

void weft__net_comm_abort(void *comm, weft_result result, const char *text)
{
    weft__net_comm *nc = comm;
    nc->failed = true;
    for (int i = 0; nc->connected && i < nc->count; i++)
        if (i != nc->rank && !nc->peers[i].left)
            weft__net_tell(nc, i, WEFT__NET_VERDICT, result, text);
    give_back(nc, result);
}

/* ------------------------------------------------------------------------------------------- noticing */

static bool misses(const weft__net_comm *nc, int member)
{
    for (uint32_t s = 0; s < nc->streams; s++)
        if (weft__net_lane_misses(weft__net_lane_of(nc, member, s)))
            return true;
    return false;
}

void weft__net_look_for_failure(weft__net_comm *nc, int member)
{
    const weft__net_peer *peer = &nc->peers[member];
    if (!peer->left || nc->failed || !misses(nc, member))
        return;
    weft_backend_fail(nc->comm, WEFT_E_PEER_LOST, "rank %d has destroyed comm %s, which others still use",
                      nc->ranks[member], nc->name);
    nc->failed = true;
}

/* Comms that the rank has left need it no more. */
void weft__net_rank_lost(weft__net *net, int rank, weft_result result, const char *why)
{
    for (int c = 0; c < WEFT__NET_COMMS; c++) {
        weft__net_comm *nc = net->comms[c];
        for (int i = 0; nc && nc->connected && !nc->failed && i < nc->count; i++)
            if (nc->ranks[i] == rank && !nc->peers[i].left)
                weft_backend_fail(nc->comm, result, "the way to rank %d is lost, and comm %s with it: %s", rank,
                                  nc->name, why);
    }
}

/* ------------------------------------------------------------------------------------------- explaining */

/* "3 (last seen in operation 41, all_gather, 1.0 s ago)" */
static size_t name_absent(const weft__net_comm *nc, int member, char *text, size_t bytes)
{
    const weft__net_peer *peer = &nc->peers[member];
    if (!peer->seen_number)
        return (size_t)snprintf(text, bytes, "%d (never seen in a collective of this comm)", nc->ranks[member]);
    double ago = weft_trace_ns(nc->net->world, weft__net_ticks(nc->net) - peer->seen_ticks) * 1e-9;
    return (size_t)snprintf(text, bytes, "%d (last seen in operation %llu, %s, %.1f s ago)", nc->ranks[member],
                            (unsigned long long)peer->seen_number,
                            weft_collective_string((weft_collective_kind)peer->seen_kind), ago);
}

static size_t name_all_absent(const weft__net_comm *nc, char *text, size_t bytes)
{
    size_t used = 0;
    for (int i = 0; i < nc->count && used < bytes; i++) {
        const weft__net_parcel *in = weft__net_lane_of(nc, i, 0)->in.first;
        if (!in || in->begun || nc->peers[i].seen_number >= nc->head->number)
            continue;
        used += (size_t)snprintf(text + used, bytes - used, "%s", used ? ", " : "not arrived: ");
        if (used < bytes)
            used += name_absent(nc, i, text + used, bytes - used);
    }
    return used;
}

/* "rank 2 has sent 64 of 128 bytes", "rank 2 has taken ..." */
static size_t name_unfinished(const weft__net_lane *lane, const weft_op *op, char *text, size_t bytes)
{
    const struct {
        const weft__net_parcel *parcel;
        const char *has;
    } sides[] = {{lane->in.first, "sent"}, {lane->out.first, "taken"}};
    size_t used = 0;
    for (int i = 0; i < 2 && used < bytes; i++) {
        const weft__net_parcel *p = sides[i].parcel;
        if (!p || p->op != op)
            continue;
        char channel[32] = "";
        if (lane->stream && lane->stream - 1u < lane->nc->parts_from)
            snprintf(channel, sizeof channel, " on channel %u", lane->stream - 1u);
        used += (size_t)snprintf(text + used, bytes - used, "%srank %d has %s %zu of %zu bytes%s", used ? "; " : "",
                                 lane->nc->ranks[lane->member], sides[i].has, p->done, p->bytes, channel);
    }
    return used;
}

void weft__net_explain(void *comm, const weft_op *op, char *text, size_t bytes)
{
    weft__net_comm *nc = comm;
    size_t used = 0;
    text[0] = 0;
    if (!op->is_p2p && op != nc->head) {
        snprintf(text, bytes, "it waits for operation %llu of this comm",
                 nc->head ? (unsigned long long)nc->head->number : 0);
        return;
    }
    if (!op->is_p2p && name_all_absent(nc, text, bytes))
        return;
    for (int i = 0; i < nc->count; i++)
        for (uint32_t s = 0; s < nc->streams && used + 3 < bytes; s++) {
            size_t at = used ? used + 2 : 0;
            size_t more = name_unfinished(weft__net_lane_of(nc, i, s), op, text + at, bytes - at);
            if (more && used)
                text[used] = ';', text[used + 1] = ' ';
            used = more ? at + more : used;
        }
}
