/* SPDX-License-Identifier: Apache-2.0 */
/* Making a set is one act of all ranks: what differs, is asked wrongly or runs out on one is told to all. */
#include <stdlib.h>

#include "base/memory.h"
#include "sets.h"

static void other_name(rank_state *r)
{
    add_param(r->params, "first", 4, 0);
    add_param(r->params, r->rank == 1 ? "other" : "second", 4, 0);
    CHECK_REFUSED(try_set(r, NULL), WEFT_E_MISMATCH, "set 'buckets'", "comm 'all'", "rank 0 has 'second' fp32 [4]",
                  "rank 1 has 'other' fp32 [4]");
}

static void other_shape(rank_state *r)
{
    add_param(r->params, "first", 4, 0);
    add_param(r->params, "second", r->rank == 2 ? 5 : 4, 0);
    CHECK_REFUSED(try_set(r, NULL), WEFT_E_MISMATCH, "rank 0 has 'second' fp32 [4]", "rank 2 has 'second' fp32 [5]");
}

static void other_count(rank_state *r)
{
    for (int i = 0; i < (r->rank ? 3 : 300); i++) { /* so many that the comms of the set would differ, too */
        char name[16];
        snprintf(name, sizeof name, "p%d", i);
        add_param(r->params, name, 4, WEFT_PARAM_TIED);
    }
    CHECK_REFUSED(try_set(r, NULL), WEFT_E_MISMATCH, "rank 0 has 'p3' fp32 [4]", "rank 1 has no more params");
}

/* One more, in the middle: it is what the message names, though it moves others to other places. */
static void one_too_many(rank_state *r)
{
    add_param(r->params, "first", 4, 0);
    if (r->rank == 1)
        add_param(r->params, "extra", 4, 0);
    add_param(r->params, "last", 4, 0);
    CHECK_REFUSED(try_set(r, NULL), WEFT_E_MISMATCH, "rank 0 has 'last' fp32 [4]", "rank 1 has 'extra' fp32 [4]");
}

/* ... and the last, where rank 0 has none. */
static void one_more_at_the_end(rank_state *r)
{
    add_param(r->params, "first", 4, 0);
    if (r->rank == 1)
        add_param(r->params, "extra", 4, 0);
    CHECK_REFUSED(try_set(r, NULL), WEFT_E_MISMATCH, "rank 0 has no more params", "rank 1 has 'extra' fp32 [4]");
}

/* The two halves of the message are never the same. */
static void other_attributes(rank_state *r)
{
    static const struct {
        weft_param change; /* what rank 1 has instead of the default */
        const char *rank0, *rank1;
    } cases[] = {
        {{.grad_dtype = WEFT_BF16}, "rank 0 has 'p' fp32 [2,3], gradient fp32,", "'p' fp32 [2,3], gradient bf16"},
        {{.contributions = 2}, "rank 0 has 'p' fp32 [2,3], gradient fp32,", "gradient fp32, 2 contributions"},
        {{.lr_scale = 1.0000001f}, "rank 0 has 'p' fp32 [2,3], gradient fp32,", "gradient fp32, lr_scale 1.00000012"},
        {{.flags = WEFT_PARAM_NO_DECAY}, "rank 0 has 'p' fp32 [2,3], gradient fp32,", "gradient fp32, no decay"},
        {{.flags = WEFT_PARAM_TIED}, "rank 0 has 'p' fp32 [2,3], gradient fp32,", "gradient fp32, tied"},
        {{.flags = WEFT_PARAM_COPY}, "rank 0 has 'p' fp32 [2,3], gradient fp32,", "gradient fp32, copy"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weft_param param = WEFT_PARAM_INIT, change = r->rank == 1 ? cases[i].change : param;
        weft_params *params;
        param.name = "p", param.shape[0] = 2, param.shape[1] = 3, param.dims = 2;
        param.grad_dtype = change.grad_dtype, param.contributions = change.contributions;
        param.lr_scale = change.lr_scale, param.flags = change.flags;
        CHECK_OK(weft_params_create(&params));
        CHECK_OK(weft_params_add(params, &param, NULL));
        weft_buckets_comms comms = WEFT_BUCKETS_COMMS_INIT;
        comms.shard = r->all;
        CHECK_REFUSED(weft_buckets_create(params, &comms, NULL, &r->set), WEFT_E_MISMATCH, cases[i].rank0,
                      cases[i].rank1);
        weft_params_destroy(params);
    }
}

static void long_names(rank_state *r)
{
    char name[201] = "";
    memset(name, 'x', 200);
    name[199] = (char)('0' + r->rank);
    add_param(r->params, name, 4, 0);
    CHECK_REFUSED(try_set(r, NULL), WEFT_E_MISMATCH, "xxx0' fp32 [4]", "xxx1' fp32 [4]");
}

static void other_config(rank_state *r)
{
    add_param(r->params, "first", 4, 0);
    weft_buckets_config config = WEFT_BUCKETS_CONFIG_INIT;
    config.bucket_elements = r->rank == 1 ? 77 : 99;
    CHECK_REFUSED(try_set(r, &config), WEFT_E_MISMATCH, "99 elements a bucket", "', sum, 77 elements a bucket");
}

static void other_last_bucket(rank_state *r)
{
    add_param(r->params, "first", 4, 0);
    weft_buckets_config config = WEFT_BUCKETS_CONFIG_INIT;
    config.last_bucket_elements = r->rank == 1 ? 7 : 9;
    CHECK_REFUSED(try_set(r, &config), WEFT_E_MISMATCH, "9 for the last", "7 for the last");
}

static void other_set_name(rank_state *r)
{
    add_param(r->params, "first", 4, 0);
    weft_buckets_config config = WEFT_BUCKETS_CONFIG_INIT;
    config.name = r->rank == 1 ? "one" : "other";
    CHECK_REFUSED(try_set(r, &config), WEFT_E_MISMATCH, "'other', sum", "'one', sum");
}

/* The ranks of a sum do not own the same elements: the weight is not tied, so its neighbour shifts it. */
static void other_part(rank_state *r)
{
    int stage = r->rank / 2;
    add_param(r->params, stage ? "output" : "embedding", 4, 0);
    if (stage)
        add_param(r->params, "neighbour", 2, 0);
    weft_comm *dp = comm_every(r->world, "dp", 2 * stage, 1, 2),
              *pair = comm_every(r->world, "pair", r->rank % 2, 2, 2);
    weft_buckets_sum sum = {.param = 0, .comm = pair};
    weft_buckets_comms comms = WEFT_BUCKETS_COMMS_INIT;
    comms.shard = dp, comms.sums = &sum, comms.sum_count = 1;
    weft_buckets_config config = packed(0);
    comms.norm = r->all;
    CHECK_REFUSED(weft_buckets_create(r->params, &comms, &config, &r->set), WEFT_E_MISMATCH,
                  "rank 0, set 'buckets': ranks of comm 'pair0' differ", "'embedding'", "'output'");
    weft_comm_destroy(pair);
    weft_comm_destroy(dp);
}

TEST(ranks_that_hold_different_params_are_told_which)
{
    on_ranks(3, NULL, other_name);
    on_ranks(3, NULL, other_shape);
    on_ranks(2, NULL, other_count);
    on_ranks(2, NULL, one_too_many);
    on_ranks(2, NULL, one_more_at_the_end);
    on_ranks(2, NULL, other_attributes);
    on_ranks(2, NULL, long_names);
    on_ranks(2, NULL, other_config);
    on_ranks(2, NULL, other_last_bucket);
    on_ranks(2, NULL, other_set_name);
    on_ranks(4, NULL, other_part);
}

/* Of two data parallel groups one differs: all ranks of both hear of it, and the comms live. */
static void one_group_differs(rank_state *r)
{
    int group = r->rank / 2;
    add_param(r->params, "first", 4, 0);
    add_param(r->params, r->rank == 3 ? "other" : "second", 4, 0);
    weft_comm *dp = comm_every(r->world, "dp", 2 * group, 1, 2);
    weft_buckets_comms comms = WEFT_BUCKETS_COMMS_INIT;
    comms.shard = dp, comms.norm = r->all;
    CHECK_REFUSED(weft_buckets_create(r->params, &comms, NULL, &r->set), WEFT_E_MISMATCH,
                  "rank 2, set 'buckets': ranks of comm 'dp2' differ", "rank 2 has 'second' fp32 [4]",
                  "rank 3 has 'other' fp32 [4]");
    CHECK(r->set == NULL);
    CHECK_OK(weft_barrier_run(dp, WEFT_STREAM_HOST));
    CHECK_OK(weft_barrier_run(r->all, WEFT_STREAM_HOST));
    weft_comm_destroy(dp);
}

/* Each group differs, in a way of its own: all hear of the first. */
static void both_groups_differ(rank_state *r)
{
    int group = r->rank / 2;
    add_param(r->params, r->rank == 3 ? "other" : "first", r->rank == 1 ? 5 : 4, 0);
    weft_comm *dp = comm_every(r->world, "dp", 2 * group, 1, 2);
    weft_buckets_comms comms = WEFT_BUCKETS_COMMS_INIT;
    comms.shard = dp, comms.norm = r->all;
    CHECK_REFUSED(weft_buckets_create(r->params, &comms, NULL, &r->set), WEFT_E_MISMATCH,
                  "rank 0, set 'buckets': ranks of comm 'dp0' differ", "rank 1 has 'first' fp32 [5]");
    CHECK_OK(weft_barrier_run(r->all, WEFT_STREAM_HOST));
    weft_comm_destroy(dp);
}

/* Replicas whose norms are their own: what one cannot make, and where one differs, all are told. */
static void replica_differs(rank_state *r)
{
    add_param(r->params, "first", r->rank == 3 ? 5 : 4, 0);
    weft_comm *shard = comm_every(r->world, "shard", r->rank & ~1, 1, 2),
              *replica = comm_every(r->world, "replica", r->rank & 1, 2, 2);
    weft_buckets_comms comms = WEFT_BUCKETS_COMMS_INIT;
    comms.shard = shard, comms.replica = replica;
    CHECK_REFUSED(weft_buckets_create(r->params, &comms, NULL, &r->set), WEFT_E_MISMATCH, "'first' fp32 [5]");
    weft_buckets_config config = WEFT_BUCKETS_CONFIG_INIT;
    config.flags = r->rank == 2 ? 1 << 20 : 0;
    CHECK_REFUSED(weft_buckets_create(r->params, &comms, &config, &r->set), WEFT_E_INVALID,
                  "rank 2: set 'buckets': unknown flags 0x100000");
    weft_comm_destroy(replica);
    weft_comm_destroy(shard);
}

TEST_LIMIT(a_difference_in_one_group_is_told_to_all, 20)
{
    on_ranks(4, NULL, one_group_differs);
    on_ranks(4, NULL, both_groups_differ);
    on_ranks(4, NULL, replica_differs);
}

/* What rank 1 asks for wrongly ends the creation on all ranks, with its words. */
static void one_asks_wrongly(rank_state *r)
{
    static const struct {
        weft_buckets_config config;
        weft_result result;
        const char *says;
    } wrong[] = {
        {{.flags = 1 << 20}, WEFT_E_INVALID, "rank 1: set 'model': unknown flags 0x100000"},
        {{.reserved = 1}, WEFT_E_INVALID, "rank 1: set 'model': reserved is 1"},
        {{.reduction = WEFT_MAX}, WEFT_E_INVALID, "rank 1: set 'model': gradients are summed or averaged"},
        {{.size = 1}, WEFT_E_INVALID, "rank 1: weft_buckets_config"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        weft_buckets_config config = WEFT_BUCKETS_CONFIG_INIT;
        if (r->rank == 1)
            config = wrong[i].config;
        config.size = r->rank == 1 && config.size ? config.size : sizeof config;
        config.name = "model";
        CHECK_REFUSED(try_set(r, &config), wrong[i].result, wrong[i].says);
    }
    weft_buckets_comms comms = WEFT_BUCKETS_COMMS_INIT;
    comms.shard = r->all;
    CHECK_REFUSED(weft_buckets_create(r->rank == 1 ? NULL : r->params, &comms, NULL, &r->set), WEFT_E_INVALID,
                  "rank 1: buckets: no params");
    comms.expert_replica = r->rank == 1 ? r->all : NULL;
    CHECK_REFUSED(weft_buckets_create(r->params, &comms, NULL, &r->set), WEFT_E_INVALID,
                  "rank 1: set 'buckets': expert_replica without expert_shard");
    comms.expert_replica = NULL;
    comms.sum_count = r->rank == 1;
    CHECK_REFUSED(weft_buckets_create(r->params, &comms, NULL, &r->set), WEFT_E_INVALID, "rank 1: set 'buckets'",
                  "1 sums, but no list");
    comms.sum_count = 0;
    CHECK_OK(weft_buckets_create(r->params, &comms, NULL, &r->set));
}

TEST_LIMIT(what_one_rank_asks_wrongly_all_are_told_at_once, 20)
{
    on_ranks(3, SIZES(4, 4), one_asks_wrongly);
}

/* One rank brings too little memory: all are told, nobody waits. */
static void small_arena(rank_state *r)
{
    float memory[128];
    weft_buckets_arena arena = {.grads = memory, .grad_bytes = r->rank == 1 ? 8 : sizeof memory};
    weft_buckets_config config = packed(0);
    config.arenas = &arena, config.arena_count = 1;
    CHECK_REFUSED(try_set(r, &config), WEFT_E_INVALID, "rank 1: set 'buckets'", "gradients of buffer 0 has 8 bytes");
}

TEST(a_rank_that_cannot_make_its_part_ends_the_creation_on_all)
{
    on_ranks(3, SIZES(100), small_arena);
}

/* Rank 1 has no memory for its first allocation, then for its second, ...; every rank is told. Two groups, a sum over
 * both. */
static void starved_alone(rank_state *r)
{
    int group = r->rank / 2;
    add_param(r->params, "shared", 4, WEFT_PARAM_TIED | (group ? WEFT_PARAM_COPY : 0));
    add_param(r->params, group ? "second" : "first", 4, 0);
    weft_comm *dp = comm_every(r->world, "dp", 2 * group, 1, 2),
              *pair = comm_every(r->world, "pair", r->rank % 2, 2, 2);
    weft_buckets_sum sum = {.param = 0, .comm = pair};
    weft_buckets_comms comms = WEFT_BUCKETS_COMMS_INIT;
    comms.shard = dp, comms.norm = r->all, comms.sums = &sum, comms.sum_count = 1;
    long n = 0;
    weft_result result = WEFT_E_NO_MEMORY;
    while (result == WEFT_E_NO_MEMORY) {
        weft__alloc_fail_at(r->rank == 1 ? ++n : 0);
        result = weft_buckets_create(r->params, &comms, NULL, &r->set);
        weft__alloc_fail_at(0);
        CHECK((result == WEFT_OK) == (r->set != NULL));
        if (result == WEFT_E_NO_MEMORY)
            CHECK_HAS(weft_last_error(), "rank 1: no memory for");
    }
    CHECK_OK(result);
    CHECK_MSG(r->rank != 1 || n > 30, "only %ld allocations", n);
    weft_buckets_destroy(r->set);
    r->set = NULL;
    weft_comm_destroy(pair);
    weft_comm_destroy(dp);
}

TEST_LIMIT(the_want_of_memory_of_one_rank_is_told_to_all, 20)
{
    rank_job job = {starved_alone, NULL};
    weft_world_config config = WEFT_WORLD_CONFIG_INIT;
    config.rendezvous_timeout_ms = config.timeout_ms = 60000;
    ranks_as_processes(4, &config, run_rank_job, &job);
}
