/* SPDX-License-Identifier: Apache-2.0 */
/* How the ranks of a world come together: they meet, tell who they are, and see the memory of those of their machine.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "bootstrap/meeting.h"
#include "bootstrap/team.h"
#include "control.h"
#include "world_open.h"

static weft_result tell_identities(weft_world *world, weft__meeting *meeting)
{
    WEFT_TRY(meeting->calls->exchange(meeting, &world->identities[world->rank], sizeof *world->identities,
                                      world->identities));
    WEFT_TRY(weft__identity_compare(world->identities, world->size));
    weft__identity_hosts(world->identities, world->size, world->host_of);
    return WEFT_OK;
}

/* Whose memory this rank can see: those of its machine, in rank order. */
static int list_neighbours(const weft_world *world, int *ranks)
{
    int count = 0;
    for (int r = 0; r < world->size; r++)
        if (strcmp(world->identities[r].machine, world->identities[world->rank].machine) == 0)
            ranks[count++] = r;
    return count;
}

/* The address space that the heap of one of @p count ranks takes in each of them at most: half of what a process of
 * 47 bits has, together. */
static size_t heap_space(size_t count)
{
    return ((size_t)1 << 46) / count / WEFT__HUGE_PAGE * WEFT__HUGE_PAGE;
}

/* See the memory of the ranks of @p meeting: number i there is rank @p ranks[i]. */
static weft_result see_memory(weft_world *world, weft__meeting *meeting, const int *ranks)
{
    size_t count = (size_t)meeting->size;
    size_t *reserves = weft__alloc(count * sizeof *reserves);
    weft__segment **segments = weft__alloc(count * sizeof *segments);
    weft_result result = weft__meeting_agree(meeting, reserves && segments ? WEFT_OK : WEFT_E_NO_MEMORY);
    for (size_t i = 0; result == WEFT_OK && i < count; i++) {
        size_t reserve = (size_t)world->identities[ranks[i]].heap_reserve_bytes;
        reserves[i] = reserve < heap_space(count) ? reserve : heap_space(count);
    }
    weft__segment_limit(world->own, heap_space(count));
    if (result == WEFT_OK)
        result = meeting->calls->share(meeting, world->own, reserves, segments, &world->segments_owned);
    for (size_t i = 0; result == WEFT_OK && i < count; i++) {
        world->segments[ranks[i]] = segments[i];
        if (world->segments_owned && segments[i] != world->own)
            weft__segment_settle(segments[i]);
    }
    free(segments);
    free(reserves);
    return result;
}

/* The ranks of this machine hold a meeting of their own: descriptors do not travel between machines. */
static weft_result meet_neighbours(weft_world *world, const weft__meeting *all, uint64_t key, const int *ranks,
                                   int count)
{
    int self = 0;
    while (ranks[self] != world->rank)
        self++;
    world->segments[world->rank] = world->own;
    if (count == 1)
        return WEFT_OK;
    char address[64];
    snprintf(address, sizeof address, "@weft-%016llx-%d", (unsigned long long)key, ranks[0]);
    uint64_t now = weft__now_ns();
    uint32_t left_ms = all->deadline_ns > now ? (uint32_t)((all->deadline_ns - now) / 1000000 + 1) : 1;
    weft__meeting *meeting;
    WEFT_TRY(weft__rendezvous_open(address, key, self, count, ranks, left_ms, &meeting));
    weft_result result = see_memory(world, meeting, ranks);
    meeting->calls->end(meeting);
    return result;
}

static weft_result share_memory(weft_world *world, weft__meeting *meeting, uint64_t key, const int *neighbours,
                                int count)
{
    bool one_machine = count == world->size;
    if (one_machine && meeting->can_share)
        return see_memory(world, meeting, neighbours);
    WEFT_TRY(weft__meeting_agree(meeting, meet_neighbours(world, meeting, key, neighbours, count)));
    return one_machine ? WEFT_OK : weft__meeting_agree(meeting, weft__control_open(world));
}

static weft_result alloc_tables(weft_world *world)
{
    size_t size = (size_t)world->size;
    world->segments = weft__alloc(size * sizeof *world->segments);
    world->boards = weft__alloc(size * sizeof *world->boards);
    world->lost = weft__alloc(size * sizeof *world->lost);
    world->said = weft__alloc(size * sizeof *world->said);
    return world->segments && world->boards && world->lost && world->said ? weft__heap_open(&world->heap, world->own)
                                                                          : WEFT_E_NO_MEMORY;
}

/* Every step is agreed on, so that one rank's failure is everybody's verdict. */
static weft_result see_others(weft_world *world, weft__meeting *meeting, uint64_t key)
{
    int *neighbours = weft__alloc((size_t)world->size * sizeof *neighbours);
    weft_result result = neighbours ? alloc_tables(world) : WEFT_E_NO_MEMORY;
    result = weft__meeting_agree(meeting, result);
    if (result == WEFT_OK)
        result = share_memory(world, meeting, key, neighbours, list_neighbours(world, neighbours));
    for (int r = 0; result == WEFT_OK && r < world->size; r++)
        if (world->segments[r])
            world->boards[r] = &world->segments[r]->header->board;
    free(neighbours);
    return result;
}

static weft_result start_meeting(const weft_world *world, const weft__launch *launch, weft__meeting **meeting_out)
{
    const weft_world_config *config = &world->config;
    if (!config->team)
        return weft__rendezvous_open(launch->rendezvous, launch->job_key, world->rank, world->size, NULL,
                                     config->rendezvous_timeout_ms, meeting_out);
    *meeting_out = weft__team_meet(config->team, world->rank, config->rendezvous_timeout_ms);
    return WEFT_OK;
}

weft_result weft__world_meet(weft_world *world, const weft__launch *launch, weft__verdict *mine)
{
    weft__meeting *meeting;
    if (weft__verdict_add(mine, start_meeting(world, launch, &meeting)) < 0)
        return weft__verdict_result(mine);
    weft_result result = weft__meeting_agree(meeting, weft__verdict_result(mine));
    if (result == WEFT_OK)
        result = tell_identities(world, meeting);
    if (result == WEFT_OK)
        result = see_others(world, meeting, launch->job_key);
    if (result == WEFT_OK)
        result = weft__meeting_agree(meeting, weft__world_open_services(world));
    if (result == WEFT_OK && world->control)
        result = weft__control_meet(world, meeting->calls->take_links(meeting));
    meeting->calls->end(meeting);
    return result;
}
