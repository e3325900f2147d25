/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules as lists: what may be appended, what is asked of them, and what happens without memory. */
#include <stdlib.h>

#include "base/memory.h"
#include "harness/test.h"
#include "schedules.h"

TEST(a_schedule_is_written_by_hand_action_by_action)
{
    weft_schedule *s = make(WEFT_POLICY_NONE, 2, 3, 1, 0);
    const weft_action list[] = {
        {.kind = WEFT_ACTION_F, .microbatch = 2, .peer = 9, .batch = 9, .buffer = 9},
        {.kind = WEFT_ACTION_SEND_F, .microbatch = 2, .peer = WEFT_PEER_NONE, .batch = 4, .buffer = 1},
        {.kind = WEFT_ACTION_RECV_B, .microbatch = 2, .peer = 1, .buffer = WEFT_BUFFER_NONE},
        {.kind = WEFT_ACTION_SYNC, .microbatch = 2}};
    for (size_t i = 0; i < 4; i++)
        CHECK_OK(weft_schedule_append(s, 0, &list[i]));
    CHECK_INT(weft_schedule_stages(s), 2);
    CHECK_INT(weft_schedule_chunks(s), 1);
    CHECK_INT(weft_schedule_microbatches(s), 3);
    size_t count;
    const weft_action *got = weft_schedule_actions(s, 0, &count);
    CHECK_INT(count, 4);
    CHECK_INT(got[0].microbatch, 2);
    CHECK(got[0].peer == WEFT_PEER_NONE && got[0].batch == 0 && got[0].buffer == WEFT_BUFFER_NONE);
    CHECK(got[1].peer == 1 && got[1].batch == 4 && got[1].buffer == 1);
    CHECK(got[2].peer == 1 && got[2].batch == 0 && got[2].buffer == WEFT_BUFFER_NONE);
    CHECK_INT(got[3].microbatch, 0);
    CHECK(weft_schedule_actions(s, 1, &count) == NULL && count == 0);
    CHECK(weft_schedule_actions(s, 2, &count) == NULL && count == 0);
    weft_schedule_destroy(s);
    weft_schedule_destroy(NULL);
}

TEST(wrong_actions_are_refused_and_change_nothing)
{
    static const struct {
        uint32_t stage;
        weft_action action;
        weft_result result;
        const char *says;
    } wrong[] = {
        {0, {.kind = 8}, WEFT_E_INVALID, "no action of kind 8"},
        {2, {.kind = WEFT_ACTION_F}, WEFT_E_RANGE, "no stage 2 (of 2)"},
        {0, {.kind = WEFT_ACTION_F, .chunk = 2}, WEFT_E_RANGE, "F has chunk 2 of 2"},
        {0, {.kind = WEFT_ACTION_B, .microbatch = 3}, WEFT_E_RANGE, "B has microbatch 3 of 3"},
        {0, {.kind = WEFT_ACTION_SEND_F, .peer = 2}, WEFT_E_RANGE, "SEND_F 0.0 has peer 2 of 2 stages"},
        {0, {.kind = WEFT_ACTION_RECV_F, .peer = WEFT_PEER_NONE}, WEFT_E_INVALID, "first part"},
        {1, {.kind = WEFT_ACTION_SEND_F, .chunk = 1, .peer = WEFT_PEER_NONE}, WEFT_E_INVALID, "last part"},
    };
    weft_schedule *s = make(WEFT_POLICY_NONE, 2, 3, 2, 0);
    mute();
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        CHECK_RESULT(weft_schedule_append(s, wrong[i].stage, &wrong[i].action), wrong[i].result);
        CHECK_HAS(weft_last_error(), wrong[i].says);
    }
    CHECK_RESULT(weft_schedule_append(NULL, 0, &wrong[1].action), WEFT_E_INVALID);
    CHECK_RESULT(weft_schedule_append(s, 0, NULL), WEFT_E_INVALID);
    CHECK_INT(weft__schedule_total(s), 0);
    weft_schedule_destroy(s);
}

TEST(parts_follow_each_other_round_the_stages)
{
    weft_schedule *s = make(WEFT_POLICY_NONE, 3, 1, 2, 0);
    CHECK_INT(weft_schedule_peer(s, WEFT_ACTION_SEND_F, 0, 0), 1);
    CHECK_INT(weft_schedule_peer(s, WEFT_ACTION_SEND_F, 2, 0), 0);
    CHECK_INT(weft_schedule_peer(s, WEFT_ACTION_RECV_F, 0, 1), 2);
    CHECK_INT(weft_schedule_peer(s, WEFT_ACTION_SEND_B, 0, 1), 2);
    CHECK_INT(weft_schedule_peer(s, WEFT_ACTION_RECV_B, 2, 0), 0);
    CHECK(weft_schedule_peer(s, WEFT_ACTION_SEND_F, 2, 1) == WEFT_PEER_NONE);
    CHECK(weft_schedule_peer(s, WEFT_ACTION_RECV_F, 0, 0) == WEFT_PEER_NONE);
    CHECK(weft_schedule_peer(s, WEFT_ACTION_SEND_B, 0, 0) == WEFT_PEER_NONE);
    CHECK(weft_schedule_peer(s, WEFT_ACTION_F, 0, 0) == WEFT_PEER_NONE);
    CHECK(weft_schedule_peer(s, WEFT_ACTION_SEND_F, 3, 0) == WEFT_PEER_NONE);
    CHECK(weft_schedule_peer(s, WEFT_ACTION_SEND_F, 0, 2) == WEFT_PEER_NONE);
    weft_schedule_destroy(s);
}

TEST(kinds_and_policies_have_names)
{
    CHECK_STR(weft_action_string(WEFT_ACTION_SEND_F), "SEND_F");
    CHECK_STR(weft_action_string((weft_action_kind)8), "?");
    CHECK(weft_action_is_message(WEFT_ACTION_RECV_B) && !weft_action_is_message(WEFT_ACTION_SYNC));
    CHECK_INT(weft_action_channel(WEFT_ACTION_SEND_F), 0);
    CHECK_INT(weft_action_channel(WEFT_ACTION_RECV_F), 0);
    CHECK_INT(weft_action_channel(WEFT_ACTION_SEND_B), 1);
    CHECK_INT(weft_action_channel(WEFT_ACTION_RECV_B), 1);
    CHECK_STR(weft_policy_string(WEFT_POLICY_1F1B), "1f1b");
    CHECK_STR(weft_policy_string((weft_policy)WEFT_POLICIES), "?");
    CHECK_INT(weft_policy_traits((weft_policy)WEFT_POLICIES), 0);
    CHECK_INT(weft_policy_traits(WEFT_POLICY_NONE), WEFT_POLICY_CHUNKS);
    CHECK_INT(weft_policy_traits(WEFT_POLICY_1F1B), WEFT_POLICY_WRITES | WEFT_POLICY_RUNS_AHEAD);
    CHECK_INT(weft_policy_traits(WEFT_POLICY_INTERLEAVED),
              WEFT_POLICY_WRITES | WEFT_POLICY_CHUNKS | WEFT_POLICY_GROUPS);
}

/* Everything that allocates, once through. */
static weft_result all_steps(void)
{
    static const char text[] = "stage 0: F0.0 B0.0\nstage 1: F0.0 B0.0\n";
    weft_schedule_config config = WEFT_SCHEDULE_CONFIG_INIT;
    weft_schedule *s = NULL, *lowered = NULL, *read = NULL;
    weft_action_time times[16];
    uint32_t slots;
    config.policy = WEFT_POLICY_INTERLEAVED;
    config.stages = config.microbatches = config.chunks = 2;
    weft_lower_config lower_config = WEFT_LOWER_CONFIG_INIT;
    lower_config.queues = WEFT_QUEUES_ONE;
    weft_result result = weft_schedule_create(&config, &s);
    if (result == WEFT_OK)
        result = weft_schedule_times(s, NULL, times, 16, &slots);
    if (result == WEFT_OK)
        result = weft_schedule_lower(s, &lower_config, &lowered);
    if (result == WEFT_OK)
        result = weft_schedule_verify(lowered, NULL, NULL);
    if (result == WEFT_OK)
        result = weft_schedule_read(text, strlen(text), &read);
    weft_schedule_destroy(s);
    weft_schedule_destroy(lowered);
    weft_schedule_destroy(read);
    return result;
}

TEST(when_memory_runs_out_the_call_says_so_and_keeps_none)
{
    mute();
    weft_result result;
    long number = 0;
    do {
        weft__alloc_fail_at(++number);
        result = all_steps();
        CHECK_MSG(result == WEFT_OK || result == WEFT_E_NO_MEMORY, "allocation %ld: %s", number,
                  weft_result_string(result));
    } while (result != WEFT_OK);
    CHECK(number > 40);
    test_note("%ld allocations, each made to fail once", number - 1);
}
