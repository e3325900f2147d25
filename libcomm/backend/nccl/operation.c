/* SPDX-License-Identifier: Apache-2.0 */
/* Operations: queued on the streams of lanes behind the caller's, marked by events, given back when these have come. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/nccl/nccl_backend.h"

#define LOOK_NS 10e6 /* between two times that NCCL is asked for errors */

/* ------------------------------------------------------------------------------------------- events */

static cudaError_t make_event(weft__nccl_comm *nc, cudaEvent_t *event_out)
{
    if (nc->event_count == nc->event_room) {
        size_t room = nc->event_room ? 2 * nc->event_room : 64;
        cudaEvent_t *events = realloc(nc->events, room * sizeof(cudaEvent_t));
        if (!events)
            return cudaErrorMemoryAllocation;
        nc->events = events;
        nc->event_room = room;
    }
    cudaError_t error = cudaEventCreateWithFlags(event_out, cudaEventDisableTiming);
    if (error == cudaSuccess)
        nc->events[nc->event_count++] = *event_out;
    return error;
}

/* The memory of a work, ready for its next life: steady steps make no events. */
static weft__nccl_op *claim(const weft__nccl_comm *nc, weft_op *op)
{
    weft__nccl_op *own = op->memory;
    if (own->owner != nc->serial) {
        memset(own, 0, sizeof *own);
        own->owner = nc->serial;
    }
    own->lanes = 0;
    own->captured = false;
    return own;
}

/* ------------------------------------------------------------------------------------------- what is asked for */

static const ncclDataType_t types[] = {
    [WEFT_FP32] = ncclFloat32, [WEFT_BF16] = ncclBfloat16, [WEFT_FP16] = ncclFloat16, [WEFT_FP64] = ncclFloat64,
    [WEFT_INT32] = ncclInt32,  [WEFT_INT64] = ncclInt64,   [WEFT_UINT8] = ncclUint8,
};
static const ncclRedOp_t reductions[] = {
    [WEFT_SUM] = ncclSum, [WEFT_AVERAGE] = ncclAvg,  [WEFT_MIN] = ncclMin,
    [WEFT_MAX] = ncclMax, [WEFT_PRODUCT] = ncclProd,
};
_Static_assert(sizeof types / sizeof *types == WEFT_DTYPES, "each dtype has a type of NCCL");
_Static_assert(sizeof reductions / sizeof *reductions == WEFT_REDUCTIONS, "each reduction has one of NCCL");

static ncclResult_t all_to_all(const weft__nccl_comm *nc, const weft_collective *w, const weft__nccl_lane *lane)
{
    size_t bytes = w->count * weft_dtype_bytes(w->dtype);
    ncclResult_t result = ncclGroupStart();
    for (int r = 0; r < nc->core->count && result == ncclSuccess; r++) {
        result = ncclSend((const char *)w->send + (size_t)r * bytes, bytes, ncclUint8, r, lane->comm, lane->stream);
        if (result == ncclSuccess)
            result = ncclRecv((char *)w->recv + (size_t)r * bytes, bytes, ncclUint8, r, lane->comm, lane->stream);
    }
    ncclResult_t ended = ncclGroupEnd();
    return result == ncclSuccess ? ended : result;
}

static ncclResult_t launch_collective(const weft__nccl_comm *nc, const weft_collective *w)
{
    const weft__nccl_lane *lane = &nc->core->lanes[WEFT__NCCL_COLLECTIVES];
    if (w->kind == WEFT_BARRIER)
        return ncclAllReduce(nc->core->byte, nc->core->byte, 1, ncclUint8, ncclSum, lane->comm, lane->stream);
    if (w->count == 0)
        return ncclSuccess;
    ncclDataType_t type = types[w->dtype];
    bool reduces = w->kind == WEFT_ALL_REDUCE || w->kind == WEFT_REDUCE_SCATTER || w->kind == WEFT_REDUCE;
    ncclRedOp_t op = reduces ? reductions[w->reduction] : ncclSum; /* of others it may be anything */
    switch (w->kind) {
    case WEFT_ALL_REDUCE:
        return ncclAllReduce(w->send, w->recv, w->count, type, op, lane->comm, lane->stream);
    case WEFT_REDUCE_SCATTER:
        return ncclReduceScatter(w->send, w->recv, w->count, type, op, lane->comm, lane->stream);
    case WEFT_ALL_GATHER:
        return ncclAllGather(w->send, w->recv, w->count, type, lane->comm, lane->stream);
    case WEFT_BROADCAST:
        return ncclBroadcast(w->send, w->recv, w->count, type, w->root, lane->comm, lane->stream);
    case WEFT_REDUCE:
        return ncclReduce(w->send, w->recv, w->count, type, op, w->root, lane->comm, lane->stream);
    case WEFT_ALL_TO_ALL:
        return all_to_all(nc, w, lane);
    case WEFT_BARRIER:
        break;
    }
    return ncclInvalidArgument;
}

static ncclResult_t launch_message(const weft__nccl_comm *nc, const weft_p2p *m)
{
    const weft__nccl_lane *lane = &nc->core->lanes[WEFT__NCCL_MESSAGES];
    ncclDataType_t type = types[m->dtype];
    if (m->count == 0)
        return ncclSuccess;
    return m->kind == WEFT_SEND ? ncclSend(m->buffer, m->count, type, m->peer, lane->comm, lane->stream)
                                : ncclRecv(m->buffer, m->count, type, m->peer, lane->comm, lane->stream);
}

/* The lowest channel in a batch above @p last; -1: there is none. */
static int64_t next_channel(const weft_op *op, int64_t last)
{
    int64_t next = -1;
    for (uint32_t i = 0; i < op->message_count; i++)
        if (op->messages[i].channel > last && (next < 0 || op->messages[i].channel < next))
            next = op->messages[i].channel;
    return next;
}

static ncclResult_t launch_batch(const weft__nccl_comm *nc, const weft_op *op)
{
    ncclResult_t result = ncclGroupStart();
    for (int64_t channel = next_channel(op, -1); channel >= 0; channel = next_channel(op, channel))
        for (uint32_t i = 0; i < op->message_count && result == ncclSuccess; i++)
            if (op->messages[i].channel == channel)
                result = launch_message(nc, &op->messages[i]);
    ncclResult_t ended = ncclGroupEnd();
    return result == ncclSuccess ? ended : result;
}

static uint32_t lane_of(const weft_op *op)
{
    return op->is_p2p ? WEFT__NCCL_MESSAGES : WEFT__NCCL_COLLECTIVES;
}

/* ------------------------------------------------------------------------------------------- start */

/* The lanes go on behind the caller's stream, and behind an earlier operation. */
static cudaError_t order_lanes(weft__nccl_comm *nc, const weft_op *op, uint32_t lanes)
{
    const weft__nccl_op *behind = op->behind ? op->behind->memory : NULL;
    bool streams = op->after.kind == WEFT_DEVICE_CUDA;
    cudaError_t error = streams ? cudaEventRecord(nc->core->entry, (cudaStream_t)op->after.handle) : cudaSuccess;
    for (uint32_t i = 0; i < nc->core->lane_count && error == cudaSuccess; i++) {
        if (!(lanes >> i & 1))
            continue;
        if (streams)
            error = cudaStreamWaitEvent(nc->core->lanes[i].stream, nc->core->entry, 0);
        for (uint32_t k = 0; behind && k < WEFT__NCCL_LANES && error == cudaSuccess; k++)
            if (behind->lanes >> k & 1)
                error = cudaStreamWaitEvent(nc->core->lanes[i].stream, behind->ended[k], 0);
    }
    return error;
}

static cudaError_t mark_lanes(weft__nccl_comm *nc, weft__nccl_op *own, uint32_t lanes)
{
    cudaError_t error = cudaSuccess;
    for (uint32_t i = 0; i < nc->core->lane_count && error == cudaSuccess; i++) {
        if (!(lanes >> i & 1))
            continue;
        if (!own->ended[i])
            error = make_event(nc, &own->ended[i]);
        if (error == cudaSuccess)
            error = cudaEventRecord(own->ended[i], nc->core->lanes[i].stream);
    }
    own->lanes = lanes;
    return error;
}

/* What goes into a graph runs when that is launched, and cannot be looked at here. */
static bool is_captured(const weft_op *op)
{
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    return op->after.kind == WEFT_DEVICE_CUDA &&
           cudaStreamIsCapturing((cudaStream_t)op->after.handle, &status) == cudaSuccess &&
           status == cudaStreamCaptureStatusActive;
}

/* No start may wait for another rank: what is not connected is refused. */
weft_result weft__nccl_admit(void *comm, const weft_collective *what)
{
    const weft__nccl_comm *nc = comm;
    const weft__nccl_core *core = nc->core;
    if (!what && !core->peer_count)
        return weft_backend_error(WEFT_E_UNSUPPORTED,
                                  "comm %s: of %d members, more than %d, only those are connected for messages that "
                                  "weft_comm_config.p2p_peers names",
                                  nc->name, core->count, WEFT__NCCL_CONNECTED_MOST);
    if (what && what->kind == WEFT_ALL_TO_ALL && !core->exchanges && core->count > 1)
        return weft_backend_error(WEFT_E_UNSUPPORTED,
                                  "comm %s, of %d members: an all-to-all wants every pair of them connected, as it is "
                                  "in comms with p2p channels of up to %d members",
                                  nc->name, core->count, WEFT__NCCL_CONNECTED_MOST);
    return WEFT_OK;
}

/* All members come to the same answer, whether they capture it or not. */
static bool is_compared(const weft__nccl_comm *nc, const weft_op *op)
{
    return !op->is_p2p && nc->core->count > 1 && (nc->check || op->number <= WEFT__NCCL_COMPARED);
}

/* A comparison goes ahead of the caller's stream: the sooner; but only that leads into a graph. */
static weft_result order_and_compare(weft__nccl_comm *nc, const weft_op *op, uint32_t lanes)
{
    bool captured = ((const weft__nccl_op *)op->memory)->captured, compared = is_compared(nc, op);
    weft_result result = compared && !captured ? weft__nccl_compare(nc, op) : WEFT_OK;
    if (result == WEFT_OK)
        result = weft__nccl_cuda_told(nc->name, "waiting for a stream", order_lanes(nc, op, lanes));
    return result == WEFT_OK && compared && captured ? weft__nccl_compare(nc, op) : result;
}

weft_result weft__nccl_start(void *comm, weft_op *op)
{
    weft__nccl_comm *nc = comm;
    weft__nccl_op *own = claim(nc, op);
    uint32_t lanes = (uint32_t)1 << lane_of(op);
    int before = weft__nccl_enter(nc->nccl);
    own->captured = is_captured(op);
    weft_result result = order_and_compare(nc, op, lanes);
    if (result == WEFT_OK)
        result = weft__nccl_told(nc->name, "an operation",
                                 op->is_p2p ? launch_batch(nc, op) : launch_collective(nc, &op->what));
    if (result == WEFT_OK)
        result = weft__nccl_cuda_told(nc->name, "marking its end", mark_lanes(nc, own, lanes));
    weft__nccl_leave(before);
    if (result != WEFT_OK)
        return result;
    if (own->captured) {
        weft_backend_done(op, WEFT_OK);
        return WEFT_OK;
    }
    weft__nccl_queue *queue = &nc->queues[lane_of(op)];
    op->next = NULL;
    *queue->tail = op;
    queue->tail = &op->next;
    return WEFT_OK;
}

weft_result weft__nccl_order(void *comm, const weft_op *op, weft_stream stream)
{
    const weft__nccl_comm *nc = comm;
    const weft__nccl_op *own = op->memory;
    cudaError_t error = cudaSuccess;
    if (own->owner != nc->serial)
        return WEFT_OK; /* it was never queued */
    for (uint32_t i = 0; i < WEFT__NCCL_LANES && error == cudaSuccess; i++) {
        if (!(own->lanes >> i & 1))
            continue;
        if (stream.kind == WEFT_DEVICE_HOST)
            error = own->captured ? cudaSuccess : cudaEventSynchronize(own->ended[i]);
        else
            error = cudaStreamWaitEvent((cudaStream_t)stream.handle, own->ended[i], 0);
    }
    return weft__nccl_cuda_told(nc->name, "ordering a stream behind an operation", error);
}

/* ------------------------------------------------------------------------------------------- end */

/* cudaErrorNotReady: not yet. */
static cudaError_t has_ended(const weft__nccl_op *own)
{
    cudaError_t error = cudaSuccess;
    for (uint32_t i = 0; i < WEFT__NCCL_LANES && error == cudaSuccess; i++)
        if (own->lanes >> i & 1)
            error = cudaEventQuery(own->ended[i]);
    if (error == cudaErrorNotReady)
        (void)cudaGetLastError(); /* it is nobody's error */
    return error;
}

static void ask_for_errors(weft__nccl_comm *nc)
{
    uint64_t now = weft_trace_now(nc->nccl->world);
    if (weft_trace_ns(nc->nccl->world, now - nc->looked) < LOOK_NS)
        return;
    nc->looked = now;
    for (uint32_t i = 0; i < nc->core->lane_count; i++) {
        ncclResult_t error = ncclSuccess;
        ncclResult_t result = ncclCommGetAsyncError(nc->core->lanes[i].comm, &error);
        if (result == ncclSuccess)
            result = error;
        if (result == ncclSuccess || result == ncclInProgress)
            continue;
        weft_backend_fail(nc->comm, result == ncclRemoteError ? WEFT_E_PEER_LOST : WEFT_E_SYSTEM,
                          "comm %s: NCCL: %s (%.150s)", nc->name, ncclGetErrorString(result), ncclGetLastError(NULL));
        return;
    }
}

void weft__nccl_clear(weft__nccl_comm *nc)
{
    for (size_t i = 0; i < WEFT__NCCL_LANES; i++)
        nc->queues[i] = (weft__nccl_queue){NULL, &nc->queues[i].head};
}

bool weft__nccl_has_queued(const weft__nccl_comm *nc)
{
    return nc->queues[WEFT__NCCL_COLLECTIVES].head || nc->queues[WEFT__NCCL_MESSAGES].head;
}

static void take_first(weft__nccl_queue *queue)
{
    queue->head = queue->head->next;
    if (!queue->head)
        queue->tail = &queue->head;
}

/* A lane is in order: what is behind one that has not ended has not, either. */
static bool look_at_lane(weft__nccl_comm *nc, weft__nccl_queue *queue)
{
    bool moved = false;
    for (weft_op *op; (op = queue->head); moved = true) {
        cudaError_t error = has_ended(op->memory);
        if (error == cudaErrorNotReady)
            break;
        take_first(queue);
        if (error != cudaSuccess)
            weft_backend_fail(nc->comm, WEFT_E_SYSTEM, "comm %s: CUDA: an operation failed: %s", nc->name,
                              cudaGetErrorString(error));
        weft_backend_done(op, error == cudaSuccess ? WEFT_OK : WEFT_E_SYSTEM);
    }
    return moved;
}

bool weft__nccl_look(weft__nccl_comm *nc)
{
    bool moved = false;
    weft__nccl_tell_difference(nc);
    for (size_t i = 0; i < WEFT__NCCL_LANES; i++)
        moved |= look_at_lane(nc, &nc->queues[i]);
    if (!moved && weft__nccl_has_queued(nc))
        ask_for_errors(nc);
    return moved;
}

void weft__nccl_give_back(weft__nccl_comm *nc, weft_result result)
{
    for (size_t i = 0; i < WEFT__NCCL_LANES; i++)
        for (weft_op *op; (op = nc->queues[i].head);) {
            take_first(&nc->queues[i]);
            weft_backend_done(op, result);
        }
}
