/* SPDX-License-Identifier: Apache-2.0 */
/* In which order a step works, by what the trace says of it. */
#include "sets.h"

/* What each rank did behind record @p first: the text of its labels, but of spans with the bucket's number; those of
 * the norm are left out. Nobody waited for any of it. */
static void check_done(rank_state *r, uint64_t first, const char *const *want, size_t count)
{
    weft_trace_record records[64];
    size_t found = weft_trace_read(r->world, first, records, 64, NULL), at = 0;
    for (size_t i = 0; i < found; i++) {
        char text[2 * WEFT_TRACE_LABEL_BYTES];
        bool step = records[i].kind == WEFT_TRACE_SPAN;
        const char *label = weft_trace_label_text(r->world, records[i].label);
        snprintf(text, sizeof text, step ? "%s %d" : "%s", label, (int)records[i].number);
        if (!step && !strstr(label, "gather"))
            continue;
        CHECK_MSG(at < count, "rank %d: '%s' is one too many", r->rank, text);
        CHECK_STR(text, want[at++]);
        CHECK_INT(records[i].wait, 0);
    }
    CHECK_INT(at, count);
}
#define CHECK_DONE(r, first, ...)                            \
    check_done(r, first, (const char *const[]){__VA_ARGS__}, \
               sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *))

static void step(weft_adam *adam)
{
    weft_step how = WEFT_STEP_INIT;
    how.lr = 0.1f;
    CHECK_OK(weft_adam_step(adam, &how, NULL));
}

static void four_buckets(rank_state *r)
{
    weft_buckets_config config = packed(1);
    make_set(r, &config); /* bucket 3 is that of p0 */
    weft_adam *adam;
    CHECK_OK(weft_adam_create(&r->set, 1, NULL, &adam));
    for (int i = 0; i < 2; i++) {
        microbatch(r, true, 1);
        uint64_t first = weft_trace_count(r->world);
        step(adam);
        CHECK_DONE(r, first, "buckets step 3", "buckets gather 3", "buckets step 2", "buckets gather 2",
                   "buckets step 1", "buckets gather 1", "buckets step 0", "buckets gather 0");
        CHECK_OK(weft_buckets_acquire(r->set, 0, 4, WEFT_STREAM_HOST));
    }
    weft_adam_destroy(adam);
}

TEST(each_bucket_is_on_its_way_when_the_next_is_stepped_in_order_of_use)
{
    on_ranks(2, SIZES(2, 4, 6, 8), four_buckets);
}

/* When each gather was acquired, and ended, in order of use: the first param needs only the first gather. */
static void acquired_one_by_one(rank_state *r)
{
    weft_buckets_config config = packed(1);
    make_set(r, &config);
    weft_adam *adam;
    CHECK_OK(weft_adam_create(&r->set, 1, NULL, &adam));
    microbatch(r, true, 1);
    uint64_t first = weft_trace_count(r->world);
    step(adam);
    for (uint32_t p = 0; p < 4; p++) {
        CHECK_OK(weft_buckets_acquire(r->set, p, 1, WEFT_STREAM_HOST));
        weft_trace_record records[64];
        size_t found = weft_trace_read(r->world, first, records, 64, NULL);
        uint32_t waited = 0;
        for (size_t i = 0; i < found; i++)
            waited += strstr(weft_trace_label_text(r->world, records[i].label), "gather") && records[i].wait;
        CHECK_INT(waited, p + 1);
    }
    weft_adam_destroy(adam);
}

TEST(a_forward_waits_for_the_bucket_that_it_uses_and_no_other)
{
    on_ranks(2, SIZES(2, 4, 6, 8), acquired_one_by_one);
}

/* Two stages of two ranks, each with two sets; the second stage made its sets the other way round. */
static void two_sets(rank_state *r)
{
    int stage = r->rank / 2;
    weft_comm *dp = comm_every(r->world, "dp", 2 * stage, 1, 2);
    weft_params *params[] = {PARAMS_OF(4, 6), PARAMS_OF(8)};
    weft_buckets_comms comms = WEFT_BUCKETS_COMMS_INIT;
    comms.shard = dp, comms.norm = r->all;
    weft_buckets *sets[2];
    for (int i = 0; i < 2; i++) {
        weft_buckets_config config = packed(1);
        config.name = i ? "set1" : "set0";
        CHECK_OK(weft_buckets_create(params[i ^ stage], &comms, &config, &sets[i ^ stage]));
    }
    weft_adam *adam;
    CHECK_OK(weft_adam_create(sets, 2, NULL, &adam));
    for (int i = 2; i-- > 0;) {
        CHECK_OK(weft_buckets_begin(sets[i], 1));
        for (uint32_t p = weft_params_count(params[i]); p-- > 0;)
            give(sets[i], params[i], p, 1);
    }
    uint64_t first = weft_trace_count(r->world);
    weft_step how = WEFT_STEP_INIT;
    weft_step_report report = WEFT_STEP_REPORT_INIT;
    how.lr = 0.1f;
    CHECK_OK(weft_adam_step(adam, &how, &report));
    CHECK(report.norm == (float)sqrt(2 * 18 * 4));
    if (stage == 0)
        CHECK_DONE(r, first, "set0 step 1", "set0 gather 1", "set0 step 0", "set0 gather 0", "set1 step 0",
                   "set1 gather 0");
    else
        CHECK_DONE(r, first, "set1 step 1", "set1 gather 1", "set1 step 0", "set1 gather 0", "set0 step 0",
                   "set0 gather 0");
    for (int i = 0; i < 2; i++) {
        CHECK_OK(weft_buckets_acquire(sets[i], 0, weft_params_count(params[i]), WEFT_STREAM_HOST));
        CHECK_NEAR(*(float *)weft_buckets_param(sets[i], 0), -0.1, 1e-6);
    }
    /* the gather of the second set was taken up when the last one of the first set had ended */
    weft_trace_record records[64];
    uint64_t ended = 0, taken_up = 0;
    size_t found = weft_trace_read(r->world, first, records, 64, NULL);
    for (size_t i = 0; i < found; i++) {
        const char *label = weft_trace_label_text(r->world, records[i].label);
        ended = strcmp(label, stage ? "set1 gather 0" : "set0 gather 0") == 0 ? records[i].last : ended;
        taken_up = strcmp(label, stage ? "set0 gather 0" : "set1 gather 0") == 0 ? records[i].start : taken_up;
    }
    CHECK(ended && taken_up >= ended);
    weft_adam_destroy(adam);
    for (int i = 0; i < 2; i++) {
        weft_buckets_destroy(sets[i]);
        weft_params_destroy(params[i]);
    }
    weft_comm_destroy(dp);
}

TEST(sets_are_stepped_and_gathered_one_after_the_other_in_the_order_of_each_stage)
{
    on_ranks(4, NULL, two_sets);
}
