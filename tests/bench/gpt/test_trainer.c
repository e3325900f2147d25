/* SPDX-License-Identifier: Apache-2.0 */
/* A trainer as its ranks open it, looked at from inside. */
#include "gpt/trainer.h"
#include "harness/ranks.h"

enum { RANKS = 2 };

typedef struct rank_state {
    gpt_layout layout;
    gpt_data data;
    gpt_trainer trainer;
    gpt_failure failure;
} rank_state;

static gpt_options small(void)
{
    static const char *const flags[] = {"gpt", "--num-layers",       "2", "--hidden-size",       "16", "--seq-length",
                                        "8",   "--micro-batch-size", "1", "--global-batch-size", "8"};
    enum { COUNT = sizeof flags / sizeof *flags };
    char *argv[COUNT];
    gpt_options options;
    gpt_failure failure;
    for (int i = 0; i < COUNT; i++)
        argv[i] = (char *)flags[i];
    CHECK_INT(gpt_options_read(&options, COUNT, argv, &failure), OPTIONS_GO);
    return options;
}

static void open_rank(rank_state *r, weft_world *world, const gpt_options *options)
{
    *r = (rank_state){0};
    CHECK(gpt_options_shape(options, &r->trainer.shape, &r->failure) == 0);
    CHECK(gpt_layout_plan(&r->layout, options, RANKS, &r->failure) == 0);
    CHECK_OK(gpt_layout_connect(&r->layout, options, world));
    const gpt_data_config data = {.mock_bytes = 1000, .seed = 1, .held_out = 0.1, .sequence = 8, .vocabulary = 256};
    CHECK(gpt_data_open(&r->data, &data, &r->failure) == 0);
    r->trainer.options = options, r->trainer.layout = &r->layout, r->trainer.data = &r->data;
    r->trainer.all = all_ranks(world, "all", NULL);
    CHECK_MSG(gpt_trainer_open(&r->trainer, &r->failure) == 0, "%s", r->failure.text);
}

static void close_rank(rank_state *r)
{
    weft_comm *all = r->trainer.all;
    gpt_trainer_close(&r->trainer);
    gpt_layout_close(&r->layout);
    gpt_data_close(&r->data);
    weft_comm_destroy(all);
}

/* One weight of one replica differs in its last bit. */
static void one_bit_flips(weft_world *world, void *argument)
{
    rank_state r;
    uint64_t before, after;
    int rank = weft_world_rank(world);
    open_rank(&r, world, argument);
    CHECK_INT(gpt_trainer_compare(&r.trainer, &r.failure), 0);
    CHECK_OK(gpt_trainer_hash(&r.trainer, &before));
    if (rank == 1)
        ((uint32_t *)r.trainer.parts[0].chunk.params[3].value)[7] ^= 1;
    CHECK_INT(gpt_trainer_compare(&r.trainer, &r.failure), rank == 1 ? EXIT_WRONG : 0);
    if (rank == 1)
        CHECK_STR(r.failure.text, "rank 1 has other weights than its replica, rank 0");
    CHECK_OK(gpt_trainer_hash(&r.trainer, &after));
    CHECK(after == before); /* the first replica's count */
    if (rank == 0)
        ((uint32_t *)r.trainer.parts[0].chunk.params[3].value)[7] ^= 1;
    CHECK_INT(gpt_trainer_compare(&r.trainer, &r.failure), 0);
    CHECK_OK(gpt_trainer_hash(&r.trainer, &after));
    CHECK(after != before);
    close_rank(&r);
}

TEST(replicas_that_differ_in_one_bit_are_told_apart)
{
    gpt_options options = small();
    ranks_as_threads(RANKS, NULL, one_bit_flips, &options);
}

static void evaluation(weft_world *world, void *argument)
{
    rank_state r;
    double loss, again;
    open_rank(&r, world, argument);
    CHECK_OK(gpt_trainer_evaluate(&r.trainer, &loss));
    CHECK_NEAR(loss, log(256), 0.1); /* first weights know nothing */
    CHECK_OK(gpt_trainer_evaluate(&r.trainer, &again));
    CHECK(again == loss);
    close_rank(&r);
}

TEST(an_evaluation_changes_nothing)
{
    gpt_options options = small();
    ranks_as_threads(RANKS, NULL, evaluation, &options);
}
