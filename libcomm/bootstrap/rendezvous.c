/* SPDX-License-Identifier: Apache-2.0 */
/* Processes meet over a socket. Rank 0 listens, the others connect and say who they are; rank 0 checks, and answers
 * everybody with the same verdict. */
#include "bootstrap/rendezvous.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/memory.h"

weft_result weft__rendezvous_open(const char *address, uint64_t key, int rank, int size, const int *world_ranks,
                                  uint32_t timeout_ms, weft__meeting **meeting_out)
{
    weft__rendezvous *z = weft__alloc(sizeof *z);
    int *links = z ? weft__alloc((size_t)size * sizeof *links) : NULL;
    bool has_tree = weft__tree_place(0, size).children < size - 1, keeps = rank == 0 && has_tree;
    unsigned char *apart = links && keeps ? weft__alloc((size_t)size) : NULL;
    weft__endpoint *doors = apart ? weft__alloc((size_t)size * sizeof *doors) : NULL;
    if (!links || (keeps && !doors)) {
        free(apart);
        free(links);
        free(z);
        return WEFT_E_NO_MEMORY;
    }
    *z = (weft__rendezvous){.meeting = {.calls = &weft__rendezvous_calls,
                                        .rank = rank,
                                        .size = size,
                                        .names = world_ranks,
                                        .deadline_ns = weft__now_ns() + (uint64_t)timeout_ms * 1000000u},
                            .key = key,
                            .listener = -1,
                            .links = links,
                            .place = weft__tree_place(rank, size),
                            .apart = apart,
                            .doors = doors};
    snprintf(z->text, sizeof z->text, "%s", address);
    for (int r = 0; r < size; r++)
        links[r] = -1;
    weft_result result = weft__address_parse("the place to meet", address, &z->address);
    z->meeting.can_share = z->address.kind == WEFT__ADDRESS_UNIX;
    if (result == WEFT_OK)
        result = rank == 0 ? weft__rendezvous_gather(z) : weft__rendezvous_reach(z);
    if (result == WEFT_OK && has_tree)
        result = weft__rendezvous_branch(z);
    if (result != WEFT_OK) {
        z->meeting.calls->end(&z->meeting);
        return result;
    }
    *meeting_out = &z->meeting;
    return WEFT_OK;
}
