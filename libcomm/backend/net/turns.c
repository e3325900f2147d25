/* SPDX-License-Identifier: Apache-2.0 */
/* The turns that comms take, and what of a backend's table is the same for all carriers. */
#include <stdlib.h>

#include "net.h"

/* ------------------------------------------------------------------------------------------- turns */

void weft__net_activate(weft__net_comm *nc)
{
    if (nc->active)
        return;
    nc->active = true;
    nc->next = nc->net->active;
    nc->net->active = nc;
}

static unsigned move_lanes(weft__net_comm *nc)
{
    unsigned moved = 0;
    weft__net_lane *lane = nc->busy_lanes, *next;
    nc->busy_lanes = NULL;
    for (; lane; lane = next) {
        next = lane->next_busy;
        lane->busy = false;
        moved |= weft__net_lane_move(lane);
    }
    return moved;
}

static bool is_idle(const weft__net_comm *nc)
{
    return !nc->head && !nc->busy_lanes && !nc->p2p_left;
}

static unsigned take_turn(weft__net_comm *nc)
{
    if (nc->failed)
        return 0;
    unsigned moved = nc->head ? weft__net_collectives(nc) : 0;
    return nc->busy_lanes ? moved | move_lanes(nc) : moved;
}

static unsigned take_turns(weft__net *net)
{
    unsigned answer = 0;
    for (weft__net_comm **link = &net->active; *link;) {
        weft__net_comm *nc = *link;
        answer |= take_turn(nc);
        if (is_idle(nc) && !nc->held) {
            nc->active = false;
            *link = nc->next;
        } else {
            link = &nc->next;
        }
    }
    return answer;
}

/* Comms that were destroyed while the carrier held slots of theirs. */
static void free_gone(weft__net *net)
{
    for (weft__net_comm **link = &net->gone; *link;) {
        weft__net_comm *nc = *link;
        if (nc->held) {
            link = &nc->next;
            continue;
        }
        *link = nc->next;
        weft__net_comm_free(nc);
    }
}

unsigned weft__net_progress(void *state, uint64_t slice_ticks)
{
    weft__net *net = state;
    net->slice_ticks = slice_ticks;
    net->turn_end = weft__net_ticks(net) + slice_ticks;
    net->heard = net->carrier->progress(net->carries);
    unsigned answer = net->heard ? WEFT_PROGRESS_MOVED : 0;
    answer |= take_turns(net);
    if (net->gone)
        free_gone(net);
    if (net->active || net->gone || net->carrier->lingers(net->carries))
        answer |= WEFT_PROGRESS_ATTENTION;
    return answer;
}

weft_result weft__net_start(void *comm, weft_op *op)
{
    weft__net_comm *nc = comm;
    nc->net->turn_end = weft__net_ticks(nc->net) + nc->net->slice_ticks;
    nc->net->heard = false;
    weft__net_activate(nc);
    if (op->is_p2p)
        weft__net_p2p_start(nc, op);
    else
        weft__net_collective_start(nc, op);
    return WEFT_OK;
}

/* ------------------------------------------------------------------------------------------- the world's part */

void weft__net_facts(weft_backend_facts *facts)
{
    facts->caps = WEFT_CAP_COLLECTIVE | WEFT_CAP_P2P | WEFT_CAP_ORDERED;
    facts->queues = WEFT_QUEUES_DIRECTION;
    facts->op_bytes = sizeof(weft__net_batch);
    facts->message_bytes = sizeof(weft__net_parcel);
    facts->card_bytes = WEFT__NET_CARD_BYTES;
}

static void close_carrier(weft__net *net)
{
    net->carrier->close(net->carries);
    free(net->carries);
    free(net->ways);
    for (weft__net_comm *nc = net->gone, *next; nc; nc = next) {
        next = nc->next;
        weft__net_comm_free(nc);
    }
    free(net);
}

weft_result weft__net_open(weft_world *world, const weft__carrier *carrier, void **state_out)
{
    if (weft_world_size(world) == 1)
        return WEFT_E_UNSUPPORTED; /* it has nobody to talk to */
    weft__net *net = calloc(1, sizeof *net);
    void *carries = calloc(1, carrier->state_bytes);
    weft__net_way *ways = calloc((size_t)weft_world_size(world), sizeof *ways);
    if (!net || !carries || !ways) {
        free(net);
        free(carries);
        free(ways);
        return weft_backend_error(WEFT_E_NO_MEMORY, "%s: no memory for a world", carrier->name);
    }
    net->world = world;
    net->carrier = carrier;
    net->carries = carries;
    net->ways = ways;
    weft_result result = carrier->open(carries, net);
    if (result == WEFT_OK)
        *state_out = net;
    else
        close_carrier(net);
    return result;
}

void weft__net_close(void *state)
{
    weft__net_take_leave(state);
    close_carrier(state);
}

int weft__net_fd(void *state)
{
    const weft__net *net = state;
    return net->carrier->fd(net->carries);
}

weft_result weft__net_arm(void *state)
{
    const weft__net *net = state;
    return net->carrier->arm(net->carries);
}
