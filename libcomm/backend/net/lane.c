/* SPDX-License-Identifier: Apache-2.0 */
/* Streams of messages: what is sent is cut into records as far as the receiver has room, and what comes goes where it
 * was asked for, or into the stash until it is. */
#include <string.h>

#include "net.h"

/* ------------------------------------------------------------------------------------------- queues of parcels */

static void put(weft__net_queue *queue, weft__net_parcel *parcel)
{
    parcel->next = NULL;
    if (queue->last)
        queue->last->next = parcel;
    else
        queue->first = parcel;
    queue->last = parcel;
}

static void drop_first(weft__net_queue *queue)
{
    queue->first = queue->first->next;
    if (!queue->first)
        queue->last = NULL;
}

static void end_first(weft__net_lane *lane, weft__net_queue *queue)
{
    weft__net_parcel *parcel = queue->first;
    drop_first(queue);
    if (lane->stream)
        weft__net_p2p_ended(lane->nc, parcel);
    else
        weft__net_collective_ended(lane->nc);
}

/* Of a parcel that has come so far, or was given to the carrier. */
static size_t next_chunk(const weft__net_lane *lane, const weft__net_parcel *parcel, size_t so_far)
{
    size_t left = parcel->bytes - so_far, chunk = weft__net_chunk_bytes(lane->nc->net);
    return left < chunk ? left : chunk;
}

static bool is_over(const weft__net_parcel *parcel)
{
    return parcel->begun && parcel->done == parcel->bytes;
}

/* Chunks do not wrap: rings are multiples of them. */
static unsigned char *place(const weft__net_parcel *parcel, size_t so_far)
{
    return parcel->at + (parcel->ring ? so_far % parcel->ring : so_far);
}

/* ------------------------------------------------------------------------------------------- what the sender may do */

/* As far as the member may send, now that parcels have been added or become ready. */
static uint64_t limit_now(weft__net_lane *lane)
{
    size_t chunk = weft__net_chunk_bytes(lane->nc->net);
    while (lane->edge && lane->edge->ready == lane->edge->bytes) {
        lane->edge_position += weft__net_stream_bytes(lane->edge->bytes, chunk);
        lane->edge = lane->edge->next;
    }
    return lane->edge_position + (lane->edge ? weft__net_whole_records(lane->edge->ready, chunk) : 0) +
           lane->stash_bytes;
}

/* A limit is worth a record of its own if the sender may come to a stop without: it can always send what was asked
 * for as long as the limit it knows is not half a stash, or half a ring, behind. */
static uint64_t worth_telling(const weft__net_lane *lane)
{
    size_t ring = lane->edge ? lane->edge->ring : 0;
    return (ring > lane->stash_bytes ? ring : lane->stash_bytes) / 2;
}

static void announce(weft__net_lane *lane)
{
    uint64_t limit = limit_now(lane);
    if (limit - lane->announced < worth_telling(lane) || lane->credit.busy)
        return;
    weft__net_head *head = (weft__net_head *)lane->credit.record;
    *head = (weft__net_head){.what = WEFT__NET_CREDIT, .stream = lane->stream, .limit = limit};
    lane->announced = limit;
    weft__net_send(lane->nc, lane->member, &lane->credit);
}

/* ------------------------------------------------------------------------------------------- sending */

static weft__net_slot *free_slot(weft__net_lane *lane)
{
    for (int i = 0; i < WEFT__NET_SLOTS; i++)
        if (!lane->slots[i].busy)
            return &lane->slots[i];
    return NULL;
}

/* The parcel may have ended when this returns. */
static void send_record(weft__net_lane *lane, weft__net_slot *slot, weft__net_parcel *parcel, size_t bytes)
{
    weft__net_head *head = (weft__net_head *)slot->record;
    *head = (weft__net_head){.what = WEFT__NET_DATA,
                             .stream = lane->stream,
                             .bytes = (uint32_t)bytes,
                             .position = lane->sent,
                             .limit = lane->announced = limit_now(lane),
                             .offset = parcel->given,
                             .request = parcel->request};
    slot->payload = place(parcel, parcel->given);
    slot->bytes = bytes;
    lane->sent += sizeof *head + bytes;
    parcel->given += bytes;
    parcel->begun = true;
    if (parcel->given == parcel->bytes)
        lane->next_out = parcel->next;
    if (!parcel->op->first)
        parcel->op->first = weft__net_ticks(lane->nc->net);
    weft__net_send(lane->nc, lane->member, slot);
}

void weft__net_lane_sent(weft__net_lane *lane, size_t bytes)
{
    weft__net_parcel *parcel = lane->out.first;
    parcel->done += bytes;
    if (parcel->done == parcel->bytes)
        end_first(lane, &lane->out);
}

static unsigned send_some(weft__net_lane *lane)
{
    unsigned moved = 0;
    weft__net_slot *slot;
    while (lane->next_out && !lane->nc->failed && (slot = free_slot(lane))) {
        weft__net_parcel *parcel = lane->next_out;
        size_t bytes = next_chunk(lane, parcel, parcel->given);
        if (parcel->ready - parcel->given < bytes || lane->sent + sizeof(weft__net_head) + bytes > lane->limit)
            break;
        send_record(lane, slot, parcel, bytes);
        moved = WEFT_PROGRESS_MOVED;
        if (weft__net_turn_over(lane->nc->net))
            break;
    }
    return moved;
}

/* ------------------------------------------------------------------------------------------- receiving */

/* The stash is a ring of bytes, in which a record lies at its position. */
static int stash_room(const weft__net_lane *lane, uint64_t position, size_t bytes, struct iovec room[2])
{
    size_t at = position % lane->stash_bytes, first = lane->stash_bytes - at;
    first = first < bytes ? first : bytes;
    room[0] = (struct iovec){.iov_base = lane->stash + at, .iov_len = first};
    room[1] = (struct iovec){.iov_base = lane->stash, .iov_len = bytes - first};
    return first < bytes ? 2 : 1;
}

static void stash_write(weft__net_lane *lane, uint64_t position, const void *from, size_t bytes)
{
    struct iovec room[2];
    int pieces = stash_room(lane, position, bytes, room);
    memcpy(room[0].iov_base, from, room[0].iov_len);
    if (pieces == 2)
        memcpy(room[1].iov_base, (const unsigned char *)from + room[0].iov_len, room[1].iov_len);
}

static void stash_read(const weft__net_lane *lane, uint64_t position, void *to, size_t bytes)
{
    struct iovec from[2];
    int pieces = stash_room(lane, position, bytes, from);
    memcpy(to, from[0].iov_base, from[0].iov_len);
    if (pieces == 2)
        memcpy((unsigned char *)to + from[0].iov_len, from[1].iov_base, from[1].iov_len);
}

/* Has the record its place? One that begins a message is compared first. */
static bool has_place(weft__net_lane *lane, const weft__net_head *head)
{
    const weft__net_parcel *parcel = lane->in.first;
    if (lane->nc->failed)
        return false;
    if (head->offset == 0) {
        bool fits = lane->stream ? weft__net_p2p_fits(lane, &head->request, parcel)
                                 : weft__net_collective_fits(lane->nc, lane->member, &head->request, parcel);
        if (!fits)
            return false;
    }
    if (!parcel)
        return false;
    if (head->offset != parcel->done || head->bytes != next_chunk(lane, parcel, parcel->done)) {
        weft_backend_fail(lane->nc->comm, WEFT_E_BUG, "comm %s: rank %d sent %u bytes of a message at %llu, not at %zu",
                          lane->nc->name, lane->nc->ranks[lane->member], head->bytes, (unsigned long long)head->offset,
                          parcel->done);
        lane->nc->failed = true;
        return false;
    }
    return parcel->ready - parcel->done >= head->bytes;
}

static void took(weft__net_lane *lane, size_t bytes)
{
    weft__net_parcel *parcel = lane->in.first;
    lane->taken += sizeof(weft__net_head) + bytes;
    parcel->done += bytes;
    parcel->begun = true;
    if (!parcel->op->first)
        parcel->op->first = weft__net_ticks(lane->nc->net);
    if (!is_over(parcel))
        return;
    (void)limit_now(lane); /* the edge may not stay on it */
    end_first(lane, &lane->in);
}

/* All that has its place: what is asked for does not count against the stash any more. */
static unsigned take_from_stash(weft__net_lane *lane)
{
    unsigned moved = 0;
    while (lane->taken < lane->came) {
        weft__net_head head;
        stash_read(lane, lane->taken, &head, sizeof head);
        if (!has_place(lane, &head))
            break;
        if (head.bytes)
            stash_read(lane, lane->taken + sizeof head, place(lane->in.first, lane->in.first->done), head.bytes);
        took(lane, head.bytes);
        moved = WEFT_PROGRESS_MOVED;
    }
    return moved;
}

void weft__net_lane_begin(weft__net_lane *lane, const weft__net_head *head)
{
    uint64_t end = lane->came + sizeof *head + head->bytes;
    lane->arrival = WEFT__NET_NOWHERE;
    if (head->position != lane->came || end > limit_now(lane)) {
        weft_backend_fail(
            lane->nc->comm, WEFT_E_BUG,
            "comm %s: rank %d sent position %llu of stream %u, but %llu comes next, and %llu is the limit",
            lane->nc->name, lane->nc->ranks[lane->member], (unsigned long long)head->position, lane->stream,
            (unsigned long long)lane->came, (unsigned long long)limit_now(lane));
        lane->nc->failed = true;
    } else if (lane->taken == lane->came && has_place(lane, head)) {
        lane->arrival = WEFT__NET_INTO_PLACE;
    } else if (!lane->nc->failed) {
        lane->arrival = WEFT__NET_INTO_STASH;
        stash_write(lane, head->position, head, sizeof *head);
    }
}

int weft__net_lane_room(weft__net_lane *lane, const weft__net_head *head, size_t from, struct iovec room[2])
{
    size_t bytes = head->bytes - from;
    if (lane->arrival == WEFT__NET_INTO_STASH)
        return stash_room(lane, head->position + sizeof *head + from, bytes, room);
    if (lane->arrival == WEFT__NET_NOWHERE)
        return 0;
    room[0] = (struct iovec){.iov_base = place(lane->in.first, lane->in.first->done) + from, .iov_len = bytes};
    return 1;
}

void weft__net_lane_end(weft__net_lane *lane, const weft__net_head *head)
{
    if (lane->arrival == WEFT__NET_NOWHERE)
        return;
    lane->came += sizeof *head + head->bytes;
    if (lane->arrival == WEFT__NET_INTO_PLACE)
        took(lane, head->bytes);
    lane->arrival = WEFT__NET_NOWHERE;
    if (lane->taken < lane->came) /* it may have got a place while it came */
        (void)take_from_stash(lane);
}

/* ------------------------------------------------------------------------------------------- calls */

size_t weft__net_lane_memory(const weft__net_comm *nc)
{
    return (WEFT__NET_SLOTS + 1) * nc->net->carrier->slot_bytes + nc->stash_bytes;
}

void weft__net_lane_open(weft__net_lane *lane, weft__net_comm *nc, int member, int stream, unsigned char *memory)
{
    size_t slot = nc->net->carrier->slot_bytes;
    *lane = (weft__net_lane){.nc = nc, .member = member, .stream = (uint8_t)stream};
    if (!memory)
        return;
    lane->announced = lane->stash_bytes = nc->stash_bytes; /* its own limit is on the member's card */
    for (int i = 0; i < WEFT__NET_SLOTS; i++, memory += slot)
        lane->slots[i] = (weft__net_slot){.nc = nc, .lane = lane, .record = memory};
    lane->credit = (weft__net_slot){.nc = nc, .record = memory};
    lane->stash = memory + slot;
}

/* Have the lane looked at again while there is something to send. */
static void note_busy(weft__net_lane *lane)
{
    if (lane->busy || (!lane->next_out && limit_now(lane) - lane->announced < worth_telling(lane)))
        return;
    lane->busy = true;
    lane->next_busy = lane->nc->busy_lanes;
    lane->nc->busy_lanes = lane;
    weft__net_activate(lane->nc);
}

unsigned weft__net_lane_move(weft__net_lane *lane)
{
    unsigned moved = take_from_stash(lane);
    moved |= send_some(lane);
    announce(lane);
    note_busy(lane);
    return moved;
}

void weft__net_lane_send(weft__net_lane *lane, weft__net_parcel *parcel)
{
    bool first = !lane->next_out;
    put(&lane->out, parcel);
    if (first)
        lane->next_out = parcel;
    weft__net_look_for_failure(lane->nc, lane->member);
    if (first)
        (void)weft__net_lane_move(lane);
    note_busy(lane);
}

void weft__net_lane_expect(weft__net_lane *lane, weft__net_parcel *parcel)
{
    put(&lane->in, parcel);
    if (!lane->edge)
        lane->edge = parcel;
}

void weft__net_lane_take(weft__net_lane *lane)
{
    (void)take_from_stash(lane);
    weft__net_look_for_failure(lane->nc, lane->member);
    announce(lane);
    note_busy(lane);
}

void weft__net_lane_drop(weft__net_lane *lane)
{
    lane->out = lane->in = (weft__net_queue){0};
    lane->next_out = lane->edge = NULL;
    lane->busy = false;
    lane->arrival = WEFT__NET_NOWHERE;
}

bool weft__net_lane_misses(const weft__net_lane *lane)
{
    return lane->in.first || lane->out.first;
}
