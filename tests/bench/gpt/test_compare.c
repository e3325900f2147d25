/* SPDX-License-Identifier: Apache-2.0 */
/* Steps with overlap beside steps without: who is counted, what follows, what is said, and that nothing changes. */
#include "gpt/compare.h"

#include <math.h>
#include <string.h>

#include "gpt/report.h"
#include "harness/test.h"
#include "training.h"

TEST(blocks_of_both_kinds_take_turns)
{
    for (int step = 1; step <= 12; step++)
        CHECK_INT(gpt_compare_way(step), (step >= 4 && step <= 6) || step >= 10 ? GPT_SERIAL : GPT_AS_ASKED);
}

/* A step of 100 ms with 10 exposed instead of one of 150: of 60 ms of communication 50 were hidden. */
static gpt_comparison good(void)
{
    return (gpt_comparison){
        .steps = 4,
        .talks = 2,
        .talk_ms = 60,
        .saved_ms = 50,
        .exposed_ms = 10,
        .overlapped.ms =
            {[GPT_TIME_STEP] = 100, [GPT_TIME_COMPUTING_ONLY] = 40, [GPT_TIME_HIDDEN] = 50, [GPT_TIME_EXPOSED] = 10},
        .serial.ms = {[GPT_TIME_STEP] = 150, [GPT_TIME_COMPUTING_ONLY] = 90, [GPT_TIME_EXPOSED] = 60},
        .phases = {.forward = 30, .backward = 55, .optimizer = 5, .reduces = 6, .gathers = 3},
    };
}

TEST(eta_is_what_was_saved_of_the_communication_alone)
{
    gpt_comparison c = good();
    CHECK_NEAR(gpt_comparison_eta(&c), 50.0 / 60, 1e-12);
    CHECK_NEAR(gpt_comparison_hidden(&c), 50.0 / 60, 1e-12);
    CHECK_NEAR(gpt_comparison_perfect(&c), 99, 1e-12);
    CHECK_NEAR(gpt_comparison_took(&c), 100, 1e-12);
    c.phases.forward = 0;
    CHECK(isnan(gpt_comparison_perfect(&c)));
    c.talk_ms = 0.1; /* of steps of 150: there was nothing to hide */
    CHECK(isnan(gpt_comparison_eta(&c)));
    c = (gpt_comparison){0};
    CHECK(isnan(gpt_comparison_eta(&c)));
}

static const char *said_of(const gpt_comparison *c)
{
    static char text[4096];
    memset(text, 0, sizeof text);
    FILE *out = fmemopen(text, sizeof text, "w");
    gpt_report_comparison(out, c);
    fclose(out);
    return text;
}

TEST(both_figures_are_printed_and_explained_only_if_they_differ)
{
    gpt_comparison c = good();
    CHECK_HAS(said_of(&c), "4 steps of each kind and 2 times the communication alone");
    CHECK_HAS(said_of(&c),
              "saved 50.00 +- 0.00 ms: eta 0.833 of the communication alone; by intervals 0.833 was hidden");
    CHECK_HAS(said_of(&c), "forward 30.00 + backward 55.00 + optimizer 5.00 + what must be exposed 6.00 + 3.00 = 99.00 "
                           "ms; the step took 1.010 of it: exposed 10.00 +- 0.00 ms");
    CHECK(!strstr(said_of(&c), "they differ"));
    c.saved_ms = 46, c.overlapped.ms[GPT_TIME_COMPUTING_ONLY] = 44;
    CHECK_HAS(said_of(&c), "eta 0.767");
    CHECK_HAS(said_of(&c), "they differ by more than 5 points: computing took +4.0 ms beside operations");
    CHECK_HAS(said_of(&c), "operations were under way for 60.0 ms with overlap, 60.0 without, 60.0 alone");
    c.phases.forward = 0;
    CHECK(!strstr(said_of(&c), "stop-watch"));
    c.talk_ms = 0;
    CHECK_HAS(said_of(&c), "there is no communication that overlap could hide");
}

TEST(what_was_not_shown_is_said)
{
    gpt_comparison c = good();
    CHECK(!strstr(said_of(&c), "n/a") && !strstr(said_of(&c), "holds 0"));
    c.saved_error_ms = 50.01;
    CHECK_HAS(said_of(&c), "the interval holds 0: that overlap saves or costs anything was not shown");
    c.saved_error_ms = 49.99;
    CHECK(!strstr(said_of(&c), "holds 0"));
    c.saved_error_ms = c.exposed_error_ms = INFINITY;
    CHECK_HAS(said_of(&c), "exposed 10.00 ms (interval n/a)");
    CHECK_HAS(said_of(&c), "saved 50.00 ms (interval n/a): eta 0.833");
    CHECK_HAS(said_of(&c), "36 steps or more");
    CHECK(!strstr(said_of(&c), "+- "));
}

/* Also: that what is said alone in between leaves no trace. */
static void check_unchanged(int ranks, const char *layout, bool has_phases)
{
    static const char *const phases[] = {"forward_ms", "backward_ms", "optimizer_ms", "reduces_alone_ms", "perfect_ms"};
    char flags[256];
    training plain = training_on_threads(ranks, layout);
    snprintf(flags, sizeof flags, "%s --overlap compare", layout);
    training compared = training_on_threads(ranks, flags);
    CHECK_INT(plain.code, 0);
    CHECK_INT(compared.code, 0);
    CHECK_STR(training_text(&compared, "weights_hash"), training_text(&plain, "weights_hash"));
    for (int i = 0; i < compared.steps; i++) {
        CHECK(compared.loss[i] == plain.loss[i]);
        CHECK(json_bool(json_get(compared.lines[i], "serial"), false) == (gpt_compare_way(i + 1) == GPT_SERIAL));
        CHECK(!json_bool(json_get(plain.lines[i], "serial"), true));
    }
    const json *c = json_get(compared.summary, "comparison");
    CHECK_INT(json_int(json_get(c, "steps"), 0), 6); /* of 20: in 18, blocks of 3 of which 2 count */
    CHECK(json_real(json_get(c, "comm_alone_ms"), 0) > 0);
    for (size_t i = 0; i < sizeof phases / sizeof *phases; i++)
        CHECK((json_real(json_get(c, phases[i]), 0) > 0) == has_phases);
    CHECK_NEAR(training_number(&compared, "eta"),
               json_real(json_get(c, "saved_ms"), 0) / json_real(json_get(c, "comm_alone_ms"), 0), 1e-6);
    CHECK(json_is_null(json_get(c, "exposed_ms")) != has_phases);
    CHECK(json_is_null(json_get(c, "saved_error_ms"))); /* of three pairs */
    training_forget(&plain);
    training_forget(&compared);
}

TEST(comparing_changes_no_loss_and_no_weight)
{
    check_unchanged(2, "--ddp-bucket-size 3000", true);
    if (!test_is_slow())
        check_unchanged(8, "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --sequence-parallel",
                        false);
}
