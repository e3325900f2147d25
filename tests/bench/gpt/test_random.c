/* SPDX-License-Identifier: Apache-2.0 */
/* The random numbers: known answers, moments, and independence of where a run begins. */
#include "gpt/random.h"
#include "harness/test.h"

TEST(philox_gives_its_authors_known_answers)
{
    /* From the test vectors that come with the Random123 library. */
    const struct {
        uint32_t counter[4], key[2], want[4];
    } known[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        uint32_t out[4];
        gpt_random_block((gpt_random){{known[i].key[0], known[i].key[1]}}, known[i].counter, out);
        for (int k = 0; k < 4; k++)
            CHECK_INT(out[k], known[i].want[k]);
    }
}

TEST(a_normal_number_does_not_depend_on_where_its_run_begins)
{
    enum { COUNT = 103 };
    gpt_random stream = gpt_random_stream(1, "layers.0.mlp.down");
    float whole[COUNT], part[COUNT];
    gpt_random_normal(stream, 0, COUNT, 0.02, whole);
    for (size_t first = 0; first < COUNT; first++)
        for (size_t count = 1; first + count <= COUNT; count += 5) {
            gpt_random_normal(stream, first, count, 0.02, part);
            CHECK(memcmp(part, whole + first, count * sizeof *part) == 0);
        }
}

TEST(normal_numbers_have_the_moments_of_a_normal_distribution)
{
    enum { COUNT = 1 << 20 };
    static float values[COUNT];
    double mean = 0, square = 0, fourth = 0;
    gpt_random_normal(gpt_random_stream(7, "embedding"), 1ull << 40, COUNT, 1, values);
    for (int i = 0; i < COUNT; i++) {
        double v = (double)values[i];
        mean += v / COUNT;
        square += v * v / COUNT;
        fourth += v * v * v * v / COUNT;
    }
    CHECK_NEAR(mean, 0, 0.005);
    CHECK_NEAR(square, 1, 0.01);
    CHECK_NEAR(fourth, 3, 0.1);
}

TEST(streams_differ_by_seed_and_by_name)
{
    float a[4], b[4], c[4];
    gpt_random_normal(gpt_random_stream(1, "a"), 0, 4, 1, a);
    gpt_random_normal(gpt_random_stream(2, "a"), 0, 4, 1, b);
    gpt_random_normal(gpt_random_stream(1, "b"), 0, 4, 1, c);
    CHECK(a[0] != b[0] && a[0] != c[0] && b[0] != c[0]);
}

TEST(whole_numbers_fill_their_range_evenly)
{
    enum { LIMIT = 10, COUNT = 100000 };
    int seen[LIMIT] = {0};
    gpt_random stream = gpt_random_stream(3, "sample positions");
    for (uint64_t i = 0; i < COUNT; i++)
        seen[gpt_random_below(stream, i / 100, i % 100, LIMIT)]++;
    for (int i = 0; i < LIMIT; i++)
        CHECK_NEAR(seen[i], COUNT / LIMIT, 500); /* five deviations */
    uint64_t huge = 0;
    for (uint64_t i = 0; i < 1000; i++) {
        uint64_t value = gpt_random_below(stream, 0, i, UINT64_MAX);
        huge += value > UINT64_MAX / 2;
    }
    CHECK_NEAR(huge, 500, 80);
    CHECK_INT(gpt_random_below(stream, 5, 5, 1), 0);
}

__extension__ typedef unsigned __int128 wide;

TEST(whole_numbers_are_the_high_half_of_the_product)
{
    gpt_random stream = gpt_random_stream(3, "x");
    for (uint64_t i = 0; i < 1000; i++) {
        uint32_t counter[4] = {(uint32_t)i, 0, 9, 0}, word[4];
        uint64_t limit = 0x123456789abcdefu * (i + 1);
        gpt_random_block(stream, counter, word);
        wide product = (wide)((uint64_t)word[1] << 32 | word[0]) * limit;
        CHECK(gpt_random_below(stream, 9, i, limit) == (uint64_t)(product >> 64));
    }
}

TEST(a_shuffle_takes_every_number_once_and_spreads_them)
{
    enum { MOST = 700 };
    gpt_random stream = gpt_random_stream(1, "sample order");
    for (size_t count = 1; count <= MOST; count += count < 70 ? 1 : 45) {
        bool seen[MOST] = {false};
        for (size_t i = 0; i < count; i++) {
            size_t to = (size_t)gpt_random_shuffled(stream, 3, i, count);
            CHECK_MSG(to < count && !seen[to], "number %zu of %zu goes to %zu", i, count, to);
            seen[to] = true;
        }
    }
    /* Over many orders of ten, each number is about as often at each place: 1000 times, give or take 6 times 30. */
    int times[10][10] = {{0}};
    for (uint64_t row = 0; row < 10000; row++)
        for (uint64_t i = 0; i < 10; i++)
            times[i][gpt_random_shuffled(stream, row, i, 10)]++;
    for (int i = 0; i < 100; i++)
        CHECK_MSG(times[i / 10][i % 10] > 820 && times[i / 10][i % 10] < 1180, "%d is at %d %d times", i / 10, i % 10,
                  times[i / 10][i % 10]);
    CHECK(gpt_random_shuffled(stream, 0, ((uint64_t)1 << 61) - 1, (uint64_t)1 << 61) < (uint64_t)1 << 61);
}
