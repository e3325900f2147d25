/* SPDX-License-Identifier: Apache-2.0 */
/* Segments: how much address space they take, and what is open of them. */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "harness/ranks.h"
#include "world.h"

enum { PROCESSES = 3 };

TEST(a_limit_gives_address_space_back_and_holds)
{
    weft__segment segment;
    CHECK_OK(weft__segment_create(0, 64 * WEFT__HUGE_PAGE, &segment));
    weft__segment_limit(&segment, 100 * WEFT__HUGE_PAGE);
    CHECK_INT(segment.reserved, 64 * WEFT__HUGE_PAGE);
    unsigned char *behind = segment.base + 4 * WEFT__HUGE_PAGE, seen;
    CHECK_INT(mincore(behind, WEFT__PAGE, &seen), 0);
    weft__segment_limit(&segment, 3 * WEFT__HUGE_PAGE + 1);
    CHECK_INT(segment.reserved, 4 * WEFT__HUGE_PAGE);
    CHECK_INT(mincore(behind, WEFT__PAGE, &seen), -1);
    CHECK_OK(weft__segment_grow(&segment, 4 * WEFT__HUGE_PAGE));
    CHECK_INT(weft__segment_grow(&segment, 4 * WEFT__HUGE_PAGE + 1), WEFT_E_NO_MEMORY);
    CHECK_HAS(weft_last_error(), "WEFT_HEAP_MIB");
    weft__segment_unmap(&segment);
}

static void look(weft_world *world, void *argument)
{
    (void)argument;
    for (int r = 0; r < PROCESSES; r++) {
        const weft__segment *segment = world->segments[r];
        CHECK_INT(segment->reserved, world->own->reserved);
        CHECK_INT(segment->fds.memory >= 0, r == weft_world_rank(world)); /* who maps it needs no file */
    }
    weft_comm *all = all_ranks(world, "all", NULL);
    int32_t one = 1, sum = 0;
    CHECK_OK(weft_all_reduce_run(all, &one, &sum, 1, WEFT_INT32, WEFT_SUM, WEFT_STREAM_HOST));
    CHECK_INT(sum, PROCESSES);
    weft_comm_destroy(all);
}

#ifndef __SANITIZE_ADDRESS__ /* which leaves less */
/* Three times 70 TiB are more than a process of 47 bits has. */
TEST(ranks_of_a_host_share_the_address_space)
{
    weft_world_config config = WEFT_WORLD_CONFIG_INIT;
    config.heap_bytes = (uint64_t)70 << 40;
    ranks_as_processes(PROCESSES, &config, look, NULL);
}
#endif

static void small_heap(weft_world *world, void *argument)
{
    look(world, argument);
    CHECK_INT(world->own->reserved, 64 << 20);
}

TEST(the_environment_says_how_large_heaps_are)
{
    setenv("WEFT_HEAP_MIB", "64", 1);
    ranks_as_processes(PROCESSES, NULL, small_heap, NULL);
}
