/* SPDX-License-Identifier: Apache-2.0 */
/* A training is saved and goes on, with the same ranks and with others. */
#include <stdlib.h>

#include "base/hash.h"
#include "sets.h"

enum { PARAMS = 4, MOST = 700, SAVED_AFTER = 3, STEPS = 6 };

static const size_t sizes[PARAMS] = {300, 17, 1, 640};

/* What is on the disk: each rank puts its parts there, by param and element. */
static struct checkpoint {
    float master[PARAMS][MOST], m[PARAMS][MOST], v[PARAMS][MOST];
    int written[PARAMS][MOST];
    uint64_t steps;
} checkpoint;

static weft_dtype dtype;
static size_t bucket_elements;
static uint32_t flags;
static uint64_t hashes[4]; /* of the weights in the end, of each thread rank */

static float value_of(const weft_buckets *set, uint32_t param, size_t i)
{
    const void *data = weft_buckets_param(set, param);
    return dtype == WEFT_FP32 ? ((const float *)data)[i] : weft__bf16_to_float(((const uint16_t *)data)[i]);
}

static void set_value(weft_buckets *set, uint32_t param, size_t i, float value)
{
    void *data = weft_buckets_param(set, param);
    if (dtype == WEFT_FP32)
        ((float *)data)[i] = value;
    else
        ((uint16_t *)data)[i] = weft__float_to_bf16(value);
}

static weft_adam *open_training(rank_state *r)
{
    for (int i = 0; i < PARAMS; i++) {
        char name[8];
        snprintf(name, sizeof name, "p%d", i);
        weft_param param = WEFT_PARAM_INIT;
        param.name = name, param.dims = 1, param.shape[0] = sizes[i], param.dtype = dtype;
        CHECK_OK(weft_params_add(r->params, &param, NULL));
    }
    weft_buckets_config config = packed(bucket_elements);
    config.reduction = WEFT_AVERAGE;
    config.flags = flags;
    make_set(r, &config);
    weft_adam *adam;
    CHECK_OK(weft_adam_create(&r->set, 1, NULL, &adam));
    return adam;
}

static void acquire_all(rank_state *r)
{
    CHECK_OK(weft_buckets_acquire(r->set, 0, PARAMS, WEFT_STREAM_HOST));
}

static void step(rank_state *r, weft_adam *adam, int number)
{
    acquire_all(r);
    CHECK_OK(weft_buckets_begin(r->set, 1));
    for (uint32_t p = PARAMS; p-- > 0;) {
        float *grad = weft_buckets_grad(r->set, p);
        for (size_t i = 0; i < sizes[p]; i++)
            grad[i] += value_of(r->set, p, i) * 0.37f + (float)((i * 13 + (size_t)(number * 5 + r->rank)) % 23) - 11;
        CHECK_OK(weft_buckets_mark_ready(r->set, p, WEFT_STREAM_HOST));
    }
    weft_step how = WEFT_STEP_INIT;
    how.lr = 1e-3f, how.weight_decay = 0.1f, how.clip_norm = 1;
    CHECK_OK(weft_adam_step(adam, &how, NULL));
}

static weft_adam_values values_of(const weft_owned *owned, struct checkpoint *from)
{
    weft_adam_values values = WEFT_ADAM_VALUES_INIT;
    values.param = owned->param, values.start = owned->start, values.count = owned->count;
    values.master = from->master[owned->param] + owned->start;
    values.m = from->m[owned->param] + owned->start;
    values.v = from->v[owned->param] + owned->start;
    return values;
}

static void save(rank_state *r, weft_adam *adam)
{
    size_t count;
    const weft_owned *owned = weft_buckets_owned(r->set, &count);
    acquire_all(r);
    for (size_t k = 0; k < count; k++) {
        weft_adam_values values = values_of(&owned[k], &checkpoint);
        CHECK_OK(weft_adam_read(adam, r->set, &values));
        for (size_t i = 0; i < owned[k].count; i++)
            checkpoint.written[owned[k].param][owned[k].start + i]++;
    }
    uint64_t steps;
    CHECK_OK(weft_adam_steps(adam, &steps));
    if (r->rank == 0)
        checkpoint.steps = steps;
}

/* Each part in two calls, the moments apart from the rest. */
static void load(rank_state *r, weft_adam *adam)
{
    size_t count;
    const weft_owned *owned = weft_buckets_owned(r->set, &count);
    for (size_t k = 0; k < count; k++) {
        weft_adam_values master = values_of(&owned[k], &checkpoint), moments = master;
        master.m = master.v = moments.master = NULL;
        CHECK_OK(weft_adam_write(adam, r->set, &master));
        CHECK_OK(weft_adam_write(adam, r->set, &moments));
    }
    CHECK_OK(weft_adam_set_steps(adam, checkpoint.steps));
    gather_all(r);
}

static void finish(rank_state *r, weft_adam *adam)
{
    acquire_all(r);
    hashes[r->rank] = WEFT__HASH_START;
    for (uint32_t p = 0; p < PARAMS; p++)
        hashes[r->rank] =
            weft__hash(hashes[r->rank], weft_buckets_param(r->set, p), sizes[p] * weft_dtype_bytes(dtype));
    weft_adam_destroy(adam);
}

static void train_and_save(rank_state *r)
{
    weft_adam *adam = open_training(r);
    for (uint32_t p = 0; p < PARAMS; p++)
        for (size_t i = 0; i < sizes[p]; i++)
            set_value(r->set, p, i, (float)((int)(p * 31 + i * 7) % 19 - 9) * 0.125f);
    for (int number = 0; number < STEPS; number++) {
        if (number == SAVED_AFTER)
            save(r, adam);
        step(r, adam, number);
    }
    finish(r, adam);
}

static void load_and_train(rank_state *r)
{
    weft_adam *adam = open_training(r);
    load(r, adam);
    for (int number = SAVED_AFTER; number < STEPS; number++)
        step(r, adam, number);
    finish(r, adam);
}

static void first_training(int ranks)
{
    memset(&checkpoint, 0, sizeof checkpoint);
    on_ranks(ranks, NULL, train_and_save);
    CHECK_INT(checkpoint.steps, SAVED_AFTER);
    int copies = flags & WEFT_BUCKETS_UNSHARDED ? ranks : 1;
    for (int p = 0; p < PARAMS; p++)
        for (size_t i = 0; i < sizes[p]; i++)
            CHECK_INT(checkpoint.written[p][i], copies);
}

TEST(a_loaded_training_goes_on_bit_for_bit)
{
    static const struct {
        weft_dtype dtype;
        size_t bucket_elements;
        uint32_t flags;
    } kinds[] = {{WEFT_FP32, 0, 0},
                 {WEFT_BF16, 0, 0},
                 {WEFT_BF16, 100, 0},
                 {WEFT_FP32, 100, WEFT_BUCKETS_GUARD_UNACQUIRED},
                 {WEFT_BF16, 0, WEFT_BUCKETS_UNSHARDED}};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        dtype = kinds[k].dtype, bucket_elements = kinds[k].bucket_elements, flags = kinds[k].flags;
        first_training(flags & WEFT_BUCKETS_UNSHARDED ? 1 : 3);
        uint64_t wanted = hashes[0];
        memset(hashes, 0, sizeof hashes);
        on_ranks(flags & WEFT_BUCKETS_UNSHARDED ? 1 : 3, NULL, load_and_train);
        CHECK(hashes[0] == wanted);
    }
}

/* What was loaded is what is read, and the params of every rank are the master values, rounded. */
static void load_and_look(rank_state *r)
{
    static struct checkpoint seen;
    weft_adam *adam = open_training(r);
    load(r, adam);
    size_t count;
    const weft_owned *owned = weft_buckets_owned(r->set, &count);
    for (size_t k = 0; k < count; k++) {
        weft_adam_values values = values_of(&owned[k], &seen);
        CHECK_OK(weft_adam_read(adam, r->set, &values));
        weft_adam_values saved = values_of(&owned[k], &checkpoint);
        CHECK(memcmp(values.master, saved.master, owned[k].count * sizeof(float)) == 0);
        CHECK(memcmp(values.m, saved.m, owned[k].count * sizeof(float)) == 0);
        CHECK(memcmp(values.v, saved.v, owned[k].count * sizeof(float)) == 0);
    }
    for (uint32_t p = 0; p < PARAMS; p++)
        for (size_t i = 0; i < sizes[p]; i++) {
            float want = checkpoint.master[p][i];
            want = dtype == WEFT_FP32 ? want : weft__bf16_to_float(weft__float_to_bf16(want));
            CHECK_MSG(value_of(r->set, p, i) == want, "rank %d: element %zu of param %u", r->rank, i, p);
        }
    uint64_t steps;
    CHECK_OK(weft_adam_steps(adam, &steps));
    CHECK_INT(steps, SAVED_AFTER);
    weft_adam_destroy(adam);
}

TEST(other_ranks_and_buckets_load_it_too)
{
    for (int k = 0; k < 2; k++) {
        dtype = k ? WEFT_BF16 : WEFT_FP32, bucket_elements = 0, flags = 0;
        first_training(3);
        bucket_elements = 50;
        on_ranks(4, NULL, load_and_look);
        on_ranks(1, NULL, load_and_look);
    }
}

/* Master values before the first step are the params. */
static void read_fresh(rank_state *r)
{
    weft_adam *adam = open_training(r);
    for (uint32_t p = 0; p < PARAMS; p++)
        for (size_t i = 0; i < sizes[p]; i++)
            set_value(r->set, p, i, (float)i);
    float master[2] = {-1, -1}, m[2] = {-1, -1};
    size_t count;
    const weft_owned *owned = weft_buckets_owned(r->set, &count);
    CHECK(count > 0 && owned[count - 1].count > 2);
    weft_adam_values values = values_of(&owned[count - 1], &checkpoint);
    values.start++, values.count = 2, values.master = master, values.m = m, values.v = NULL;
    CHECK_OK(weft_adam_read(adam, r->set, &values));
    for (int i = 0; i < 2; i++) {
        CHECK_NEAR(master[i], value_of(r->set, values.param, values.start + (size_t)i), 0);
        CHECK_NEAR(m[i], 0, 0);
    }
    weft_adam_destroy(adam);
}

TEST(nothing_was_stepped_yet_and_it_is_read)
{
    dtype = WEFT_BF16, bucket_elements = 0, flags = 0;
    on_ranks(2, NULL, read_fresh);
}

static void wrong_calls(rank_state *r)
{
    weft_adam *adam = open_training(r);
    size_t count;
    const weft_owned *owned = weft_buckets_owned(r->set, &count);
    const weft_adam_values good = values_of(&owned[0], &checkpoint);
    weft_adam_values bad = good;
    CHECK_REFUSED(weft_adam_read(NULL, r->set, &good), WEFT_E_INVALID, "no optimizer");
    CHECK_REFUSED(weft_adam_read(adam, NULL, &good), WEFT_E_INVALID, "no set");
    CHECK_REFUSED(weft_adam_write(adam, r->set, NULL), WEFT_E_INVALID, "no values");
    CHECK_REFUSED(weft_adam_steps(adam, NULL), WEFT_E_INVALID, "no place");
    CHECK_REFUSED(weft_adam_set_steps(NULL, 1), WEFT_E_INVALID, "no optimizer");
    bad.param = PARAMS;
    CHECK_REFUSED(weft_adam_read(adam, r->set, &bad), WEFT_E_RANGE, "no param 4, there are 4");
    bad = good, bad.start = SIZE_MAX;
    CHECK_REFUSED(weft_adam_write(adam, r->set, &bad), WEFT_E_RANGE, "not this rank's");
    bad = good, bad.count = SIZE_MAX;
    CHECK_REFUSED(weft_adam_write(adam, r->set, &bad), WEFT_E_RANGE, "not this rank's");
    bad = good, bad.count++;
    CHECK_REFUSED(weft_adam_write(adam, r->set, &bad), WEFT_E_RANGE, "not this rank's");
    bad = good, bad.reserved = 1;
    CHECK_REFUSED(weft_adam_write(adam, r->set, &bad), WEFT_E_INVALID, "unknown field");
    bad = good, bad.size = 0;
    CHECK_REFUSED(weft_adam_write(adam, r->set, &bad), WEFT_E_INVALID, "weft_adam_values");
    step(r, adam, 0);
    CHECK_REFUSED(weft_adam_read(adam, r->set, &good), WEFT_E_STATE, "acquire it first", "param 'p");
    CHECK_REFUSED(weft_adam_write(adam, r->set, &good), WEFT_E_STATE, "acquire it first");
    acquire_all(r);
    CHECK_OK(weft_adam_read(adam, r->set, &good));
    CHECK_OK(weft_buckets_begin(r->set, 0));
    CHECK_REFUSED(weft_adam_write(adam, r->set, &good), WEFT_E_STATE, "a window is open");
    weft_adam_destroy(adam);
    CHECK_OK(weft_adam_create(&r->set, 1, NULL, &adam));
    CHECK_OK(weft_adam_read(adam, r->set, &good));
    weft_adam_destroy(adam);
}

TEST(what_cannot_be_read_or_written_is_refused_by_name)
{
    dtype = WEFT_FP32, bucket_elements = 0, flags = 0;
    on_ranks(2, NULL, wrong_calls);
}

static void frozen(rank_state *r)
{
    for (int i = 0; i < 2; i++) {
        weft_param param = WEFT_PARAM_INIT;
        param.name = i ? "cold" : "warm", param.dims = 1, param.shape[0] = 8, param.flags = i ? WEFT_PARAM_FROZEN : 0;
        CHECK_OK(weft_params_add(r->params, &param, NULL));
    }
    make_set(r, NULL);
    weft_adam *adam;
    CHECK_OK(weft_adam_create(&r->set, 1, NULL, &adam));
    float room[8];
    weft_adam_values values = WEFT_ADAM_VALUES_INIT;
    values.param = 1, values.count = 8, values.m = room;
    CHECK_REFUSED(weft_adam_read(adam, r->set, &values), WEFT_E_RANGE, "'cold' is frozen");
    values.param = 0;
    CHECK_OK(weft_adam_read(adam, r->set, &values));
    weft_adam_destroy(adam);
}

TEST(of_a_frozen_param_nothing_is_kept)
{
    on_ranks(1, NULL, frozen);
}
