/* SPDX-License-Identifier: Apache-2.0 */
/* Failure: how it is told and noticed, how operations are given back, and what one that does not end waits for. */
#include <stdio.h>

#include "ucx.h"

/* ------------------------------------------------------------------------------------------- giving back */

/* The operations that messages of this queue belong to, each once. */
static weft_op *unlink_ops(const weft__ucx_queue *queue, weft_op *ops)
{
    for (const weft__ucx_parcel *p = queue->first; p; p = p->next) {
        weft__ucx_batch *batch = p->op->memory;
        if (!batch->left)
            continue; /* has been listed */
        batch->left = 0;
        p->op->next = ops;
        ops = p->op;
    }
    return ops;
}

static void give_back(weft__ucx_comm *uc, weft_result result)
{
    weft_op *ops = uc->head;
    for (int i = 0; i < uc->count; i++)
        for (uint32_t s = 0; s < uc->streams; s++) {
            weft__ucx_lane *lane = weft__ucx_lane_of(uc, i, s);
            if (s > 0) {
                ops = unlink_ops(&lane->in, ops);
                ops = unlink_ops(&lane->out, ops);
            }
            weft__lane_drop(lane);
        }
    uc->head = NULL;
    uc->tail = &uc->head;
    uc->begun = false;
    uc->busy_lanes = NULL;
    uc->p2p_left = 0;
    for (weft_op *next; ops; ops = next) {
        next = ops->next;
        weft_backend_done(ops, result);
    }
}

void weft__ucx_comm_abort(void *comm, weft_result result, const char *text)
{
    weft__ucx_comm *uc = comm;
    uc->failed = true;
    for (int i = 0; uc->connected && i < uc->count; i++)
        if (i != uc->rank && !uc->peers[i].left)
            weft__ucx_tell(uc, i, WEFT__UCX_VERDICT, result, text);
    give_back(uc, result);
}

/* ------------------------------------------------------------------------------------------- noticing */

static bool misses(const weft__ucx_comm *uc, int member)
{
    for (uint32_t s = 0; s < uc->streams; s++)
        if (weft__lane_misses(weft__ucx_lane_of(uc, member, s)))
            return true;
    return false;
}

void weft__ucx_look_for_failure(weft__ucx_comm *uc, int member)
{
    const weft__ucx_peer *peer = &uc->peers[member];
    if (!peer->left || uc->failed || !misses(uc, member))
        return;
    weft_backend_fail(uc->comm, WEFT_E_PEER_LOST, "rank %d has destroyed comm %s, which others still use",
                      uc->ranks[member], uc->name);
    uc->failed = true;
}

/* Comms that the rank has left need it no more. */
void weft__ucx_rank_lost(weft__ucx *ucx, int rank, ucs_status_t status)
{
    for (int c = 0; c < WEFT__UCX_COMMS; c++) {
        weft__ucx_comm *uc = ucx->comms[c];
        for (int i = 0; uc && uc->connected && !uc->failed && i < uc->count; i++)
            if (uc->ranks[i] == rank && !uc->peers[i].left)
                weft_backend_fail(uc->comm, WEFT_E_PEER_LOST, "the way to rank %d is lost, and comm %s with it: %s",
                                  rank, uc->name, ucs_status_string(status));
    }
}

/* ------------------------------------------------------------------------------------------- explaining */

/* "3 (last seen in operation 41, all_gather, 1.0 s ago)" */
static size_t name_absent(const weft__ucx_comm *uc, int member, char *text, size_t bytes)
{
    const weft__ucx_peer *peer = &uc->peers[member];
    if (!peer->seen_number)
        return (size_t)snprintf(text, bytes, "%d (never seen in a collective of this comm)", uc->ranks[member]);
    double ago = weft_trace_ns(uc->ucx->world, weft__ucx_ticks(uc->ucx) - peer->seen_ticks) * 1e-9;
    return (size_t)snprintf(text, bytes, "%d (last seen in operation %llu, %s, %.1f s ago)", uc->ranks[member],
                            (unsigned long long)peer->seen_number,
                            weft_collective_string((weft_collective_kind)peer->seen_kind), ago);
}

static size_t name_all_absent(const weft__ucx_comm *uc, char *text, size_t bytes)
{
    size_t used = 0;
    for (int i = 0; i < uc->count && used < bytes; i++) {
        const weft__ucx_parcel *in = weft__ucx_lane_of(uc, i, 0)->in.first;
        if (!in || in->begun || uc->peers[i].seen_number >= uc->head->number)
            continue;
        used += (size_t)snprintf(text + used, bytes - used, "%s", used ? ", " : "not arrived: ");
        if (used < bytes)
            used += name_absent(uc, i, text + used, bytes - used);
    }
    return used;
}

/* "rank 2 has sent 64 of 128 bytes", "rank 2 has taken ..." */
static size_t name_unfinished(const weft__ucx_lane *lane, const weft_op *op, char *text, size_t bytes)
{
    const struct {
        const weft__ucx_parcel *parcel;
        const char *has;
    } sides[] = {{lane->in.first, "sent"}, {lane->out.first, "taken"}};
    size_t used = 0;
    for (int i = 0; i < 2 && used < bytes; i++) {
        const weft__ucx_parcel *p = sides[i].parcel;
        if (!p || p->op != op)
            continue;
        char channel[32] = "";
        if (lane->stream)
            snprintf(channel, sizeof channel, " on channel %u", lane->stream - 1u);
        used += (size_t)snprintf(text + used, bytes - used, "%srank %d has %s %zu of %zu bytes%s", used ? "; " : "",
                                 lane->uc->ranks[lane->member], sides[i].has, p->done, p->bytes, channel);
    }
    return used;
}

void weft__ucx_explain(void *comm, const weft_op *op, char *text, size_t bytes)
{
    weft__ucx_comm *uc = comm;
    size_t used = 0;
    text[0] = 0;
    if (!op->is_p2p && op != uc->head) {
        snprintf(text, bytes, "it waits for operation %llu of this comm",
                 uc->head ? (unsigned long long)uc->head->number : 0);
        return;
    }
    if (!op->is_p2p && name_all_absent(uc, text, bytes))
        return;
    for (int i = 0; i < uc->count; i++)
        for (uint32_t s = 0; s < uc->streams && used + 3 < bytes; s++) {
            size_t at = used ? used + 2 : 0;
            size_t more = name_unfinished(weft__ucx_lane_of(uc, i, s), op, text + at, bytes - at);
            if (more && used)
                text[used] = ';', text[used + 1] = ' ';
            used = more ? at + more : used;
        }
}
