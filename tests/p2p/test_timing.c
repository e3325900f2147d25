/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "harness/test.h"
#include "schedules.h"

static uint32_t times(const weft_schedule *s, uint32_t *begin, size_t room)
{
    uint32_t slots = 0;
    size_t total = weft__schedule_total(s);
    CHECK(total <= room);
    CHECK_OK(weft_schedule_times(s, begin, total, &slots));
    return slots;
}

TEST(one_f_one_b_over_two_stages_runs_as_drawn_by_hand)
{
    /*  0  1  2  3  4  5
     *  F0 F1 .  B0 .  B1
     *  .  F0 B0 F1 B1 .    */
    static const uint32_t want[] = {0, 1, 3, 5, 1, 2, 3, 4};
    weft_schedule *s = make(WEFT_POLICY_1F1B, 2, 2, 1, 0);
    uint32_t begin[8];
    CHECK_INT(times(s, begin, 8), 6);
    for (size_t i = 0; i < 8; i++)
        CHECK_INT(begin[i], want[i]);
    weft_schedule_destroy(s);
}

TEST(messages_take_no_time)
{
    weft_schedule *s = make(WEFT_POLICY_1F1B, 2, 2, 1, 0), *out = lower(s, WEFT_QUEUES_ONE, WEFT_BATCHING_AUTO, 0);
    uint32_t begin[32];
    CHECK_INT(times(out, begin, 32), 6);
    /* F0.0 SEND_F0.0 F1.0 [SEND_F1.0 RECV_B0.0] B0.0 RECV_B1.0 SYNC.0 B1.0 */
    static const uint32_t want[] = {0, 1, 1, 2, 2, 3, 4, 4, 5};
    for (size_t i = 0; i < 9; i++)
        CHECK_INT(begin[i], want[i]);
    weft_schedule_destroy(s);
    weft_schedule_destroy(out);
}

/* Slots in which a stage of p idles, over all: (p - 1) / (v m + p - 1). */
TEST(idle_time_is_that_of_the_closed_form)
{
    size_t count = 0;
    for (uint32_t p = 1; p <= 6; p++)
        for (uint32_t m = 1; m <= 18; m++)
            for (uint32_t v = 1; v <= 3; v++)
                for (int policy = WEFT_POLICY_GPIPE; policy <= WEFT_POLICY_INTERLEAVED; policy++) {
                    if ((v > 1) != (policy == WEFT_POLICY_INTERLEAVED) || (v > 1 && (m < p || m % p)))
                        continue;
                    weft_schedule *s = make((weft_policy)policy, p, m, v, 0);
                    static uint32_t begin[4096];
                    CHECK_INT(times(s, begin, 4096), 2 * (v * m + p - 1));
                    weft_schedule_destroy(s);
                    count++;
                }
    test_note("%zu schedules", count);
}

TEST(wrong_arguments_of_times_are_refused)
{
    weft_schedule *s = make(WEFT_POLICY_GPIPE, 2, 2, 1, 0);
    uint32_t begin[8], slots = 77;
    mute();
    CHECK_RESULT(weft_schedule_times(s, begin, 7, &slots), WEFT_E_INVALID);
    CHECK_STR(weft_last_error(), "the schedule has 8 actions, the room is for 7");
    CHECK_RESULT(weft_schedule_times(NULL, begin, 8, &slots), WEFT_E_INVALID);
    CHECK_RESULT(weft_schedule_times(s, begin, 8, NULL), WEFT_E_INVALID);
    CHECK_INT(slots, 77);
    weft_schedule_destroy(s);
}
