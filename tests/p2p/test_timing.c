/* SPDX-License-Identifier: Apache-2.0 */
/* When actions run, against pictures drawn by hand and the closed form of the idle time. */
#include <stdlib.h>

#include "harness/test.h"
#include "schedules.h"

enum { ROOM = 8192 };
static weft_action_time at[ROOM];

static uint32_t times(const weft_schedule *s, uint32_t forward, uint32_t backward, uint32_t weights)
{
    weft_times_config config = WEFT_TIMES_CONFIG_INIT;
    config.forward = forward, config.backward = backward, config.weights = weights;
    uint32_t slots = 0;
    size_t total = weft__schedule_total(s);
    CHECK(total <= ROOM);
    CHECK_OK(weft_schedule_times(s, &config, at, total, &slots));
    return slots;
}

static void check_begins(const uint32_t *want, size_t count)
{
    for (size_t i = 0; i < count; i++)
        CHECK_MSG(at[i].begin == want[i], "action %zu begins in slot %u, not %u", i, at[i].begin, want[i]);
}

TEST(one_f_one_b_over_two_stages_runs_as_drawn_by_hand)
{
    /*  0  1  2  3  4  5  6  7  8
     *  F0 F1 .  .  B0 -  .  B1 -
     *  .  F0 B0 -  F1 B1 -  .  .    */
    weft_schedule *s = make(WEFT_POLICY_1F1B, 2, 2, 1, 0);
    CHECK_INT(times(s, 0, 0, 0), 9);
    check_begins((const uint32_t[]){0, 1, 4, 7, 1, 2, 4, 5}, 8);
    CHECK_INT(at[1].end, 2);
    CHECK_INT(at[2].end, 6);
    weft_schedule_destroy(s);
}

TEST(each_kind_takes_the_slots_it_is_given)
{
    /*  0  1  2  3  4  5  6  7  8  9  10 11 12 13 14 15 16 17
     *  F0 -  F1 -  .  .  .  B0 -  -  W0 .  .  B1 -  -  W1
     *  .  .  F0 -  B0 -  -  F1 -  .  B1, but in the list W0 comes before F1    */
    weft_schedule *s = from_text("stage 0: F0.0 F1.0 B0.0 W0.0 B1.0 W1.0\nstage 1: F0.0 B0.0 W0.0 F1.0 B1.0 W1.0\n");
    CHECK_INT(times(s, 2, 3, 1), 17);
    check_begins((const uint32_t[]){0, 2, 7, 10, 13, 16, 2, 4, 7, 8, 10, 13}, 12);
    CHECK_INT(at[7].end, 7);
    CHECK_INT(at[8].end, 8);
    weft_schedule_destroy(s);
}

TEST(a_backward_takes_as_long_split_or_not)
{
    for (uint32_t m = 1; m <= 5; m++) {
        weft_schedule *whole = make(WEFT_POLICY_1F1B, 1, m, 1, 0), *split = split_backwards(whole);
        CHECK_INT(times(whole, 2, 3, 4), 9 * m);
        CHECK_INT(times(split, 2, 3, 4), 9 * m);
        weft_schedule_destroy(whole);
        weft_schedule_destroy(split);
    }
}

TEST(messages_take_no_time_unless_given)
{
    weft_schedule *s = make(WEFT_POLICY_1F1B, 2, 2, 1, 0), *out = lower(s, WEFT_QUEUES_ONE, WEFT_BATCHING_AUTO, 0);
    CHECK_INT(times(out, 0, 0, 0), 9);
    /* F0.0 SEND_F0.0 F1.0 [SEND_F1.0 RECV_B0.0] B0.0 RECV_B1.0 SYNC.0 B1.0 */
    check_begins((const uint32_t[]){0, 1, 1, 2, 2, 4, 6, 6, 7}, 9);
    CHECK_INT(at[3].end, 2);
    weft_schedule_destroy(s);
    weft_schedule_destroy(out);
}

TEST(messages_that_take_time_delay_who_waits_for_them_and_nobody_else)
{
    /*  0  1  2  3  4  5  6  7  8  9  10 11 12
     *  F0 F1 .  .  .  .  B0 -  .  .  B1 -
     *  .  .  F0 B0 -  F1 B1 -  .  .            one slot each way  */
    weft_schedule *s = make(WEFT_POLICY_1F1B, 2, 2, 1, 0);
    weft_times_config config = WEFT_TIMES_CONFIG_INIT;
    uint32_t slots;
    config.message = 1;
    CHECK_OK(weft_schedule_times(s, &config, at, 8, &slots));
    CHECK_INT(slots, 11);
    check_begins((const uint32_t[]){0, 1, 6, 9, 2, 3, 5, 6}, 8);
    weft_schedule_destroy(s);
    /* a part that is on the same stage needs no message */
    s = make(WEFT_POLICY_INTERLEAVED, 1, 2, 2, 0);
    config.message = 7;
    CHECK_OK(weft_schedule_times(s, &config, at, weft__schedule_total(s), &slots));
    CHECK_INT(slots, 2 * 2 * 3);
    weft_schedule_destroy(s);
}

static uint32_t ahead_slots(uint32_t flags, uint32_t stages, uint32_t microbatches, uint32_t message)
{
    weft_schedule_config config = WEFT_SCHEDULE_CONFIG_INIT;
    config.policy = WEFT_POLICY_1F1B, config.stages = stages, config.microbatches = microbatches, config.flags = flags;
    weft_times_config how = WEFT_TIMES_CONFIG_INIT;
    how.forward = how.backward = how.weights = 4, how.message = message;
    weft_schedule *s;
    uint32_t slots;
    CHECK_OK(weft_schedule_create(&config, &s));
    CHECK_OK(weft_schedule_times(s, &how, at, weft__schedule_total(s), &slots));
    weft_schedule_destroy(s);
    return slots;
}

/* Filling and draining take p - 1 messages each way, whatever the schedule. Between them messages of up to half a
 * forward and a backward hide if stages run ahead; else each stage but the last waits for two in a round. */
TEST(messages_hide_if_stages_run_ahead)
{
    for (uint32_t p = 2; p <= 6; p++)
        for (uint32_t m = 2 * p; m <= 20; m++) {
            uint32_t none = 12 * (m + p - 1);
            CHECK_INT(ahead_slots(0, p, m, 0), none);
            CHECK_INT(ahead_slots(WEFT_SCHEDULE_RUN_AHEAD, p, m, 0), none);
            for (uint32_t message = 1; message <= 6; message++)
                CHECK_INT(ahead_slots(WEFT_SCHEDULE_RUN_AHEAD, p, m, message), none + 2 * (p - 1) * message);
            CHECK(ahead_slots(0, p, m, 1) >= none + 2 * (p - 1) + (m - p));
        }
}

/* Slots in which a stage of p idles, over all: (p - 1) / (v m + p - 1), however long forwards and backwards are. */
TEST(idle_time_without_w_is_that_of_the_closed_form)
{
    static const uint32_t lengths[][3] = {{1, 1, 1}, {3, 1, 1}, {1, 2, 3}};
    size_t count = 0;
    for (weft_policy policy = next_policy(WEFT_POLICY_NONE); policy; policy = next_policy(policy)) {
        if (weft_policy_traits(policy) & WEFT_POLICY_SPLITS)
            continue;
        for (uint32_t p = 1; p <= 6; p++)
            for (uint32_t m = 1; m <= 18; m++)
                for (uint32_t v = 1; v <= chunks_of(policy, 3); v++) {
                    if (v > 1 && (m < p || m % p))
                        continue;
                    weft_schedule *s = make(policy, p, m, v, 0);
                    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
                        const uint32_t *n = lengths[i];
                        CHECK_INT(times(s, n[0], n[1], n[2]), (n[0] + n[1] + n[2]) * (v * m + p - 1));
                    }
                    weft_schedule_destroy(s);
                    count++;
                }
    }
    test_note("%zu schedules", count);
    CHECK(count > 0);
}

TEST(wrong_arguments_of_times_are_refused)
{
    weft_schedule *s = make(WEFT_POLICY_GPIPE, 2, 2, 1, 0);
    weft_times_config config = WEFT_TIMES_CONFIG_INIT;
    uint32_t slots = 77;
    mute();
    CHECK_RESULT(weft_schedule_times(s, NULL, at, 7, &slots), WEFT_E_INVALID);
    CHECK_STR(weft_last_error(), "the schedule has 8 actions, the room is for 7");
    CHECK_RESULT(weft_schedule_times(NULL, NULL, at, 8, &slots), WEFT_E_INVALID);
    CHECK_RESULT(weft_schedule_times(s, NULL, at, 8, NULL), WEFT_E_INVALID);
    config.backward = config.weights = 1u << 31;
    CHECK_RESULT(weft_schedule_times(s, &config, at, 8, &slots), WEFT_E_RANGE);
    config.backward = 1, config.weights = UINT32_MAX / 8;
    CHECK_RESULT(weft_schedule_times(s, &config, at, 8, &slots), WEFT_E_RANGE);
    CHECK_HAS(weft_last_error(), "8 actions of up to 536870912 slots");
    config.weights = 0, config.message = UINT32_MAX / 8;
    CHECK_RESULT(weft_schedule_times(s, &config, at, 8, &slots), WEFT_E_RANGE);
    CHECK_HAS(weft_last_error(), "8 actions of up to 536870913 slots");
    config.message = UINT32_MAX;
    CHECK_RESULT(weft_schedule_times(s, &config, at, 8, &slots), WEFT_E_RANGE);
    CHECK_INT(slots, 77);
    weft_schedule_destroy(s);
}
