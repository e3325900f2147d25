/* SPDX-License-Identifier: Apache-2.0 */
/* Batches of messages: each message is a parcel in the stream of its peer and channel. */
#include <string.h>

#include "net.h"

static weft__net_parcel *parcels_of(const weft_op *op)
{
    return (weft__net_parcel *)((weft__net_batch *)op->memory + 1);
}

static weft__net_parcel parcel_of(weft_op *op, const weft_p2p *m)
{
    size_t bytes = m->count * weft_dtype_bytes(m->dtype);
    return (weft__net_parcel){
        .at = m->buffer, .bytes = bytes, .ready = bytes, .request = {.number = m->tag, .asked.count = bytes}, .op = op};
}

void weft__net_p2p_ended(weft__net_comm *nc, const weft__net_parcel *parcel)
{
    weft__net_batch *batch = parcel->op->memory;
    nc->p2p_left--;
    if (--batch->left == 0)
        weft_backend_done(parcel->op, WEFT_OK);
}

/* Messages to the rank itself are carried out already. A batch may end, and its memory with it, when its last message
 * is handed over. */
void weft__net_p2p_start(weft__net_comm *nc, weft_op *op)
{
    weft__net_batch *batch = op->memory;
    weft__net_parcel *parcels = parcels_of(op);
    uint32_t count = op->message_count, others = 0;
    for (uint32_t i = 0; i < count; i++) {
        others += op->messages[i].peer != nc->rank;
        parcels[i] = parcel_of(op, &op->messages[i]);
    }
    batch->left = others;
    nc->p2p_left += others;
    if (!others)
        weft_backend_done(op, WEFT_OK);
    for (uint32_t i = 0, handed = 0; i < count && handed < others; i++) {
        const weft_p2p *m = &op->messages[i];
        if (m->peer == nc->rank)
            continue;
        handed++;
        weft__net_lane *lane = weft__net_lane_of(nc, m->peer, 1 + m->channel);
        if (m->kind == WEFT_SEND) {
            weft__net_lane_send(lane, &parcels[i]);
            continue;
        }
        weft__net_lane_expect(lane, &parcels[i]);
        weft__net_lane_take(lane);
    }
}

/* Parts of what two ranks ask for differently. */
static void fail_parts(weft__net_comm *nc, int from, uint64_t theirs, int to, uint64_t ours)
{
    char a[96], b[96];
    weft_backend_tell_part(theirs, a, sizeof a);
    weft_backend_tell_part(ours, b, sizeof b);
    weft_backend_fail(nc->comm, WEFT_E_MISMATCH, "comm %s: rank %d asks for %s, rank %d for %s%s", nc->name, from, a,
                      to, b, strcmp(a, b) == 0 ? ", but not as the same operation of the comm" : "");
}

bool weft__net_p2p_fits(const weft__net_lane *lane, const weft__net_request *theirs, const weft__net_parcel *parcel)
{
    weft__net_comm *nc = lane->nc;
    int from = nc->ranks[lane->member], to = nc->ranks[nc->rank];
    unsigned channel = lane->stream - 1u;
    if (!parcel)
        return true; /* to be compared when it is asked for */
    const weft__net_request *ours = &parcel->request;
    bool tags_differ = theirs->number && ours->number && theirs->number != ours->number;
    if (tags_differ && channel >= nc->parts_from)
        fail_parts(nc, from, theirs->number, to, ours->number);
    else if (theirs->asked.count != ours->asked.count)
        weft_backend_fail(nc->comm, WEFT_E_MISMATCH,
                          "comm %s, channel %u: rank %d sends %llu bytes, rank %d receives %llu bytes", nc->name,
                          channel, from, (unsigned long long)theirs->asked.count, to,
                          (unsigned long long)ours->asked.count);
    else if (tags_differ)
        weft_backend_fail(nc->comm, WEFT_E_MISMATCH,
                          "comm %s, channel %u: rank %d sends tag %#llx, rank %d receives %#llx", nc->name, channel,
                          from, (unsigned long long)theirs->number, to, (unsigned long long)ours->number);
    else
        return true;
    nc->failed = true;
    return false;
}
