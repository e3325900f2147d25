/* SPDX-License-Identifier: Apache-2.0 */
/* Marks: when a gradient is final, a bucket full and a reduction started, and what is refused. */
#include "base/memory.h"
#include "sets.h"

static void mark(weft_buckets *set, uint32_t param)
{
    CHECK_OK(weft_buckets_mark_ready(set, param, WEFT_STREAM_HOST));
}

static weft_result try_mark(weft_buckets *set, uint32_t param)
{
    return weft_buckets_mark_ready(set, param, WEFT_STREAM_HOST);
}

static size_t started(const weft_buckets *set)
{
    weft_buckets_usage usage = WEFT_BUCKETS_USAGE_INIT;
    CHECK_OK(weft_buckets_usage_get(set, &usage));
    return usage.reductions;
}

static void marked_in_any_order(rank_state *r)
{
    weft_buckets_config config = packed(1);
    make_set(r, &config); /* three buckets of one param, launched p2, p1, p0 */
    CHECK_OK(weft_buckets_begin(r->set, 1));
    static const uint32_t orders[2][3] = {{0, 1, 2}, {2, 0, 1}};
    for (int i = 0; i < 3; i++) {
        uint32_t param = orders[r->rank][i];
        give(r->set, r->params, param, (float)(r->rank + 1) * (float)(param + 1));
        /* p0 and p1 wait for p2, whatever comes first */
        CHECK_INT(started(r->set), r->rank == 0 ? (i < 2 ? 0 : 3) : (i < 2 ? 1 : 3));
    }
    reduce(r);
    size_t count;
    const weft_owned *owned = weft_buckets_owned(r->set, &count);
    for (size_t i = 0; i < count; i++)
        CHECK(*(float *)owned[i].grad == 3.0f * (float)(owned[i].param + 1));
}

TEST(buckets_start_in_one_order_whatever_the_order_of_marks)
{
    on_ranks(2, SIZES(2, 2, 2), marked_in_any_order);
}

static void one_unmarked(rank_state *r)
{
    weft_buckets_config config = packed(0);
    config.flags = WEFT_BUCKETS_GATHER_IN_STEP;
    make_set(r, &config);
    CHECK_OK(weft_buckets_begin(r->set, 1));
    mark(r->set, 0);
    mark(r->set, 2);
    char rank[16];
    snprintf(rank, sizeof rank, "rank %d", r->rank);
    CHECK_REFUSED(weft_buckets_reduce(&r->set, 1, 0), WEFT_E_STATE, rank, "param 'p1'", "bucket 0",
                  "2 of 3 params of its bucket are marked");
    CHECK_INT(started(r->set), 0);
    mark(r->set, 1); /* nothing was lost */
    reduce(r);
}

TEST(a_param_that_was_not_marked_is_named_in_strict_mode)
{
    on_ranks(2, SIZES(2, 2, 2), one_unmarked);
}

static void one_unmarked_lenient(rank_state *r)
{
    weft_buckets_config config = packed(0);
    config.flags = WEFT_BUCKETS_UNUSED_ZERO;
    make_set(r, &config);
    CHECK_OK(weft_buckets_begin(r->set, 1));
    give(r->set, r->params, 0, 1);
    if (r->rank == 1) /* unused on one rank only */
        give(r->set, r->params, 1, 5);
    give(r->set, r->params, 2, 1);
    reduce(r);
    size_t count;
    const weft_owned *owned = weft_buckets_owned(r->set, &count);
    for (size_t i = 0; i < count; i++)
        CHECK(*(float *)owned[i].grad == (owned[i].param == 1 ? 5.0f : 2.0f));
}

TEST(a_param_that_was_not_marked_counts_as_zero_in_lenient_mode)
{
    on_ranks(2, SIZES(2, 2, 2), one_unmarked_lenient);
}

static void marked_twice(rank_state *r)
{
    weft_buckets_config config = packed(1);
    make_set(r, &config);
    CHECK_REFUSED(try_mark(r->set, 0), WEFT_E_STATE, "param 'p0'", "no microbatch has begun");
    CHECK_OK(weft_buckets_begin(r->set, 0));
    mark(r->set, 0);
    CHECK_REFUSED(try_mark(r->set, 0), WEFT_E_TWICE, "param 'p0'", "bucket 1", "final already in this microbatch");
    CHECK_OK(weft_buckets_begin(r->set, 1));
    give(r->set, r->params, 0, 1); /* full, but bucket 0 comes first */
    CHECK_REFUSED(try_mark(r->set, 0), WEFT_E_TWICE, "param 'p0'", "bucket 1", "final already");
    give(r->set, r->params, 1, 1);
    CHECK_REFUSED(try_mark(r->set, 1), WEFT_E_TWICE, "param 'p1'", "bucket 0", "being reduced already");
    float one = 1;
    CHECK_REFUSED(weft_buckets_accumulate(r->set, 1, 0, &one, WEFT_FP32, 1), WEFT_E_TWICE, "param 'p1'", "reduced");
    CHECK_INT(started(r->set), 2);
    reduce(r);
    CHECK_REFUSED(try_mark(r->set, 1), WEFT_E_TWICE, "param 'p1'", "reduced already");
    check_owned(r->set, 2);
}

TEST(a_param_that_is_marked_twice_is_named_and_nothing_changes)
{
    on_ranks(2, SIZES(2, 2), marked_twice);
}

static void two_contributions(rank_state *r)
{
    weft_param wte = WEFT_PARAM_INIT;
    wte.name = "wte", wte.dims = 1, wte.shape[0] = 4, wte.contributions = 2;
    CHECK_OK(weft_params_add(r->params, &wte, NULL));
    weft_buckets_config config = packed(0);
    make_set(r, &config);
    CHECK_OK(weft_buckets_begin(r->set, 0));
    give(r->set, r->params, 0, 1);
    CHECK_REFUSED(weft_buckets_begin(r->set, 1), WEFT_E_STATE, "param 'wte'", "1 of 2 marks");
    give(r->set, r->params, 0, 2);
    CHECK_OK(weft_buckets_begin(r->set, 1));
    give(r->set, r->params, 0, 4);
    CHECK_INT(started(r->set), 0);
    CHECK_REFUSED(weft_buckets_reduce(&r->set, 1, 0), WEFT_E_STATE, "param 'wte'", "1 of 2 marks", "0 of 1 params");
    give(r->set, r->params, 0, 8);
    CHECK_INT(started(r->set), 1);
    CHECK_REFUSED(try_mark(r->set, 0), WEFT_E_TWICE, "param 'wte'");
    reduce(r);
    check_owned(r->set, 30);
}

TEST(a_param_with_two_contributions_is_final_after_the_second)
{
    on_ranks(2, NULL, two_contributions);
}

static void windows(rank_state *r)
{
    weft_buckets_config config = packed(2);
    config.reduction = WEFT_AVERAGE;
    make_set(r, &config);
    /* two microbatches, rank 0 gives 1 and 3, rank 1 gives 2 and 5 */
    microbatch(r, false, r->rank ? 2 : 1);
    CHECK_INT(started(r->set), 0);
    microbatch(r, true, r->rank ? 5 : 3);
    reduce(r);
    check_owned(r->set, 5.5f);
    gather_all(r);
    /* three, on every rank 1, 10, 100: the window before leaves nothing */
    microbatch(r, false, 1);
    microbatch(r, false, 10);
    microbatch(r, true, 100);
    reduce(r);
    check_owned(r->set, 111);
    CHECK_INT(started(r->set), 2 * weft_layout_buckets(weft_buckets_layout(r->set)));
}

TEST(a_window_adds_its_microbatches_up_and_communicates_once)
{
    on_ranks(2, SIZES(2, 2, 2, 2), windows);
}

static void unmarked_microbatches(rank_state *r)
{
    weft_buckets_config config = packed(0);
    make_set(r, &config);
    CHECK_OK(weft_buckets_begin(r->set, 0)); /* a trainer may add without marks here */
    ((float *)weft_buckets_grad(r->set, 0))[0] += 7;
    ((float *)weft_buckets_grad(r->set, 0))[1] += 7;
    microbatch(r, true, 1);
    reduce(r);
    check_owned(r->set, 16);
}

TEST(marks_may_be_left_out_before_the_last_microbatch)
{
    on_ranks(2, SIZES(2), unmarked_microbatches);
}

/* p1 is marked as its microbatch goes on, p0 when others have begun. */
static void late_marks(rank_state *r)
{
    weft_buckets_config config = packed(1);
    config.flags = WEFT_BUCKETS_LATE_MARKS;
    make_set(r, &config); /* p1 is launched before p0 */
    for (int window = 1; window <= 2; window++) {
        size_t before = started(r->set);
        CHECK_OK(weft_buckets_begin(r->set, 0));
        give(r->set, r->params, 1, 1);
        CHECK_REFUSED(try_mark(r->set, 1), WEFT_E_TWICE, "param 'p1'");
        CHECK_OK(weft_buckets_begin(r->set, 0));
        give(r->set, r->params, 1, 2);
        give(r->set, r->params, 0, 10);
        CHECK_OK(weft_buckets_begin(r->set, 1));
        give(r->set, r->params, 0, 20);
        CHECK_INT(started(r->set) - before, 0);
        give(r->set, r->params, 1, 4);
        CHECK_INT(started(r->set) - before, 1);
        CHECK_REFUSED(weft_buckets_reduce(&r->set, 1, 0), WEFT_E_STATE, "param 'p0'", "2 of 3 marks", "in the window");
        give(r->set, r->params, 0, 40);
        CHECK_INT(started(r->set) - before, 2);
        CHECK_REFUSED(try_mark(r->set, 0), WEFT_E_TWICE, "param 'p0'");
        reduce(r);
        size_t count;
        const weft_owned *owned = weft_buckets_owned(r->set, &count);
        for (size_t i = 0; i < count; i++)
            CHECK(*(float *)owned[i].grad == (owned[i].param == 0 ? 140.0f : 14.0f));
        gather_all(r);
    }
}

TEST(late_marks_are_counted_over_the_window)
{
    on_ranks(2, SIZES(2, 2), late_marks);
}

static void late_contributions(rank_state *r)
{
    weft_param wte = WEFT_PARAM_INIT;
    wte.name = "wte", wte.dims = 1, wte.shape[0] = 4, wte.contributions = 2;
    CHECK_OK(weft_params_add(r->params, &wte, NULL));
    weft_buckets_config config = packed(0);
    config.flags = WEFT_BUCKETS_LATE_MARKS;
    make_set(r, &config);
    CHECK_OK(weft_buckets_begin(r->set, 0));
    give(r->set, r->params, 0, 1);
    CHECK_OK(weft_buckets_begin(r->set, 1)); /* the other one comes later */
    for (int i = 1; i <= 3; i++) {
        CHECK_INT(started(r->set), 0);
        give(r->set, r->params, 0, 1);
    }
    CHECK_INT(started(r->set), 1);
    reduce(r);
    check_owned(r->set, 8);
}

TEST(late_marks_may_leave_a_param_with_some_of_its_contributions)
{
    on_ranks(2, NULL, late_contributions);
}

static void misplaced(rank_state *r)
{
    weft_buckets_config config = packed(1);
    make_set(r, &config);
    CHECK_REFUSED(weft_buckets_reduce(&r->set, 1, 0), WEFT_E_STATE, "set 'buckets'", "no microbatch has begun");
    microbatch(r, false, 1);
    CHECK_REFUSED(weft_buckets_reduce(&r->set, 1, 0), WEFT_E_STATE, "none of its microbatches was begun as the last");
    CHECK_REFUSED(weft_buckets_gather(r->set, 0, WEFT_STREAM_HOST), WEFT_E_STATE, "bucket 0", "not reduced");
    float norm = -1;
    CHECK_REFUSED(weft_buckets_norm(&r->set, 1, &norm), WEFT_E_STATE, "bucket 0", "not reduced");
    microbatch(r, true, 1);
    CHECK_REFUSED(weft_buckets_begin(r->set, 1), WEFT_E_STATE, "rank", "the last one of the window has");
    reduce(r);
    CHECK_REFUSED(weft_buckets_reduce(&r->set, 1, 0), WEFT_E_STATE, "nothing was reduced");
    CHECK_OK(weft_buckets_gather(r->set, 0, WEFT_STREAM_HOST));
    CHECK_REFUSED(weft_buckets_gather(r->set, 0, WEFT_STREAM_HOST), WEFT_E_TWICE, "bucket 0", "gathered already");
    CHECK_REFUSED(weft_buckets_begin(r->set, 0), WEFT_E_STATE, "bucket 1", "not gathered");
    CHECK_OK(weft_buckets_gather(r->set, 1, WEFT_STREAM_HOST));
    CHECK_OK(weft_buckets_begin(r->set, 0));
    CHECK_REFUSED(try_mark(r->set, 1), WEFT_E_STATE, "param 'p1'", "bucket 0", "not acquired");
    CHECK_OK(weft_buckets_acquire(r->set, 0, 2, WEFT_STREAM_HOST));
    mark(r->set, 1);
}

TEST(calls_that_do_not_fit_are_refused_by_name)
{
    on_ranks(2, SIZES(2, 2), misplaced);
}

static void bad_arguments(rank_state *r)
{
    add_param(r->params, "w", 4, 0);
    add_param(r->params, "cold", 4, WEFT_PARAM_FROZEN);
    weft_buckets_config config = packed(0);
    make_set(r, &config);
    CHECK_OK(weft_buckets_begin(r->set, 1));
    CHECK_REFUSED(try_mark(r->set, 2), WEFT_E_RANGE, "no param 2");
    CHECK_REFUSED(try_mark(r->set, 1), WEFT_E_INVALID, "param 'cold'", "frozen");
    float values[4] = {0};
    CHECK_REFUSED(weft_buckets_accumulate(r->set, 0, 3, values, WEFT_FP32, 2), WEFT_E_RANGE, "param 'w'",
                  "3 to 5 of 4");
    CHECK_REFUSED(weft_buckets_accumulate(r->set, 0, 0, values, WEFT_INT32, 2), WEFT_E_INVALID, "param 'w'", "int32");
    CHECK_REFUSED(weft_buckets_accumulate(r->set, 0, 0, NULL, WEFT_FP32, 2), WEFT_E_INVALID, "param 'w'");
    weft_stream device = {NULL, 1};
    CHECK_REFUSED(weft_buckets_mark_ready(r->set, 0, device), WEFT_E_UNSUPPORTED, "device stream");
    CHECK_REFUSED(weft_buckets_acquire(r->set, 1, 2, WEFT_STREAM_HOST), WEFT_E_RANGE, "params 1 to 3 of 2");
    CHECK_REFUSED(weft_buckets_gather(r->set, 1, WEFT_STREAM_HOST), WEFT_E_RANGE, "no bucket 1");
    CHECK_REFUSED(weft_buckets_reduce(NULL, 0, 0), WEFT_E_INVALID, "no sets");
    CHECK_REFUSED(weft_buckets_reduce(&r->set, 1, -2), WEFT_E_INVALID, "divided by -2");
    CHECK_RESULT(weft_buckets_begin(NULL, 0), WEFT_E_INVALID);
    mark(r->set, 0);
    reduce(r);
}

TEST(bad_arguments_are_named)
{
    on_ranks(1, NULL, bad_arguments);
}

static void widened(rank_state *r)
{
    weft_param param = WEFT_PARAM_INIT;
    param.name = "w", param.dims = 1, param.shape[0] = 5, param.dtype = WEFT_BF16;
    CHECK_OK(weft_params_add(r->params, &param, NULL));
    weft_buckets_config config = packed(0);
    make_set(r, &config);
    CHECK_OK(weft_buckets_begin(r->set, 1));
    uint16_t start = weft__float_to_bf16(256), one = weft__float_to_bf16(1);
    uint16_t ones[3] = {one, one, one}, first[3] = {start, start, start};
    CHECK_OK(weft_buckets_accumulate(r->set, 0, 1, first, WEFT_BF16, 3));
    for (int i = 0; i < 8; i++) /* in bf16 256 + 1 is 256 */
        CHECK_OK(weft_buckets_accumulate(r->set, 0, 1, ones, WEFT_BF16, 3));
    const float *grad = weft_buckets_grad(r->set, 0);
    CHECK(grad[0] == 0 && grad[1] == 264 && grad[3] == 264 && grad[4] == 0);
    mark(r->set, 0);
    reduce(r);
}

TEST(gradients_of_16_bits_are_added_up_in_fp32)
{
    on_ranks(1, NULL, widened);
}

static void steady(rank_state *r)
{
    weft_buckets_config config = packed(4);
    make_set(r, &config);
    weft_adam *adam;
    CHECK_OK(weft_adam_create(&r->set, 1, NULL, &adam));
    weft_step how = WEFT_STEP_INIT;
    how.lr = 0.01f, how.clip_norm = 1;
    long before = 0;
    for (int step = 0; step < 110; step++) {
        if (step == 10)
            before = weft__alloc_count();
        microbatch(r, false, 1);
        CHECK_OK(weft_buckets_acquire(r->set, 0, 4, WEFT_STREAM_HOST));
        microbatch(r, true, 1);
        CHECK_OK(weft_adam_step(adam, &how, NULL));
        CHECK_OK(weft_buckets_acquire(r->set, 0, 4, WEFT_STREAM_HOST));
    }
    CHECK_INT(weft__alloc_count() - before, 0);
    weft_adam_destroy(adam);
}

TEST(a_hundred_steady_steps_allocate_nothing)
{
    on_ranks(2, SIZES(3, 4, 5, 6), steady);
}
