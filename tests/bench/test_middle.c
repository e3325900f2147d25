/* SPDX-License-Identifier: Apache-2.0 */
/* The median of pairs and its interval: against coins counted by hand, and cores that are fast and slow by turns. */
#include "middle.h"

#include <math.h>
#include <stdint.h>

#include "harness/test.h"

TEST(the_median_of_an_even_number_is_the_upper_one)
{
    double odd[] = {3, 1, 2}, even[] = {4, 1, 3, 2};
    CHECK_NEAR(middle_of(odd, 3).median, 2, 0);
    CHECK_NEAR(middle_of(even, 4).median, 3, 0);
    CHECK(isnan(middle_of(odd, 0).median));
}

/* All of 5 coins fall on one side with 2 / 32 = 6.25 %, of 6 with 2 / 64 = 3.1 %. Of 9, fewer than 2 on a side come
 * with 2 (1 + 9) / 512 = 3.9 %, fewer than 3 with 2 (1 + 9 + 36) / 512 = 18 %: the second from each end. Of 100 tables
 * say the 40th and the 61st. */
TEST(an_interval_leaves_out_as_many_as_coins_may_fall_on_one_side)
{
    double five[] = {1, 2, 3, 4, 5}, six[] = {1, 2, 3, 4, 5, 9}, nine[] = {0, 1, 2, 3, 4, 5, 6, 9, 100}, hundred[100];
    for (int i = 0; i < 100; i++)
        hundred[i] = i + 1;
    CHECK(isinf(middle_of(five, 5).error));
    CHECK_NEAR(middle_of(six, 6).error, (9 - 1) / 2.0, 0);
    CHECK_NEAR(middle_of(nine, 9).error, (9 - 1) / 2.0, 0);
    CHECK_NEAR(middle_of(hundred, 100).error, (61 - 40) / 2.0, 0);
}

/* ------------------------------------------------------------------------------------------- noise */

static uint64_t state = 1;

static double random_share(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(state >> 11) / (double)(1ull << 53);
}

/* What 40 ms of computing take: on a core that is half as fast for some rounds in a row, and that a neighbour takes for
 * a moment in a third of all rounds. */
static double computing(bool slow)
{
    return 40 * (slow ? 1.9 : 1) * (1 + 0.01 * random_share()) + (random_share() < 0.33 ? 30 * random_share() : 0);
}

/* 3 ms more are to be found, though the mean is off by more and no two computations are alike. */
TEST(what_pairs_differ_by_is_found_on_cores_that_are_slow_by_turns)
{
    enum { ROUNDS = 101, TRIES = 200 };
    int held = 0, sharp = 0;
    for (int try = 0; try < TRIES; try++) {
        double differences[ROUNDS];
        bool slow = false;
        for (int i = 0; i < ROUNDS; i++) {
            double alone = computing(slow);
            slow = random_share() < 0.1 ? !slow : slow; /* also in between */
            differences[i] = computing(slow) + 3 - alone;
        }
        middle m = middle_of(differences, ROUNDS);
        sharp += m.error < 1;
        held += fabs(m.median - 3) <= m.error;
    }
    CHECK(held >= TRIES * 0.9); /* of 95 % */
    CHECK(sharp >= TRIES * 0.8);
}
