/* SPDX-License-Identifier: Apache-2.0 */
/* What policies write, against lists drawn by hand and golden tables, and what they refuse. */
#include "policy.h"

#include <stdlib.h>

#include "harness/golden.h"
#include "harness/test.h"
#include "schedules.h"

static const char *fb(const weft_schedule *s, uint32_t stage)
{
    return stage_text(s, stage);
}

TEST(gpipe_runs_all_forwards_then_all_backwards)
{
    weft_schedule *s = make(WEFT_POLICY_GPIPE, 2, 3, 1, 0);
    CHECK_STR(fb(s, 0), "F0.0 F1.0 F2.0 B0.0 B1.0 B2.0");
    CHECK_STR(fb(s, 1), "F0.0 F1.0 F2.0 B0.0 B1.0 B2.0");
    weft_schedule_destroy(s);
}

TEST(one_f_one_b_runs_ahead_by_the_stages_behind)
{
    weft_schedule *s = make(WEFT_POLICY_1F1B, 3, 4, 1, 0);
    CHECK_STR(fb(s, 0), "F0.0 F1.0 F2.0 B0.0 F3.0 B1.0 B2.0 B3.0");
    CHECK_STR(fb(s, 1), "F0.0 F1.0 B0.0 F2.0 B1.0 F3.0 B2.0 B3.0");
    CHECK_STR(fb(s, 2), "F0.0 B0.0 F1.0 B1.0 F2.0 B2.0 F3.0 B3.0");
    weft_schedule_destroy(s);
}

static weft_schedule *make_ahead(uint32_t stages, uint32_t microbatches)
{
    weft_schedule_config config = WEFT_SCHEDULE_CONFIG_INIT;
    config.policy = WEFT_POLICY_1F1B, config.stages = stages, config.microbatches = microbatches;
    config.flags = WEFT_SCHEDULE_RUN_AHEAD;
    weft_schedule *s;
    CHECK_OK(weft_schedule_create(&config, &s));
    return s;
}

TEST(one_f_one_b_runs_ahead_twice_as_far_if_told)
{
    weft_schedule *s = make_ahead(3, 6);
    CHECK_STR(fb(s, 0), "F0.0 F1.0 F2.0 F3.0 F4.0 B0.0 F5.0 B1.0 B2.0 B3.0 B4.0 B5.0");
    CHECK_STR(fb(s, 1), "F0.0 F1.0 F2.0 B0.0 F3.0 B1.0 F4.0 B2.0 F5.0 B3.0 B4.0 B5.0");
    CHECK_STR(fb(s, 2), "F0.0 B0.0 F1.0 B1.0 F2.0 B2.0 F3.0 B3.0 F4.0 B4.0 F5.0 B5.0");
    weft_schedule_destroy(s);
}

TEST(a_schedule_that_runs_ahead_is_proved_in_every_kind_of_queues)
{
    for (uint32_t p = 1; p <= 6; p++)
        for (uint32_t m = 1; m <= 16; m++)
            for (int queues = 0; queues <= WEFT_QUEUES_ONE; queues++)
                for (uint32_t flags = 0; flags <= (WEFT_LOWER_NO_LOOKAHEAD | WEFT_LOWER_ALIGN_SYNC); flags++) {
                    weft_schedule *s = make_ahead(p, m);
                    weft_schedule *out = lower(s, (weft_queues)queues, WEFT_BATCHING_AUTO, flags);
                    CHECK_OK(verify(out, (weft_queues)queues));
                    weft_schedule_destroy(out);
                    weft_schedule_destroy(s);
                }
}

TEST(interleaved_takes_groups_through_chunk_after_chunk)
{
    weft_schedule *s = make(WEFT_POLICY_INTERLEAVED, 2, 4, 2, 0);
    CHECK_STR(fb(s, 0), "F0.0 F1.0 F0.1 F1.1 F2.0 B0.1 F3.0 B1.1 F2.1 B0.0 F3.1 B1.0 B2.1 B3.1 B2.0 B3.0");
    CHECK_STR(fb(s, 1), "F0.0 F1.0 F0.1 B0.1 F1.1 B1.1 F2.0 B0.0 F3.0 B1.0 F2.1 B2.1 F3.1 B3.1 B2.0 B3.0");
    weft_schedule_destroy(s);
}

TEST(interleaved_over_one_chunk_is_1f1b)
{
    weft_schedule *a = make(WEFT_POLICY_INTERLEAVED, 4, 6, 1, 0), *b = make(WEFT_POLICY_1F1B, 4, 6, 1, 0);
    char *x = text_of(a, WEFT_SCHEDULE_CSV), *y = text_of(b, WEFT_SCHEDULE_CSV);
    CHECK_STR(x, y);
    free(x);
    free(y);
    weft_schedule_destroy(a);
    weft_schedule_destroy(b);
}

/* Written as a policy with split backwards would. */
TEST(w_takes_microbatches_and_chunks_in_the_order_of_b)
{
    weft_schedule_config config = {.policy = WEFT_POLICY_NONE, .stages = 2, .microbatches = 4, .chunks = 2, .group = 2};
    weft_schedule *s = make(WEFT_POLICY_NONE, 2, 4, 2, 0);
    CHECK_OK(weft__policy_reserve(&config, s, WEFT_POLICY_WRITES | WEFT_POLICY_SPLITS));
    for (uint32_t stage = 0; stage < 2; stage++) {
        CHECK(s->lists[stage].room >= 3 * 2 * 4);
        for (int kind = WEFT_ACTION_F; kind <= WEFT_ACTION_W; kind++)
            for (uint32_t k = 0; k < 8; k++)
                weft__policy_put(&config, s, stage, (weft_action_kind)kind, k);
        CHECK_STR(fb(s, stage), "F0.0 F1.0 F0.1 F1.1 F2.0 F3.0 F2.1 F3.1 B0.1 B1.1 B0.0 B1.0 B2.1 B3.1 B2.0 B3.0 "
                                "W0.1 W1.1 W0.0 W1.0 W2.1 W3.1 W2.0 W3.0");
    }
    weft_schedule_destroy(s);
}

TEST(every_number_below_the_last_is_a_policy)
{
    for (int policy = 0; policy < WEFT_POLICIES; policy++) {
        CHECK_MSG(strcmp(weft_policy_string((weft_policy)policy), "?") != 0, "policy %d has no row", policy);
        weft_schedule *s = make((weft_policy)policy, 3, 6, 1, 0);
        bool writes = weft_policy_traits((weft_policy)policy) & WEFT_POLICY_WRITES;
        CHECK_INT(weft__schedule_total(s) > 0, writes);
        bool splits = weft_policy_traits((weft_policy)policy) & WEFT_POLICY_SPLITS;
        CHECK_INT(weft__schedule_total(s), writes * (splits ? 3 : 2) * 3 * 6);
        weft_schedule_destroy(s);
    }
}

TEST(what_a_policy_cannot_do_is_said_in_one_line)
{
    static const struct {
        weft_schedule_config config;
        weft_result result;
        const char *says;
    } wrong[] = {
        {{.policy = WEFT_POLICY_1F1B, .microbatches = 4}, WEFT_E_INVALID, "0 stages"},
        {{.policy = WEFT_POLICY_1F1B, .stages = 4}, WEFT_E_INVALID, "0 microbatches"},
        {{.policy = 9, .stages = 4, .microbatches = 4}, WEFT_E_INVALID, "policy 9"},
        {{.policy = WEFT_POLICY_GPIPE, .stages = 4, .microbatches = 4, .chunks = 2}, WEFT_E_INVALID, "gpipe"},
        {{.policy = WEFT_POLICY_1F1B, .stages = 4, .microbatches = 4, .chunks = 3}, WEFT_E_INVALID, "not 3"},
        {{.policy = WEFT_POLICY_INTERLEAVED, .stages = 4, .microbatches = 8, .chunks = 2, .group = 3},
         WEFT_E_INVALID,
         "group of 3"},
        {{.policy = WEFT_POLICY_INTERLEAVED, .stages = 4, .microbatches = 5, .chunks = 2},
         WEFT_E_INVALID,
         "5 microbatches in groups of 4 leave a last group of 1, fewer than the 4 stages"},
        {{.policy = WEFT_POLICY_1F1B, .stages = 4, .microbatches = 4, .flags = 8}, WEFT_E_INVALID, "0x8"},
        {{.policy = WEFT_POLICY_GPIPE, .stages = 4, .microbatches = 4, .flags = WEFT_SCHEDULE_RUN_AHEAD},
         WEFT_E_INVALID,
         "gpipe cannot be told to run ahead"},
        {{.policy = WEFT_POLICY_NONE, .stages = UINT32_MAX, .microbatches = UINT32_MAX, .chunks = UINT32_MAX},
         WEFT_E_RANGE,
         "4294967295 stages"},
        {{.policy = WEFT_POLICY_INTERLEAVED, .stages = 4, .microbatches = 1u << 31, .chunks = 1u << 31},
         WEFT_E_RANGE,
         "2147483648 microbatches"},
    };
    mute();
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        weft_schedule_config config = wrong[i].config;
        weft_schedule *s = (weft_schedule *)&config;
        config.size = sizeof config;
        CHECK_RESULT(weft_schedule_create(&config, &s), wrong[i].result);
        CHECK_HAS(weft_last_error(), wrong[i].says);
        CHECK(s == NULL);
    }
    weft_schedule *s;
    CHECK_RESULT(weft_schedule_create(&(weft_schedule_config){.stages = 2}, &s), WEFT_E_INVALID);
    CHECK_HAS(weft_last_error(), "weft_schedule_config.size is 0");
}

/* ---- golden tables ---- */

typedef struct tally {
    size_t lines, compared, left_out, deviations;
} tally;

static void check_order_table(char *text, void *cookie)
{
    tally *t = cookie;
    char *field[4];
    CHECK_INT(split(text, '\t', field, 4), 4);
    if (t->lines++ == 0)
        return;
    uint32_t m = (uint32_t)atoi(field[0]), v = (uint32_t)atoi(field[1]), g = (uint32_t)atoi(field[2]);
    weft_schedule *s;
    CHECK_OK(weft__schedule_new(1, v, m, &s));
    char *at = field[3];
    for (uint32_t k = 0; k < m * v; k++) {
        uint32_t microbatch, chunk, want_microbatch, want_chunk;
        int n = 0;
        weft__order(s, g, k, &microbatch, &chunk);
        CHECK_INT(sscanf(at, "%u.%u%n", &want_microbatch, &want_chunk, &n), 2);
        CHECK_MSG(microbatch == want_microbatch && chunk == want_chunk, "m %u v %u g %u: place %u is %u.%u, not %u.%u",
                  m, v, g, k, microbatch, chunk, want_microbatch, want_chunk);
        at += n;
    }
    CHECK_MSG(*at == 0, "m %u v %u g %u has more places: '%s'", m, v, g, at);
    t->compared++;
    weft_schedule_destroy(s);
}

TEST(golden_order_tables)
{
    tally t = {0};
    golden_lines("sched_order_tables.tsv", check_order_table, &t);
    test_note("compared %zu order tables, %zu deviations", t.compared, t.deviations);
    CHECK(t.compared > 0 && t.deviations == 0);
}

static void check_warmup(char *text, void *cookie)
{
    tally *t = cookie;
    char *f[11];
    CHECK_INT(split(text, '\t', f, 11), 11);
    if (t->lines++ == 0)
        return;
    if (atoi(f[5])) {
        t->left_out++;
        return;
    }
    bool interleaved = f[2][0] != '-';
    weft_schedule_config c = {.stages = (uint32_t)atoi(f[0]),
                              .microbatches = (uint32_t)atoi(f[1]),
                              .chunks = interleaved ? (uint32_t)atoi(f[2]) : 1,
                              .group = interleaved ? (uint32_t)atoi(f[3]) : 0,
                              .flags = atoi(f[4]) ? WEFT_SCHEDULE_FORWARD_ONLY : 0};
    uint32_t stage = (uint32_t)atoi(f[6]), total = c.chunks * c.microbatches;
    uint32_t warmup = interleaved ? weft__warmup_interleaved(&c, stage) : weft__warmup_1f1b(&c, stage);
    bool same = total == (uint32_t)atoi(f[7]) && (warmup == total) == (bool)atoi(f[8]) &&
                warmup == (uint32_t)atoi(f[9]) && total - warmup == (uint32_t)atoi(f[10]);
    if (!same)
        test_note("p %s m %s v %s g %s forward only %s stage %s: total %u warm-up %u, not %s %s", f[0], f[1], f[2],
                  f[3], f[4], f[6], total, warmup, f[7], f[9]);
    t->deviations += !same;
    t->compared++;
}

TEST(golden_warmup_counts)
{
    tally t = {0};
    golden_lines("sched_tables.tsv", check_warmup, &t);
    test_note("%zu rows not compared: they overlap experts with one forward more, which no policy here does",
              t.left_out);
    test_note("compared %zu warm-up counts, %zu deviations", t.compared, t.deviations);
    CHECK(t.compared > 0 && t.deviations == 0);
}
