/* SPDX-License-Identifier: Apache-2.0 */
/* P2p batches: check what is asked, then hand it over. */
#include <weft/p2p.h>

#include <string.h>

#include "base/dtype.h"
#include "base/error.h"
#include "base/sized.h"
#include "start.h"

static weft_result check_message(const weft_comm *comm, const weft_p2p *m)
{
    const char *name = comm->name, *what = m->kind == WEFT_SEND ? "send to" : "receive from";
    if (m->kind != WEFT_SEND && m->kind != WEFT_RECV)
        return weft__fail(WEFT_E_INVALID, "comm %s: a message that is neither send nor receive (%d)", name,
                          (int)m->kind);
    if ((unsigned)m->peer >= (unsigned)comm->size)
        return weft__fail(WEFT_E_RANGE, "comm %s: a %s rank %d of %d", name, what, m->peer, comm->size);
    if (comm->is_peer && !comm->is_peer[m->peer])
        return weft__fail(WEFT_E_INVALID, "comm %s: a %s rank %d, which weft_comm_config.p2p_peers does not name", name,
                          what, m->peer);
    if (comm->gpu && m->peer != comm->rank)
        WEFT_TRY(comm->backend->admit(comm->backend_comm, NULL));
    if (m->channel >= comm->config.p2p_channels)
        return weft__fail(WEFT_E_RANGE, "comm %s: a %s rank %d on channel %u of %u", name, what, m->peer, m->channel,
                          comm->config.p2p_channels);
    if (!weft__is_dtype(m->dtype))
        return weft__fail(WEFT_E_INVALID, "comm %s: a %s rank %d of dtype %d", name, what, m->peer, (int)m->dtype);
    if (m->count > SIZE_MAX / 16 / weft__dtype_bytes(m->dtype))
        return weft__fail(WEFT_E_RANGE, "comm %s: a %s rank %d of %zu elements", name, what, m->peer, m->count);
    if (m->reserved)
        return weft__fail(WEFT_E_INVALID, "comm %s: a %s rank %d with %llu in reserved", name, what, m->peer,
                          (unsigned long long)m->reserved);
    if (m->count && !m->buffer)
        return weft__fail(WEFT_E_INVALID, "comm %s: a %s rank %d without a buffer", name, what, m->peer);
    return WEFT_OK;
}

/* The receive of this batch that message @p index, a send to this rank, belongs to: of those on its channel, the one
 * with the same place among receives as the send has among sends; NULL if there is none. */
static const weft_p2p *own_receive(int self, const weft_p2p *batch, size_t count, size_t index)
{
    size_t place = 0;
    for (size_t i = 0; i < index; i++)
        place += batch[i].peer == self && batch[i].channel == batch[index].channel && batch[i].kind == WEFT_SEND;
    for (size_t i = 0; i < count; i++) {
        if (batch[i].peer != self || batch[i].channel != batch[index].channel || batch[i].kind != WEFT_RECV)
            continue;
        if (place-- == 0)
            return &batch[i];
    }
    return NULL;
}

static weft_result check_own(const weft_comm *comm, const weft_p2p *batch, size_t count)
{
    size_t sends = 0, receives = 0;
    for (size_t i = 0; i < count; i++) {
        if (batch[i].peer != comm->rank)
            continue;
        receives += batch[i].kind == WEFT_RECV;
        if (batch[i].kind == WEFT_RECV)
            continue;
        sends++;
        const weft_p2p *receive = own_receive(comm->rank, batch, count, i);
        if (!receive)
            break;
        size_t sent = batch[i].count * weft__dtype_bytes(batch[i].dtype);
        size_t wanted = receive->count * weft__dtype_bytes(receive->dtype);
        if (batch[i].tag && receive->tag && batch[i].tag != receive->tag)
            return weft__fail(WEFT_E_INVALID, "comm %s: rank %d sends itself tag %#llx and receives %#llx", comm->name,
                              comm->rank, (unsigned long long)batch[i].tag, (unsigned long long)receive->tag);
        if (sent != wanted)
            return weft__fail(WEFT_E_INVALID, "comm %s: rank %d sends itself %zu bytes and receives %zu", comm->name,
                              comm->rank, sent, wanted);
    }
    if (sends != receives)
        return weft__fail(
            WEFT_E_INVALID,
            "comm %s: rank %d sends itself a message without its receive in the same batch, or the reverse", comm->name,
            comm->rank);
    return WEFT_OK;
}

void weft__p2p_copy_own(const weft_op *op, int self)
{
    for (uint32_t i = 0; i < op->message_count; i++) {
        const weft_p2p *m = &op->messages[i];
        if (m->peer != self || m->kind != WEFT_SEND)
            continue;
        const weft_p2p *to = own_receive(self, op->messages, op->message_count, i);
        if (m->count) /* else the buffers may be NULL */
            memmove(to->buffer, m->buffer, m->count * weft__dtype_bytes(m->dtype));
    }
}

static weft_result check_batch(const weft_comm *comm, const weft_p2p_batch *batch)
{
    if (batch->reserved)
        return weft__fail(WEFT_E_INVALID, "comm %s: a batch with %u in reserved", comm->name, batch->reserved);
    if (batch->count > WEFT_P2P_BATCH_MAX)
        return weft__fail(WEFT_E_RANGE, "comm %s: a batch of %zu messages, more than %d", comm->name, batch->count,
                          WEFT_P2P_BATCH_MAX);
    if (batch->count && !batch->messages)
        return weft__fail(WEFT_E_INVALID, "comm %s: a batch of %zu messages without them", comm->name, batch->count);
    for (size_t i = 0; i < batch->count; i++)
        WEFT_TRY(check_message(comm, &batch->messages[i]));
    return check_own(comm, batch->messages, batch->count);
}

weft_result weft__p2p_usable(weft_comm *comm)
{
    WEFT_TRY(weft__comm_usable(comm, WEFT_CAP_P2P));
    if (comm->config.flags & WEFT_COMM_NO_P2P)
        return weft__fail(WEFT_E_UNSUPPORTED, "comm %s was made without p2p", comm->name);
    return WEFT_OK;
}

weft_result weft__p2p_prepare(weft_comm *comm, weft_stream after, weft_work before, weft__work **work_out,
                              weft_p2p **messages_out)
{
    WEFT_TRY(weft__start_prepare(comm, after, before, work_out));
    *messages_out = (weft_p2p *)((*work_out)->memory + comm->messages_at);
    weft_op *op = &(*work_out)->op;
    op->is_p2p = 1;
    op->what = (weft_collective){0};
    op->messages = *messages_out;
    op->message_count = 0;
    op->label = 0;
    return WEFT_OK;
}

/* Check, and fill a work. */
static weft_result prepare(weft_comm *comm, const weft_p2p_batch *given, weft_stream after, weft__work **work_out)
{
    WEFT_TRY(weft__p2p_usable(comm));
    weft_p2p_batch batch = {0};
    weft_p2p *messages;
    WEFT_TRY(weft__take_sized(&batch, sizeof batch, given, "weft_p2p_batch"));
    WEFT_TRY(check_batch(comm, &batch));
    WEFT_TRY(weft__p2p_prepare(comm, after, batch.after, work_out, &messages));
    if (batch.count)
        memcpy(messages, batch.messages, batch.count * sizeof *batch.messages);
    (*work_out)->op.message_count = (uint32_t)batch.count;
    (*work_out)->op.label = batch.label;
    return WEFT_OK;
}

weft_result weft_p2p_start(weft_comm *comm, const weft_p2p_batch *batch, weft_stream after, weft_work *work_out)
{
    weft__work *work;
    if (!work_out)
        return weft__fail(WEFT_E_INVALID, "a batch is started without a place for its work");
    weft_result result = prepare(comm, batch, after, &work);
    *work_out = result == WEFT_OK ? weft__start(work) : WEFT_WORK_NONE;
    return result;
}

weft_result weft_p2p_run(weft_comm *comm, const weft_p2p_batch *batch, weft_stream stream)
{
    weft__work *work;
    WEFT_TRY(prepare(comm, batch, stream, &work));
    return weft__run(work);
}

static weft_result start_one(weft_comm *comm, const weft_p2p *message, weft_stream after, weft_work *work_out)
{
    weft_p2p_batch batch = WEFT_P2P_BATCH_INIT;
    batch.messages = message;
    batch.count = 1;
    return weft_p2p_start(comm, &batch, after, work_out);
}

weft_result weft_isend(weft_comm *comm, const void *buffer, size_t count, weft_dtype dtype, int peer, weft_stream after,
                       weft_work *work_out)
{
    weft_p2p message = {
        .kind = WEFT_SEND, .peer = peer, .dtype = dtype, .buffer = (void *)(uintptr_t)buffer, .count = count};
    return start_one(comm, &message, after, work_out);
}

weft_result weft_irecv(weft_comm *comm, void *buffer, size_t count, weft_dtype dtype, int peer, weft_stream after,
                       weft_work *work_out)
{
    weft_p2p message = {.kind = WEFT_RECV, .peer = peer, .dtype = dtype, .buffer = buffer, .count = count};
    return start_one(comm, &message, after, work_out);
}
