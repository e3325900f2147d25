/* SPDX-License-Identifier: Apache-2.0 */
/* Streams of messages: what is sent is cut into records as far as the receiver has room, and what comes goes where it
 * was asked for, or into the stash until it is. */
#include <string.h>

#include "ucx.h"

_Static_assert(WEFT__UCX_STASH_BYTES >= 4 * WEFT__UCX_RECORD_BYTES, "half a stash holds a record");

/* ------------------------------------------------------------------------------------------- queues of parcels */

static void put(weft__ucx_queue *queue, weft__ucx_parcel *parcel)
{
    parcel->next = NULL;
    if (queue->last)
        queue->last->next = parcel;
    else
        queue->first = parcel;
    queue->last = parcel;
}

static void drop_first(weft__ucx_queue *queue)
{
    queue->first = queue->first->next;
    if (!queue->first)
        queue->last = NULL;
}

static void end_first(weft__ucx_lane *lane, weft__ucx_queue *queue)
{
    weft__ucx_parcel *parcel = queue->first;
    drop_first(queue);
    if (lane->stream)
        weft__ucx_p2p_ended(lane->uc, parcel);
    else
        weft__ucx_collective_ended(lane->uc);
}

static size_t next_chunk(const weft__ucx_parcel *parcel)
{
    size_t left = parcel->bytes - parcel->done;
    return left < WEFT__UCX_CHUNK_BYTES ? left : WEFT__UCX_CHUNK_BYTES;
}

static bool is_over(const weft__ucx_parcel *parcel)
{
    return parcel->begun && parcel->done == parcel->bytes;
}

/* Chunks do not wrap: rings are multiples of them. */
static unsigned char *place(const weft__ucx_parcel *parcel)
{
    return parcel->at + (parcel->ring ? parcel->done % parcel->ring : parcel->done);
}

/* ------------------------------------------------------------------------------------------- what the sender may do */

/* As far as the member may send, now that parcels have been added or become ready. */
static uint64_t limit_now(weft__ucx_lane *lane)
{
    while (lane->edge && lane->edge->ready == lane->edge->bytes) {
        lane->edge_position += weft__ucx_stream_bytes(lane->edge->bytes);
        lane->edge = lane->edge->next;
    }
    return lane->edge_position + (lane->edge ? weft__ucx_whole_records(lane->edge->ready) : 0) + WEFT__UCX_STASH_BYTES;
}

/* A limit is worth a record of its own if the sender may come to a stop without: it can always send what was asked
 * for as long as the limit it knows is not half a stash, or half a ring, behind. */
static uint64_t worth_telling(const weft__ucx_lane *lane)
{
    size_t ring = lane->edge ? lane->edge->ring : 0;
    return (ring > WEFT__UCX_STASH_BYTES ? ring : WEFT__UCX_STASH_BYTES) / 2;
}

static void announce(weft__ucx_lane *lane)
{
    uint64_t limit = limit_now(lane);
    if (limit - lane->announced < worth_telling(lane) || lane->credit.busy)
        return;
    weft__ucx_head *head = (weft__ucx_head *)lane->credit.record;
    *head = (weft__ucx_head){.what = WEFT__UCX_CREDIT, .stream = lane->stream, .limit = limit};
    lane->announced = limit;
    weft__ucx_send(lane->uc, lane->member, &lane->credit, sizeof *head);
}

/* ------------------------------------------------------------------------------------------- sending */

static weft__ucx_slot *free_slot(weft__ucx_lane *lane)
{
    for (int i = 0; i < WEFT__UCX_SLOTS; i++)
        if (!lane->slots[i].busy)
            return &lane->slots[i];
    return NULL;
}

static void send_record(weft__ucx_lane *lane, weft__ucx_slot *slot, weft__ucx_parcel *parcel, size_t bytes)
{
    weft__ucx_head *head = (weft__ucx_head *)slot->record;
    *head = (weft__ucx_head){.what = WEFT__UCX_DATA,
                             .stream = lane->stream,
                             .bytes = (uint32_t)bytes,
                             .position = lane->sent,
                             .limit = lane->announced = limit_now(lane),
                             .offset = parcel->done,
                             .request = parcel->request};
    if (bytes)
        memcpy(head + 1, place(parcel), bytes);
    lane->sent += sizeof *head + bytes;
    parcel->done += bytes;
    parcel->begun = true;
    if (!parcel->op->first)
        parcel->op->first = weft__ucx_ticks(lane->uc->ucx);
    weft__ucx_send(lane->uc, lane->member, slot, sizeof *head + bytes);
}

static unsigned send_some(weft__ucx_lane *lane)
{
    unsigned moved = 0;
    weft__ucx_slot *slot;
    while (lane->out.first && !lane->uc->failed && (slot = free_slot(lane))) {
        weft__ucx_parcel *parcel = lane->out.first;
        size_t bytes = next_chunk(parcel);
        if (parcel->ready - parcel->done < bytes || lane->sent + sizeof(weft__ucx_head) + bytes > lane->limit)
            break;
        send_record(lane, slot, parcel, bytes);
        moved = WEFT_PROGRESS_MOVED;
        if (is_over(parcel))
            end_first(lane, &lane->out);
        if (weft__ucx_turn_over(lane->uc->ucx))
            break;
    }
    return moved;
}

/* ------------------------------------------------------------------------------------------- receiving */

/* The stash is a ring of bytes, in which a record lies at its position. */
static void stash_write(weft__ucx_lane *lane, uint64_t position, const void *from, size_t bytes)
{
    size_t at = position % WEFT__UCX_STASH_BYTES, first = WEFT__UCX_STASH_BYTES - at;
    first = first < bytes ? first : bytes;
    memcpy(lane->stash + at, from, first);
    memcpy(lane->stash, (const unsigned char *)from + first, bytes - first);
}

static void stash_read(const weft__ucx_lane *lane, uint64_t position, void *to, size_t bytes)
{
    size_t at = position % WEFT__UCX_STASH_BYTES, first = WEFT__UCX_STASH_BYTES - at;
    first = first < bytes ? first : bytes;
    memcpy(to, lane->stash + at, first);
    memcpy((unsigned char *)to + first, lane->stash, bytes - first);
}

/* Has the record its place? One that begins a message is compared first. */
static bool has_place(weft__ucx_lane *lane, const weft__ucx_head *head)
{
    const weft__ucx_parcel *parcel = lane->in.first;
    if (lane->uc->failed)
        return false;
    if (head->offset == 0) {
        bool fits = lane->stream ? weft__ucx_p2p_fits(lane, &head->request, parcel)
                                 : weft__ucx_collective_fits(lane->uc, lane->member, &head->request, parcel);
        if (!fits)
            return false;
    }
    if (!parcel)
        return false;
    if (head->offset != parcel->done || head->bytes != next_chunk(parcel)) {
        weft_backend_fail(lane->uc->comm, WEFT_E_BUG, "comm %s: rank %d sent %u bytes of a message at %llu, not at %zu",
                          lane->uc->name, lane->uc->ranks[lane->member], head->bytes, (unsigned long long)head->offset,
                          parcel->done);
        lane->uc->failed = true;
        return false;
    }
    return parcel->ready - parcel->done >= head->bytes;
}

static void took(weft__ucx_lane *lane, size_t bytes)
{
    weft__ucx_parcel *parcel = lane->in.first;
    lane->taken += sizeof(weft__ucx_head) + bytes;
    parcel->done += bytes;
    parcel->begun = true;
    if (!parcel->op->first)
        parcel->op->first = weft__ucx_ticks(lane->uc->ucx);
    if (!is_over(parcel))
        return;
    (void)limit_now(lane); /* the edge may not stay on it */
    end_first(lane, &lane->in);
}

/* All that has its place: what is asked for does not count against the stash any more. */
static unsigned take_from_stash(weft__ucx_lane *lane)
{
    unsigned moved = 0;
    while (lane->taken < lane->came) {
        weft__ucx_head head;
        stash_read(lane, lane->taken, &head, sizeof head);
        if (!has_place(lane, &head))
            break;
        if (head.bytes)
            stash_read(lane, lane->taken + sizeof head, place(lane->in.first), head.bytes);
        took(lane, head.bytes);
        moved = WEFT_PROGRESS_MOVED;
    }
    return moved;
}

void weft__lane_arrive(weft__ucx_lane *lane, const weft__ucx_head *head, const unsigned char *bytes)
{
    uint64_t end = lane->came + sizeof *head + head->bytes;
    if (head->position != lane->came || end > limit_now(lane)) {
        weft_backend_fail(
            lane->uc->comm, WEFT_E_BUG,
            "comm %s: rank %d sent position %llu of stream %u, but %llu comes next, and %llu is the limit",
            lane->uc->name, lane->uc->ranks[lane->member], (unsigned long long)head->position, lane->stream,
            (unsigned long long)lane->came, (unsigned long long)limit_now(lane));
        lane->uc->failed = true;
        return;
    }
    bool next = lane->taken == lane->came;
    lane->came = end;
    if (next && has_place(lane, head)) {
        const weft__ucx_parcel *parcel = lane->in.first;
        bool summed = !lane->stream && weft__ucx_collective_sums(lane->uc, lane->member, parcel, bytes, head->bytes);
        if (head->bytes && !summed)
            memcpy(place(parcel), bytes, head->bytes);
        took(lane, head->bytes);
    } else if (!lane->uc->failed) {
        stash_write(lane, head->position, head, sizeof *head);
        stash_write(lane, head->position + sizeof *head, bytes, head->bytes);
    }
}

/* ------------------------------------------------------------------------------------------- calls */

size_t weft__lane_memory(void)
{
    return (WEFT__UCX_SLOTS + 1) * WEFT__UCX_RECORD_BYTES + WEFT__UCX_STASH_BYTES;
}

void weft__lane_open(weft__ucx_lane *lane, weft__ucx_comm *uc, int member, int stream, unsigned char *memory)
{
    *lane = (weft__ucx_lane){.uc = uc, .member = member, .stream = (uint8_t)stream};
    lane->limit = lane->announced = WEFT__UCX_STASH_BYTES;
    for (int i = 0; i < WEFT__UCX_SLOTS; i++, memory += WEFT__UCX_RECORD_BYTES)
        lane->slots[i] = (weft__ucx_slot){.uc = uc, .record = memory};
    lane->credit = (weft__ucx_slot){.uc = uc, .record = memory};
    lane->stash = memory + WEFT__UCX_RECORD_BYTES;
}

/* Have the lane looked at again while there is something to send. */
static void note_busy(weft__ucx_lane *lane)
{
    if (lane->busy || (!lane->out.first && limit_now(lane) - lane->announced < worth_telling(lane)))
        return;
    lane->busy = true;
    lane->next_busy = lane->uc->busy_lanes;
    lane->uc->busy_lanes = lane;
    weft__ucx_activate(lane->uc);
}

unsigned weft__lane_move(weft__ucx_lane *lane)
{
    unsigned moved = take_from_stash(lane);
    moved |= send_some(lane);
    announce(lane);
    note_busy(lane);
    return moved;
}

void weft__lane_send(weft__ucx_lane *lane, weft__ucx_parcel *parcel)
{
    put(&lane->out, parcel);
    weft__ucx_look_for_failure(lane->uc, lane->member);
    if (lane->out.first == parcel)
        (void)weft__lane_move(lane);
    note_busy(lane);
}

void weft__lane_expect(weft__ucx_lane *lane, weft__ucx_parcel *parcel)
{
    put(&lane->in, parcel);
    if (!lane->edge)
        lane->edge = parcel;
    (void)take_from_stash(lane);
    weft__ucx_look_for_failure(lane->uc, lane->member);
    announce(lane);
    note_busy(lane);
}

void weft__lane_drop(weft__ucx_lane *lane)
{
    lane->out = lane->in = (weft__ucx_queue){0};
    lane->edge = NULL;
    lane->busy = false;
}

bool weft__lane_misses(const weft__ucx_lane *lane)
{
    return lane->in.first || lane->out.first;
}
