/* SPDX-License-Identifier: Apache-2.0 */
/* How a world takes leave of the others. Who closes a connection of TCP while something comes that is not read any more
 * resets it, and what the other has not read by then may be lost. So a world asks each rank before it closes whether it
 * has read all, and whoever moves works along answers at once. */
#include <poll.h>

#include "net.h"

#define LEAVE_NS 5e9 /* longest time for others to read what was sent: they may be stopped, or short of a core; */
#define MAKE_NS  1e9 /* and for those of which nothing was ever heard: they may have no way here */
#define REST_MS  10

static bool is_lost(const weft__net *net, int rank)
{
    const char *why;
    return weft__net_lost(net, rank, &why) != WEFT_OK;
}

static void say(weft__net *net, int rank, weft__net_what what)
{
    weft__net_way *way = &net->ways[rank];
    bool asks = what == WEFT__NET_FAREWELL;
    weft__net_slot *slot = asks ? &way->farewell : &way->answer;
    weft__net_head *head = &way->heads[asks];
    if (slot->busy || is_lost(net, rank))
        return;
    *head = (weft__net_head){.what = (uint8_t)what, .member = (uint32_t)weft_world_rank(net->world)};
    *slot = (weft__net_slot){.record = (unsigned char *)head, .busy = true};
    net->carrier->send(net->carries, rank, slot);
}

void weft__net_hear_farewell(weft__net *net, const weft__net_head *head)
{
    if (head->member >= (uint32_t)weft_world_size(net->world))
        return;
    net->ways[head->member].heard = true;
    if (head->what == WEFT__NET_ANSWER)
        net->ways[head->member].answered = true;
    else
        say(net, (int)head->member, WEFT__NET_ANSWER);
}

static double now_ns(const weft__net *net)
{
    return weft_trace_ns(net->world, weft__net_ticks(net));
}

/* Its answer, or that ours is gone. */
static bool is_waited_for(const weft__net *net, int rank, double waited_ns)
{
    const weft__net_way *way = &net->ways[rank];
    bool is_there = way->heard || waited_ns < MAKE_NS;
    return (way->answer.busy || (way->reached && is_there && !way->answered)) && !is_lost(net, rank);
}

static bool any_is_waited_for(const weft__net *net, double waited_ns)
{
    for (int r = 0; r < weft_world_size(net->world); r++)
        if (is_waited_for(net, r, waited_ns))
            return true;
    return false;
}

static void move_or_rest(weft__net *net)
{
    const weft__carrier *carrier = net->carrier;
    struct pollfd wire = {.fd = carrier->fd(net->carries), .events = POLLIN};
    net->turn_end = weft__net_ticks(net) + net->slice_ticks;
    if (!carrier->progress(net->carries) && carrier->arm(net->carries) == WEFT_OK)
        (void)poll(&wire, 1, REST_MS);
}

void weft__net_take_leave(weft__net *net)
{
    double began = now_ns(net);
    for (int r = 0; r < weft_world_size(net->world); r++)
        if (net->ways[r].reached)
            say(net, r, WEFT__NET_FAREWELL);
    for (double waited = 0; waited < LEAVE_NS && any_is_waited_for(net, waited); waited = now_ns(net) - began)
        move_or_rest(net);
}
