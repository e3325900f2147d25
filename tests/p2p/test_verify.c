/* SPDX-License-Identifier: Apache-2.0 */
/* What is proved and what is refused, against a replay that shares no code, and against figures worked out by hand. */
#include <stdlib.h>

#include "harness/test.h"
#include "replay.h"
#include "schedules.h"

/* ---- every swap of two actions, against a replay ---- */

typedef struct tally {
    size_t schedules, swaps, refused;
} tally;

static void swap(weft_schedule *s, uint32_t stage, size_t i, size_t j)
{
    weft_action *at = s->lists[stage].at, kept = at[i];
    at[i] = at[j];
    at[j] = kept;
}

static char *picture(const weft_schedule *s)
{
    static char text[8192];
    weft_schedule_write(s, WEFT_SCHEDULE_TEXT, text, sizeof text);
    for (char *c = text; *c; c++)
        *c = *c == '\n' ? '|' : *c;
    return text;
}

/* A refusal names a stage and an action, and for a message its peer. */
static void check_names(const char *text)
{
    CHECK_HAS(text, "stage ");
    CHECK_HAS(text, " action ");
    if (strstr(text, "(SEND_"))
        CHECK_HAS(text, " to stage ");
    if (strstr(text, "(RECV_"))
        CHECK_HAS(text, " from stage ");
}

static bool agree(const weft_schedule *s, weft_queues queues)
{
    const char *trouble = replay(s, queues);
    weft_result result = verify(s, queues);
    CHECK_MSG((result == WEFT_OK) == (trouble == NULL), "verify: %s; replay: %s; queues %d %.700s",
              result == WEFT_OK ? "fine" : weft_last_error(), trouble ? trouble : "fine", (int)queues, picture(s));
    if (result != WEFT_OK) {
        CHECK_INT(result, WEFT_E_INVALID);
        check_names(weft_last_error());
    }
    return result == WEFT_OK;
}

static void check_swaps(weft_schedule *s, weft_queues queues, tally *t)
{
    if (!agree(s, queues))
        return;
    t->schedules++;
    for (uint32_t stage = 0; stage < s->stages; stage++)
        for (size_t i = 0; i < s->lists[stage].count; i++)
            for (size_t j = i + 1; j < s->lists[stage].count; j++) {
                swap(s, stage, i, j);
                t->swaps++;
                t->refused += !agree(s, queues);
                swap(s, stage, i, j);
            }
}

static void check_lowered(const weft_schedule *s, tally *t)
{
    static const struct {
        weft_batching batching;
        uint32_t flags;
    } ways[] = {{WEFT_BATCHING_NONE, 0},
                {WEFT_BATCHING_NONE, WEFT_LOWER_NO_LOOKAHEAD},
                {WEFT_BATCHING_EXCHANGE, WEFT_LOWER_ALIGN_SYNC},
                {WEFT_BATCHING_STEP, 0}};
    for (size_t way = 0; way < sizeof ways / sizeof *ways; way++)
        for (int queues = WEFT_QUEUES_DIRECTION; queues <= WEFT_QUEUES_ONE; queues++) {
            weft_schedule *lowered = lower(s, (weft_queues)queues, ways[way].batching, ways[way].flags);
            check_swaps(lowered, (weft_queues)queues, t);
            weft_schedule_destroy(lowered);
        }
}

static void report(const tally *t)
{
    test_note("%zu schedules, %zu swaps: %zu refused, %zu still right, each as the replay says", t->schedules, t->swaps,
              t->refused, t->swaps - t->refused);
    CHECK(t->refused > 0 && t->refused < t->swaps);
}

static weft_schedule *small(weft_policy policy, uint32_t p, uint32_t m, uint32_t v)
{
    /* Where groups of p would leave too small a rest, all microbatches are one group. */
    return make(policy, p, m, v, v > 1 && m > p && m % p ? m : 0);
}

TEST_LIMIT(every_swap_in_a_policy_is_refused_exactly_when_it_breaks_the_run, 300)
{
    mute();
    for (weft_policy policy = next_policy(WEFT_POLICY_NONE); policy; policy = next_policy(policy)) {
        tally t = {0};
        for (uint32_t p = 1; p <= 4; p++)
            for (uint32_t m = 1; m <= 4; m++) {
                weft_schedule *s = small(policy, p, m, chunks_of(policy, 2));
                check_lowered(s, &t);
                weft_schedule_destroy(s);
            }
        test_note("%s:", weft_policy_string(policy));
        report(&t);
    }
}

TEST(every_swap_with_split_backwards_is_refused_exactly_when_it_breaks_the_run)
{
    tally t = {0};
    mute();
    for (uint32_t p = 1; p <= 3; p++)
        for (uint32_t m = 1; m <= 3; m++)
            for (uint32_t v = 1; v <= 2; v++) {
                weft_schedule *s = small(v > 1 ? WEFT_POLICY_INTERLEAVED : WEFT_POLICY_1F1B, p, m, v);
                weft_schedule *split = split_backwards(s);
                check_lowered(split, &t);
                weft_schedule_destroy(split);
                weft_schedule_destroy(s);
            }
    report(&t);
}

TEST(every_swap_without_buffer_numbers_is_refused_exactly_when_it_breaks_the_run)
{
    tally t = {0};
    mute();
    for (uint32_t p = 1; p <= 4; p++)
        for (uint32_t m = 1; m <= 4; m++) {
            weft_schedule *s = make(WEFT_POLICY_1F1B, p, m, 1, 0);
            weft_schedule *lowered = lower(s, WEFT_QUEUES_PEER, WEFT_BATCHING_NONE, 0);
            for (uint32_t stage = 0; stage < p; stage++)
                for (size_t i = 0; i < lowered->lists[stage].count; i++)
                    lowered->lists[stage].at[i].buffer = WEFT_BUFFER_NONE;
            check_swaps(lowered, WEFT_QUEUES_PEER, &t);
            weft_schedule_destroy(s);
            weft_schedule_destroy(lowered);
        }
    report(&t);
}

/* ---- all sizes ---- */

static void check_size(weft_policy policy, uint32_t p, uint32_t m, uint32_t v, weft_queues queues, tally *t)
{
    weft_schedule_config config = WEFT_SCHEDULE_CONFIG_INIT;
    weft_schedule *s;
    config.policy = policy;
    config.stages = p;
    config.microbatches = m;
    config.chunks = v;
    weft_result result = weft_schedule_create(&config, &s);
    bool stalls = weft_policy_traits(policy) & WEFT_POLICY_GROUPS && v > 1 && m > p && m % p;
    CHECK_MSG((result == WEFT_OK) == !stalls, "p %u m %u v %u", p, m, v);
    t->refused += stalls;
    if (stalls)
        return;
    weft_schedule *lowered = lower(s, queues, WEFT_BATCHING_AUTO, 0);
    CHECK_OK(verify(lowered, queues));
    t->schedules++;
    weft_schedule_destroy(s);
    weft_schedule_destroy(lowered);
}

TEST_LIMIT(all_schedules_up_to_16_stages_64_microbatches_4_chunks_are_proved, 300)
{
    tally t = {0};
    mute();
    for (uint32_t p = 1; p <= 16; p++)
        for (uint32_t m = 1; m <= 64; m++)
            for (uint32_t v = 1; v <= 4; v++)
                check_size(v > 1 ? WEFT_POLICY_INTERLEAVED : WEFT_POLICY_1F1B, p, m, v, WEFT_QUEUES_DIRECTION, &t);
    test_note("%zu schedules made, lowered and proved; %zu sizes refused by the policy: a short last group",
              t.schedules, t.refused);
}

TEST_LIMIT(all_policies_are_proved_in_a_single_queue, 300)
{
    tally t = {0};
    mute();
    for (weft_policy policy = next_policy(WEFT_POLICY_NONE); policy; policy = next_policy(policy))
        for (uint32_t p = 1; p <= 9; p++)
            for (uint32_t m = 1; m <= 20; m++)
                for (int queues = WEFT_QUEUES_CHANNEL; queues <= WEFT_QUEUES_ONE; queues++)
                    for (uint32_t v = 1; v <= chunks_of(policy, 4); v++)
                        check_size(policy, p, m, v, (weft_queues)queues, &t);
    test_note("%zu schedules", t.schedules);
}

TEST(fewer_microbatches_than_stages_are_proved)
{
    for (uint32_t m = 1; m <= 3; m++)
        for (uint32_t v = 1; v <= 3; v++) {
            tally t = {0};
            check_size(v > 1 ? WEFT_POLICY_INTERLEAVED : WEFT_POLICY_1F1B, 4, m, v, WEFT_QUEUES_ONE, &t);
            CHECK_INT(t.schedules, 1);
        }
}

/* ---- deadlocks that users met ---- */

static void check_refused(const char *text, weft_queues queues, const char *says)
{
    weft_schedule *s = from_text(text);
    CHECK_RESULT(verify(s, queues), WEFT_E_INVALID);
    CHECK_STR(weft_last_error(), says);
    weft_schedule_destroy(s);
}

static void check_fine(const char *text, weft_queues queues)
{
    weft_schedule *s = from_text(text);
    CHECK_OK(verify(s, queues));
    weft_schedule_destroy(s);
}

TEST(a_send_waited_for_before_the_receive_is_posted_is_refused)
{
    mute();
    check_refused(
        "stage 0: F0.0 SEND_F0.0 F1.0 SEND_F1.0 RECV_F0.1 RECV_F1.1 F0.1 SEND_F0.1 F1.1 SEND_F1.1\n"
        "stage 1: RECV_F0.0 F0.0 SEND_F0.0 RECV_F1.0 F1.0 SEND_F1.0 RECV_F0.1 F0.1 RECV_F1.1 F1.1\n",
        WEFT_QUEUES_PEER,
        "deadlock: stage 0 action 3 (SEND_F 1.0 to stage 1) waits for stage 1 action 3 (RECV_F 1.0 from stage "
        "0), which comes after stage 1 action 2 (SEND_F 0.0 to stage 0), and that waits too");
    /* The same as messages alone, before anybody looks at what is computed. */
    check_refused(
        "stage 0: SEND_F1.0 RECV_F0.1\nstage 1: SEND_F0.0 RECV_F1.0\n", WEFT_QUEUES_PEER,
        "deadlock: stage 0 action 0 (SEND_F 1.0 to stage 1) waits for stage 1 action 1 (RECV_F 1.0 from stage "
        "0), which comes after stage 1 action 0 (SEND_F 0.0 to stage 0), and that waits too");
    /* Both in flight: one batch on each side. */
    check_fine("stage 0: F0.0 SEND_F0.0 F1.0 [SEND_F1.0 RECV_F0.1] F0.1 [SEND_F0.1 RECV_F1.1] F1.1 SEND_F1.1\n"
               "stage 1: RECV_F0.0 F0.0 [SEND_F0.0 RECV_F1.0] F1.0 [SEND_F1.0 RECV_F0.1] F0.1 RECV_F1.1 F1.1\n",
               WEFT_QUEUES_ONE);
}

TEST(stages_may_batch_differently)
{
    static const char text[] = "stage 0: F0.0 SEND_F0.0 F1.0 [SEND_F1.0 RECV_B0.0] B0.0 RECV_B1.0 B1.0\n"
                               "stage 1: RECV_F0.0 F0.0 B0.0 RECV_F1.0 SEND_B0.0 F1.0 B1.0 SEND_B1.0\n";
    for (int queues = WEFT_QUEUES_DIRECTION; queues <= WEFT_QUEUES_ONE; queues++)
        check_fine(text, (weft_queues)queues);
}

TEST(receives_posted_first_are_fine_in_queues_of_their_own_and_deadlock_in_one)
{
    static const char text[] = "stage 0: F0.0 SEND_F0.0 F1.0 RECV_B0.0 SEND_F1.0 B0.0 RECV_B1.0 B1.0\n"
                               "stage 1: RECV_F0.0 F0.0 B0.0 RECV_F1.0 SEND_B0.0 F1.0 B1.0 SEND_B1.0\n";
    mute();
    for (int queues = WEFT_QUEUES_DIRECTION; queues <= WEFT_QUEUES_CHANNEL; queues++)
        check_fine(text, (weft_queues)queues);
    check_refused(
        text, WEFT_QUEUES_ONE,
        "deadlock: stage 0 action 3 (RECV_B 0.0 from stage 1) waits for stage 1 action 4 (SEND_B 0.0 to stage "
        "0), which is queued behind stage 1 action 3 (RECV_F 1.0 from stage 0), and that waits too");
}

TEST(two_stages_keep_activations_and_gradients_apart)
{
    weft_schedule *s = make(WEFT_POLICY_INTERLEAVED, 2, 4, 2, 0);
    weft_schedule *lowered = lower(s, WEFT_QUEUES_ONE, WEFT_BATCHING_STEP, 0);
    /* To the peer that is next and previous go both in one batch, and both come back. */
    CHECK_HAS(stage_text(lowered, 0), "[SEND_F3.0>1#1 SEND_B1.1>1#1 RECV_F2.1<1#0 RECV_B0.0<1#0]");
    CHECK_OK(verify(lowered, WEFT_QUEUES_ONE));
    CHECK_STR(replay(lowered, WEFT_QUEUES_ONE) ? replay(lowered, WEFT_QUEUES_ONE) : "right", "right");
    weft_schedule_destroy(s);
    weft_schedule_destroy(lowered);
}

/* What of the ways of lowering can be proved in which queues, as bits. */
static unsigned proved(weft_policy policy, uint32_t p, uint32_t v, weft_batching batching)
{
    weft_schedule *s = make(policy, p, 2 * p, v, 0), *lowered = lower(s, WEFT_QUEUES_ONE, batching, 0);
    unsigned bits = 0;
    for (int queues = WEFT_QUEUES_DIRECTION; queues <= WEFT_QUEUES_ONE; queues++)
        bits |= (verify(lowered, (weft_queues)queues) == WEFT_OK ? 1u : 0) << queues;
    weft_schedule_destroy(s);
    weft_schedule_destroy(lowered);
    return bits;
}

TEST(what_can_be_proved_depends_on_queues_and_batches)
{
    enum { DIRECTION = 1, PEER = 2, CHANNEL = 4, ONE = 8, ALL = 15 };
    mute();
    CHECK_INT(proved(WEFT_POLICY_1F1B, 4, 1, WEFT_BATCHING_NONE), DIRECTION | PEER);
    CHECK_INT(proved(WEFT_POLICY_1F1B, 4, 1, WEFT_BATCHING_EXCHANGE), ALL);
    CHECK_INT(proved(WEFT_POLICY_INTERLEAVED, 4, 2, WEFT_BATCHING_NONE), DIRECTION | PEER);
    CHECK_INT(proved(WEFT_POLICY_INTERLEAVED, 4, 2, WEFT_BATCHING_STEP), ALL);
    /* Next and previous are the same peer: its queue holds both directions. */
    CHECK_INT(proved(WEFT_POLICY_INTERLEAVED, 2, 2, WEFT_BATCHING_NONE), DIRECTION);
    CHECK_INT(proved(WEFT_POLICY_INTERLEAVED, 2, 2, WEFT_BATCHING_STEP), ALL);
}

/* ---- each thing that can be wrong ---- */

/* Two stages and two microbatches, all right. */
#define FIRST  "F0.0 SEND_F0.0 F1.0 RECV_B0.0 SEND_F1.0 B0.0 RECV_B1.0 B1.0"
#define SECOND "RECV_F0.0 F0.0 B0.0 RECV_F1.0 SEND_B0.0 F1.0 B1.0 SEND_B1.0"

TEST(what_is_wrong_is_named_on_both_sides)
{
    static const struct {
        const char *first, *second, *says; /* each spoils one thing */
    } wrong[] = {
        {FIRST, "RECV_F1.0 RECV_F0.0 F0.0 B0.0 SEND_B0.0 F1.0 B1.0 SEND_B1.0",
         "stage 0 action 1 (SEND_F 0.0 to stage 1) meets stage 1 action 0 (RECV_F 1.0 from stage 0): the tensor is for "
         "F 0.0"},
        {FIRST, "RECV_F0.0 F0.0 B0.0 SEND_B0.0 F1.0 B1.0 SEND_B1.0",
         "stage 0 action 4 (SEND_F 1.0 to stage 1) meets no receive: stage 1 has too few"},
        {"F0.0 SEND_F0.0 F1.0 RECV_B0.0 B0.0 RECV_B1.0 B1.0", SECOND,
         "stage 1 action 3 (RECV_F 1.0 from stage 0) meets no send: stage 0 has too few"},
        {"F0.0 SEND_F0.0>0 F1.0 RECV_B0.0 SEND_F1.0 B0.0 RECV_B1.0 B1.0", SECOND,
         "stage 0 action 1 (SEND_F 0.0 to stage 0) has the wrong peer: the part behind it is on stage 1"},
        {"F0.0 SEND_F0.0 F0.0 RECV_B0.0 SEND_F1.0 B0.0 RECV_B1.0 B1.0", SECOND,
         "stage 0 action 2 (F 0.0) repeats action 0 (F 0.0)"},
        {"SEND_F0.0 F0.0 F1.0 RECV_B0.0 SEND_F1.0 B0.0 RECV_B1.0 B1.0", SECOND,
         "stage 0 action 1 (F 0.0) comes after stage 0 action 0 (SEND_F 0.0 to stage 1)"},
        {FIRST, "F0.0 RECV_F0.0 B0.0 RECV_F1.0 SEND_B0.0 F1.0 B1.0 SEND_B1.0",
         "deadlock: stage 1 action 0 (F 0.0) needs stage 1 action 1 (RECV_F 0.0 from stage 0), which comes after it"},
        {FIRST, "RECV_F0.0 B0.0 F0.0 RECV_F1.0 SEND_B0.0 F1.0 B1.0 SEND_B1.0",
         "stage 1 action 1 (B 0.0) comes before stage 1 action 2 (F 0.0)"},
        {"F0.0 SEND_F0.0 F1.0 RECV_B0.0 SEND_F1.0 B0.0 B1.0", "RECV_F0.0 F0.0 B0.0 RECV_F1.0 SEND_B0.0 F1.0 B1.0",
         "stage 0 action 6 (B 1.0) has no RECV_B from stage 1"},
        {FIRST, "RECV_F0.0 F0.0 B0.0 RECV_F1.0 SEND_B0.0 B1.0 SEND_B1.0",
         "stage 1 action 3 (RECV_F 1.0 from stage 0) has no F"},
        {"F0.0 SEND_F0.0 F1.0 RECV_B0.0 SEND_F1.0 B0.0", "RECV_F0.0 F0.0 B0.0 RECV_F1.0 SEND_B0.0 F1.0",
         "stage 0 does not compute B 1.0"},
        {"F0.0 SEND_F0.0 F1.0 RECV_B0.0 SEND_F1.0 B0.0 RECV_B1.0 W1.0 B1.0", SECOND,
         "stage 0 action 7 (W 1.0) comes before stage 0 action 8 (B 1.0)"},
        {"F0.0 SEND_F0.0 F1.0 RECV_B0.0 SEND_F1.0 SYNC.0 B0.0 RECV_B1.0 B1.0", SECOND,
         "stage 0 action 5 (SYNC of chunk 0) comes before stage 0 action 6 (B 0.0), which is not the last"},
        {"F0.0 SEND_F0.0 F1.0 RECV_B0.0 SEND_F1.0 B0.0 SYNC.0 RECV_B1.0 B1.0 SYNC.0", SECOND,
         "stage 0 action 9 (SYNC of chunk 0) repeats action 6"},
        {FIRST, "RECV_F0.0#0 RECV_F1.0#0 F0.0 B0.0 SEND_B0.0 F1.0 B1.0 SEND_B1.0",
         "stage 1 action 1 (RECV_F 1.0 from stage 0) fills buffer 0 of RECV_F, which stage 1 action 0 (RECV_F 0.0 from "
         "stage 0) still has"},
        {"F0.0 F1.0 SEND_F0.0#3 RECV_B0.0 SEND_F1.0#3 B0.0 RECV_B1.0 B1.0", SECOND,
         "stage 0 action 1 (F 1.0) fills buffer 3 of SEND_F, which stage 0 action 0 (F 0.0) still has"},
        {"F0.0 SEND_F0.0#99 F1.0 RECV_B0.0 SEND_F1.0 B0.0 RECV_B1.0 B1.0", SECOND,
         "stage 0 action 0 (F 0.0) uses buffer 99 of SEND_F; there is no need for more than 4"},
        {FIRST " RECV_F0.0<1", SECOND,
         "stage 0 action 8 (RECV_F 0.0 from stage 1) has no other end: this is the first part of the model"},
        {"RECV_B1.0 B1.0", "SEND_B1.0 B0.0", "stage 0 action 1 (B 1.0) has no F"},
    };
    mute();
    check_fine("stage 0: " FIRST "\nstage 1: " SECOND, WEFT_QUEUES_DIRECTION);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char text[512];
        snprintf(text, sizeof text, "stage 0: %s\nstage 1: %s\n", wrong[i].first, wrong[i].second);
        weft_schedule *s = from_text(text);
        CHECK_MSG(verify(s, WEFT_QUEUES_DIRECTION) == WEFT_E_INVALID, "accepted: %s", text);
        CHECK_HAS(weft_last_error(), wrong[i].says);
        weft_schedule_destroy(s);
    }
}

TEST(a_message_to_oneself_needs_its_receive_beside_it)
{
    mute();
    check_fine("stage 0: F0.0 [SEND_F0.0 RECV_F0.1] F0.1 B0.1 [SEND_B0.1 RECV_B0.0] B0.0", WEFT_QUEUES_ONE);
    check_refused(
        "stage 0: F0.0 RECV_F0.1 SEND_F0.0 F0.1 B0.1 [SEND_B0.1 RECV_B0.0] B0.0", WEFT_QUEUES_DIRECTION,
        "stage 0 action 2 (SEND_F 0.0 to stage 0) and stage 0 action 1 (RECV_F 0.1 from stage 0) must be in one "
        "batch: a stage cannot wait for itself");
}

TEST(a_batch_has_at_most_64_messages)
{
    char first[4096] = "stage 0:", second[4096] = "\nstage 1: [", text[8192];
    for (unsigned m = 0; m < 65; m++) {
        char word[32];
        snprintf(word, sizeof word, " F%u.0 SEND_F%u.0", m, m);
        strcat(first, word);
        snprintf(word, sizeof word, "RECV_F%u.0 ", m);
        strcat(second, word);
    }
    strcat(second, "] F0.0");
    snprintf(text, sizeof text, "%s%s", first, second);
    mute();
    check_refused(text, WEFT_QUEUES_DIRECTION,
                  "stage 1 action 64 (RECV_F 64.0 from stage 0) is one too many for the batch of action 0: at most 64 "
                  "messages");
}

/* ---- what stages need ---- */

static weft_stage_needs needs[16];

static void measure(weft_policy policy, uint32_t p, uint32_t m, uint32_t v, weft_batching batching)
{
    weft_schedule *s = make(policy, p, m, v, 0), *lowered = lower(s, WEFT_QUEUES_DIRECTION, batching, 0);
    CHECK_OK(weft_schedule_verify(lowered, NULL, needs));
    weft_schedule_destroy(s);
    weft_schedule_destroy(lowered);
}

TEST(peak_activations_are_those_of_the_policies)
{
    measure(WEFT_POLICY_GPIPE, 4, 7, 1, WEFT_BATCHING_NONE);
    for (uint32_t stage = 0; stage < 4; stage++)
        CHECK_INT(needs[stage].activations, 7);
    measure(WEFT_POLICY_1F1B, 4, 7, 1, WEFT_BATCHING_NONE);
    for (uint32_t stage = 0; stage < 4; stage++)
        CHECK_INT(needs[stage].activations, 4 - stage);
    measure(WEFT_POLICY_INTERLEAVED, 4, 8, 2, WEFT_BATCHING_NONE);
    for (uint32_t stage = 0; stage < 4; stage++)
        CHECK_INT(needs[stage].activations, 2 * (4 - stage - 1) + 4 + 1);
}

TEST(buffers_are_as_few_as_activations_allow)
{
    measure(WEFT_POLICY_1F1B, 4, 7, 1, WEFT_BATCHING_EXCHANGE);
    for (uint32_t stage = 0; stage < 4; stage++) {
        CHECK_INT(needs[stage].receives[0], stage ? 4 - stage : 0); /* inputs live as long as the activations */
        CHECK_INT(needs[stage].receives[1], stage < 3);
        CHECK_INT(needs[stage].sends[0], stage < 3 ? 2 : 0);
        CHECK_INT(needs[stage].sends[1], stage ? 2 : 0);
        CHECK_INT(needs[stage].batch_messages, 2);
    }
    measure(WEFT_POLICY_1F1B, 4, 7, 1, WEFT_BATCHING_NONE); /* receives posted one computation earlier */
    for (uint32_t stage = 0; stage < 4; stage++) {
        CHECK_INT(needs[stage].receives[0], stage ? 4 - stage + 1 : 0);
        CHECK_INT(needs[stage].batch_messages, 1);
    }
}

TEST(limits_are_kept)
{
    weft_schedule *s = make(WEFT_POLICY_1F1B, 4, 7, 1, 0);
    weft_schedule *lowered = lower(s, WEFT_QUEUES_ONE, WEFT_BATCHING_EXCHANGE, 0);
    weft_verify_config config = WEFT_VERIFY_CONFIG_INIT;
    mute();
    config.queues = WEFT_QUEUES_ONE;
    config.activations_max = 4;
    config.receives_max = 3;
    CHECK_OK(weft_schedule_verify(lowered, &config, NULL));
    config.activations_max = 3;
    needs[0].activations = 77;
    CHECK_RESULT(weft_schedule_verify(lowered, &config, needs), WEFT_E_INVALID);
    CHECK_STR(weft_last_error(), "stage 0 action 6 (F 3.0) makes 4 activations to keep, at most 3 are allowed");
    CHECK_INT(needs[0].activations, 77);
    config.activations_max = 0;
    config.receives_max = 2;
    CHECK_RESULT(weft_schedule_verify(lowered, &config, NULL), WEFT_E_INVALID);
    CHECK_STR(weft_last_error(), "stage 1 action 6 (RECV_F 2.0 from stage 0) needs 3 buffers of its kind, there are 2");
    weft_schedule_destroy(s);
    weft_schedule_destroy(lowered);
}

TEST(wrong_arguments_of_verify_are_refused)
{
    weft_schedule *s = make(WEFT_POLICY_GPIPE, 1, 1, 1, 0);
    weft_verify_config config = {0};
    mute();
    CHECK_RESULT(weft_schedule_verify(NULL, NULL, NULL), WEFT_E_INVALID);
    CHECK_RESULT(weft_schedule_verify(s, &config, NULL), WEFT_E_INVALID);
    config.size = sizeof config;
    config.queues = 4;
    CHECK_RESULT(weft_schedule_verify(s, &config, NULL), WEFT_E_INVALID);
    CHECK_HAS(weft_last_error(), "no queues 4");
    weft_schedule_destroy(s);
}
