/* SPDX-License-Identifier: Apache-2.0 */
/* Statistics of times, worked out by hand; sizes and traffic of operations. */
#include <math.h>

#include "harness/test.h"
#include "perf/limit.h"
#include "perf/statistics.h"

TEST(the_middle_and_the_ends_of_times)
{
    double five[] = {5, 1, 4, 2, 3};
    perf_statistics s = perf_statistics_of(five, 5);
    CHECK_NEAR(s.median, 3, 0);
    CHECK_NEAR(s.min, 1, 0);
    CHECK_NEAR(s.max, 5, 0);
    CHECK_NEAR(s.p99, 5, 0);
    CHECK_NEAR(s.variation, sqrt(2) / 3, 1e-12);
    double many[200];
    for (int i = 0; i < 200; i++)
        many[i] = 200 - i; /* 1 ... 200 */
    s = perf_statistics_of(many, 200);
    CHECK_NEAR(s.p99, 198, 0); /* 99 of 100 are not above it */
    CHECK_NEAR(s.median, 101, 0);
    double one[] = {7};
    s = perf_statistics_of(one, 1);
    CHECK_NEAR(s.median, 7, 0);
    CHECK_NEAR(s.p99, 7, 0);
    CHECK_NEAR(s.variation, 0, 0);
}

TEST(the_time_of_a_sample_is_that_of_the_rank_asked_for)
{
    static const double wanted[][2] = {{1, 8}, {2, 5}, {1, 3}, {3, 8}};
    for (int pick = 0; pick < 4; pick++) {
        double times[] = {1, 8, 2, 3, 3, 4}; /* three ranks, two samples */
        perf_pick_times((perf_pick)pick, times, 3, 2);
        CHECK_NEAR(times[0], wanted[pick][0], 0);
        CHECK_NEAR(times[1], wanted[pick][1], 0);
    }
}

static perf_subject subject(const char *name, int rank, int ranks, size_t count)
{
    static size_t lists[4][8];
    perf_subject s = {.operation = perf_operation_named(name, strlen(name)),
                      .reduction = WEFT_SUM,
                      .rank = rank,
                      .ranks = ranks,
                      .count = count,
                      .send_counts = lists[0],
                      .send_offsets = lists[1],
                      .recv_counts = lists[2],
                      .recv_offsets = lists[3]};
    CHECK(s.operation);
    perf_subject_lay_out(&s);
    return s;
}

/* Four ranks, parts of 1000 floats, 10 us; as in doc/PERFORMANCE.md of nccl-tests. */
TEST(sizes_and_bandwidths_are_those_of_nccl_tests)
{
    static const struct {
        const char *name;
        size_t bytes;
        double algbw, busbw;
    } rows[] = {
        {"all_reduce", 4000, 0.4, 0.6}, {"all_gather", 16000, 1.6, 1.2}, {"reduce_scatter", 16000, 1.6, 1.2},
        {"broadcast", 4000, 0.4, 0.4},  {"reduce", 4000, 0.4, 0.4},      {"alltoall", 16000, 1.6, 1.2},
        {"gather", 16000, 1.6, 1.2},    {"scatter", 16000, 1.6, 1.2},    {"sendrecv", 4000, 0.4, 0.4},
        {"hypercube", 16000, 1.2, 1.2}, {"alltoallv", 10000, 1.0, 0.75},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        perf_subject s = subject(rows[i].name, 0, 4, 1000);
        CHECK_INT(perf_size_of(&s), rows[i].bytes);
        CHECK_NEAR(perf_algbw(&s, 10), rows[i].algbw, 1e-12);
        CHECK_NEAR(perf_busbw(&s, 10), rows[i].busbw, 1e-12);
        if (!s.operation->uneven)
            CHECK_INT(perf_count_of(s.operation, WEFT_FP32, 4, rows[i].bytes), 1000);
    }
    CHECK(!perf_operation_named("all_reduce_per", 14));
    CHECK(perf_operation_named("all_reduce_perf", 15) == perf_operation_named("all_reduce", 10));
}

TEST(the_traffic_of_the_limit)
{
    perf_limit limit;
    perf_subject s = subject("all_reduce", 1, 4, 1000);
    CHECK(perf_limit_of(&s, false, &limit));
    CHECK_INT(limit.summed, 250);
    CHECK_INT(limit.parts, 4);
    CHECK_INT(limit.written, 4);
    s = subject("reduce_scatter", 1, 4, 1000);
    CHECK(perf_limit_of(&s, true, &limit));
    CHECK_INT(limit.summed, 1000);
    CHECK_INT(limit.written, 1);
    s = subject("all_gather", 1, 4, 1000);
    CHECK(perf_limit_of(&s, false, &limit));
    CHECK_INT(limit.copied, 16000);
    CHECK(perf_limit_of(&s, true, &limit));
    CHECK_INT(limit.copied, 12000);    /* its own part lies there */
    s = subject("gather", 1, 4, 1000); /* the root is 0 */
    CHECK(perf_limit_of(&s, false, &limit));
    CHECK_INT(limit.copied, 0);
    s.dtype = WEFT_BF16;
    s.operation = perf_operation_named("reduce", 6);
    CHECK(!perf_limit_of(&s, false, &limit));
}

/* Differences 1, 2, 3, 4, 90: the median is 3, and the distances from it are 2, 1, 0, 1, 87. */
TEST(a_difference_is_shown_only_beyond_its_noise)
{
    const double times[] = {11, 22, 33, 44, 95}, less[] = {10, 20, 30, 40, 5};
    perf_gap gap = perf_gap_of(times, less, 5);
    CHECK_NEAR(gap.median, 3, 1e-12);
    CHECK_NEAR(gap.error, 2 * 1.2533 * 1.4826 * 1 / sqrt(5), 1e-9);
    CHECK(perf_gap_is_shown(gap));
    gap = perf_gap_of(less, times, 5);
    CHECK_NEAR(gap.median, -3, 1e-12);
    CHECK(!perf_gap_is_shown(gap));
    gap = perf_gap_of(times, less, 1);
    CHECK_NEAR(gap.median, 1, 1e-12);
    CHECK(isnan(gap.error) && !perf_gap_is_shown(gap));
}

TEST(nothing_is_moved_where_the_sum_of_one_lies_already)
{
    perf_limit limit = {.summed = 10, .parts = 1, .written = 1};
    CHECK_NEAR(perf_limit_moved(&limit), 40, 0);
    limit.in_place = true;
    CHECK_NEAR(perf_limit_moved(&limit), 0, 0);
    limit.parts = 2;
    CHECK_NEAR(perf_limit_moved(&limit), 80, 0);
    limit = (perf_limit){.copied = 7, .in_place = true};
    CHECK_NEAR(perf_limit_moved(&limit), 7, 0);
}

TEST(every_way_of_moving_moves_everything)
{
    const perf_limit_ways *ways = perf_limit_ways_here();
    _Alignas(64) static float from[4 * 999], to[4 * 999];
    for (int w = 0; w < PERF_LIMIT_WAYS && ways->way[w]; w++)
        for (int shift = 0; shift < 2; shift++) {
            perf_limit sum = {.summed = 997, .parts = 4, .written = 4}, copied = {.copied = 997 * 4};
            for (size_t i = 0; i < 4 * 999; i++)
                from[i] = (float)(i % 97), to[i] = -1;
            ways->way[w](&sum, (const char *)(from + shift), (char *)(to + shift));
            for (size_t i = 0; i < 4 * 997; i++) {
                size_t k = i % 997 + (size_t)shift;
                CHECK_NEAR(to[i + (size_t)shift], from[k] + from[k + 997] + from[k + 1994] + from[k + 2991], 0);
            }
            ways->way[w](&copied, (const char *)(from + shift), (char *)(to + shift));
            CHECK(memcmp(from + shift, to + shift, 997 * 4) == 0);
        }
}

TEST(of_no_times_nothing_is_known)
{
    perf_statistics s = perf_statistics_of(NULL, 0);
    CHECK(isnan(s.median) && isnan(s.p99) && isnan(s.min) && isnan(s.max) && isnan(s.variation));
}
