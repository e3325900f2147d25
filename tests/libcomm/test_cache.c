/* SPDX-License-Identifier: Apache-2.0 */
/* How much is hot follows from what the caches were found to be worth, and never from what a virtual machine claims. */
#include "backend/local/cache.h"

#include <unistd.h>

#include "harness/test.h"

static uint64_t told(int name)
{
    long bytes = sysconf(name);
    return bytes > 0 ? (uint64_t)bytes : 0;
}

TEST(a_machine_is_measured_once)
{
    uint32_t worth = weft__cache_measure(weft__vector_host());
    CHECK(worth == WEFT__CACHE_OWN || worth == WEFT__CACHE_SHARED);
    for (int i = 0; i < 3; i++)
        CHECK_INT(weft__cache_measure(weft__vector_host()), worth);
}

TEST(until_it_is_measured_only_the_own_cache_counts)
{
    uint64_t own = told(_SC_LEVEL2_CACHE_SIZE);
    CHECK_INT(weft__cache_hot_bytes(WEFT__CACHE_UNKNOWN, 2), own);
    CHECK_INT(weft__cache_hot_bytes(WEFT__CACHE_OWN, 2), own);
}

TEST(a_share_of_the_last_level_is_bounded)
{
    uint64_t own = told(_SC_LEVEL2_CACHE_SIZE), last = told(_SC_LEVEL3_CACHE_SIZE), most = (uint64_t)32 << 20;
    for (int ranks = 1; ranks <= 1024; ranks *= 4) {
        uint64_t share = last / (uint64_t)ranks, hot = weft__cache_hot_bytes(WEFT__CACHE_SHARED, ranks);
        share = share > most ? most : share;
        CHECK_INT(hot, share > own ? share : own);
    }
}
