/* SPDX-License-Identifier: Apache-2.0 */
/* Where lowering puts messages, SYNC and buffers, against lists drawn by hand. */
#include <stdlib.h>
#include <weft/p2p.h>

#include "harness/test.h"
#include "schedules.h"

static void check_stage(weft_schedule *s, uint32_t stage, const char *want)
{
    CHECK_STR(stage_text(s, stage), want);
}

static weft_schedule *lowered(weft_policy policy, uint32_t p, uint32_t m, uint32_t v, weft_batching batching,
                              uint32_t flags)
{
    weft_schedule *s = make(policy, p, m, v, 0), *out = lower(s, WEFT_QUEUES_DIRECTION, batching, flags);
    weft_schedule_destroy(s);
    return out;
}

TEST(without_batches_receives_are_posted_when_their_sender_is_ready)
{
    weft_schedule *s = lowered(WEFT_POLICY_1F1B, 2, 3, 1, WEFT_BATCHING_NONE, WEFT_LOWER_NO_LOOKAHEAD);
    check_stage(s, 0,
                "F0.0 SEND_F0.0>1#0 F1.0 RECV_B0.0<1#0 SEND_F1.0>1#1 B0.0 F2.0 RECV_B1.0<1#0 SEND_F2.0>1#0 B1.0 "
                "RECV_B2.0<1#0 SYNC.0 B2.0");
    check_stage(s, 1,
                "RECV_F0.0<0#0 F0.0 RECV_F1.0<0#1 B0.0 SEND_B0.0>0#0 F1.0 B1.0 RECV_F2.0<0#0 SEND_B1.0>0#1 F2.0 SYNC.0 "
                "B2.0 SEND_B2.0>0#0");
    weft_schedule_destroy(s);
}

TEST(with_lookahead_receives_are_posted_one_computation_earlier)
{
    weft_schedule *s = lowered(WEFT_POLICY_1F1B, 2, 3, 1, WEFT_BATCHING_NONE, 0);
    check_stage(
        s, 0,
        "F0.0 RECV_B0.0<1#0 SEND_F0.0>1#0 F1.0 SEND_F1.0>1#1 B0.0 RECV_B1.0<1#0 F2.0 RECV_B2.0<1#1 SEND_F2.0>1#0 "
        "B1.0 SYNC.0 B2.0");
    check_stage(s, 1,
                "RECV_F0.0<0#0 RECV_F1.0<0#1 F0.0 B0.0 SEND_B0.0>0#0 F1.0 RECV_F2.0<0#0 B1.0 SEND_B1.0>0#1 F2.0 SYNC.0 "
                "B2.0 SEND_B2.0>0#0");
    weft_schedule_destroy(s);
}

/* How many computations stand between the receive of an action and the action. */
static size_t lead(const weft_schedule *s, uint32_t stage, size_t i)
{
    const weft_action *at = s->lists[stage].at, *a = &at[i];
    weft_action_kind kind = a->kind == WEFT_ACTION_F ? WEFT_ACTION_RECV_F : WEFT_ACTION_RECV_B;
    size_t between = 0;
    while (at[--i].kind != kind || at[i].microbatch != a->microbatch || at[i].chunk != a->chunk)
        between += weft__computes(at[i].kind);
    return between;
}

TEST(with_lookahead_every_receive_can_hide_behind_a_computation)
{
    for (uint32_t v = 1; v <= 3; v++) {
        weft_schedule *s = lowered(v > 1 ? WEFT_POLICY_INTERLEAVED : WEFT_POLICY_1F1B, 4, 8, v, WEFT_BATCHING_NONE, 0);
        for (uint32_t stage = 0; stage < 4; stage++) {
            size_t computations = 0;
            for (size_t i = 0; i < s->lists[stage].count; i++) {
                const weft_action *a = &s->lists[stage].at[i];
                weft_action_kind kind = a->kind == WEFT_ACTION_F ? WEFT_ACTION_RECV_F : WEFT_ACTION_RECV_B;
                if (!weft__computes(a->kind))
                    continue;
                if (computations++ > 0 && weft_schedule_peer(s, kind, stage, a->chunk) != WEFT_PEER_NONE)
                    CHECK_MSG(lead(s, stage, i) >= 1, "v %u stage %u action %zu", v, stage, i);
            }
        }
        weft_schedule_destroy(s);
    }
}

TEST(exchange_pairs_what_two_stages_give_each_other)
{
    weft_schedule *s = lowered(WEFT_POLICY_1F1B, 2, 3, 1, WEFT_BATCHING_EXCHANGE, 0);
    check_stage(s, 0,
                "F0.0 SEND_F0.0>1#0 F1.0 [SEND_F1.0>1#1 RECV_B0.0<1#0] B0.0 F2.0 [SEND_F2.0>1#0 RECV_B1.0<1#0] B1.0 "
                "RECV_B2.0<1#0 SYNC.0 B2.0");
    check_stage(s, 1,
                "RECV_F0.0<0#0 F0.0 B0.0 [SEND_B0.0>0#0 RECV_F1.0<0#0] F1.0 B1.0 [SEND_B1.0>0#1 RECV_F2.0<0#0] F2.0 "
                "SYNC.0 B2.0 SEND_B2.0>0#0");
    weft_schedule_destroy(s);
}

TEST(step_puts_all_between_two_steps_in_one_batch)
{
    weft_schedule *s = lowered(WEFT_POLICY_INTERLEAVED, 2, 2, 2, WEFT_BATCHING_STEP, 0);
    /* The last forward of stage 0 and its first backward are no step: it has to wait in between. */
    check_stage(s, 0,
                "F0.0 SEND_F0.0>1#0 F1.0 [SEND_F1.0>1#1 RECV_F0.1<1#0] F0.1 [SEND_F0.1>1#0 RECV_F1.1<1#1] F1.1 "
                "SEND_F1.1>1#1 RECV_B0.1<1#0 B0.1 [SEND_B0.1>1#0 RECV_B1.1<1#0] SYNC.1 B1.1 [SEND_B1.1>1#1 "
                "RECV_B0.0<1#0] B0.0 RECV_B1.0<1#0 SYNC.0 B1.0");
    check_stage(s, 1,
                "RECV_F0.0<0#0 F0.0 [SEND_F0.0>0#0 RECV_F1.0<0#1] F1.0 [SEND_F1.0>0#1 RECV_F0.1<0#2] F0.1 B0.1 "
                "[SEND_B0.1>0#0 RECV_F1.1<0#2] F1.1 SYNC.1 B1.1 [SEND_B1.1>0#1 RECV_B0.0<0#0] B0.0 [SEND_B0.0>0#0 "
                "RECV_B1.0<0#0] SYNC.0 B1.0 SEND_B1.0>0#1");
    weft_schedule_destroy(s);
}

TEST(one_stage_hands_over_to_itself_in_batches)
{
    for (int batching = WEFT_BATCHING_NONE; batching <= WEFT_BATCHING_STEP; batching++) {
        weft_schedule *s = lowered(WEFT_POLICY_INTERLEAVED, 1, 1, 2, (weft_batching)batching, 0);
        const char *text = stage_text(s, 0);
        CHECK_HAS(text, "F0.0 [");
        CHECK_HAS(text, "] F0.1 SYNC.1 B0.1 [");
        CHECK_HAS(text, "] SYNC.0 B0.0");
        CHECK_OK(verify(s, WEFT_QUEUES_ONE));
        weft_schedule_destroy(s);
        weft_schedule *group = make(WEFT_POLICY_INTERLEAVED, 1, 4, 2, 2); /* sent long before it is needed */
        s = lower(group, WEFT_QUEUES_ONE, (weft_batching)batching, 0);
        CHECK_OK(verify(s, WEFT_QUEUES_ONE));
        weft_schedule_destroy(group);
        weft_schedule_destroy(s);
    }
    weft_schedule *s = lowered(WEFT_POLICY_1F1B, 1, 2, 1, WEFT_BATCHING_AUTO, 0);
    check_stage(s, 0, "F0.0 B0.0 F1.0 SYNC.0 B1.0");
    weft_schedule_destroy(s);
}

/* The batches of a whole schedule, as one number each. */
static size_t largest_batch(weft_policy policy, uint32_t p, uint32_t v, weft_queues queues)
{
    weft_schedule *s = make(policy, p, 2 * p, v, 0), *out = lower(s, queues, WEFT_BATCHING_AUTO, 0);
    weft_stage_needs needs[8];
    weft_verify_config config = WEFT_VERIFY_CONFIG_INIT;
    config.queues = queues;
    CHECK_OK(weft_schedule_verify(out, &config, needs));
    size_t most = 0;
    for (uint32_t stage = 0; stage < p; stage++)
        most = needs[stage].batch_messages > most ? needs[stage].batch_messages : most;
    weft_schedule_destroy(s);
    weft_schedule_destroy(out);
    return most;
}

TEST(auto_batches_no_more_than_the_queues_demand)
{
    CHECK_INT(largest_batch(WEFT_POLICY_1F1B, 4, 1, WEFT_QUEUES_DIRECTION), 1);
    CHECK_INT(largest_batch(WEFT_POLICY_1F1B, 4, 1, WEFT_QUEUES_PEER), 1);
    CHECK_INT(largest_batch(WEFT_POLICY_1F1B, 4, 1, WEFT_QUEUES_CHANNEL), 2);
    CHECK_INT(largest_batch(WEFT_POLICY_1F1B, 4, 1, WEFT_QUEUES_ONE), 2);
    CHECK_INT(largest_batch(WEFT_POLICY_INTERLEAVED, 4, 2, WEFT_QUEUES_PEER), 1);
    CHECK_INT(largest_batch(WEFT_POLICY_INTERLEAVED, 4, 2, WEFT_QUEUES_ONE), 4);
    CHECK_INT(largest_batch(WEFT_POLICY_INTERLEAVED, 2, 2, WEFT_QUEUES_DIRECTION), 1);
    CHECK_INT(largest_batch(WEFT_POLICY_INTERLEAVED, 2, 2, WEFT_QUEUES_PEER), 4);
}

TEST(aligned_sync_comes_as_many_backwards_later_as_the_stage_is_behind)
{
    weft_schedule *s = lowered(WEFT_POLICY_INTERLEAVED, 3, 3, 2, WEFT_BATCHING_STEP, WEFT_LOWER_ALIGN_SYNC);
    static const char *const order[] = {"SYNC.1 B2.1 B0.0 B1.0 SYNC.0 B2.0", "B2.1 SYNC.1 B0.0 B1.0 B2.0 SYNC.0",
                                        "B2.1 B0.0 SYNC.1 B1.0 B2.0 SYNC.0"};
    for (uint32_t stage = 0; stage < 3; stage++) {
        char text[512] = "";
        const weft__actions *list = &s->lists[stage];
        for (size_t i = 0; i < list->count; i++) {
            char word[24] = "";
            if (list->at[i].kind == WEFT_ACTION_SYNC)
                snprintf(word, sizeof word, " SYNC.%u", list->at[i].chunk);
            else if (list->at[i].kind == WEFT_ACTION_B)
                snprintf(word, sizeof word, " B%u.%u", list->at[i].microbatch, list->at[i].chunk);
            strcat(text, word);
        }
        CHECK_MSG(strlen(text) >= strlen(order[stage]) &&
                      strcmp(text + strlen(text) - strlen(order[stage]), order[stage]) == 0,
                  "stage %u: %s does not end with %s", stage, text, order[stage]);
    }
    CHECK_OK(verify(s, WEFT_QUEUES_ONE));
    weft_schedule_destroy(s);
}

TEST(with_split_backwards_sync_comes_before_the_last_b_and_buffers_wait_for_the_weights)
{
    weft_schedule *s = make(WEFT_POLICY_1F1B, 2, 2, 1, 0), *split = split_backwards(s);
    weft_schedule *out = lower(split, WEFT_QUEUES_ONE, WEFT_BATCHING_EXCHANGE, 0);
    check_stage(out, 1,
                "RECV_F0.0<0#0 F0.0 B0.0 [SEND_B0.0>0#0 RECV_F1.0<0#1] F1.0 SYNC.0 B1.0 SEND_B1.0>0#1 W0.0 W1.0");
    check_stage(out, 0,
                "F0.0 SEND_F0.0>1#0 F1.0 [SEND_F1.0>1#1 RECV_B0.0<1#0] B0.0 RECV_B1.0<1#1 SYNC.0 B1.0 W0.0 W1.0");
    CHECK_OK(verify(out, WEFT_QUEUES_ONE));
    weft_schedule_destroy(s);
    weft_schedule_destroy(split);
    weft_schedule_destroy(out);
}

TEST(evaluation_only_goes_forward)
{
    weft_schedule *s = make_forward_only(WEFT_POLICY_1F1B, 2, 2, 1, 0);
    weft_schedule *out = lower(s, WEFT_QUEUES_ONE, WEFT_BATCHING_AUTO, 0);
    check_stage(out, 0, "F0.0 SEND_F0.0>1#0 F1.0 SEND_F1.0>1#1");
    check_stage(out, 1, "RECV_F0.0<0#0 F0.0 RECV_F1.0<0#0 F1.0");
    CHECK_OK(verify(out, WEFT_QUEUES_ONE));
    weft_schedule_destroy(s);
    weft_schedule_destroy(out);
}

TEST(what_a_schedule_brings_is_kept)
{
    weft_schedule *s = from_text("stage 0: F0.0 F1.0 [SEND_F0.0 SEND_F1.0] RECV_B0.0 B0.0 SYNC.0 RECV_B1.0 B1.0\n"
                                 "stage 1: [RECV_F0.0 RECV_F1.0] F0.0 B0.0 SEND_B0.0 F1.0 B1.0 SEND_B1.0\n");
    weft_schedule *out = lower(s, WEFT_QUEUES_ONE, WEFT_BATCHING_AUTO, 0);
    check_stage(out, 0, "F0.0 F1.0 [SEND_F0.0>1#0 SEND_F1.0>1#1] RECV_B0.0<1#0 B0.0 SYNC.0 RECV_B1.0<1#0 B1.0");
    check_stage(out, 1, "[RECV_F0.0<0#0 RECV_F1.0<0#1] F0.0 B0.0 SEND_B0.0>0#0 F1.0 SYNC.0 B1.0 SEND_B1.0>0#1");
    CHECK_OK(verify(out, WEFT_QUEUES_ONE));
    weft_schedule_destroy(s);
    weft_schedule_destroy(out);
}

TEST(messages_in_a_wrong_place_get_no_buffer_and_take_none_from_others)
{
    weft_schedule *s = from_text("stage 0: SEND_F0.0 F0.0 F1.0 F2.0 SEND_F1.0 SEND_F2.0\n"
                                 "stage 1: F0.0 RECV_F0.0 RECV_F1.0 F1.0 RECV_F2.0 F2.0\n");
    weft_schedule *out = lower(s, WEFT_QUEUES_ONE, WEFT_BATCHING_AUTO, 0);
    check_stage(out, 0, "SEND_F0.0>1 F0.0 F1.0 F2.0 SEND_F1.0>1#1 SEND_F2.0>1#2");
    check_stage(out, 1, "F0.0 RECV_F0.0<0#0 RECV_F1.0<0#1 F1.0 RECV_F2.0<0#1 F2.0");
    weft_schedule_destroy(s);
    weft_schedule_destroy(out);
}

TEST(a_receiver_that_uses_tensors_in_another_order_posts_them_as_they_are_sent)
{
    weft_schedule *s = from_text("stage 0: F0.0 F1.0 B0.0 B1.0\nstage 1: F1.0 F0.0 B0.0 B1.0\n");
    for (int batching = WEFT_BATCHING_NONE; batching <= WEFT_BATCHING_STEP; batching++) {
        weft_schedule *out = lower(s, WEFT_QUEUES_DIRECTION, (weft_batching)batching, 0);
        CHECK_OK(verify(out, WEFT_QUEUES_DIRECTION));
        weft_schedule_destroy(out);
    }
    weft_schedule *out = lower(s, WEFT_QUEUES_DIRECTION, WEFT_BATCHING_EXCHANGE, 0);
    CHECK_HAS(stage_text(out, 1), "RECV_F0.0<0#0 RECV_F1.0<0#1 F1.0 F0.0 ");
    weft_schedule_destroy(s);
    weft_schedule_destroy(out);
}

TEST(more_than_64_messages_at_one_place_are_several_batches)
{
    weft_schedule *s;
    CHECK_OK(weft__schedule_new(2, 1, 100, &s));
    for (uint32_t stage = 0; stage < 2; stage++)
        for (uint32_t k = 0; k < 200; k++) {
            weft_action a = {.kind = k < 100 ? WEFT_ACTION_F : WEFT_ACTION_B, .microbatch = k % 100};
            if (stage == 1 && k < 100)
                a.microbatch = 99 - k; /* needs the last first, so all have to be there */
            CHECK_OK(weft_schedule_append(s, stage, &a));
        }
    weft_schedule *out = lower(s, WEFT_QUEUES_DIRECTION, WEFT_BATCHING_STEP, 0);
    CHECK_OK(verify(out, WEFT_QUEUES_DIRECTION));
    weft_stage_needs needs[2];
    CHECK_OK(weft_schedule_verify(out, NULL, needs));
    CHECK_INT(needs[1].batch_messages, WEFT_P2P_BATCH_MAX);
    CHECK_INT(needs[1].receives[0], 100);
    weft_schedule_destroy(s);
    weft_schedule_destroy(out);
}

TEST(what_cannot_be_lowered_is_named)
{
    static const struct {
        const char *text, *says;
    } wrong[] = {
        {"stage 0: F0.0 B0.0\nstage 1: F0.0\n",
         "stage 0 action 1 (B 0.0) needs B 0.0 of stage 1, which does not compute it"},
        {"stage 0: F0.0 B0.0\nstage 1: B0.0\n",
         "stage 1 action 0 (B 0.0) needs F 0.0 of stage 1, which does not compute it before"},
        {"stage 0: F0.0 F1.0\nstage 1: F0.0\n", "stage 0 action 1 (F 1.0) is for F 1.0 of stage 1, which is missing"},
        {"stage 0: F0.0 F0.0\nstage 1: F0.0\n", "stage 0 action 1 (F 0.0) repeats action 0 (F 0.0)"},
        {"stage 0: F0.0 F0.1 F1.0\nstage 1: F1.0 F0.0 F0.1\n",
         "stage 0 action 1 (F 0.1) needs F 0.0 of stage 1, which waits at action 0 (F 1.0)"},
        {"stage 0: F0.1 F0.0\n", "stage 0 action 0 (F 0.1) needs F 0.0 of stage 0, which does not compute it before"},
    };
    mute();
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        weft_schedule *s = from_text(wrong[i].text), *out = s;
        CHECK_RESULT(weft_schedule_lower(s, NULL, &out), WEFT_E_INVALID);
        CHECK_STR(weft_last_error(), wrong[i].says);
        CHECK(out == NULL);
        weft_schedule_destroy(s);
    }
    weft_schedule *s = make(WEFT_POLICY_GPIPE, 1, 1, 1, 0), *out;
    weft_lower_config config = {.size = sizeof config, .batching = 4};
    CHECK_RESULT(weft_schedule_lower(NULL, NULL, &out), WEFT_E_INVALID);
    CHECK_RESULT(weft_schedule_lower(s, NULL, NULL), WEFT_E_INVALID);
    CHECK_RESULT(weft_schedule_lower(s, &config, &out), WEFT_E_INVALID);
    CHECK_HAS(weft_last_error(), "batching 4");
    weft_schedule_destroy(s);
}
