/* SPDX-License-Identifier: Apache-2.0 */
/* Batches of messages: each message is a parcel in the stream of its peer and channel. */
#include <string.h>

#include "ucx.h"

static weft__ucx_parcel *parcels_of(const weft_op *op)
{
    return (weft__ucx_parcel *)((weft__ucx_batch *)op->memory + 1);
}

static weft__ucx_parcel parcel_of(weft_op *op, const weft_p2p *m)
{
    size_t bytes = m->count * weft_dtype_bytes(m->dtype);
    return (weft__ucx_parcel){
        .at = m->buffer, .bytes = bytes, .ready = bytes, .request = {.number = m->tag, .asked.count = bytes}, .op = op};
}

void weft__ucx_p2p_ended(weft__ucx_comm *uc, const weft__ucx_parcel *parcel)
{
    weft__ucx_batch *batch = parcel->op->memory;
    uc->p2p_left--;
    if (--batch->left == 0)
        weft_backend_done(parcel->op, WEFT_OK);
}

/* Messages to the rank itself are carried out already. A batch may end, and its memory with it, when its last message
 * is handed over. */
void weft__ucx_p2p_start(weft__ucx_comm *uc, weft_op *op)
{
    weft__ucx_batch *batch = op->memory;
    weft__ucx_parcel *parcels = parcels_of(op);
    uint32_t count = op->message_count, others = 0;
    for (uint32_t i = 0; i < count; i++) {
        others += op->messages[i].peer != uc->rank;
        parcels[i] = parcel_of(op, &op->messages[i]);
    }
    batch->left = others;
    uc->p2p_left += others;
    if (!others)
        weft_backend_done(op, WEFT_OK);
    for (uint32_t i = 0, handed = 0; i < count && handed < others; i++) {
        const weft_p2p *m = &op->messages[i];
        if (m->peer == uc->rank)
            continue;
        handed++;
        weft__ucx_lane *lane = weft__ucx_lane_of(uc, m->peer, 1 + m->channel);
        if (m->kind == WEFT_SEND)
            weft__lane_send(lane, &parcels[i]);
        else
            weft__lane_expect(lane, &parcels[i]);
    }
}

/* Parts of what two ranks ask for differently. */
static void fail_parts(weft__ucx_comm *uc, int from, uint64_t theirs, int to, uint64_t ours)
{
    char a[96], b[96];
    weft_backend_tell_part(theirs, a, sizeof a);
    weft_backend_tell_part(ours, b, sizeof b);
    weft_backend_fail(uc->comm, WEFT_E_MISMATCH, "comm %s: rank %d asks for %s, rank %d for %s%s", uc->name, from, a,
                      to, b, strcmp(a, b) == 0 ? ", but not as the same operation of the comm" : "");
}

bool weft__ucx_p2p_fits(const weft__ucx_lane *lane, const weft__ucx_request *theirs, const weft__ucx_parcel *parcel)
{
    weft__ucx_comm *uc = lane->uc;
    int from = uc->ranks[lane->member], to = uc->ranks[uc->rank];
    unsigned channel = lane->stream - 1u;
    if (!parcel)
        return true; /* to be compared when it is asked for */
    const weft__ucx_request *ours = &parcel->request;
    bool tags_differ = theirs->number && ours->number && theirs->number != ours->number;
    if (tags_differ && channel >= uc->parts_from)
        fail_parts(uc, from, theirs->number, to, ours->number);
    else if (theirs->asked.count != ours->asked.count)
        weft_backend_fail(uc->comm, WEFT_E_MISMATCH,
                          "comm %s, channel %u: rank %d sends %llu bytes, rank %d receives %llu bytes", uc->name,
                          channel, from, (unsigned long long)theirs->asked.count, to,
                          (unsigned long long)ours->asked.count);
    else if (tags_differ)
        weft_backend_fail(uc->comm, WEFT_E_MISMATCH,
                          "comm %s, channel %u: rank %d sends tag %#llx, rank %d receives %#llx", uc->name, channel,
                          from, (unsigned long long)theirs->number, to, (unsigned long long)ours->number);
    else
        return true;
    uc->failed = true;
    return false;
}
