/* SPDX-License-Identifier: Apache-2.0 */
/* Offsets, bucket edges and shards, worked out by hand and as properties of random lists. */
#include <weft/layout.h>

#include <stdlib.h>

#include "base/memory.h"
#include "layout.h"
#include "model.h"

static weft_layout *lay_out(const weft_params *params, int ranks, size_t bucket_elements, uint32_t alignment)
{
    weft_layout_config config = WEFT_LAYOUT_CONFIG_INIT;
    config.shard_ranks = ranks;
    config.bucket_elements = bucket_elements;
    config.param_alignment = config.bucket_alignment = alignment;
    weft_layout *layout;
    CHECK_OK(weft_layout_create(params, &config, &layout));
    return layout;
}

static void check_param(const weft_layout *layout, uint32_t param, size_t start, size_t end)
{
    const weft_layout_place *place = weft_layout_param_at(layout, param);
    CHECK_MSG(place->start == start && place->end == end, "p%u lies at [%zu,%zu), not [%zu,%zu)", param, place->start,
              place->end, start, end);
}

static void check_bucket(const weft_layout *layout, uint32_t bucket, size_t start, size_t end, size_t used)
{
    const weft_layout_bucket *b = weft_layout_bucket_at(layout, bucket);
    CHECK_MSG(b->start == start && b->end == end && b->used == used,
              "bucket %u is [%zu,%zu) with %zu used, not [%zu,%zu) with %zu", bucket, b->start, b->end, b->used, start,
              end, used);
}

static void check_shard(const weft_layout *layout, uint32_t bucket, int rank, size_t start, size_t end)
{
    size_t s, e;
    CHECK_OK(weft_layout_shard(layout, bucket, rank, &s, &e));
    CHECK_MSG(s == start && e == end, "rank %d owns [%zu,%zu) of bucket %u, not [%zu,%zu)", rank, s, e, bucket, start,
              end);
}

TEST(three_matrices_lie_end_to_end_in_reverse_order)
{
    weft_params *params;
    CHECK_OK(weft_params_create(&params));
    add_param(params, "W1", 6, 0);
    add_param(params, "W2", 4, 0);
    add_param(params, "WL", 12, 0);
    weft_layout *layout = lay_out(params, 2, 0, 1);
    CHECK_INT(weft_layout_buffer_at(layout, 0)->elements, 22);
    CHECK_INT(weft_layout_buffer_at(layout, 0)->used, 22);
    check_param(layout, 2, 0, 12);
    check_param(layout, 1, 12, 16);
    check_param(layout, 0, 16, 22);
    check_shard(layout, 0, 0, 0, 11); /* the edge is inside WL */
    check_shard(layout, 0, 1, 11, 22);
    weft_layout_destroy(layout);
    weft_params_destroy(params);
}

TEST(a_bucket_closes_after_the_param_that_reaches_the_size)
{
    weft_params *params = PARAMS_OF(1, 7, 4097);
    weft_layout *layout = lay_out(params, 4, 8, 1);
    check_param(layout, 2, 0, 4097);
    check_param(layout, 1, 4100, 4107);
    check_param(layout, 0, 4107, 4108);
    check_bucket(layout, 0, 0, 4100, 4097);
    check_bucket(layout, 1, 4100, 4108, 8);
    for (int rank = 0; rank < 4; rank++) {
        size_t r = (size_t)rank;
        check_shard(layout, 0, rank, 1025 * r, 1025 * r + 1025);
        check_shard(layout, 1, rank, 4100 + 2 * r, 4100 + 2 * r + 2);
    }
    weft_layout_destroy(layout);

    layout = lay_out(params, 4, 8, 0); /* 64 and 128 */
    check_param(layout, 2, 0, 4097);
    check_param(layout, 1, 4224, 4231);
    check_param(layout, 0, 4288, 4289);
    check_bucket(layout, 0, 0, 4224, 4097);
    check_bucket(layout, 1, 4224, 4352, 65);
    weft_layout_destroy(layout);
    weft_params_destroy(params);
}

TEST(padding_is_what_is_missing_not_what_is_over)
{
    size_t padded;
    CHECK(weft__pad_up(19, 8, &padded) && padded == 24);
    CHECK(weft__pad_up(16, 8, &padded) && padded == 16);
    CHECK(weft__pad_up(0, 8, &padded) && padded == 0);
    CHECK(weft__pad_up(9007199254740993, 64, &padded) && padded == 9007199254741056);
    CHECK(!weft__pad_up(SIZE_MAX - 2, 8, &padded));
    weft_params *params = PARAMS_OF(3);
    weft_layout *layout = lay_out(params, 8, 0, 1);
    check_bucket(layout, 0, 0, 8, 3);
    check_shard(layout, 0, 7, 7, 8);
    weft_layout_destroy(layout);
    weft_params_destroy(params);
}

TEST(a_tied_param_is_alone_and_cut_alike_whatever_lies_before_it)
{
    for (int before = 0; before < 2; before++) {
        weft_params *params;
        CHECK_OK(weft_params_create(&params));
        add_param(params, "tied", 2, WEFT_PARAM_TIED);
        if (before)
            add_param(params, "other", 3, 0);
        weft_layout *layout = lay_out(params, 2, WEFT_BUCKET_UNLIMITED, 1);
        size_t start = before ? 4 : 0;
        CHECK_INT(weft_layout_buckets(layout), before + 1);
        for (int rank = 0; rank < 2; rank++) {
            size_t s, e;
            weft__layout_owned(layout, 0, rank, &s, &e);
            CHECK_INT(s, start + (size_t)rank);
            CHECK_INT(e, start + (size_t)rank + 1);
        }
        weft_layout_destroy(layout);
        weft_params_destroy(params);
    }
}

/* The buckets of params of 100, 3, 4, 5 and 6 elements, the first one tied or not, as text: "65 43210". */
static void check_tail(size_t last_bucket_elements, uint32_t flags, bool tied, const char *want)
{
    static const size_t sizes[] = {100, 3, 4, 5, 6};
    weft_params *params;
    CHECK_OK(weft_params_create(&params));
    for (unsigned i = 0; i < 5; i++) {
        char name[8];
        snprintf(name, sizeof name, "p%u", i);
        add_param(params, name, sizes[i], i == 0 && tied ? WEFT_PARAM_TIED : 0);
    }
    weft_layout_config config = WEFT_LAYOUT_CONFIG_INIT;
    config.shard_ranks = 2, config.param_alignment = config.bucket_alignment = 1, config.flags = flags;
    config.last_bucket_elements = last_bucket_elements;
    weft_layout *layout;
    CHECK_OK(weft_layout_create(params, &config, &layout));
    char got[16] = "";
    size_t used = 0;
    for (uint32_t b = 0; b < weft_layout_buckets(layout); b++) {
        const weft_layout_bucket *bucket = weft_layout_bucket_at(layout, b);
        for (uint32_t i = 0; i < bucket->param_count; i++)
            used += (size_t)snprintf(got + used, sizeof got - used, "%s%u", b && i == 0 ? " " : "", bucket->params[i]);
    }
    CHECK_STR(got, want);
    weft_layout_destroy(layout);
    weft_params_destroy(params);
}

TEST(the_last_bucket_takes_no_more_than_it_must)
{
    check_tail(0, 0, false, "43210");
    check_tail(1, 0, false, "432 10");
    check_tail(3, 0, false, "432 10");
    check_tail(4, 0, false, "43 210");
    check_tail(7, 0, false, "43 210");
    check_tail(8, 0, false, "4 3210");
    check_tail(18, 0, false, "43210"); /* all of them: there is nothing before */
    check_tail(19, 0, false, "43210");
    check_tail(7, 0, true, "43 21 0");
    check_tail(7, WEFT_LAYOUT_UNSHARDED, true, "43 210");
}

TEST(every_buffer_has_a_last_bucket)
{
    static const weft_dtype dtypes[] = {WEFT_BF16, WEFT_FP32, WEFT_BF16, WEFT_FP32, WEFT_BF16, WEFT_FP32};
    weft_params *params;
    CHECK_OK(weft_params_create(&params));
    for (int i = 0; i < 6; i++) {
        char name[8];
        snprintf(name, sizeof name, "p%d", i);
        weft_param param = WEFT_PARAM_INIT;
        param.name = name, param.dtype = dtypes[i], param.dims = 1, param.shape[0] = 64;
        CHECK_OK(weft_params_add(params, &param, NULL));
    }
    weft_layout_config config = WEFT_LAYOUT_CONFIG_INIT;
    config.last_bucket_elements = 64;
    weft_layout *layout;
    CHECK_OK(weft_layout_create(params, &config, &layout));
    /* bf16: {p4} {p2 p0}; fp32: {p5} {p3 p1} */
    static const uint32_t buckets[] = {1, 3, 1, 3, 0, 2};
    for (uint32_t i = 0; i < 6; i++)
        CHECK_INT(weft_layout_param_at(layout, i)->bucket, buckets[i]);
    static const uint32_t order[] = {2, 0, 3, 1};
    for (uint32_t i = 0; i < 4; i++)
        CHECK_INT(weft_layout_order(layout, i), order[i]);
    weft_layout_destroy(layout);
    weft_params_destroy(params);
}

TEST(frozen_params_lie_nowhere)
{
    weft_params *params;
    CHECK_OK(weft_params_create(&params));
    add_param(params, "a", 3, 0);
    add_param(params, "b", 5, WEFT_PARAM_FROZEN);
    add_param(params, "c", 7, 0);
    weft_layout *layout = lay_out(params, 2, 0, 1);
    CHECK_INT(weft_layout_buffer_at(layout, 0)->elements, 10);
    CHECK_INT(weft_layout_param_at(layout, 1)->bucket, WEFT_LAYOUT_NONE);
    size_t start, end;
    weft__layout_owned(layout, 1, 0, &start, &end);
    CHECK_INT(end - start, 0);
    weft_layout_destroy(layout);
    weft_params_destroy(params);
}

TEST(without_shards_everything_is_owned_and_nothing_padded)
{
    weft_params *params;
    CHECK_OK(weft_params_create(&params));
    add_param(params, "a", 3, WEFT_PARAM_TIED);
    add_param(params, "b", 5, 0);
    weft_layout_config config = WEFT_LAYOUT_CONFIG_INIT;
    config.shard_ranks = 4;
    config.flags = WEFT_LAYOUT_UNSHARDED;
    weft_layout *layout;
    CHECK_OK(weft_layout_create(params, &config, &layout));
    check_bucket(layout, 0, 0, 8, 8);
    check_shard(layout, 0, 3, 0, 8);
    weft_layout_destroy(layout);
    weft_params_destroy(params);
}

TEST(buckets_go_by_their_last_gradient_over_all_buffers)
{
    static const weft_dtype dtypes[] = {WEFT_FP32, WEFT_BF16, WEFT_FP32, WEFT_BF16, WEFT_BF16};
    weft_params *params;
    CHECK_OK(weft_params_create(&params));
    for (int i = 0; i < 5; i++) {
        char name[8];
        snprintf(name, sizeof name, "p%d", i);
        weft_param param = WEFT_PARAM_INIT;
        param.name = name, param.dtype = dtypes[i], param.dims = 1, param.shape[0] = 64;
        CHECK_OK(weft_params_add(params, &param, NULL));
    }
    weft_layout *layout = lay_out(params, 1, 128, 0);
    /* fp32: {p2 p0}; bf16: {p4 p3} {p1} */
    CHECK_INT(weft_layout_buckets(layout), 3);
    CHECK_INT(weft_layout_order(layout, 0), 1);
    CHECK_INT(weft_layout_order(layout, 1), 2);
    CHECK_INT(weft_layout_order(layout, 2), 0);
    CHECK_INT(weft_layout_order(layout, 3), WEFT_LAYOUT_NONE);
    weft_layout_destroy(layout);
    weft_params_destroy(params);
}

TEST(the_default_bucket_grows_with_the_ranks)
{
    weft_params *params = PARAMS_OF(30000000, 30000000, 30000000);
    weft_layout *layout = lay_out(params, 8, 0, 0); /* closes at 40 million */
    CHECK_INT(weft_layout_buckets(layout), 2);
    weft_layout_destroy(layout);
    layout = lay_out(params, 61, 0, 0); /* at 61 million */
    CHECK_INT(weft_layout_buckets(layout), 1);
    weft_layout_destroy(layout);
    weft_params_destroy(params);
}

/* The shapes of GPT-2 124M: 124475904 elements with a padded vocabulary. */
static weft_params *gpt2(void)
{
    static const size_t layer[] = {768, 768, 3 * 768 * 768, 3 * 768, 768 * 768,     768,
                                   768, 768, 4 * 768 * 768, 4 * 768, 4 * 768 * 768, 768};
    weft_params *params;
    CHECK_OK(weft_params_create(&params));
    add_param(params, "wte", 50304 * 768, 0);
    add_param(params, "wpe", 1024 * 768, 0);
    for (unsigned l = 0; l < 12; l++)
        for (unsigned i = 0; i < 12; i++) {
            char name[32];
            snprintf(name, sizeof name, "h.%u.%u", l, i);
            add_param(params, name, layer[i], 0);
        }
    add_param(params, "lnfw", 768, 0);
    add_param(params, "lnfb", 768, 0);
    return params;
}

/* Params lie in reverse order without overlap, buckets tile the buffer, shards tile the buckets, and the owned parts
 * of each param add up to it. */
static void check_sound(const weft_params *params, const weft_layout *layout, int ranks)
{
    size_t elements = 0, owned = 0;
    for (uint32_t i = 0; i < weft_params_count(params); i++) {
        elements += weft_params_elements(params, i);
        for (int rank = 0; rank < ranks; rank++) {
            size_t start, end;
            weft__layout_owned(layout, i, rank, &start, &end);
            owned += end - start;
        }
    }
    CHECK_INT(owned, elements);
    size_t at = 0;
    for (uint32_t b = 0; b < weft_layout_buckets(layout); b++) {
        const weft_layout_bucket *bucket = weft_layout_bucket_at(layout, b);
        CHECK_INT(bucket->start, at);
        for (uint32_t i = 0; i < bucket->param_count; i++) {
            const weft_layout_place *place = weft_layout_param_at(layout, bucket->params[i]);
            CHECK(place->bucket == b && place->start >= at);
            at = place->end;
        }
        CHECK(at <= bucket->end);
        at = bucket->start;
        for (int rank = 0; rank < ranks; rank++) {
            size_t start, end;
            CHECK_OK(weft_layout_shard(layout, b, rank, &start, &end));
            CHECK_INT(start, at);
            at = end;
        }
        CHECK_INT(at, bucket->end);
    }
    CHECK_INT(at, weft_layout_buffer_at(layout, 0)->elements);
}

TEST(gpt2_is_sharded_over_any_number_of_ranks)
{
    weft_params *params = gpt2();
    static const int ranks[] = {1, 5, 7, 9, 64};
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++) {
        weft_layout *layout = lay_out(params, ranks[i], 0, 0);
        check_sound(params, layout, ranks[i]);
        const weft_layout_buffer *buffer = weft_layout_buffer_at(layout, 0);
        CHECK(buffer->elements - 124475904 < 124475904 / 100);
        weft_layout_destroy(layout);
    }
    weft_params_destroy(params);
}

static uint64_t random_state = 88172645463325252u;

static size_t random_below(size_t limit)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (size_t)(random_state % limit);
}

TEST(random_layouts_are_sound)
{
    for (int round = 0; round < 300; round++) {
        weft_params *params;
        CHECK_OK(weft_params_create(&params));
        size_t count = 1 + random_below(30);
        for (size_t i = 0; i < count; i++) {
            char name[16];
            snprintf(name, sizeof name, "p%zu", i);
            add_param(params, name, 1 + random_below(2000), random_below(8) ? 0 : WEFT_PARAM_TIED);
        }
        int ranks = 1 + (int)random_below(17);
        uint32_t alignment = (uint32_t)random_below(200);
        weft_layout *layout = lay_out(params, ranks, 1 + random_below(5000), alignment);
        check_sound(params, layout, ranks);
        weft_layout_destroy(layout);
        weft_params_destroy(params);
    }
}

/* The naive rule: how many of the first params are the tail; 0 = no such tail. */
static uint32_t tail_of(const weft_params *params, size_t wanted)
{
    size_t found = 0;
    for (uint32_t i = 1; i < weft_params_count(params); i++)
        if ((found += weft_params_elements(params, i)) >= wanted)
            return i + 1;
    return 0;
}

TEST(random_layouts_with_a_last_bucket_are_sound)
{
    for (int round = 0; round < 300; round++) {
        weft_params *params;
        CHECK_OK(weft_params_create(&params));
        size_t count = 1 + random_below(30);
        for (size_t i = 0; i < count; i++) {
            char name[16];
            snprintf(name, sizeof name, "p%zu", i);
            add_param(params, name, 1 + random_below(2000), random_below(8) ? 0 : WEFT_PARAM_TIED);
        }
        weft_layout_config config = WEFT_LAYOUT_CONFIG_INIT;
        config.shard_ranks = 1 + (int)random_below(17);
        config.bucket_elements = 2 + random_below(5000);
        config.last_bucket_elements = 1 + random_below(config.bucket_elements);
        weft_layout *layout;
        CHECK_OK(weft_layout_create(params, &config, &layout));
        check_sound(params, layout, config.shard_ranks);
        uint32_t tail = tail_of(params, config.last_bucket_elements);
        if (tail && tail < count)
            CHECK(weft_layout_param_at(layout, tail)->bucket < weft_layout_param_at(layout, tail - 1)->bucket);
        weft_layout_destroy(layout);
        weft_params_destroy(params);
    }
}

TEST(layouts_that_cannot_be_counted_are_refused_by_name)
{
    weft_params *params;
    CHECK_OK(weft_params_create(&params));
    add_param(params, "huge", SIZE_MAX / 8, 0);
    weft_layout *layout = (weft_layout *)params;
    CHECK_RESULT(weft_layout_create(params, NULL, &layout), WEFT_E_RANGE);
    CHECK_HAS(weft_last_error(), "'huge'");
    CHECK(layout == NULL);
    weft_params_destroy(params);

    params = PARAMS_OF(4);
    weft_layout_config config = WEFT_LAYOUT_CONFIG_INIT;
    config.shard_ranks = -1;
    CHECK_RESULT(weft_layout_create(params, &config, &layout), WEFT_E_INVALID);
    config.shard_ranks = 2000000011, config.bucket_alignment = 4000000007u, config.flags = WEFT_LAYOUT_PAD_FOR_BUSBW;
    CHECK_RESULT(weft_layout_create(params, &config, &layout), WEFT_E_RANGE);
    CHECK_HAS(weft_last_error(), "2000000011 ranks");
    config = (weft_layout_config)WEFT_LAYOUT_CONFIG_INIT;
    config.flags = 64;
    CHECK_RESULT(weft_layout_create(params, &config, &layout), WEFT_E_INVALID);
    CHECK_HAS(weft_last_error(), "unknown flags 0x40");
    config.flags = 0, config.reserved = 2;
    CHECK_RESULT(weft_layout_create(params, &config, &layout), WEFT_E_INVALID);
    CHECK_HAS(weft_last_error(), "reserved is 2");
    config = (weft_layout_config)WEFT_LAYOUT_CONFIG_INIT;
    config.bucket_elements = 10, config.last_bucket_elements = 11;
    CHECK_RESULT(weft_layout_create(params, &config, &layout), WEFT_E_INVALID);
    CHECK_HAS(weft_last_error(), "last_bucket_elements 11 is more than bucket_elements 10");
    CHECK_OK(weft_layout_create(params, NULL, &layout));
    size_t start, end;
    CHECK_RESULT(weft_layout_shard(layout, 0, 1, &start, &end), WEFT_E_RANGE);
    CHECK_RESULT(weft_layout_shard(layout, 1, 0, &start, &end), WEFT_E_RANGE);
    weft_layout_destroy(layout);
    weft_params_destroy(params);
}

TEST(a_layout_survives_every_want_of_memory)
{
    weft_params *params = PARAMS_OF(4, 5, 6);
    for (long n = 1;; n++) {
        weft__alloc_fail_at(n);
        weft_layout *layout;
        weft_result result = weft_layout_create(params, NULL, &layout);
        bool failed = weft__alloc_count() >= n;
        weft__alloc_fail_at(0);
        CHECK_INT(result, failed ? WEFT_E_NO_MEMORY : WEFT_OK);
        CHECK((layout == NULL) == failed);
        weft_layout_destroy(layout);
        if (!failed)
            break;
    }
    weft_params_destroy(params);
}
