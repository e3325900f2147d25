/* SPDX-License-Identifier: Apache-2.0 */
/* Reduced gradients against sums worked out by hand: over shards, replicas and experts. */
#include "sets.h"

/* Elements of owned shards that belong to no param are zero, in values and gradients. */
static void check_padding(const weft_buckets *set)
{
    for (uint32_t b = 0; b < set->bucket_count; b++) {
        const weft__bucket *bucket = &set->buckets[b];
        for (size_t i = bucket->shard_start; i < bucket->shard_start + bucket->shard_elements; i++) {
            const float *grad = (const float *)bucket->grads + i, *value = (const float *)bucket->params + i;
            bool owned = false;
            for (uint32_t k = 0; k < bucket->owned_count; k++)
                owned = owned || (grad >= (const float *)bucket->owned[k].grad &&
                                  grad < (const float *)bucket->owned[k].grad + bucket->owned[k].count);
            if (!owned)
                CHECK_MSG(*grad == 0 && *value == 0, "padding at %zu of bucket %u is %g and %g", i, b, (double)*grad,
                          (double)*value);
        }
    }
}

static void ramps(rank_state *r, float factor, weft_reduction reduction, uint32_t alignment)
{
    weft_buckets_config config = packed(8);
    config.param_alignment = config.bucket_alignment = alignment;
    config.reduction = reduction;
    make_set(r, &config);
    CHECK_OK(weft_buckets_begin(r->set, 1));
    for (uint32_t p = 0; p < 3; p++) {
        float *grad = weft_buckets_grad(r->set, p);
        for (size_t i = 0; i < weft_params_elements(r->params, p); i++)
            grad[i] += (float)(r->rank + 1) * (float)i;
        CHECK_OK(weft_buckets_mark_ready(r->set, p, WEFT_STREAM_HOST));
    }
    reduce(r);
    size_t count;
    const weft_owned *owned = weft_buckets_owned(r->set, &count);
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < owned[i].count; k++)
            CHECK(owned_value(&owned[i], k) == factor * (float)(owned[i].start + k));
    check_padding(r->set);
}

static void ramps_summed(rank_state *r)
{
    ramps(r, 10, WEFT_SUM, 1);
}

static void ramps_averaged(rank_state *r)
{
    ramps(r, 2.5f, WEFT_AVERAGE, 0);
}

TEST(shards_hold_the_sum_and_padding_stays_zero)
{
    on_ranks(4, SIZES(1, 7, 4097), ramps_summed);
    on_ranks(4, SIZES(1, 7, 4097), ramps_averaged);
}

/* Two groups of two ranks that own the same parts. */
static void replicas(rank_state *r)
{
    int group = r->rank / 2, position = r->rank % 2;
    weft_comm *shard = comm_every(r->world, "shard", 2 * group, 1, 2);
    weft_comm *replica = comm_every(r->world, "replica", position, 2, 2);
    weft_buckets_comms comms = WEFT_BUCKETS_COMMS_INIT;
    comms.shard = shard, comms.replica = replica, comms.norm = r->all;
    weft_buckets_config config = packed(4);
    config.reduction = WEFT_AVERAGE;
    CHECK_OK(weft_buckets_create(r->params, &comms, &config, &r->set));
    microbatch(r, true, (float)(1 << r->rank)); /* 1, 2, 4, 8 */
    reduce(r);
    check_owned(r->set, 3.75f);
    float norm;
    CHECK_OK(weft_buckets_norm(&r->set, 1, &norm));
    CHECK(norm == (float)sqrt(10 * 3.75 * 3.75));
    weft_buckets_destroy(r->set);
    r->set = NULL;
    weft_comm_destroy(replica);
    weft_comm_destroy(shard);
}

TEST(replicas_add_up_and_are_counted_once)
{
    on_ranks(4, SIZES(3, 7), replicas);
}

/* Four data parallel ranks; the expert of ranks 0 and 2, and that of 1 and 3. */
static void experts(rank_state *r)
{
    add_param(r->params, "dense", 4, 0);
    add_param(r->params, "expert", 6, WEFT_PARAM_EXPERT);
    weft_comm *edp = comm_every(r->world, "edp", r->rank % 2, 2, 2);
    weft_buckets_comms comms = WEFT_BUCKETS_COMMS_INIT;
    comms.shard = r->all, comms.expert_shard = edp;
    weft_buckets_config config = packed(0);
    config.reduction = WEFT_AVERAGE;
    CHECK_OK(weft_buckets_create(r->params, &comms, &config, &r->set));
    CHECK_OK(weft_buckets_begin(r->set, 1));
    give(r->set, r->params, 0, (float)(1 << r->rank));
    give(r->set, r->params, 1, (float)(1 << r->rank));
    reduce(r);
    size_t count;
    const weft_owned *owned = weft_buckets_owned(r->set, &count);
    CHECK_INT(count, 2);
    for (size_t i = 0; i < count; i++) {
        CHECK_INT(owned[i].count, owned[i].param ? 3 : 1);
        /* over the tokens of all four: 15/4, and (1+4)/4 or (2+8)/4 */
        CHECK(owned_value(&owned[i], 0) == (owned[i].param == 0 ? 3.75f : r->rank % 2 ? 2.5f : 1.25f));
    }
    float norm;
    CHECK_OK(weft_buckets_norm(&r->set, 1, &norm));
    CHECK(norm == (float)sqrt(4 * 3.75 * 3.75 + 6 * 2.5 * 2.5 + 6 * 1.25 * 1.25));
    weft_buckets_destroy(r->set);
    r->set = NULL;
    weft_comm_destroy(edp);
}

TEST(experts_are_reduced_over_their_own_ranks_and_averaged_over_all)
{
    on_ranks(4, NULL, experts);
}

/* Unsharded: everybody has all of it. */
static void unsharded(rank_state *r)
{
    weft_buckets_config config = packed(0);
    config.flags = WEFT_BUCKETS_UNSHARDED;
    make_set(r, &config);
    microbatch(r, true, (float)(r->rank + 1));
    reduce(r);
    size_t count;
    (void)weft_buckets_owned(r->set, &count);
    CHECK_INT(count, 2);
    check_owned(r->set, 6);
    float norm;
    CHECK_OK(weft_buckets_norm(&r->set, 1, &norm));
    CHECK(norm == (float)sqrt(6 * 6 * 7.0));
    gather_all(r);
    microbatch(r, true, 0);
    reduce(r);
}

TEST(without_shards_every_rank_gets_every_sum)
{
    on_ranks(3, SIZES(2, 5), unsharded);
}

static void divided(rank_state *r)
{
    make_set(r, NULL);
    microbatch(r, true, (float)(r->rank + 1));
    CHECK_OK(weft_buckets_reduce(&r->set, 1, 8)); /* tokens */
    check_owned(r->set, 0.375f);
}

TEST(sums_can_be_divided_at_the_end)
{
    on_ranks(2, SIZES(100), divided);
}

static void sixteen(rank_state *r)
{
    static const weft_dtype dtypes[] = {WEFT_BF16, WEFT_FP16};
    for (int i = 0; i < 2; i++) {
        weft_param param = WEFT_PARAM_INIT;
        param.name = i ? "half" : "brain", param.dims = 1, param.shape[0] = 300;
        param.dtype = param.grad_dtype = dtypes[i];
        CHECK_OK(weft_params_add(r->params, &param, NULL));
    }
    weft_buckets_config config = WEFT_BUCKETS_CONFIG_INIT;
    config.reduction = WEFT_AVERAGE;
    make_set(r, &config);
    CHECK_OK(weft_buckets_begin(r->set, 1));
    uint16_t one = weft__float_to_bf16(1), large = weft__float_to_fp16(60000);
    for (int i = 0; i < 300; i++) {
        ((uint16_t *)weft_buckets_grad(r->set, 0))[i] = one;
        ((uint16_t *)weft_buckets_grad(r->set, 1))[i] = large;
    }
    CHECK_OK(weft_buckets_mark_ready(r->set, 1, WEFT_STREAM_HOST));
    CHECK_OK(weft_buckets_mark_ready(r->set, 0, WEFT_STREAM_HOST));
    reduce(r);
    size_t count;
    const weft_owned *owned = weft_buckets_owned(r->set, &count);
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < owned[i].count; k++)
            CHECK_INT(((const uint16_t *)owned[i].grad)[k], owned[i].param ? large : one);
}

TEST(averages_of_16_bits_are_exact_where_the_average_is)
{
    on_ranks(3, NULL, sixteen);
}

static uint64_t bits_of_sums[3][2]; /* bucket size, rank */

/* Numbers whose sum depends on the order of addition. */
static float rough(int rank, uint32_t param, size_t i)
{
    uint32_t x = (uint32_t)rank * 2654435761u + param * 40503u + (uint32_t)i * 2246822519u;
    x ^= x >> 15, x *= 2246822519u, x ^= x >> 13;
    return (float)x * 1e-3f * ((x & 1) ? 1e-6f : 1);
}

static size_t bucket_size;
static int bucket_case;

static void rough_sums(rank_state *r)
{
    weft_buckets_config config = WEFT_BUCKETS_CONFIG_INIT;
    config.bucket_elements = bucket_size;
    make_set(r, &config);
    CHECK_OK(weft_buckets_begin(r->set, 1));
    for (uint32_t p = 0; p < 4; p++) {
        for (size_t i = 0; i < weft_params_elements(r->params, p); i++)
            ((float *)weft_buckets_grad(r->set, p))[i] = rough(r->rank, p, i);
        CHECK_OK(weft_buckets_mark_ready(r->set, p, WEFT_STREAM_HOST));
    }
    reduce(r);
    size_t count;
    const weft_owned *owned = weft_buckets_owned(r->set, &count);
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < owned[i].count; k++) {
            uint32_t bits;
            memcpy(&bits, (float *)owned[i].grad + k, sizeof bits);
            bits_of_sums[bucket_case][r->rank] += bits * (owned[i].param * 1000003u + owned[i].start + k + 1);
        }
}

TEST(bucket_size_changes_no_bit_of_a_sum)
{
    static const size_t cases[] = {1, 64, 1000000000};
    for (bucket_case = 0; bucket_case < 3; bucket_case++) {
        bucket_size = cases[bucket_case];
        on_ranks(2, SIZES(300, 65, 1, 500), rough_sums);
        CHECK(bits_of_sums[bucket_case][0] + bits_of_sums[bucket_case][1] == bits_of_sums[0][0] + bits_of_sums[0][1]);
    }
}

static void at_the_step(rank_state *r)
{
    weft_buckets_config config = packed(1);
    config.flags = WEFT_BUCKETS_REDUCE_AT_STEP;
    make_set(r, &config);
    microbatch(r, true, 1);
    CHECK_INT(r->set->usage.reductions, 0);
    reduce(r);
    CHECK_INT(r->set->usage.reductions, 3);
    check_owned(r->set, 2);
}

TEST(without_overlap_reductions_start_in_the_step)
{
    on_ranks(2, SIZES(2, 2, 2), at_the_step);
}

/* A rank that gives up ends the reductions of the others, and they are told again. */
static void given_up(rank_state *r)
{
    weft_buckets_config config = packed(1);
    make_set(r, &config);
    CHECK_OK(weft_buckets_begin(r->set, 1));
    if (r->rank == 0) {
        give(r->set, r->params, 1, 1);
        CHECK_OK(weft_comm_abort(r->set->lanes[0].reduce_comm));
        return;
    }
    for (uint32_t p = 2; p-- > 0;) { /* whether the mark or the end sees it first is a matter of time */
        weft_result marked = weft_buckets_mark_ready(r->set, p, WEFT_STREAM_HOST);
        CHECK(marked == WEFT_OK || marked == WEFT_E_ABORTED);
    }
    CHECK_REFUSED(weft_buckets_reduce(&r->set, 1, 0), WEFT_E_ABORTED, "reduce");
    CHECK_REFUSED(weft_buckets_reduce(&r->set, 1, 0), WEFT_E_ABORTED, "reduce");
}

TEST(a_rank_that_gives_up_ends_the_reductions_of_all)
{
    on_ranks(2, SIZES(2, 2), given_up);
}

/* The comms that a set opens are made as the given ones: rank 1 marks nothing, and is not waited for any longer than on
 * the given comm. */
static void silent(rank_state *r)
{
    weft_comm_config given = WEFT_COMM_CONFIG_INIT, opened = WEFT_COMM_CONFIG_INIT;
    given.timeout_ms = 500;
    given.flags = WEFT_COMM_EXACT;
    weft_comm *dp;
    CHECK_OK(weft_comm_create(r->world, "dp", (int[]){0, 1}, 2, &given, &dp));
    weft_buckets_comms comms = WEFT_BUCKETS_COMMS_INIT;
    comms.shard = dp;
    CHECK_OK(weft_buckets_create(r->params, &comms, NULL, &r->set));
    CHECK_OK(weft_comm_config_get(r->set->lanes[0].gather_comm, &opened));
    CHECK_INT(opened.timeout_ms, 500);
    CHECK_INT(opened.flags, WEFT_COMM_EXACT | WEFT_COMM_NO_P2P);
    CHECK_INT(opened.p2p_channels, 0);
    if (r->rank == 0) {
        microbatch(r, true, 1);
        CHECK_REFUSED(weft_buckets_reduce(&r->set, 1, 0), WEFT_E_TIMEOUT, "not arrived: 1");
    }
    CHECK_OK(weft_barrier_run(r->all, WEFT_STREAM_HOST));
    weft_buckets_destroy(r->set);
    r->set = NULL;
    weft_comm_destroy(dp);
}

TEST(a_silent_rank_is_named_when_the_time_of_the_given_comm_is_over)
{
    on_ranks(2, SIZES(2, 2), silent);
}

static void chunks(rank_state *r)
{
    weft_params *second = PARAMS_OF(4, 9);
    weft_buckets *sets[2];
    weft_buckets_comms comms = WEFT_BUCKETS_COMMS_INIT;
    comms.shard = r->all;
    for (int i = 0; i < 2; i++) {
        weft_buckets_config config = packed(0);
        config.name = i ? "chunk1" : "chunk0";
        CHECK_OK(weft_buckets_create(i ? second : r->params, &comms, &config, &sets[i]));
    }
    CHECK_OK(weft_buckets_begin(sets[1], 1));
    give(sets[1], second, 1, 2);
    give(sets[1], second, 0, 2);
    CHECK_REFUSED(weft_buckets_reduce(sets, 2, 0), WEFT_E_STATE, "set 'chunk0'");
    CHECK_OK(weft_buckets_begin(sets[0], 1));
    give(sets[0], r->params, 0, 1);
    CHECK_OK(weft_buckets_reduce(sets, 2, 0));
    check_owned(sets[0], 2);
    check_owned(sets[1], 4);
    float norm;
    CHECK_OK(weft_buckets_norm(sets, 2, &norm));
    CHECK(norm == (float)sqrt(5 * 4 + 13 * 16.0));
    weft_buckets_destroy(sets[0]);
    weft_buckets_destroy(sets[1]);
    weft_params_destroy(second);
}

TEST(several_sets_end_their_window_together)
{
    on_ranks(2, SIZES(5), chunks);
}
