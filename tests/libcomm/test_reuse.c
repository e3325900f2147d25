/* SPDX-License-Identifier: Apache-2.0 */
/* What was written lately is in the cache, what was not is cold. */
#include "backend/local/reuse.h"

#include "harness/test.h"

enum { BYTES = 1 << 20 };

static weft__reuse cache_of(uint64_t bytes)
{
    return (weft__reuse){.hot_bytes = bytes};
}

static unsigned char buffers[4][BYTES];

TEST(a_buffer_is_cold_until_it_was_written)
{
    weft__reuse reuse = cache_of(16 * BYTES);
    CHECK(weft__reuse_is_cold(&reuse, buffers[0], BYTES, 2 * BYTES));
    CHECK(!weft__reuse_is_cold(&reuse, buffers[0], BYTES, 2 * BYTES));
}

TEST(a_buffer_is_cold_again_when_the_cache_has_been_filled_with_others)
{
    weft__reuse reuse = cache_of(8 * BYTES);
    (void)weft__reuse_is_cold(&reuse, buffers[0], BYTES, 2 * BYTES);
    (void)weft__reuse_is_cold(&reuse, buffers[1], BYTES, 6 * BYTES); /* 6 moved since, 2 to be moved: it just fits */
    CHECK(!weft__reuse_is_cold(&reuse, buffers[0], BYTES, 2 * BYTES));
    (void)weft__reuse_is_cold(&reuse, buffers[1], BYTES, 6 * BYTES + 1);
    CHECK(weft__reuse_is_cold(&reuse, buffers[0], BYTES, 2 * BYTES));
}

TEST(what_no_cache_can_hold_from_use_to_use_is_always_cold)
{
    weft__reuse reuse = cache_of(2 * BYTES);
    for (int i = 0; i < 3; i++)
        CHECK(weft__reuse_is_cold(&reuse, buffers[0], BYTES, 2 * BYTES + 1));
    CHECK(!weft__reuse_is_cold(&reuse, buffers[0], BYTES, 2 * BYTES));
}

TEST(short_writes_are_never_cold_and_count_all_the_same)
{
    weft__reuse reuse = cache_of(8 * BYTES);
    (void)weft__reuse_is_cold(&reuse, buffers[0], BYTES, BYTES);
    for (int i = 0; i < 1000; i++)
        CHECK(!weft__reuse_is_cold(&reuse, buffers[2], 4096, 16384));
    CHECK(weft__reuse_is_cold(&reuse, buffers[0], BYTES, BYTES));
}

TEST(nothing_is_cold_where_the_size_of_the_cache_is_not_known)
{
    weft__reuse reuse = cache_of(0);
    CHECK(!weft__reuse_is_cold(&reuse, buffers[0], BYTES, BYTES));
}
