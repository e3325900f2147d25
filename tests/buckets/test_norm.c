/* SPDX-License-Identifier: Apache-2.0 */
/* The gradient norm: every element once, and the same float whatever the layout. */
#include "sets.h"

TEST(a_norm_is_rounded_once)
{
    CHECK(weft__norm_round((weft__double2){169, 0}) == 13);
    CHECK(weft__norm_round((weft__double2){0, 0}) == 0);
    CHECK(isnan(weft__norm_round((weft__double2){NAN, 0})));
    CHECK(isinf(weft__norm_round((weft__double2){INFINITY, 0})));
    /* Half-way between 1 and the next float, and as little as can be told beside it. */
    double half = 1 + 0x1p-24, square = half * half;
    CHECK(weft__norm_round((weft__double2){square, 0}) == 1);
    CHECK(weft__norm_round((weft__double2){square, 0x1p-100}) == nextafterf(1, 2));
    CHECK(weft__norm_round((weft__double2){square, -0x1p-100}) == 1);
    half = 1 + 3 * 0x1p-24, square = half * half; /* here the even one is above */
    CHECK(weft__norm_round((weft__double2){square, 0}) == 1 + 4 * 0x1p-24f);
    CHECK(weft__norm_round((weft__double2){square, -0x1p-100}) == 1 + 2 * 0x1p-24f);
}

TEST(a_norm_is_the_float_nearest_to_the_root)
{
    uint64_t state = 12345;
    for (int i = 0; i < 20000; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        double high = (double)(state >> 11) * pow(2, (int)(state % 60) - 30), low = high * 0x1p-55;
        float got = weft__norm_round((weft__double2){high, low});
        long double root = sqrtl((long double)high + (long double)low);
        long double error = fabsl(root - (long double)got);
        CHECK(error <= fabsl(root - (long double)nextafterf(got, 0)));
        CHECK(error <= fabsl(root - (long double)nextafterf(got, INFINITY)));
    }
}

/* Two tensor parallel ranks: a sharded weight, and a bias with the same gradient on both. */
static void replicas_of_a_bias(rank_state *r)
{
    add_param(r->params, "weight", 1, 0);
    add_param(r->params, "bias", 1, r->rank ? WEFT_PARAM_COPY : 0);
    weft_comm *dp = comm_every(r->world, "dp", r->rank, 1, 1);
    weft_buckets_comms comms = WEFT_BUCKETS_COMMS_INIT;
    comms.shard = dp, comms.norm = r->all;
    CHECK_OK(weft_buckets_create(r->params, &comms, NULL, &r->set));
    weft_adam *adam;
    CHECK_OK(weft_adam_create(&r->set, 1, NULL, &adam));
    CHECK_OK(weft_buckets_begin(r->set, 1));
    give(r->set, r->params, 1, 12);
    give(r->set, r->params, 0, r->rank ? 4 : 3);
    weft_step how = WEFT_STEP_INIT;
    how.lr = 0.1f, how.clip_norm = 1;
    weft_step_report report = WEFT_STEP_REPORT_INIT;
    CHECK_OK(weft_adam_step(adam, &how, &report));
    CHECK(report.norm == 13);
    CHECK(report.clip == (float)(1 / (13 + 1e-6)));
    CHECK_INT(report.skipped, 0);
    CHECK_INT(report.step, 1);
    CHECK_OK(weft_buckets_acquire(r->set, 0, 2, WEFT_STREAM_HOST));
    weft_adam_destroy(adam);
    weft_buckets_destroy(r->set);
    r->set = NULL;
    weft_comm_destroy(dp);
}

TEST(a_replicated_param_is_counted_once)
{
    on_ranks(2, NULL, replicas_of_a_bias);
}

/* Two pipeline stages, each with two sets of its own names, which it steps in an order of its own. */
static void stages_name_their_sets(rank_state *r)
{
    static const char *const names[2][2] = {{"stage0 first", "stage0 second"}, {"stage1 z", "stage1 a"}};
    weft_comm *dp = comm_every(r->world, "dp", r->rank, 1, 1);
    weft_params *params[] = {PARAMS_OF(1), PARAMS_OF(1)};
    weft_buckets_comms comms = WEFT_BUCKETS_COMMS_INIT;
    comms.shard = dp, comms.norm = r->all;
    weft_buckets *sets[2];
    for (int i = 0; i < 2; i++) {
        weft_buckets_config config = WEFT_BUCKETS_CONFIG_INIT;
        config.name = names[r->rank][i];
        CHECK_OK(weft_buckets_create(params[i], &comms, &config, &sets[i]));
        CHECK_OK(weft_buckets_begin(sets[i], 1));
        give(sets[i], params[i], 0, r->rank ? (i ? 10 : 8) : (i ? 6 : 5));
    }
    float norm;
    for (int i = 0; i < 2; i++) {
        CHECK_OK(weft_buckets_reduce(&sets[i], 1, 0));
        CHECK_OK(weft_buckets_norm(&sets[i], 1, &norm));
        CHECK(norm == (float)sqrt(i ? 100 + 36 : 64 + 25));
    }
    weft_buckets *both[] = {sets[r->rank], sets[!r->rank]};
    CHECK_OK(weft_buckets_norm(both, 2, &norm));
    CHECK(norm == 15);
    for (int i = 0; i < 2; i++) {
        weft_buckets_destroy(sets[i]);
        weft_params_destroy(params[i]);
    }
    weft_comm_destroy(dp);
}

TEST(sets_that_share_a_norm_may_have_other_names_on_each_rank)
{
    on_ranks(2, NULL, stages_name_their_sets);
}

static void counted_twice(rank_state *r)
{
    add_param(r->params, "weight", 1, 0);
    add_param(r->params, "bias", 1, r->rank == 2 ? WEFT_PARAM_COPY : 0);
    weft_comm *dp = comm_every(r->world, "dp", r->rank, 1, 1);
    weft_buckets_sum sum = {.param = 1, .comm = r->all};
    weft_buckets_comms comms = WEFT_BUCKETS_COMMS_INIT;
    comms.shard = dp, comms.norm = r->all, comms.sums = &sum, comms.sum_count = 1;
    CHECK_REFUSED(weft_buckets_create(r->params, &comms, NULL, &r->set), WEFT_E_INVALID, "param 'bias'",
                  "2 ranks of comm 'all' count it", "WEFT_PARAM_COPY");
    weft_comm_destroy(dp);
}

TEST(a_summed_param_that_two_ranks_would_count_is_refused)
{
    on_ranks(3, NULL, counted_twice);
}

static struct {
    size_t bucket_elements;
    uint32_t flags;
} variant;
static uint32_t norm_bits[8];

static void norm_of_rough_gradients(rank_state *r)
{
    weft_buckets_config config = WEFT_BUCKETS_CONFIG_INIT;
    config.bucket_elements = variant.bucket_elements;
    config.flags = variant.flags;
    make_set(r, &config);
    CHECK_OK(weft_buckets_begin(r->set, 1));
    for (uint32_t p = 0; p < weft_params_count(r->params); p++) {
        float *grad = weft_buckets_grad(r->set, p);
        for (size_t i = 0; r->rank == 0 && i < weft_params_elements(r->params, p); i++)
            grad[i] = sinf((float)(p * 977 + i)) * powf(10, (float)((i * 7) % 13) - 6);
        CHECK_OK(weft_buckets_mark_ready(r->set, p, WEFT_STREAM_HOST));
    }
    reduce(r);
    float norm;
    CHECK_OK(weft_buckets_norm(&r->set, 1, &norm));
    memcpy(&norm_bits[r->rank], &norm, sizeof norm);
}

TEST(no_layout_changes_a_bit_of_the_norm)
{
    static const uint32_t flags[] = {0, WEFT_BUCKETS_UNSHARDED, WEFT_BUCKETS_PAD_FOR_BUSBW};
    static const size_t sizes[] = {1, 100, 3000, 0};
    uint32_t first = 0;
    for (int ranks = 1; ranks <= 5; ranks += 2)
        for (size_t f = 0; f < sizeof flags / sizeof *flags; f++)
            for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
                variant.bucket_elements = sizes[s];
                variant.flags = flags[f];
                on_ranks(ranks, SIZES(1000, 3, 257, 64, 1999), norm_of_rough_gradients);
                first = first ? first : norm_bits[0];
                for (int rank = 0; rank < ranks; rank++)
                    CHECK_INT(norm_bits[rank], first);
            }
}
