/* SPDX-License-Identifier: Apache-2.0 */
/* Sharded steps against a serial AdamW, and what may not change a bit of the weights. */
#include <stdlib.h>

#include "base/hash.h"
#include "sets.h"

static weft_step how(float lr, float weight_decay, float clip_norm)
{
    weft_step step = WEFT_STEP_INIT;
    step.lr = lr, step.weight_decay = weight_decay, step.clip_norm = clip_norm;
    return step;
}

static weft_adam *make_adam(rank_state *r)
{
    weft_adam *adam;
    CHECK_OK(weft_adam_create(&r->set, 1, NULL, &adam));
    return adam;
}

static void acquire_all(rank_state *r)
{
    CHECK_OK(weft_buckets_acquire(r->set, 0, weft_params_count(r->params), WEFT_STREAM_HOST));
}

/* AdamW in double, from the formula, for one element. */
typedef struct serial_adam {
    double w, m, v;
    int steps;
} serial_adam;

static void serial_step(serial_adam *a, double grad, double lr, double weight_decay)
{
    a->steps++;
    a->m = 0.9 * a->m + 0.1 * grad;
    a->v = 0.999 * a->v + 0.001 * grad * grad;
    double m = a->m / (1 - pow(0.9, a->steps)), v = a->v / (1 - pow(0.999, a->steps));
    a->w -= lr * (m / (sqrt(v) + 1e-8) + weight_decay * a->w);
}

static float initial(uint32_t param, size_t i)
{
    return (float)((int)(param * 31 + i * 7) % 19 - 9) * 0.125f;
}

/* Whole numbers, so that sums over ranks and microbatches are exact in any order. */
static float grad_of(int step, int microbatch, int rank, uint32_t param, size_t i)
{
    return (float)(((size_t)step * 5 + (size_t)microbatch * 3 + (size_t)rank * 11 + param * 7 + i * 13) % 23) - 11;
}

static void fill_initial(rank_state *r)
{
    for (uint32_t p = 0; p < weft_params_count(r->params); p++)
        for (size_t i = 0; weft_buckets_param(r->set, p) && i < weft_params_elements(r->params, p); i++)
            ((float *)weft_buckets_param(r->set, p))[i] = initial(p, i);
}

static void add_grads(rank_state *r, int step, int m, int rank)
{
    for (uint32_t p = 0; p < weft_params_count(r->params); p++)
        for (size_t i = 0; i < weft_params_elements(r->params, p); i++)
            ((float *)weft_buckets_grad(r->set, p))[i] += grad_of(step, m, rank, p, i);
}

static void mark_all(rank_state *r)
{
    for (uint32_t p = weft_params_count(r->params); p-- > 0;)
        CHECK_OK(weft_buckets_mark_ready(r->set, p, WEFT_STREAM_HOST));
}

static void two_steps(rank_state *r)
{
    add_param(r->params, "W1", 6, 0);
    add_param(r->params, "W2", 4, 0);
    add_param(r->params, "WL", 12, 0);
    weft_buckets_config config = packed(0);
    config.reduction = WEFT_AVERAGE;
    make_set(r, &config);
    fill_initial(r);
    weft_adam *adam = make_adam(r);
    for (int step = 0; step < 2; step++) {
        for (int m = 0; m < 2; m++) {
            CHECK_OK(weft_buckets_begin(r->set, m == 1));
            add_grads(r, step, m, r->rank);
            mark_all(r);
        }
        weft_step s = how(0.01f, 0.1f, 0);
        CHECK_OK(weft_adam_step(adam, &s, NULL));
        acquire_all(r);
    }
    for (uint32_t p = 0; p < 3; p++)
        for (size_t i = 0; i < weft_params_elements(r->params, p); i++) {
            serial_adam a = {.w = (double)initial(p, i)};
            for (int step = 0; step < 2; step++) {
                double grad = 0;
                for (int k = 0; k < 4; k++)
                    grad += (double)grad_of(step, k / 2, k % 2, p, i) / 2;
                serial_step(&a, grad, 0.01, 0.1);
            }
            CHECK_NEAR(((float *)weft_buckets_param(r->set, p))[i], a.w, 1e-6);
        }
    weft_adam_destroy(adam);
}

TEST(sharded_steps_equal_serial_adam)
{
    on_ranks(2, NULL, two_steps);
}

/* Training in many ways, of which none changes a bit: a hash of the weights after 20 clipped steps. */
static struct variant {
    const char *what;
    size_t bucket_elements, last_bucket_elements;
    uint32_t flags, step_flags;
    bool shuffled; /* acquire and mark in another order */
} variant;
static uint64_t wanted;      /* the hash of the first variant; 0 = this is the first */
static uint64_t trained[16]; /* of each thread rank */

static void train(rank_state *r)
{
    weft_buckets_config config = WEFT_BUCKETS_CONFIG_INIT;
    config.bucket_elements = variant.bucket_elements;
    config.last_bucket_elements = variant.last_bucket_elements;
    config.flags = variant.flags;
    config.reduction = WEFT_AVERAGE;
    make_set(r, &config);
    fill_initial(r);
    weft_adam *adam = make_adam(r);
    uint32_t params = weft_params_count(r->params);
    for (int step = 0; step < 20; step++) {
        for (int m = 0; m < 2; m++) {
            for (uint32_t p = 0; p < params; p++)
                CHECK_OK(weft_buckets_acquire(r->set, variant.shuffled ? params - 1 - p : p, 1, WEFT_STREAM_HOST));
            CHECK_OK(weft_buckets_begin(r->set, m == 1));
            for (uint32_t k = 0; k < params; k++) {
                uint32_t p = variant.shuffled ? (k * 2 + (uint32_t)r->rank) % params : params - 1 - k;
                float *grad = weft_buckets_grad(r->set, p);
                const float *data = weft_buckets_param(r->set, p);
                for (size_t i = 0; i < weft_params_elements(r->params, p); i++)
                    grad[i] += data[i] * 0.37f + 1e-3f * grad_of(step, m, r->rank, p, i) / 3;
                CHECK_OK(weft_buckets_mark_ready(r->set, p, WEFT_STREAM_HOST));
            }
        }
        weft_step s = how(0.02f, 0.01f, 0.5f);
        s.flags = variant.step_flags;
        weft_step_report report = WEFT_STEP_REPORT_INIT;
        CHECK_OK(weft_adam_step(adam, &s, &report));
        CHECK(report.clip < 1 && report.norm > 0.5f);
    }
    acquire_all(r);
    uint64_t hash = WEFT__HASH_START;
    for (uint32_t p = 0; p < params; p++)
        hash = weft__hash(hash, weft_buckets_param(r->set, p), weft_params_elements(r->params, p) * sizeof(float));
    CHECK_MSG(!wanted || hash == wanted, "rank %d: %s changes the weights", r->rank, variant.what);
    trained[r->rank] = hash;
    weft_adam_destroy(adam);
}

TEST(nothing_but_the_numbers_changes_a_bit_of_the_weights)
{
    static const struct variant variants[] = {
        {"nothing", 0, 0, 0, 0, false},
        {"one param a bucket", 1, 0, 0, 0, false},
        {"small buckets", 500, 0, 0, 0, false},
        {"a small last bucket", 0, 10, 0, 0, false},
        {"a small last bucket behind small ones", 500, 10, 0, 0, true},
        {"another order of marks", 1, 0, 0, 0, true},
        {"reductions in the step", 1, 0, WEFT_BUCKETS_REDUCE_AT_STEP, 0, false},
        {"gathers in the step", 1, 0, WEFT_BUCKETS_GATHER_IN_STEP, 0, false},
        {"gathers when all is updated", 300, 0, 0, WEFT_STEP_GATHER_LAST, false},
        {"no overlap", 300, 0, WEFT_BUCKETS_REDUCE_AT_STEP | WEFT_BUCKETS_GATHER_IN_STEP, WEFT_STEP_GATHER_LAST, true},
        {"more padding", 1, 0, WEFT_BUCKETS_PAD_FOR_BUSBW, 0, false},
        {"no shards", 0, 0, WEFT_BUCKETS_UNSHARDED, 0, false},
        {"guards", 100, 0, WEFT_BUCKETS_GUARD_UNACQUIRED, 0, false},
        {"checks", 100, 0, WEFT_BUCKETS_CHECK_FINITE, 0, true},
    };
    const size_t *sizes = SIZES(300, 17, 1, 640, 129);
    rank_job job = {train, sizes};
    for (int ranks = 1; ranks <= 3; ranks++) {
        wanted = 0; /* each number of ranks has its own batch */
        for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
            variant = variants[i];
            on_ranks(ranks, sizes, train);
            wanted = trained[0];
            CHECK(trained[ranks - 1] == wanted);
        }
        variant.what = "being a process";
        ranks_as_processes(ranks, NULL, run_rank_job, &job);
    }
}

/* One fp32 and one 16-bit param, each 128 elements. */
static void add_mixed(weft_params *params, weft_dtype grad_dtype)
{
    for (int i = 0; i < 2; i++) {
        weft_param param = WEFT_PARAM_INIT;
        param.name = i ? "brain" : "full", param.dims = 1, param.shape[0] = 128;
        param.dtype = i ? WEFT_BF16 : WEFT_FP32;
        param.grad_dtype = i ? grad_dtype : WEFT_FP32;
        CHECK_OK(weft_params_add(params, &param, NULL));
    }
}

static void creep(rank_state *r)
{
    add_mixed(r->params, WEFT_FP32);
    make_set(r, NULL);
    for (int i = 0; i < 128; i++) {
        ((float *)weft_buckets_param(r->set, 0))[i] = 1;
        ((uint16_t *)weft_buckets_param(r->set, 1))[i] = weft__float_to_bf16(1);
    }
    weft_adam *adam = make_adam(r);
    weft_buckets_usage usage = WEFT_BUCKETS_USAGE_INIT;
    CHECK_OK(weft_buckets_usage_get(r->set, &usage));
    CHECK_INT(usage.elements, 256);
    CHECK_INT(usage.param_bytes, 128 * (4 + 2));
    CHECK_INT(usage.grad_bytes, 128 * (4 + 4));
    CHECK_INT(usage.state_bytes, 128 / 2 * (8 + 12)); /* 8 + 8/dp and 6 + 12/dp bytes an element */
    for (int step = 0; step < 100; step++) {
        microbatch(r, false, 0); /* marks both; nothing to add */
        CHECK_OK(weft_buckets_begin(r->set, 1));
        for (uint32_t p = 2; p-- > 0;)
            give(r->set, r->params, p, 1);
        weft_step s = how(1e-4f, 0, 0); /* less than half a step of bf16 below 1 */
        CHECK_OK(weft_adam_step(adam, &s, NULL));
        acquire_all(r);
    }
    for (int i = 0; i < 128; i++) {
        float full = ((float *)weft_buckets_param(r->set, 0))[i];
        CHECK_NEAR(full, 0.99, 1e-5);
        CHECK_INT(((uint16_t *)weft_buckets_param(r->set, 1))[i], weft__float_to_bf16(full));
    }
    weft_adam_destroy(adam);
    CHECK_OK(weft_buckets_usage_get(r->set, &usage));
    CHECK_INT(usage.state_bytes, 0);
}

TEST(small_steps_are_not_lost_in_16_bits)
{
    on_ranks(2, NULL, creep);
}

static void brain_grads(rank_state *r)
{
    add_mixed(r->params, WEFT_BF16);
    weft_param param = WEFT_PARAM_INIT;
    param.name = "long", param.dims = 1, param.shape[0] = 5000, param.dtype = param.grad_dtype = WEFT_BF16;
    CHECK_OK(weft_params_add(r->params, &param, NULL));
    make_set(r, NULL);
    weft_adam *adam = make_adam(r);
    CHECK_OK(weft_buckets_begin(r->set, 1));
    for (uint32_t p = 1; p < 3; p++)
        for (size_t i = 0; i < weft_params_elements(r->params, p); i++)
            ((uint16_t *)weft_buckets_grad(r->set, p))[i] = weft__float_to_bf16((float)(i % 5) - 2);
    mark_all(r);
    weft_step s = how(0.5f, 0, 0);
    CHECK_OK(weft_adam_step(adam, &s, NULL));
    acquire_all(r);
    for (uint32_t p = 1; p < 3; p++)
        for (size_t i = 0; i < weft_params_elements(r->params, p); i++) {
            float sign = (float)(i % 5) - 2; /* the first step is lr against the sign */
            float want = sign > 0 ? -0.5f : sign < 0 ? 0.5f : 0;
            CHECK_INT(((uint16_t *)weft_buckets_param(r->set, p))[i], weft__float_to_bf16(want));
        }
    weft_adam_destroy(adam);
}

TEST(gradients_of_16_bits_step_too)
{
    on_ranks(2, NULL, brain_grads);
}

static void rules(rank_state *r)
{
    static const struct {
        const char *name;
        float lr_scale;
        uint32_t flags;
    } kinds[] = {{"plain", 0, 0}, {"slow", 0.25f, 0}, {"norm", 0, WEFT_PARAM_NO_DECAY}, {"cold", 0, WEFT_PARAM_FROZEN}};
    for (int i = 0; i < 4; i++) {
        weft_param param = WEFT_PARAM_INIT;
        param.name = kinds[i].name, param.dims = 1, param.shape[0] = 3;
        param.lr_scale = kinds[i].lr_scale, param.flags = kinds[i].flags;
        CHECK_OK(weft_params_add(r->params, &param, NULL));
    }
    weft_buckets_config config = packed(0);
    make_set(r, &config);
    CHECK(weft_buckets_param(r->set, 3) == NULL && weft_buckets_grad(r->set, 3) == NULL);
    for (uint32_t p = 0; p < 3; p++)
        for (int i = 0; i < 3; i++)
            ((float *)weft_buckets_param(r->set, p))[i] = 2;
    weft_adam *adam = make_adam(r);
    weft_step s = how(0.1f, 0.5f, 0);
    for (int step = 0; step < 3; step++) {
        microbatch(r, true, 1);
        CHECK_OK(weft_adam_step(adam, &s, NULL));
        acquire_all(r);
    }
    for (uint32_t p = 0; p < 3; p++) {
        serial_adam a = {.w = 2};
        for (int step = 0; step < 3; step++)
            serial_step(&a, 3, p == 1 ? 0.025 : 0.1, p == 2 ? 0 : 0.5);
        for (int i = 0; i < 3; i++)
            CHECK_NEAR(((float *)weft_buckets_param(r->set, p))[i], a.w, 2e-6);
    }
    weft_adam_destroy(adam);
}

TEST(params_have_rates_and_decay_of_their_own)
{
    on_ranks(3, NULL, rules);
}

static char logged[600];

static int lines;

static void count_line(void *cookie, weft_log_level level, const char *line)
{
    (void)cookie, (void)level;
    lines++;
    snprintf(logged, sizeof logged, "%s", line);
}

static void keep_line(void *cookie, weft_log_level level, const char *line)
{
    (void)cookie, (void)level;
    if (strstr(line, "gradient"))
        snprintf(logged, sizeof logged, "%s", line);
}

static void poisoned(rank_state *r)
{
    weft_buckets_config config = packed(4);
    config.flags = WEFT_BUCKETS_CHECK_FINITE;
    make_set(r, &config);
    fill_initial(r);
    weft_adam *adam = make_adam(r);
    weft_step s = how(0.1f, 0, 1);
    weft_step_report report = WEFT_STEP_REPORT_INIT;
    CHECK_OK(weft_buckets_begin(r->set, 1));
    add_grads(r, 0, 0, r->rank);
    if (r->rank == 1)
        ((float *)weft_buckets_grad(r->set, 1))[2] = NAN;
    mark_all(r);
    CHECK_OK(weft_adam_step(adam, &s, &report));
    CHECK_INT(report.skipped, 1);
    CHECK_INT(report.step, 0);
    CHECK(isnan(report.norm));
    CHECK_INT(report.nonfinite_rank, 1);
    CHECK_OK(weft_buckets_check_whole(r->set));
    for (uint32_t p = 0; p < 3; p++)
        for (size_t i = 0; i < weft_params_elements(r->params, p); i++)
            CHECK(((float *)weft_buckets_param(r->set, p))[i] == initial(p, i));
    microbatch(r, true, 1);
    CHECK_OK(weft_adam_step(adam, &s, &report));
    CHECK_INT(report.skipped, 0);
    CHECK_INT(report.step, 1);
    CHECK_INT(report.nonfinite_rank, -1);
    acquire_all(r);
    CHECK_NEAR(((float *)weft_buckets_param(r->set, 1))[2], (double)initial(1, 2) - 0.1, 1e-6);
    weft_adam_destroy(adam);
}

TEST(a_gradient_that_is_not_finite_is_named_and_the_step_is_skipped)
{
    weft_log_set(WEFT_LOG_WARN, keep_line, NULL);
    on_ranks(2, SIZES(4, 4, 4), poisoned);
    CHECK_HAS(logged, "rank 1, set 'buckets', bucket 1, param 'p1': element 2 of its gradient is nan");
}

static void poison(rank_state *r, weft_adam *adam, bool bad)
{
    weft_step s = how(0.1f, 0, 1);
    weft_step_report report = WEFT_STEP_REPORT_INIT;
    microbatch(r, true, bad ? NAN : 1);
    CHECK_OK(weft_adam_step(adam, &s, &report));
    CHECK_INT(report.skipped != 0, bad);
    acquire_all(r);
}

static void poisoned_often(rank_state *r)
{
    make_set(r, NULL);
    weft_adam *adam = make_adam(r);
    static const bool bad[] = {false, true, true, false, true};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        poison(r, adam, bad[i]);
    weft_adam_destroy(adam);
}

TEST(the_first_of_a_run_of_skipped_steps_is_told)
{
    weft_log_set(WEFT_LOG_WARN, count_line, NULL);
    on_ranks(2, SIZES(4), poisoned_often);
    CHECK_INT(lines, 2); /* steps 2 and 3 of those made; by one rank */
    CHECK_HAS(logged, "set 'buckets': step 3 is skipped: the norm is nan; WEFT_BUCKETS_CHECK_FINITE finds the param");
}

static void two_chunks(rank_state *r)
{
    weft_params *second = PARAMS_OF(9);
    weft_buckets *sets[2];
    weft_buckets_comms comms = WEFT_BUCKETS_COMMS_INIT;
    comms.shard = r->all;
    for (int i = 0; i < 2; i++) {
        weft_buckets_config config = packed(0);
        config.name = i ? "chunk1" : "chunk0";
        CHECK_OK(weft_buckets_create(i ? second : r->params, &comms, &config, &sets[i]));
    }
    weft_adam *adam, *other;
    CHECK_OK(weft_adam_create(sets, 2, NULL, &adam));
    CHECK_REFUSED(weft_adam_create(&sets[1], 1, NULL, &other), WEFT_E_TWICE, "set 'chunk1'");
    CHECK(other == NULL);
    for (int i = 0; i < 2; i++) {
        CHECK_OK(weft_buckets_begin(sets[i], 1));
        give(sets[i], i ? second : r->params, 0, i ? 1.5f : 2);
    }
    weft_step s = how(0.1f, 0, 1);
    weft_step_report report = WEFT_STEP_REPORT_INIT;
    CHECK_OK(weft_adam_step(adam, &s, &report));
    CHECK(report.norm == (float)sqrt(4 * 16 + 9 * 9.0));
    for (int i = 0; i < 2; i++) {
        CHECK_OK(weft_buckets_acquire(sets[i], 0, 1, WEFT_STREAM_HOST));
        CHECK_NEAR(*(float *)weft_buckets_param(sets[i], 0), -0.1, 1e-6);
    }
    weft_adam_destroy(adam);
    weft_buckets_destroy(sets[0]);
    weft_buckets_destroy(sets[1]);
    weft_params_destroy(second);
}

TEST(several_sets_step_together_with_one_norm)
{
    on_ranks(2, SIZES(4), two_chunks);
}

static void reset(rank_state *r)
{
    weft_param param = WEFT_PARAM_INIT;
    param.name = "w", param.dims = 1, param.shape[0] = 200, param.dtype = WEFT_BF16;
    CHECK_OK(weft_params_add(r->params, &param, NULL));
    make_set(r, NULL);
    weft_adam *adam = make_adam(r);
    weft_step s = how(0.5f, 0, 0);
    weft_step_report report = WEFT_STEP_REPORT_INIT;
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 200; i++)
            ((uint16_t *)weft_buckets_param(r->set, 0))[i] = weft__float_to_bf16(round ? 4 : -8);
        CHECK_OK(weft_buckets_begin(r->set, 1));
        give(r->set, r->params, 0, round ? -3 : 1);
        CHECK_OK(weft_adam_step(adam, &s, &report));
        CHECK_INT(report.step, 1);
        acquire_all(r);
        CHECK(weft__bf16_to_float(*(uint16_t *)weft_buckets_param(r->set, 0)) == (round ? 4.5f : -8.5f));
        weft_adam_reset(adam);
    }
    weft_adam_destroy(adam);
}

TEST(after_a_reset_masters_come_from_the_params)
{
    on_ranks(2, NULL, reset);
}

static void refused(rank_state *r)
{
    make_set(r, NULL);
    weft_adam *adam = NULL;
    weft_adam_config config = WEFT_ADAM_CONFIG_INIT;
    config.beta1 = 1;
    CHECK_REFUSED(weft_adam_create(&r->set, 1, &config, &adam), WEFT_E_INVALID, "adam: beta1 is 1, which");
    config.beta1 = 0, config.beta2 = -2;
    CHECK_REFUSED(weft_adam_create(&r->set, 1, &config, &adam), WEFT_E_INVALID, "adam: beta2 is -2, which");
    config.beta2 = 0, config.epsilon = -1;
    CHECK_REFUSED(weft_adam_create(&r->set, 1, &config, &adam), WEFT_E_INVALID, "epsilon is -1");
    config.epsilon = 0, config.reserved = 3;
    CHECK_REFUSED(weft_adam_create(&r->set, 1, &config, &adam), WEFT_E_INVALID, "reserved is 3");
    weft_buckets *const twice[] = {r->set, r->set};
    CHECK_REFUSED(weft_adam_create(twice, 2, NULL, &adam), WEFT_E_TWICE, "set 'buckets': the list has it twice");
    CHECK_REFUSED(weft_adam_create(&r->set, 0, NULL, &adam), WEFT_E_INVALID, "no sets");
    CHECK_OK(weft_adam_create(&r->set, 1, NULL, &adam));
    weft_step s = how(NAN, 0, 0);
    CHECK_REFUSED(weft_adam_step(adam, &s, NULL), WEFT_E_INVALID, "lr is nan");
    s = how(0.1f, -1, 0);
    CHECK_REFUSED(weft_adam_step(adam, &s, NULL), WEFT_E_INVALID, "weight_decay is -1");
    s = how(0.1f, 0, -2);
    CHECK_REFUSED(weft_adam_step(adam, &s, NULL), WEFT_E_INVALID, "clip_norm is -2");
    s = how(0.1f, 0, 0), s.flags = 6;
    CHECK_REFUSED(weft_adam_step(adam, &s, NULL), WEFT_E_INVALID, "no flags 0x6");
    s = how(0.1f, 0, 0);
    weft_step_report report = {0};
    CHECK_REFUSED(weft_adam_step(adam, &s, &report), WEFT_E_INVALID, "weft_step_report.size is 0");
    CHECK_REFUSED(weft_adam_step(adam, &s, NULL), WEFT_E_STATE, "nothing was reduced");
    microbatch(r, false, 1);
    CHECK_REFUSED(weft_adam_step(adam, &s, NULL), WEFT_E_STATE, "none of its microbatches");
    weft_adam_destroy(adam);
}

TEST(steps_that_make_no_sense_are_refused_by_name)
{
    on_ranks(1, SIZES(4), refused);
}
