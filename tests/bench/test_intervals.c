/* SPDX-License-Identifier: Apache-2.0 */
/* Unions of intervals, against a count of every moment. */
#include "harness/test.h"
#include "intervals.h"

TEST(what_is_empty_or_has_no_room_is_left_out)
{
    intervals set;
    CHECK(intervals_open(&set, 2));
    intervals_add(&set, 5, 5);
    intervals_add(&set, 7, 3);
    intervals_add(&set, 20, 30);
    intervals_add(&set, -10, 25);
    intervals_add(&set, 40, 50);
    intervals_unite(&set);
    CHECK_INT(set.count, 1);
    CHECK_INT(set.ends[0], -10);
    CHECK_INT(set.ends[1], 30);
    CHECK_INT(intervals_within(&set, 0, 10), 10);
    CHECK_INT(intervals_within(&set, 10, 0), 0);
    CHECK_INT(intervals_within(&set, INT64_MIN, INT64_MAX), 40);
    intervals_close(&set);
}

TEST(sets_are_what_their_moments_are)
{
    enum { COUNT = 9, SPAN = 120 };
    uint64_t state = 99;
    for (int round = 0; round < 300; round++) {
        intervals set[3];
        bool in[2][SPAN] = {0};
        CHECK(intervals_open(&set[0], COUNT) && intervals_open(&set[1], COUNT) && intervals_open(&set[2], 2 * COUNT));
        for (int i = 0; i < 2 * COUNT; i++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            int64_t from = (int64_t)(state >> 40) % SPAN, to = from + (int64_t)(state >> 20) % 16;
            intervals_add(&set[i % 2], from, to);
            for (int64_t t = from; t < to && t < SPAN; t++)
                in[i % 2][t] = true;
        }
        intervals_unite(&set[0]);
        intervals_unite(&set[1]);
        intervals_intersect(&set[2], &set[0], &set[1]);
        for (int from = 0; from < SPAN; from += 17)
            for (int to = from; to < SPAN; to += 13) {
                int64_t n[3] = {0};
                for (int t = from; t < to; t++) {
                    n[0] += in[0][t];
                    n[1] += in[1][t];
                    n[2] += in[0][t] && in[1][t];
                }
                for (int i = 0; i < 3; i++)
                    CHECK_INT(intervals_within(&set[i], from, to), n[i]);
            }
        for (int i = 0; i < 3; i++)
            intervals_close(&set[i]);
    }
}
