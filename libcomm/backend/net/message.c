/* SPDX-License-Identifier: Apache-2.0 */
/* Records on their way: from a slot to the carrier, and from the carrier to the comm and lane they are for. */
#include <stdio.h>
#include <string.h>

#include "net.h"

/* ------------------------------------------------------------------------------------------- sending */

weft_result weft__net_lost(const weft__net *net, int rank, const char **why_out)
{
    weft_result result = net->carrier->lost(net->carries, rank, why_out);
    if (result != WEFT_OK)
        return result;
    *why_out = "it is lost";
    return weft_backend_lost(net->world, rank);
}

void weft__net_send(weft__net_comm *nc, int member, weft__net_slot *slot)
{
    weft__net *net = nc->net;
    weft__net_head *head = (weft__net_head *)slot->record;
    const char *why;
    head->comm = nc->peers[member].comm;
    head->member = (uint32_t)nc->rank;
    if (weft__net_lost(net, nc->ranks[member], &why) != WEFT_OK)
        return; /* the comm fails, and what is not sent with it */
    slot->busy = true;
    nc->held++;
    net->carrier->send(net->carries, nc->ranks[member], slot);
    if (slot->busy)
        weft__net_activate(nc);
}

void weft__net_sent(weft__net_slot *slot)
{
    if (slot->lane)
        weft__net_lane_sent(slot->lane, slot->bytes);
}

void weft__net_let_go(weft__net_slot *slot)
{
    slot->busy = false;
    if (slot->nc)
        slot->nc->held--;
}

void weft__net_tell(weft__net_comm *nc, int member, weft__net_what what, weft_result result, const char *text)
{
    weft__net_peer *peer = &nc->peers[member];
    if (peer->told_count == WEFT__NET_TOLD)
        return;
    weft__net_slot *slot = &peer->told[peer->told_count++];
    weft__net_head *head = (weft__net_head *)slot->record;
    int bytes = snprintf((char *)(head + 1), WEFT__NET_TEXT_BYTES, "%s", text) + 1;
    *head = (weft__net_head){.what = (uint8_t)what,
                             .bytes = (uint32_t)(bytes < WEFT__NET_TEXT_BYTES ? bytes : WEFT__NET_TEXT_BYTES),
                             .request.number = (uint64_t)(int64_t)result};
    slot->payload = (unsigned char *)(head + 1);
    slot->bytes = head->bytes;
    weft__net_send(nc, member, slot);
}

/* ------------------------------------------------------------------------------------------- receiving */

static void hear_verdict(weft__net_comm *nc, const weft__net_head *head, const char *bytes)
{
    char text[WEFT__NET_TEXT_BYTES];
    snprintf(text, sizeof text, "%.*s", (int)head->bytes, bytes);
    bool told = strstr(text, " [told by rank ");
    int64_t number = (int64_t)head->request.number;
    int result = number < 0 && number > INT32_MIN ? (int)number : WEFT_OK; /* which is none, and told as such */
    if (told)
        weft_backend_fail(nc->comm, (weft_result)result, "%s", text);
    else
        weft_backend_fail(nc->comm, (weft_result)result, "%s [told by rank %d]", text, nc->ranks[head->member]);
}

/* The comm it is for. A record for one that is gone is late, and so is one for a comm that has failed. */
static weft__net_comm *comm_of(const weft__net *net, const weft__net_head *head)
{
    weft__net_comm *nc = net->comms[head->comm % WEFT__NET_COMMS];
    bool is_for_it = nc && nc->number == head->comm && !nc->failed && head->member < (uint32_t)nc->count &&
                     head->stream < nc->streams && head->request.asked.kind < WEFT_COLLECTIVE_KINDS;
    return is_for_it ? nc : NULL;
}

static weft__net_lane *lane_of(const weft__net *net, const weft__net_head *head)
{
    weft__net_comm *nc = comm_of(net, head);
    return nc ? weft__net_lane_of(nc, (int)head->member, head->stream) : NULL;
}

static bool is_between_worlds(const weft__net_head *head)
{
    return head->what == WEFT__NET_FAREWELL || head->what == WEFT__NET_ANSWER;
}

bool weft__net_may_come_from(const weft__net *net, const weft__net_head *head, int rank)
{
    const weft__net_comm *nc = comm_of(net, head);
    if (head->what >= WEFT__NET_WHATS)
        return false;
    if (is_between_worlds(head))
        return head->member == (uint32_t)rank;
    return !nc || nc->ranks[head->member] == rank;
}

void weft__net_begin(weft__net *net, const weft__net_head *head)
{
    const weft__net_comm *nc = comm_of(net, head);
    weft__net_lane *lane = lane_of(net, head);
    if (nc)
        net->ways[nc->ranks[head->member]].heard = true;
    if (!lane)
        return;
    weft__net_lane_may_send(lane, head->limit);
    weft__net_lane_begin(lane, head);
}

int weft__net_room(weft__net *net, const weft__net_head *head, size_t from, struct iovec room[2])
{
    weft__net_lane *lane = lane_of(net, head);
    return lane ? weft__net_lane_room(lane, head, from, room) : 0;
}

void weft__net_end(weft__net *net, const weft__net_head *head)
{
    weft__net_lane *lane = lane_of(net, head);
    if (lane)
        weft__net_lane_end(lane, head);
}

static void hear_data(weft__net *net, const weft__net_head *head, const unsigned char *bytes)
{
    struct iovec room[2];
    weft__net_begin(net, head);
    int pieces = head->bytes ? weft__net_room(net, head, 0, room) : 0;
    for (int i = 0; i < pieces; bytes += room[i++].iov_len)
        memcpy(room[i].iov_base, bytes, room[i].iov_len);
    weft__net_end(net, head);
}

void weft__net_hear(weft__net *net, const weft__net_head *head, const unsigned char *bytes)
{
    weft__net_comm *nc = comm_of(net, head);
    if (is_between_worlds(head))
        weft__net_hear_farewell(net, head);
    if (is_between_worlds(head) || !nc)
        return;
    net->ways[nc->ranks[head->member]].heard = true;
    switch ((weft__net_what)head->what) {
    case WEFT__NET_DATA:
        hear_data(net, head, bytes);
        break;
    case WEFT__NET_CREDIT:
        weft__net_lane_may_send(weft__net_lane_of(nc, (int)head->member, head->stream), head->limit);
        break;
    case WEFT__NET_LEAVE:
        nc->peers[head->member].left = true;
        weft__net_look_for_failure(nc, (int)head->member);
        break;
    case WEFT__NET_VERDICT:
        hear_verdict(nc, head, (const char *)bytes);
        break;
    case WEFT__NET_HELLO: /* it has opened the way, and that is all */
    case WEFT__NET_FAREWELL:
    case WEFT__NET_ANSWER:
    case WEFT__NET_WHATS:
        break;
    }
}
