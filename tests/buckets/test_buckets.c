/* SPDX-License-Identifier: Apache-2.0 */
/* Making a set: where params and buckets lie, whose memory it is, and what is refused. */
#include <stdlib.h>

#include "base/memory.h"
#include "sets.h"

static void add_dtype(weft_params *params, const char *name, size_t elements, weft_dtype dtype)
{
    weft_param param = WEFT_PARAM_INIT;
    param.name = name, param.dims = 1, param.shape[0] = elements, param.dtype = dtype;
    CHECK_OK(weft_params_add(params, &param, NULL));
}

static void aligned(rank_state *r)
{
    static const size_t sizes[] = {1, 7, 4097};
    for (int i = 0; i < 3; i++) {
        char name[8];
        snprintf(name, sizeof name, "p%d", i);
        add_dtype(r->params, name, sizes[i], WEFT_BF16);
    }
    weft_buckets_config config = WEFT_BUCKETS_CONFIG_INIT;
    config.bucket_elements = 8;
    make_set(r, &config);
    for (uint32_t p = 0; p < 3; p++) {
        CHECK_INT((uintptr_t)weft_buckets_param(r->set, p) % 128, 0);
        CHECK_INT((uintptr_t)weft_buckets_grad(r->set, p) % 128, 0);
    }
    for (uint32_t b = 0; b < 2; b++) {
        CHECK_INT((uintptr_t)r->set->buckets[b].params % 256, 0);
        CHECK_INT((uintptr_t)r->set->buckets[b].grads % 256, 0);
    }
    weft_buckets_usage usage = WEFT_BUCKETS_USAGE_INIT;
    CHECK_OK(weft_buckets_usage_get(r->set, &usage));
    CHECK_INT(usage.elements, 4352);
    CHECK_INT(usage.padding, 4352 - 4105);
    CHECK_INT(usage.owned_elements, 1088);
    CHECK_INT(usage.param_bytes, 8704);
    CHECK_INT(usage.grad_bytes, 17408);
    CHECK_INT(usage.state_bytes, 0);
}

TEST(params_and_buckets_lie_on_boundaries_and_are_counted)
{
    on_ranks(4, NULL, aligned);
}

static void owned_offsets(rank_state *r)
{
    weft_buckets_config config = packed(8);
    make_set(r, &config);
    /* Buckets [0,4100) and [4100,4108): rank r owns 1025 of p2, then elements 2r and 2r+1 of (p1, p0). */
    size_t count, at = 0;
    const weft_owned *owned = weft_buckets_owned(r->set, &count);
    CHECK_INT(count, r->rank == 3 ? 3 : 2);
    CHECK_INT(owned[0].param, 2);
    CHECK_INT(owned[0].start, 1025 * r->rank);
    CHECK_INT(owned[0].count, r->rank == 3 ? 1022 : 1025);
    CHECK_INT(owned[1].param, 1);
    CHECK_INT(owned[1].start, 2 * r->rank);
    CHECK_INT(owned[1].offset, 1025);
    for (size_t i = 0; i < count; i++) {
        CHECK(owned[i].offset >= at);
        at = owned[i].offset + owned[i].count;
        CHECK(owned[i].data == (float *)weft_buckets_param(r->set, owned[i].param) + owned[i].start);
        CHECK(owned[i].grad == (float *)weft_buckets_grad(r->set, owned[i].param) + owned[i].start);
    }
    CHECK_INT(at, 1027);
}

TEST(owned_parts_are_listed_with_their_places)
{
    on_ranks(4, SIZES(1, 7, 4097), owned_offsets);
}

static void arenas(rank_state *r)
{
    add_dtype(r->params, "full", 100, WEFT_FP32);
    add_dtype(r->params, "brain", 200, WEFT_BF16);
    weft_buckets_arena arena[2] = {{.param_bytes = 128 * 4, .grad_bytes = 128 * 4}, {.param_bytes = 256 * 2}};
    arena[0].params = aligned_alloc(256, 512), arena[0].grads = aligned_alloc(256, 512);
    arena[1].params = aligned_alloc(256, 512);
    float *values = arena[0].params, *grads = arena[0].grads;
    for (int i = 0; i < 128; i++)
        values[i] = grads[i] = 7; /* values are kept, the rest is cleared */
    weft_buckets_config config = WEFT_BUCKETS_CONFIG_INIT;
    config.arenas = arena, config.arena_count = 1;
    CHECK_REFUSED(try_set(r, &config), WEFT_E_INVALID, "1 arenas", "2 buffers");
    config.arena_count = 2, arena[0].grad_bytes = 508;
    CHECK_REFUSED(try_set(r, &config), WEFT_E_INVALID, "gradients of buffer 0", "508 bytes", "takes 512");
    arena[0].grad_bytes = 512, arena[0].params = (char *)values + 2;
    CHECK_REFUSED(try_set(r, &config), WEFT_E_INVALID, "params of buffer 0", "not aligned");
    arena[0].params = values, config.flags = WEFT_BUCKETS_GUARD_UNACQUIRED;
    CHECK_REFUSED(try_set(r, &config), WEFT_E_INVALID, "cannot be guarded");
    config.flags = 0;
    arena[0].grads = values + 127;
    CHECK_REFUSED(try_set(r, &config), WEFT_E_INVALID,
                  "the arenas for the params of buffer 0 and the gradients of buffer 0 overlap");
    arena[0].grads = grads, arena[1].grads = grads + 127, arena[1].grad_bytes = 1024;
    CHECK_REFUSED(try_set(r, &config), WEFT_E_INVALID, "gradients of buffer 0 and the gradients of buffer 1 overlap");
    arena[1].grads = NULL, arena[1].grad_bytes = 0;
    make_set(r, &config);
    CHECK(weft_buckets_param(r->set, 0) == (void *)values && weft_buckets_grad(r->set, 0) == (void *)grads);
    CHECK(weft_buckets_param(r->set, 1) == arena[1].params && weft_buckets_grad(r->set, 1) != NULL);
    for (int i = 0; i < 128; i++)
        CHECK(values[i] == (i < 100 ? 7 : 0) && grads[i] == 0);
    microbatch(r, false, 0);
    CHECK_OK(weft_buckets_begin(r->set, 1));
    give(r->set, r->params, 1, 2);
    give(r->set, r->params, 0, 2);
    reduce(r);
    check_owned(r->set, 4);
    gather_all(r);
    CHECK(values[99] == 7);
    weft_buckets_destroy(r->set);
    r->set = NULL;
    free(values);
    free(grads);
    free(arena[1].params);
}

TEST(a_trainer_may_bring_its_own_memory)
{
    on_ranks(2, NULL, arenas);
}

static void held(rank_state *r)
{
    make_set(r, NULL);
    CHECK_RESULT(weft_params_freeze(r->params, 0, 1), WEFT_E_STATE);
    weft_buckets_destroy(r->set);
    r->set = NULL;
    CHECK_OK(weft_params_freeze(r->params, 0, 1));
    make_set(r, NULL); /* nothing left to train: a set without buckets */
    CHECK_OK(weft_buckets_begin(r->set, 1));
    reduce(r);
    float norm;
    CHECK_OK(weft_buckets_norm(&r->set, 1, &norm));
    CHECK(norm == 0);
}

TEST(params_cannot_be_frozen_while_a_set_uses_them)
{
    on_ranks(2, SIZES(3), held);
}

static void senseless(rank_state *r)
{
    add_param(r->params, "w", 4, 0);
    weft_buckets_config config = WEFT_BUCKETS_CONFIG_INIT;
    config.name = "model", config.flags = 1 << 20;
    CHECK_REFUSED(try_set(r, &config), WEFT_E_INVALID, "set 'model'", "flags 0x100000");
    config.flags = 0, config.reduction = WEFT_MAX;
    CHECK_REFUSED(try_set(r, &config), WEFT_E_INVALID, "set 'model'", "max");
    config.reduction = WEFT_SUM;
    weft_buckets *set;
    weft_buckets_comms comms = WEFT_BUCKETS_COMMS_INIT;
    CHECK_REFUSED(weft_buckets_create(r->params, &comms, &config, &set), WEFT_E_INVALID, "no comm of shard ranks");
    comms.shard = r->all, comms.expert_replica = r->all;
    CHECK_REFUSED(weft_buckets_create(r->params, &comms, &config, &set), WEFT_E_INVALID, "expert_replica");
    comms.expert_replica = NULL;
    weft_buckets_sum sum = {.param = 7, .comm = r->all};
    comms.sums = &sum, comms.sum_count = 1;
    CHECK_REFUSED(weft_buckets_create(r->params, &comms, &config, &set), WEFT_E_INVALID, "param 7", "does not exist");
    sum.param = 0, sum.comm = NULL;
    CHECK_REFUSED(weft_buckets_create(r->params, &comms, &config, &set), WEFT_E_INVALID, "param 0 ('w')", "no comm");
    add_dtype(r->params, "counts", 4, WEFT_INT64);
    CHECK_REFUSED(try_set(r, &config), WEFT_E_UNSUPPORTED, "param 'counts'", "int64");
}

TEST(sets_that_make_no_sense_are_refused_by_name)
{
    on_ranks(1, NULL, senseless);
}

static void too_many(rank_state *r)
{
    for (int i = 0; i < 4097; i++) {
        char name[16];
        snprintf(name, sizeof name, "p%d", i);
        add_param(r->params, name, 1, 0);
    }
    weft_buckets_config config = packed(1);
    CHECK_REFUSED(try_set(r, &config), WEFT_E_RANGE, "4097 operations", "4096", "make the buckets larger");
}

TEST(more_buckets_than_can_be_in_flight_are_refused)
{
    on_ranks(1, NULL, too_many);
}

/* The longest names that comms and groups can have. */
static void long_names(rank_state *r)
{
    char name[2][WEFT_COMM_NAME_MAX + 1];
    weft_comm *comm[2];
    weft_buckets *set[2];
    for (int i = 0; i < 2; i++) {
        memset(name[i], 'n', WEFT_COMM_NAME_MAX);
        name[i][WEFT_COMM_NAME_MAX - 1] = i ? 'a' : 'b'; /* they differ behind what is cut off */
        name[i][WEFT_COMM_NAME_MAX] = 0;
        comm[i] = all_ranks(r->world, name[i], NULL);
        weft_buckets_comms comms = WEFT_BUCKETS_COMMS_INIT;
        comms.shard = comms.expert_shard = comms.expert_replica = comm[i];
        comms.replica = NULL;
        weft_buckets_config config = WEFT_BUCKETS_CONFIG_INIT;
        config.name = "a-name-that-is-far-too-long-to-become-a-part-of-the-names-of-comms";
        CHECK_OK(weft_buckets_create(r->params, &comms, &config, &set[i]));
    }
    for (int i = 0; i < 2; i++) {
        weft_buckets_destroy(set[i]);
        weft_comm_destroy(comm[i]);
    }
}

TEST(names_of_any_length_take_sets)
{
    on_ranks(2, SIZES(3), long_names);
}

static void abandoned(rank_state *r)
{
    weft_buckets_config config = packed(1);
    make_set(r, &config);
    CHECK_OK(weft_buckets_begin(r->set, 1));
    give(r->set, r->params, 1, 1); /* started, and never finished */
    if (r->rank == 0)
        give(r->set, r->params, 0, 1);
    CHECK_OK(weft_barrier_run(r->all, WEFT_STREAM_HOST));
}

TEST(a_set_can_be_destroyed_with_operations_in_flight)
{
    on_ranks(2, SIZES(3, 3), abandoned);
}

static char logged[2048];

static void keep_lines(void *cookie, weft_log_level level, const char *line)
{
    (void)cookie, (void)level;
    size_t used = strlen(logged);
    snprintf(logged + used, sizeof logged - used, "%s\n", line);
}

/* Ends with as many gathers started as there are buckets. */
static void stepped(rank_state *r)
{
    weft_buckets_config config = packed(1);
    weft_adam *adam;
    weft_step how = WEFT_STEP_INIT;
    make_set(r, &config);
    CHECK_OK(weft_adam_create(&r->set, 1, NULL, &adam));
    microbatch(r, true, 1);
    CHECK_OK(weft_adam_step(adam, &how, NULL));
    weft_adam_destroy(adam);
}

TEST(gathers_that_have_ended_are_finished_without_a_word)
{
    weft_log_set(WEFT_LOG_WARN, keep_lines, NULL);
    on_ranks(1, SIZES(3, 3, 3), stepped);
    CHECK_STR(logged, "");
}

/* Rank 1 has not begun to gather when rank 0, which has failed, gives its set up. */
static void gives_up_in_a_gather(rank_state *r)
{
    weft_buckets_config config = packed(1);
    make_set(r, &config);
    microbatch(r, true, 1);
    reduce(r);
    if (r->rank == 0) {
        for (uint32_t b = 0; b < 2; b++)
            CHECK_OK(weft_buckets_gather(r->set, b, WEFT_STREAM_HOST));
        CHECK_REFUSED(weft_buckets_acquire(r->set, 7, 1, WEFT_STREAM_HOST), WEFT_E_RANGE, "params 7 to 8 of 2");
        weft_buckets_destroy(r->set);
        r->set = NULL;
        CHECK_STR(weft_last_error(), "rank 0, set 'buckets': params 7 to 8 of 2 are to be acquired");
    }
    CHECK_OK(weft_barrier_run(r->all, WEFT_STREAM_HOST));
    if (r->rank == 1) {
        weft_result result = weft_buckets_gather(r->set, 0, WEFT_STREAM_HOST);
        if (result == WEFT_OK)
            result = weft_buckets_acquire(r->set, 0, 2, WEFT_STREAM_HOST);
        CHECK_INT(result, WEFT_E_ABORTED);
        CHECK_HAS(weft_last_error(), "was aborted by rank 0: rank 0, set 'buckets': params 7 to 8 of 2");
        CHECK_HAS(weft_last_error(), "set 'buckets': destroyed with 2 gathers in flight");
    }
}

TEST(a_set_that_is_given_up_tells_the_others_why_and_how_to_end_well)
{
    weft_log_set(WEFT_LOG_WARN, keep_lines, NULL);
    on_ranks(2, SIZES(3, 3), gives_up_in_a_gather);
    CHECK_HAS(logged, "set 'buckets': destroyed with 2 gathers in flight: weft_buckets_acquire() them first");
}

static void same_name(rank_state *r)
{
    make_set(r, NULL);
    weft_params *more = PARAMS_OF(3);
    weft_buckets_comms comms = WEFT_BUCKETS_COMMS_INIT;
    comms.shard = r->all;
    weft_buckets *set;
    CHECK_REFUSED(weft_buckets_create(more, &comms, NULL, &set), WEFT_E_INVALID,
                  "set 'buckets': the name is taken; set weft_buckets_config.name");
    weft_params_destroy(more);
}

TEST(a_second_set_of_one_name_is_told_what_to_set)
{
    on_ranks(2, SIZES(3), same_name);
}

static void starved(rank_state *r)
{
    for (long n = 1;; n++) {
        weft__alloc_fail_at(n);
        weft_result result = try_set(r, NULL);
        bool failed = weft__alloc_count() >= n;
        weft__alloc_fail_at(0);
        CHECK_INT(result, failed ? WEFT_E_NO_MEMORY : WEFT_OK);
        if (!failed)
            break;
    }
    make_set(r, NULL);
    for (long n = 1;; n++) {
        weft__alloc_fail_at(n);
        weft_adam *adam;
        weft_result result = weft_adam_create(&r->set, 1, NULL, &adam);
        bool failed = weft__alloc_count() >= n;
        weft__alloc_fail_at(0);
        CHECK_INT(result, failed ? WEFT_E_NO_MEMORY : WEFT_OK);
        CHECK((adam == NULL) == failed);
        weft_adam_destroy(adam);
        if (!failed)
            break;
    }
}

TEST(a_set_survives_every_want_of_memory)
{
    on_ranks(1, SIZES(3, 4), starved);
}
