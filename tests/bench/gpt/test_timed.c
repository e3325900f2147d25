/* SPDX-License-Identifier: Apache-2.0 */
/* Computing that is only time: never less than was asked for, and the communication is the real one. */
#include "gpt/timed.h"

#include "clock.h"
#include "gpt/switches.h"
#include "harness/test.h"
#include "training.h"

static gpt_shape small(void)
{
    gpt_failure failure;
    gpt_shape s = {.layers = 2, .hidden = 8, .ffn = 16, .heads = 2, .groups = 2, .channels = 4, .sequence = 4};
    s.vocabulary = 10, s.vocabulary_multiple = 1, s.micro_batch = 1, s.norm_epsilon = 1e-5f, s.rotary_base = 1e4f;
    s.init_deviation = 0.02f, s.tensor = s.pipeline = s.virtual_stages = 1, s.dtype = WEFT_FP32;
    CHECK_MSG(gpt_shape_complete(&s, &failure) == 0, "%s", failure.text);
    return s;
}

TEST(time_passes_and_what_others_took_is_not_made_up_for)
{
    enum { PASSES = 50, NS = 100000 };
    gpt_shape shape = small();
    gpt_timed_device timed;
    gpt_timed_open(&timed, &shape);
    int64_t began = timed.core.due_ns;
    for (int i = 0; i < PASSES; i++)
        pretend_pass(&timed.core, NS);
    CHECK(clock_ns() - began >= (int64_t)PASSES * NS);
    CHECK(timed.core.due_ns - began >= (int64_t)PASSES * NS && timed.core.left_ns >= timed.core.due_ns);
    int64_t due = timed.core.due_ns, left = timed.core.left_ns;
    while (clock_ns() < left + 2 * NS) /* somebody else's time */
        ;
    pretend_pass(&timed.core, NS);
    CHECK(timed.core.due_ns - due >= 3 * NS);
}

/* Sleeping is cut by what a sleep usually ends too late, and what is left is no less for it. */
TEST(whoever_wakes_up_early_is_not_done_early)
{
    enum { LATE_MOST = 30000 };
    pretend core;
    pretend_open(&core);
    for (int i = 0; i < 20; i++) {
        if (i % 2)
            core.late_ns = LATE_MOST;
        pretend_pass(&core, i < 10 ? 100000 : LATE_MOST / 2); /* also what is too short for it */
        CHECK(core.left_ns >= core.due_ns);
        CHECK(core.late_ns >= 0 && core.late_ns <= LATE_MOST);
    }
}

TEST(a_forward_takes_its_time_over_all_its_products)
{
    gpt_shape shape = small();
    gpt_timed_device timed;
    gpt_model model;
    gpt_chunk chunk;
    gpt_failure failure;
    double loss = 0;
    static int32_t tokens[4];
    gpt_timed_open(&timed, &shape);
    gpt_model_open(&model, &shape, &timed.device, NULL);
    CHECK(gpt_chunk_open(&chunk, &model, 0, 1, &failure) == 0);
    double elements = gpt_timed_elements(&chunk);
    CHECK_INT(elements, 2 * (8 * 24 + 8 * 8 + 8 * 32 + 16 * 8) + 10 * 8); /* two layers, and the output */
    gpt_timed_set(&timed, 3, elements);
    int64_t due = timed.core.due_ns - timed.core.left_ns, before = clock_ns();
    CHECK_OK(gpt_chunk_forward(&chunk, 0, NULL, NULL, tokens, tokens, &loss));
    CHECK(clock_ns() - before + due >= 2999000); /* fractions of a nanosecond are cut off, product by product */
    gpt_timed_set(&timed, 4, 2 * elements);
    before = clock_ns();
    due = timed.core.left_ns - timed.core.due_ns; /* slept too long before */
    CHECK_OK(gpt_chunk_backward(&chunk, 0, NULL, NULL, 1));
    CHECK(clock_ns() - before + due >= 3999000);
    CHECK(loss == 0);
    gpt_chunk_close(&chunk);
}

static int64_t slept_too_long(gpt_timed_device *timed)
{
    timed->core.left_ns = timed->core.due_ns + 1000000;
    return timed->core.left_ns - timed->core.due_ns;
}

TEST(what_was_slept_through_a_wait_is_not_made_up_for)
{
    gpt_shape shape = small();
    gpt_timed_device timed;
    gpt_timed_open(&timed, &shape);
    gpt_tp tp = {.ranks = 1, .core = &timed.core};
    CHECK(slept_too_long(&timed) > 0);
    gpt_timed_set(&timed, 1, 1); /* a pass begins when its message has come */
    CHECK(timed.core.left_ns == timed.core.due_ns);
    CHECK(slept_too_long(&timed) > 0);
    gpt_tp_waited(&tp);
    CHECK(timed.core.left_ns == timed.core.due_ns);
}

TEST(a_timed_training_says_no_loss_and_takes_no_less_than_it_was_told)
{
    /* 16 samples over 2 replicas in microbatches of 2: 4 of them, each through 2 chunks one after the other */
    training t = training_on_threads(4, "--pipeline-model-parallel-size 2 --train-iters 2 --compute timed:2,3,1 "
                                        "--ddp-bucket-size 3000");
    CHECK_INT(t.code, 0);
    for (int i = 0; i < 2; i++) {
        CHECK(json_is_null(json_get(t.lines[i], "loss")) && json_is_null(json_get(t.lines[i], "grad_norm")));
        CHECK(json_real(json_get(t.lines[i], "step_ms"), 0) > 4 * (2 + 3) + (2 + 3) + 1 - 0.5);
    }
    CHECK(json_is_null(json_get(t.summary, "loss_first")) && json_is_null(json_get(t.summary, "loss_held_out")));
    training_forget(&t);
}
