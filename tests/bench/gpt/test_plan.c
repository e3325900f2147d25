/* SPDX-License-Identifier: Apache-2.0 */
/* Plans: against numbers worked out by hand, and against what trainings of the same layouts take and send. */
#include "gpt/plan.h"

#include <stdlib.h>
#include <string.h>
#include <weft/trace.h>

#include "../spawn.h"
#include "gpt/meter.h"
#include "harness/ranks.h"
#include "training.h"

enum { MOST_WORDS = 96 };

static void read_flags(const char *line, gpt_options *options)
{
    static char words[2048];
    char *argv[MOST_WORDS] = {(char *)"gpt"};
    int argc = 1;
    gpt_failure failure;
    snprintf(words, sizeof words, "%s", line);
    for (char *word = strtok(words, " "); word; word = strtok(NULL, " ")) {
        CHECK(argc < MOST_WORDS);
        argv[argc++] = word;
    }
    int result = gpt_options_read(options, argc, argv, &failure);
    CHECK_MSG(result == OPTIONS_GO, "'%s': %s", line, failure.text);
}

static void open_plan(gpt_plan *plan, const gpt_options *options)
{
    gpt_failure failure = {0};
    CHECK_MSG(gpt_plan_open(plan, options, &failure) == 0, "%s", failure.text);
}

static json *plan_json(const gpt_plan *plan)
{
    char *text, message[128];
    size_t bytes;
    gpt_failure failure = {0};
    FILE *out = open_memstream(&text, &bytes);
    CHECK(out && gpt_plan_print_json(plan, out, &failure) == 0);
    fclose(out);
    json *j = json_parse(text, message, sizeof message);
    CHECK_MSG(j, "%s: %s", message, text);
    free(text);
    return j;
}

/* ---- by hand ---- */

static const char llama[] =
    "--num-layers 16 --hidden-size 2048 --ffn-hidden-size 8192 --num-attention-heads 32 --group-query-attention "
    "--num-query-groups 8 --vocab-size 128256 --untie-embeddings-and-output-weights --seq-length 8192 "
    "--micro-batch-size 1 --bf16";

static void read_llama(const char *layout, gpt_options *options)
{
    char line[1024];
    snprintf(line, sizeof line, "%s %s", llama, layout);
    read_flags(line, options);
}

TEST(a_known_model_has_the_numbers_worked_out_by_hand)
{
    gpt_options o;
    read_llama("--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --world-size 8 --global-batch-size 16",
               &o);
    gpt_plan plan;
    open_plan(&plan, &o);
    json *j = plan_json(&plan), *params = json_get(j, "params");
    CHECK_INT(json_int(json_get(params, "layer"), -1), 60821504);
    CHECK_INT(json_int(json_get(params, "total"), -1), 1498482688);
    /* 8 layers and an end of the vocabulary; half of all matrices, the whole of two norms a layer and of the last */
    int64_t half = (8 * (60821504 - 2 * 2048) + 128256 * 2048) / 2 + 8 * 2 * 2048;
    CHECK_INT(json_get(params, "per_rank")->count, 8);
    for (size_t rank = 0; rank < 8; rank++)
        CHECK_INT(json_int(json_at(json_get(params, "per_rank"), rank), -1), half + (rank < 4 ? 0 : 2048));
    CHECK_INT(json_int(json_at(json_get(params, "per_stage"), 1), -1), 8 * 60821504 + 128256 * 2048 + 2048);
    CHECK_NEAR(json_real(json_get(j, "state_bytes_per_param"), 0), 2 + 4 + 12 / 2, 1e-9);
    CHECK_INT(json_int(json_get(j, "microbatches"), -1), 8);
    CHECK_NEAR(json_real(json_get(j, "bubble"), 0), 1.0 / 9, 1e-6);
    CHECK_STR(json_text(json_get(json_get(j, "groups"), "tp"), ""), "0,1;2,3;4,5;6,7");
    CHECK_STR(json_text(json_get(json_get(j, "groups"), "dp"), ""), "0,2;1,3;4,6;5,7");
    CHECK_STR(json_text(json_get(json_get(j, "groups"), "pp"), ""), "0,4;1,5;2,6;3,7");
    /* half of the gradients in fp32 and of the values in bf16; 8 gradients of activations in bf16 */
    json *received = json_get(j, "comm_bytes");
    CHECK_INT(json_int(json_get(received, "dp"), -1), half / 2 * (4 + 2));
    CHECK_INT(json_int(json_get(received, "pp"), -1), 8ll * 8192 * 2048 * 2);
    /* An all-reduce of all rows in fp32: two a layer forward, two backward, one behind the embedding. */
    CHECK_INT(json_int(json_get(received, "tp"), -1), 8ll * (8 * 4 + 1) * 8192 * 2048 * 4);
    CHECK(!json_get(received, "ends"));
    json_free(j);
    gpt_plan_close(&plan);
}

TEST(thousands_of_ranks_are_planned_as_well)
{
    gpt_options o;
    read_llama("--tensor-model-parallel-size 8 --pipeline-model-parallel-size 16 --world-size 8192 "
               "--global-batch-size 4096 --plan-rank 8191",
               &o);
    gpt_plan plan;
    open_plan(&plan, &o);
    CHECK_INT(plan.layout.data, 64);
    CHECK_INT(plan.layout.microbatches, 64);
    CHECK_INT(plan.layout.stage, 15);
    CHECK_INT(plan.layout.replica, 63);
    CHECK_NEAR(plan.bubble, 15.0 / 79, 1e-12);
    json *j = plan_json(&plan), *per_rank = json_get(json_get(j, "params"), "per_rank");
    CHECK_INT(per_rank->count, 8192);
    int64_t layer = (60821504 - 2 * 2048) / 8 + 2 * 2048, vocabulary = 129024 * 2048 / 8;
    CHECK_INT(json_int(json_at(per_rank, 0), -1), layer + vocabulary);
    CHECK_INT(json_int(json_at(per_rank, 8 * 64), -1), layer);
    CHECK_INT(json_int(json_at(per_rank, 8191), -1), layer + vocabulary + 2048);
    json_free(j);
    gpt_plan_close(&plan);
}

TEST(an_interleaved_pipeline_has_a_smaller_bubble)
{
    gpt_options o;
    read_flags("--num-layers 8 --pipeline-model-parallel-size 4 --num-virtual-stages-per-pipeline-rank 2 "
               "--micro-batch-size 1 --global-batch-size 8",
               &o);
    gpt_plan plan;
    open_plan(&plan, &o);
    CHECK_NEAR(plan.bubble, 3.0 / (2 * 8 + 3), 1e-12);
    CHECK_INT(plan.ranks, 4); /* what the layout needs */
    gpt_plan_close(&plan);
}

static void check_refused(const char *flags, const char *says)
{
    gpt_options o;
    gpt_plan plan;
    gpt_failure failure = {0};
    read_flags(flags, &o);
    CHECK_INT(gpt_plan_open(&plan, &o, &failure), EXIT_USAGE);
    CHECK_HAS(failure.text, says);
    gpt_plan_close(&plan);
}

TEST(what_cannot_run_is_refused_and_why)
{
    check_refused("--world-size 6 --tensor-model-parallel-size 4", "does not divide a world of 6 ranks");
    check_refused("--world-size 3", "--global-batch-size 32 does not divide by --micro-batch-size 8 times 3");
    check_refused("--tensor-model-parallel-size 8", "--num-attention-heads 4 does not divide");
    check_refused("--world-size 4 --plan-rank 4", "--plan-rank 4 is no rank of a world of 4");
    check_refused("--num-layers 8 --pipeline-model-parallel-size 4 --num-virtual-stages-per-pipeline-rank 2 "
                  "--microbatch-group-size-per-virtual-pipeline-stage 2",
                  "no schedule for this pipeline");
}

/* ---- against trainings ---- */

typedef struct layout_case {
    const char *flags;
    int ranks;
} layout_case;

static const layout_case cases[] = {
    {"", 1},
    {"--ddp-bucket-size 1000", 3},
    {"--tensor-model-parallel-size 2 --bf16 --ddp-average-in-collective", 2},
    {"--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --sequence-parallel --ddp-bucket-size 1500", 8},
    {"--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2 --bf16 --use-tp-pp-dp-mapping "
     "--untie-embeddings-and-output-weights --overlap-grad-reduce --overlap-param-gather",
     4},
    {"--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --use-tp-pp-dp-mapping --sequence-parallel "
     "--num-layers-per-virtual-pipeline-stage 1 --bf16",
     8},
    {"--pipeline-model-parallel-size 4 --group-query-attention --num-query-groups 2", 4},
};

typedef struct ranked {
    gpt_layout layout;
    gpt_data data;
    gpt_trainer trainer;
    gpt_failure failure;
} ranked;

static void open_rank(ranked *r, weft_world *world, const gpt_options *o)
{
    *r = (ranked){0};
    CHECK(gpt_options_shape(o, &r->trainer.shape, &r->failure) == 0);
    CHECK(gpt_layout_plan(&r->layout, o, weft_world_size(world), &r->failure) == 0);
    CHECK_OK(gpt_layout_connect(&r->layout, o, world));
    const gpt_data_config data = {
        .mock_bytes = 4000, .seed = 1, .held_out = 0.1, .sequence = (size_t)o->sequence, .vocabulary = 256};
    CHECK(gpt_data_open(&r->data, &data, &r->failure) == 0);
    r->trainer.options = o, r->trainer.layout = &r->layout, r->trainer.data = &r->data;
    r->trainer.all = all_ranks(world, "all", NULL);
    CHECK_MSG(gpt_trainer_open(&r->trainer, &r->failure) == 0, "%s", r->failure.text);
}

static void close_rank(ranked *r)
{
    weft_comm *all = r->trainer.all;
    gpt_trainer_close(&r->trainer);
    gpt_layout_close(&r->layout);
    gpt_data_close(&r->data);
    weft_comm_destroy(all);
}

static void check_place(const ranked *r, const gpt_plan *plan)
{
    CHECK_INT(r->layout.tensor_rank, plan->layout.tensor_rank);
    CHECK_INT(r->layout.stage, plan->layout.stage);
    CHECK_INT(r->layout.replica, plan->layout.replica);
    for (int axis = 0; axis < GPT_AXES; axis++) {
        const weft_comm *comm = r->layout.groups[axis].comm;
        char group[128] = ";", *groups = gpt_plan_groups(plan, axis), all[256];
        for (int i = 0; i < weft_comm_size(comm); i++)
            snprintf(group + strlen(group), sizeof group - strlen(group), "%s%d", i ? "," : "",
                     weft_comm_world_rank(comm, i));
        snprintf(all, sizeof all, ";%s;", groups);
        strcat(group, ";");
        CHECK_HAS(all, group);
        free(groups);
    }
}

static void check_buckets(const weft_layout *want, const weft_layout *got)
{
    CHECK_INT(weft_layout_buckets(got), weft_layout_buckets(want));
    for (uint32_t i = 0; i < weft_layout_buckets(want); i++) {
        const weft_layout_bucket *a = weft_layout_bucket_at(got, i), *b = weft_layout_bucket_at(want, i);
        CHECK_INT(a->start, b->start);
        CHECK_INT(a->end, b->end);
        CHECK_INT(a->used, b->used);
        CHECK_INT(a->param_count, b->param_count);
        CHECK(memcmp(a->params, b->params, a->param_count * sizeof *a->params) == 0);
    }
}

/* Buckets and bytes. */
static void check_kept(ranked *r, const gpt_plan *plan)
{
    const gpt_plan_stage *own = gpt_plan_own(plan);
    weft_buckets_usage all = {0};
    CHECK_INT(own->trainer.part_count, r->trainer.part_count);
    for (size_t i = 0; i < r->trainer.part_count; i++) {
        const gpt_part *part = &r->trainer.parts[i];
        weft_buckets_usage usage = WEFT_BUCKETS_USAGE_INIT;
        CHECK_OK(weft_buckets_usage_get(part->set, &usage));
        check_buckets(weft_buckets_layout(part->set), own->layouts[i]);
        CHECK_INT(own->trainer.parts[i].chunk.slot_count, part->chunk.slot_count);
        all.elements += usage.elements, all.padding += usage.padding;
        all.param_bytes += usage.param_bytes, all.grad_bytes += usage.grad_bytes, all.state_bytes += usage.state_bytes;
    }
    CHECK_INT(own->elements, all.elements);
    CHECK_INT(own->padding, all.padding);
    CHECK_INT(own->params_local, all.elements - all.padding);
    CHECK_INT(own->value_bytes, all.param_bytes);
    CHECK_INT(own->grad_bytes, all.grad_bytes);
    CHECK_INT(own->optimizer_bytes, all.state_bytes);
    CHECK_INT(own->activation_bytes, gpt_trainer_place(&r->trainer, r->trainer.memory));
}

static int way_of(const char *comm)
{
    for (int way = GPT_PLAN_WAYS - 1; way >= 0; way--) /* "ends of pp.0" is not "pp.0" */
        if (strstr(comm, gpt_plan_ways[way]))
            return way;
    return -1;
}

static double received(const weft_trace_record *r, int ranks)
{
    double bytes = (double)r->bytes;
    if (r->kind == WEFT_TRACE_P2P)
        return bytes / 2; /* what was sent, and as much back */
    CHECK(r->operation == WEFT_ALL_REDUCE || r->operation == WEFT_ALL_GATHER || r->operation == WEFT_REDUCE_SCATTER);
    return (r->operation == WEFT_ALL_REDUCE ? 2 : 1) * bytes * (ranks - 1) / ranks;
}

static void check_sent(ranked *r, weft_world *world, const gpt_plan *plan)
{
    const int sizes[GPT_PLAN_WAYS] = {
        [GPT_TP] = plan->options->tensor, [GPT_PP] = 2, [GPT_DP] = (int)plan->layout.data, [GPT_PLAN_ENDS] = 2};
    double sums[GPT_PLAN_WAYS] = {0};
    uint64_t first = weft_trace_count(world);
    weft_step_report report = WEFT_STEP_REPORT_INIT;
    CHECK_OK(gpt_trainer_step(&r->trainer, GPT_AS_ASKED, 1, 1e-3, &report));
    size_t room = gpt_meter_records(plan->options);
    CHECK(weft_trace_count(world) - first < room);
    weft_trace_record *records = calloc(room, sizeof *records);
    CHECK(records);
    size_t count = weft_trace_read(world, first, records, room, NULL);
    for (size_t i = 0; i < count; i++) {
        bool sends = records[i].kind == WEFT_TRACE_COLLECTIVE || records[i].kind == WEFT_TRACE_P2P;
        int way = sends ? way_of(weft_trace_label_text(world, records[i].comm)) : -1;
        if (way >= 0)
            sums[way] += received(&records[i], sizes[way]);
    }
    free(records);
    uint64_t hash;
    CHECK_OK(gpt_trainer_hash(&r->trainer, &hash)); /* ends what may be under way */
    for (int way = 0; way < GPT_PLAN_WAYS; way++)
        CHECK_MSG(fabs(sums[way] - gpt_plan_own(plan)->received_bytes[way]) < 0.5, "rank %d, %s: %g bytes, planned %g",
                  plan->rank, gpt_plan_ways[way], sums[way], gpt_plan_own(plan)->received_bytes[way]);
}

static void compare(weft_world *world, void *argument)
{
    gpt_options o = *(const gpt_options *)argument;
    ranked r;
    open_rank(&r, world, &o);
    gpt_options about = o;
    about.world_size = weft_world_size(world), about.plan_rank = weft_world_rank(world);
    gpt_plan plan;
    open_plan(&plan, &about);
    check_place(&r, &plan);
    check_kept(&r, &plan);
    check_sent(&r, world, &plan);
    gpt_plan_close(&plan);
    close_rank(&r);
}

static void read_case(const layout_case *c, gpt_options *o)
{
    char line[1024];
    snprintf(line, sizeof line, "%s %s --global-batch-size 24", training_model(), c->flags);
    read_flags(line, o);
}

TEST(a_plan_says_what_a_training_takes_and_sends)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gpt_options o;
        test_note("%d ranks: %s", cases[i].ranks, cases[i].flags);
        read_case(&cases[i], &o);
        ranks_as_threads(cases[i].ranks, NULL, compare, &o);
    }
}

TEST(a_plan_has_the_numbers_of_the_summary)
{
    const layout_case c = {"--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --bf16 --train-iters 1", 4};
    gpt_options o;
    char line[1024];
    snprintf(line, sizeof line, "%s %s", training_model(), c.flags);
    read_flags(line, &o);
    gpt_plan plan;
    open_plan(&plan, &o);
    json *j = plan_json(&plan);
    training t = training_on_threads(c.ranks, c.flags);
    CHECK_INT(t.code, 0);
    CHECK_INT(training_number(&t, "params_total"), json_int(json_get(json_get(j, "params"), "total"), -1));
    CHECK_INT(training_number(&t, "params_local"),
              json_int(json_at(json_get(json_get(j, "params"), "per_rank"), 0), -1));
    CHECK_NEAR(training_number(&t, "state_bytes_per_param"), json_real(json_get(j, "state_bytes_per_param"), 0), 1e-9);
    CHECK_NEAR(training_number(&t, "padding"), json_real(json_get(j, "padding"), -1), 1e-9);
    CHECK_STR(training_text(&t, "layout"), json_text(json_get(j, "layout"), ""));
    training_forget(&t);
    json_free(j);
    gpt_plan_close(&plan);
}

/* ---- as it is said ---- */

static void run_command(const char *const *arguments, int code, const char *out, const char *complaint)
{
    spawned r = spawn_weft(NULL, arguments);
    CHECK_INT(spawn_finish(&r), code);
    CHECK_HAS(r.said.data, out);
    CHECK_HAS(r.complained.data, complaint);
    spawn_forget(&r);
}

TEST(the_command_says_the_plan_or_why_there_is_none)
{
    run_command((const char *[]){"gpt", "--plan", "--world-size", "4", NULL}, EXIT_DONE,
                "a plan for 4 ranks, layout dp4; nothing is started\n", "");
    run_command((const char *[]){"gpt", "--plan", "--json", "--world-size", "4", NULL}, EXIT_DONE,
                "{\"ranks\":4,\"layout\":\"dp4\",", "");
    run_command((const char *[]){"gpt", "--plan", "--world-size", "4", "--json", NULL}, EXIT_DONE,
                "\"groups\":{\"tp\":\"0;1;2;3\",", "");
    run_command((const char *[]){"gpt", "--plan", "--html", "/no/such/folder/page", NULL}, EXIT_DONE,
                "a plan for 1 rank", "");
    run_command((const char *[]){"gpt", "--plan", "--world-size", "3", NULL}, EXIT_USAGE, "",
                "--global-batch-size 32 does not divide");
    run_command((const char *[]){"gpt", "--plan", "--num-experts", "4", NULL}, EXIT_USAGE, "", "--num-experts");
    run_command((const char *[]){"gpt", "--world-size", "2", NULL}, EXIT_USAGE, "",
                "--world-size is 2, but there is 1");
}

TEST(launched_ranks_say_one_plan_for_all_of_them)
{
    static const char *const ways[] = {"--prefix=none", "--threads"};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        spawned r = spawn_weft(NULL, (const char *const[]){"run", "-n", "4", ways[i], "--", spawn_command(), "gpt",
                                                           "--plan", "--show-defaults", NULL});
        CHECK_INT(spawn_finish(&r), EXIT_DONE);
        CHECK_INT(spawn_count(r.said.data, "a plan for "), 1);
        CHECK_HAS(r.said.data, "a plan for 4 ranks, layout dp4");
        CHECK_INT(spawn_count(r.complained.data, "weft: defaults:"), 1);
        spawn_forget(&r);
        r = spawn_weft(NULL, (const char *const[]){"run", "-n", "4", ways[i], "--", spawn_command(), "gpt", "--plan",
                                                   "--num-experts", "4", NULL});
        CHECK_INT(spawn_finish(&r), EXIT_USAGE);
        CHECK_INT(spawn_count(r.complained.data, "--num-experts above 1"), 1);
        spawn_forget(&r);
    }
}
