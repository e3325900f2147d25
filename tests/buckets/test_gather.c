/* SPDX-License-Identifier: Apache-2.0 */
/* New values reach every rank, and are not read before they are acquired. */
#include <fcntl.h>
#include <unistd.h>

#include "sets.h"

static void fill_param(weft_buckets *set, weft_params *params, uint32_t param, float value)
{
    float *data = weft_buckets_param(set, param);
    for (size_t i = 0; i < weft_params_elements(params, param); i++)
        data[i] = value;
}

/* Set what this rank owns of every param to @p value plus the index of the param. */
static void write_owned(weft_buckets *set, float value)
{
    size_t count;
    const weft_owned *owned = weft_buckets_owned(set, &count);
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < owned[i].count; k++)
            ((float *)owned[i].data)[k] = value + (float)owned[i].param;
}

static void check_param(const weft_buckets *set, const weft_params *params, uint32_t param, float want)
{
    const float *data = weft_buckets_param(set, param);
    for (size_t i = 0; i < weft_params_elements(params, param); i++)
        CHECK_MSG(data[i] == want, "rank %d: element %zu of p%u is %g, not %g", set->rank, i, param, (double)data[i],
                  (double)want);
}

static void any_order(rank_state *r)
{
    weft_buckets_config config = packed(1);
    make_set(r, &config);
    for (uint32_t p = 0; p < 3; p++)
        fill_param(r->set, r->params, p, 1);
    microbatch(r, true, 1);
    reduce(r);
    write_owned(r->set, 2);
    for (uint32_t b = 0; b < 3; b++)
        CHECK_OK(weft_buckets_gather(r->set, b, WEFT_STREAM_HOST));
    static const uint32_t order[] = {0, 2, 1};
    for (int i = 0; i < 3; i++) {
        CHECK_OK(weft_buckets_acquire(r->set, order[i], 1, WEFT_STREAM_HOST));
        check_param(r->set, r->params, order[i], 2.0f + (float)order[i]);
    }
    CHECK_OK(weft_buckets_acquire(r->set, 0, 3, WEFT_STREAM_HOST)); /* again is fine */
}

TEST(params_are_new_when_acquired_whatever_the_order)
{
    on_ranks(3, SIZES(5, 6, 7), any_order);
}

static void whole_or_not(rank_state *r)
{
    weft_buckets_config config = packed(1);
    make_set(r, &config);
    CHECK_OK(weft_buckets_check_whole(r->set));
    microbatch(r, true, 1);
    CHECK_OK(weft_buckets_check_whole(r->set));
    reduce(r);
    CHECK_REFUSED(weft_buckets_check_whole(r->set), WEFT_E_STATE, "rank", "param 'p0'", "bucket 1", "not gathered");
    write_owned(r->set, 4);
    CHECK_OK(weft_buckets_gather(r->set, 1, WEFT_STREAM_HOST));
    CHECK_OK(weft_buckets_gather(r->set, 0, WEFT_STREAM_HOST));
    CHECK_REFUSED(weft_buckets_check_whole(r->set), WEFT_E_STATE, "param 'p0'", "bucket 1", "acquire it first");
    CHECK_OK(weft_buckets_acquire(r->set, 0, 1, WEFT_STREAM_HOST));
    CHECK_REFUSED(weft_buckets_check_whole(r->set), WEFT_E_STATE, "param 'p1'", "bucket 0", "acquire it first");
    CHECK_OK(weft_buckets_acquire(r->set, 0, 2, WEFT_STREAM_HOST));
    CHECK_OK(weft_buckets_check_whole(r->set));
    check_param(r->set, r->params, 1, 5);
}

TEST(reading_while_params_are_gathered_is_refused_by_name)
{
    on_ranks(2, SIZES(5, 6), whole_or_not);
}

static void after_loading(rank_state *r)
{
    weft_buckets_config config = packed(4);
    make_set(r, &config);
    for (uint32_t p = 0; p < 2; p++)
        fill_param(r->set, r->params, p, -1); /* stale on this rank, but for what it owns */
    write_owned(r->set, 8);
    gather_all(r);
    check_param(r->set, r->params, 0, 8);
    check_param(r->set, r->params, 1, 9);
}

TEST(after_loading_a_gather_makes_all_ranks_hold_what_the_owners_hold)
{
    on_ranks(4, SIZES(5, 6), after_loading);
}

static void cleared(rank_state *r)
{
    make_set(r, NULL);
    microbatch(r, true, 3);
    reduce(r);
    gather_all(r);
    CHECK_OK(weft_buckets_begin(r->set, 1));
    for (uint32_t p = 0; p < 2; p++)
        for (size_t i = 0; i < weft_params_elements(r->params, p); i++)
            CHECK(((float *)weft_buckets_grad(r->set, p))[i] == 0);
    give(r->set, r->params, 1, 0.5f);
    give(r->set, r->params, 0, 0.5f);
    reduce(r);
    check_owned(r->set, 1);
}

TEST(a_window_begins_with_gradients_of_zero)
{
    on_ranks(2, SIZES(50, 600), cleared);
}

/* Can the first byte be read? The kernel tells without a signal. */
static bool readable(const void *memory)
{
    int ends[2];
    CHECK(pipe(ends) == 0);
    bool yes = write(ends[1], memory, 1) == 1;
    close(ends[0]);
    close(ends[1]);
    return yes;
}

static void guarded(rank_state *r)
{
    weft_buckets_config config = packed(1);
    config.flags = WEFT_BUCKETS_GUARD_UNACQUIRED;
    make_set(r, &config);
    for (uint32_t p = 0; p < 2; p++)
        fill_param(r->set, r->params, p, 1);
    weft_adam *adam;
    CHECK_OK(weft_adam_create(&r->set, 1, NULL, &adam));
    weft_step how = WEFT_STEP_INIT;
    how.lr = 0.5f;
    for (int step = 1; step <= 2; step++) {
        microbatch(r, true, 1);
        CHECK(readable(weft_buckets_param(r->set, 0)));
        CHECK_OK(weft_adam_step(adam, &how, NULL));
        CHECK(!readable(weft_buckets_param(r->set, 0)));
        CHECK(!readable(weft_buckets_param(r->set, 1)));
        CHECK_OK(weft_buckets_acquire(r->set, 1, 1, WEFT_STREAM_HOST));
        CHECK(!readable(weft_buckets_param(r->set, 0)));
        CHECK_OK(weft_buckets_acquire(r->set, 0, 1, WEFT_STREAM_HOST));
        for (uint32_t p = 0; p < 2; p++)
            for (size_t i = 0; i < weft_params_elements(r->params, p); i++)
                CHECK_NEAR(((float *)weft_buckets_param(r->set, p))[i], 1 - 0.5 * step, 1e-6);
    }
    weft_adam_destroy(adam);
}

TEST(guarded_params_cannot_be_read_before_they_are_acquired)
{
    on_ranks(2, SIZES(5000, 60), guarded);
}

static void in_step(rank_state *r)
{
    weft_buckets_config config = packed(1);
    config.flags = WEFT_BUCKETS_GATHER_IN_STEP;
    make_set(r, &config);
    weft_adam *adam;
    CHECK_OK(weft_adam_create(&r->set, 1, NULL, &adam));
    weft_step how = WEFT_STEP_INIT;
    how.lr = 0.5f;
    microbatch(r, true, 1);
    CHECK_OK(weft_adam_step(adam, &how, NULL));
    CHECK_OK(weft_buckets_check_whole(r->set));
    microbatch(r, true, 1); /* nothing to acquire */
    CHECK_OK(weft_adam_step(adam, &how, NULL));
    CHECK_INT(r->set->usage.gathers, 4);
    weft_adam_destroy(adam);
}

TEST(without_overlap_the_step_returns_with_whole_params)
{
    on_ranks(2, SIZES(5, 6), in_step);
}
