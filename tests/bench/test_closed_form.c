/* SPDX-License-Identifier: Apache-2.0 */
/* What a perfect overlap leaves exposed: values worked out by hand, and a simulation that goes tick by tick. */
#include "closed_form.h"
#include "harness/test.h"

enum { MOST = 8 };

TEST(even_buckets_leave_the_last_one_or_what_does_not_fit)
{
    /* Four of 10 behind 100: the first is ready at 25, all fit, the last starts at 100. */
    CHECK_NEAR(closed_form_even(10, 4, 100), 10, 1e-12);
    /* Four of 40 behind 100: ready at 25, then 160 without a gap until 185. */
    CHECK_NEAR(closed_form_even(40, 4, 100), 85, 1e-12);
    /* One bucket hides nothing; nothing to compute hides nothing. */
    CHECK_NEAR(closed_form_even(7, 1, 100), 7, 1e-12);
    CHECK_NEAR(closed_form_even(7, 3, 0), 21, 1e-12);
    CHECK_NEAR(closed_form_even(7, 0, 100), 0, 0);
}

TEST(the_even_form_is_the_general_one_of_even_buckets)
{
    for (size_t buckets = 1; buckets <= MOST; buckets++)
        for (double cost = 0; cost < 60; cost += 7) {
            double ready[MOST], costs[MOST], pieces[MOST], computing = 100;
            for (size_t i = 0; i < buckets; i++) {
                pieces[i] = computing / (double)buckets;
                ready[i] = (double)(i + 1) * pieces[i];
                costs[i] = cost;
            }
            double even = closed_form_even(cost, buckets, computing);
            CHECK_NEAR(closed_form_reduces(ready, costs, buckets, computing), even, 1e-9);
            CHECK_NEAR(closed_form_gathers(NULL, costs, pieces, buckets), even, 1e-9);
        }
}

TEST(a_long_first_bucket_is_hidden_in_a_backward_and_bare_before_a_forward)
{
    /* Four pieces of 10 each. Reduces of 30, 1, 1, 1: from 10 to 40, 41, 42, 43. */
    double ready[] = {10, 20, 30, 40}, pieces[] = {10, 10, 10, 10}, costs[] = {30, 1, 1, 1};
    CHECK_NEAR(closed_form_reduces(ready, costs, 4, 40), 3, 1e-12);
    /* Gathered at 30, 31, 32, 33: the pieces run from 30 to 70. */
    CHECK_NEAR(closed_form_gathers(NULL, costs, pieces, 4), 30, 1e-12);
    /* The other way round: reduced at 11, 21, 31, 70; gathered at 1, 2, 3, 33: the last piece is 2 late, less the one
     * that the first gather has cost already. */
    double reversed[] = {1, 1, 1, 30};
    CHECK_NEAR(closed_form_reduces(ready, reversed, 4, 40), 30, 1e-12);
    CHECK_NEAR(closed_form_gathers(NULL, reversed, pieces, 4), 3, 1e-12);
}

TEST(what_ends_before_the_computing_is_not_exposed)
{
    double ready[] = {1, 2}, costs[] = {3, 4};
    CHECK_NEAR(closed_form_reduces(ready, costs, 2, 100), 0, 0); /* done at 8 */
    CHECK_NEAR(closed_form_reduces(ready, costs, 0, 100), 0, 0);
    CHECK_NEAR(closed_form_gathers(NULL, costs, costs, 0), 0, 0);
}

TEST(a_gather_that_is_free_late_holds_up_its_piece)
{
    /* Gathered at 2, then 20 to 22; pieces 2 to 7, 22 to 27. */
    double ready[] = {0, 20}, costs[] = {2, 2}, pieces[] = {5, 5};
    CHECK_NEAR(closed_form_gathers(ready, costs, pieces, 2), 17, 1e-12);
}

/* A wire that carries one operation at a time, in order; answers the tick at which each is done. */
static void carry(const double *ready, const double *costs, size_t buckets, int *done)
{
    int tick = 0;
    for (size_t i = 0; i < buckets; i++) {
        while (tick < ready[i])
            tick++;
        for (int left = (int)costs[i]; left > 0; left--)
            tick++;
        done[i] = tick;
    }
}

static void any_phase_is_as_long_as_its_simulation(uint64_t *state)
{
    double ready[MOST], costs[MOST], pieces[MOST], sum = 0;
    uint64_t v[3];
    size_t buckets = 0;
    for (int last = 0; buckets < MOST; buckets++) {
        for (int k = 0; k < 3; k++) {
            *state = *state * 6364136223846793005u + 1442695040888963407u;
            v[k] = (*state >> 40) % 23;
        }
        last += (int)v[0];
        ready[buckets] = last;
        costs[buckets] = (double)v[1];
        pieces[buckets] = (double)v[2];
        sum += pieces[buckets];
    }
    int done[MOST];
    carry(ready, costs, buckets, done);
    double computing = ready[buckets - 1];
    CHECK_NEAR(closed_form_reduces(ready, costs, buckets, computing), done[buckets - 1] - computing, 1e-9);
    int tick = 0;
    for (size_t i = 0; i < buckets; i++) {
        while (tick < done[i])
            tick++;
        for (int left = (int)pieces[i]; left > 0; left--)
            tick++;
    }
    CHECK_NEAR(closed_form_gathers(ready, costs, pieces, buckets), tick - sum, 1e-9);
}

TEST(any_phases_are_as_long_as_their_simulations)
{
    uint64_t state = 7;
    for (int round = 0; round < 500; round++)
        any_phase_is_as_long_as_its_simulation(&state);
}
