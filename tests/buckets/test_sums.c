/* SPDX-License-Identifier: Apache-2.0 */
/* Params that are summed over further ranks, tied or replicated, against sums worked out by hand. */
#include <sched.h>
#include <stdatomic.h>

#include "sets.h"

/* Two stages of two ranks; the second copy of the weight has no neighbour in its stage. The sets may be chunks with
 * other names. */
static void tie(rank_state *r, bool other_names)
{
    int stage = r->rank / 2, position = r->rank % 2;
    add_param(r->params, "weight", 2, WEFT_PARAM_TIED | (stage ? WEFT_PARAM_COPY : 0));
    if (stage == 0)
        add_param(r->params, "other", 3, 0);
    weft_comm *dp = comm_every(r->world, "dp", 2 * stage, 1, 2), *pair = comm_every(r->world, "tie", position, 2, 2);
    weft_buckets_sum sum = {.param = 0, .comm = pair, .name = other_names ? "embedding" : NULL};
    weft_buckets_comms comms = WEFT_BUCKETS_COMMS_INIT;
    comms.shard = dp, comms.norm = other_names ? NULL : r->all, comms.sums = &sum, comms.sum_count = 1;
    weft_buckets_config config = packed(0);
    config.reduction = WEFT_AVERAGE;
    config.name = other_names && stage ? "chunk1" : "chunk0";
    CHECK_OK(weft_buckets_create(r->params, &comms, &config, &r->set));
    CHECK_OK(weft_buckets_begin(r->set, 1));
    give(r->set, r->params, 0, (float)(1 << r->rank)); /* 1, 2, 4, 8 */
    if (stage == 0)
        give(r->set, r->params, 1, 3);
    reduce(r);
    size_t count;
    const weft_owned *owned = weft_buckets_owned(r->set, &count);
    for (size_t i = 0; i < count; i++)
        CHECK(owned_value(&owned[i], 0) == (owned[i].param == 0 ? 7.5f : 3.0f));
    float norm;
    CHECK_OK(weft_buckets_norm(&r->set, 1, &norm));
    double weight = 2 * 7.5 * 7.5, other = 3 * 9; /* the weight is counted on the first stage */
    CHECK(norm == (float)sqrt(!other_names || stage == 0 ? weight + other : 0));
    weft_buckets_destroy(r->set);
    r->set = NULL;
    weft_comm_destroy(pair);
    weft_comm_destroy(dp);
}

static void tied(rank_state *r)
{
    tie(r, false);
}

static void tied_between_chunks(rank_state *r)
{
    tie(r, true);
}

static void tied_under_two_names(rank_state *r)
{
    add_param(r->params, "weight", 2, WEFT_PARAM_TIED | (r->rank ? WEFT_PARAM_COPY : 0));
    weft_comm *dp = comm_every(r->world, "dp", r->rank, 1, 1);
    weft_buckets_sum sum = {.param = 0, .comm = r->all};
    weft_buckets_comms comms = WEFT_BUCKETS_COMMS_INIT;
    comms.shard = dp, comms.norm = r->all, comms.sums = &sum, comms.sum_count = 1;
    weft_buckets_config config = packed(0);
    config.name = r->rank ? "stage1" : "stage0";
    CHECK_REFUSED(weft_buckets_create(r->params, &comms, &config, &r->set), WEFT_E_MISMATCH,
                  "ranks of comm 'all' differ: rank 0 has 'stage0' as the name of a sum (weft_buckets_sum.name), but "
                  "rank 1 has 'stage1'");
    weft_comm_destroy(dp);
}

TEST(ranks_that_name_a_sum_differently_are_told_so)
{
    on_ranks(2, NULL, tied_under_two_names);
}

TEST(tied_copies_get_the_same_sum_on_every_stage)
{
    on_ranks(4, NULL, tied);
    on_ranks(4, NULL, tied_between_chunks);
}

/* Of the rank with this world: has it gone on behind the operation with this label? And if so, has another ended? */
static bool went_on(const weft_world *world, const char *label, const char *other, bool *other_ended)
{
    weft_trace_record records[64];
    size_t count = weft_trace_read(world, 0, records, 64, NULL);
    bool went = false;
    for (size_t i = 0; i < count; i++) {
        const char *text = weft_trace_label_text(world, records[i].label);
        went |= strcmp(text, label) == 0 && records[i].go;
        if (strcmp(text, other) == 0)
            *other_ended = records[i].last;
    }
    return went;
}

static weft_world *_Atomic early_worlds[2];

/* The last stage has the output layer, registered last, and another param; its copy, the embedding, is on the first
 * stage, which comes to it only when the last one waits for nothing else any more. */
static void tie_late(rank_state *r)
{
    int stage = r->rank / 2, position = r->rank % 2;
    if (stage == 1)
        add_param(r->params, "other", 4, 0);
    uint32_t tied = add_param(r->params, "weight", 2, WEFT_PARAM_TIED | (stage ? WEFT_PARAM_COPY : 0));
    weft_comm *dp = comm_every(r->world, "dp", 2 * stage, 1, 2), *pair = comm_every(r->world, "tie", position, 2, 2);
    weft_buckets_sum sum = {.param = tied, .comm = pair};
    weft_buckets_comms comms = WEFT_BUCKETS_COMMS_INIT;
    comms.shard = dp, comms.norm = r->all, comms.sums = &sum, comms.sum_count = 1;
    weft_buckets_config config = packed(1);
    CHECK_OK(weft_buckets_create(r->params, &comms, &config, &r->set));
    CHECK_OK(weft_buckets_begin(r->set, 1));
    if (stage == 1) {
        CHECK_INT(weft_layout_order(weft_buckets_layout(r->set), 0),
                  weft_layout_param_at(r->set->layout, tied)->bucket);
        give(r->set, r->params, tied, 1);
        give(r->set, r->params, 0, 3);
        early_worlds[position] = r->world;
    } else {
        bool ended = false;
        weft_world *early;
        while (!(early = early_worlds[position]) || !went_on(early, "buckets reduce 1", "buckets sum 0", &ended))
            sched_yield();
        CHECK(!ended);
        give(r->set, r->params, tied, 2);
    }
    reduce(r);
    size_t count;
    const weft_owned *owned = weft_buckets_owned(r->set, &count);
    for (size_t i = 0; i < count; i++)
        CHECK(owned_value(&owned[i], 0) == 6);
    float norm;
    CHECK_OK(weft_buckets_norm(&r->set, 1, &norm));
    CHECK(norm == (float)sqrt(6 * 36));
    weft_buckets_destroy(r->set);
    r->set = NULL;
    weft_comm_destroy(pair);
    weft_comm_destroy(dp);
}

TEST(a_copy_of_a_tied_param_that_comes_late_holds_nothing_else_back)
{
    on_ranks(4, NULL, tie_late);
}

/* Two tensor parallel ranks, each alone in data: a sharded weight and a replicated bias that saw other tokens. */
static void replicated(rank_state *r)
{
    add_param(r->params, "weight", 6, 0);
    add_param(r->params, "bias", 5, r->rank ? WEFT_PARAM_COPY : 0);
    weft_comm *dp = comm_every(r->world, "dp", r->rank, 1, 1);
    weft_buckets_sum sum = {.param = 1, .comm = r->all};
    weft_buckets_comms comms = WEFT_BUCKETS_COMMS_INIT;
    comms.shard = dp, comms.norm = r->all, comms.sums = &sum, comms.sum_count = 1;
    CHECK_OK(weft_buckets_create(r->params, &comms, NULL, &r->set));
    CHECK_OK(weft_buckets_begin(r->set, 1));
    give(r->set, r->params, 1, r->rank ? 20 : 3);
    give(r->set, r->params, 0, r->rank ? 7 : 5);
    reduce(r);
    CHECK(((float *)weft_buckets_grad(r->set, 0))[5] == (r->rank ? 7 : 5));
    CHECK(((float *)weft_buckets_grad(r->set, 1))[4] == 23);
    weft_buckets_destroy(r->set);
    r->set = NULL;
    weft_comm_destroy(dp);
}

TEST(replicated_params_are_summed_over_the_ranks_of_their_list)
{
    on_ranks(2, NULL, replicated);
}

/* Two sums over two comms, which the ranks list in opposite order. */
static void listed_otherwise(rank_state *r)
{
    add_param(r->params, "a", 3, r->rank ? WEFT_PARAM_COPY : 0);
    add_param(r->params, "b", 3, r->rank ? WEFT_PARAM_COPY : 0);
    weft_comm *dp = comm_every(r->world, "dp", r->rank, 1, 1);
    weft_comm *x = comm_every(r->world, "x", 0, 1, 2), *y = comm_every(r->world, "y", 0, 1, 2);
    weft_buckets_sum sums[2];
    sums[r->rank] = (weft_buckets_sum){.param = 0, .comm = x};
    sums[1 - r->rank] = (weft_buckets_sum){.param = 1, .comm = y};
    weft_buckets_comms comms = WEFT_BUCKETS_COMMS_INIT;
    comms.shard = dp, comms.norm = r->all, comms.sums = sums, comms.sum_count = 2;
    CHECK_OK(weft_buckets_create(r->params, &comms, NULL, &r->set));
    microbatch(r, true, (float)(r->rank + 1));
    reduce(r);
    check_owned(r->set, 3);
    weft_buckets_destroy(r->set);
    r->set = NULL;
    weft_comm_destroy(y);
    weft_comm_destroy(x);
    weft_comm_destroy(dp);
}

TEST(the_order_of_the_list_of_sums_does_not_matter)
{
    on_ranks(2, NULL, listed_otherwise);
}
