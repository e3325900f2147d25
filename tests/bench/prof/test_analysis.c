/* SPDX-License-Identifier: Apache-2.0 */
/* What is worked out of traces, on made-up ones of which the answers are known. */
#include <stdlib.h>
#include <weft/collective.h>

#include "complain.h"
#include "harness/test.h"
#include "prof/analysis.h"
#include "traces.h"

#define MS 1000.0 /* microseconds */

typedef struct analysed {
    char folder[64];
    prof_run run;
    prof_split split;
    prof_analysis a;
} analysed;

static void begin(analysed *w)
{
    traces_folder(w->folder);
}

static void add(analysed *w, traced *t)
{
    traced_write(t, w->folder, 0);
    traced_free(t);
}

static void analyse(analysed *w)
{
    CHECK_INT(prof_run_open(w->folder, &w->run), EXIT_DONE);
    CHECK(prof_split_open(&w->run, &w->split));
    CHECK(prof_analyse(&w->split, prof_select_default(&w->run), &w->a));
    const prof_budget *b = &w->a.totals.mean;
    CHECK_NEAR(b->computing + b->hidden + b->exposed + b->idle, b->step, 1e-3);
    CHECK_NEAR(b->skew + b->transfer + b->unknown, b->exposed, 1e-3);
}

static void end(analysed *w)
{
    prof_analysis_close(&w->a);
    prof_split_close(&w->split);
    prof_run_close(&w->run);
    traces_remove(w->folder);
}

static const prof_row *row_named(const analysed *w, const char *name)
{
    for (const prof_row *r = w->a.rows; r < w->a.rows + w->a.row_count; r++)
        if (strcmp(r->name, name) == 0)
            return r;
    FAIL("there is no row '%s'", name);
}

static bool says(char **lines, size_t count, const char *part)
{
    for (size_t i = 0; i < count; i++)
        if (strstr(lines[i], part))
            return true;
    return false;
}

#define CHECK_MS(ns, ms) CHECK_NEAR((ns)*1e-6, ms, 1e-6)

/* ---- unions ---- */

/* Two operations at once, [10, 30) and [20, 40) ms, and waits [25, 38) and [28, 45): 30 ms communicate, not 40; of
 * 20 ms of waiting 15 are exposed, 5 idle. */
TEST(what_happens_at_once_counts_once)
{
    analysed w;
    begin(&w);
    traced t = traced_rank(0, 1, "one", 0);
    uint16_t a = traced_comm(&t, "a", 0, 1, 1), b = traced_comm(&t, "b", 0, 1, 1);
    traced_collective(&t, a, 1, "x", (traced_times){110 * MS, 130 * MS, 125 * MS, 138 * MS, 110 * MS});
    traced_collective(&t, b, 1, "y", (traced_times){120 * MS, 140 * MS, 128 * MS, 145 * MS, 120 * MS});
    traced_step(&t, 1, "", 100 * MS, 200 * MS);
    add(&w, &t);
    analyse(&w);
    const prof_budget *m = &w.a.totals.mean;
    CHECK_MS(m->step, 100);
    CHECK_MS(m->computing, 65);
    CHECK_MS(m->hidden, 15);
    CHECK_MS(m->exposed, 15);
    CHECK_MS(m->idle, 5);
    end(&w);
}

/* ---- skew ---- */

/* One operation of two ranks: rank 0 is there from 100 ms on, rank 1 from 107; both are done at 110 and wait all the
 * time. Transfer is 3 ms on both, skew 7 on rank 0 and none on rank 1. */
TEST(waiting_for_a_late_rank_is_not_transfer)
{
    analysed w;
    begin(&w);
    for (int rank = 0; rank < 2; rank++) {
        traced t = traced_rank(rank, 2, "one", 0);
        uint16_t comm = traced_comm(&t, "dp.0", rank, 2, 5);
        double ready = (rank ? 107 : 100) * MS;
        traced_collective(&t, comm, 1, "", (traced_times){ready, 110 * MS, ready, 110 * MS, 0});
        traced_step(&t, 1, "", 90 * MS, 120 * MS);
        add(&w, &t);
    }
    analyse(&w);
    const prof_budget *r = w.a.totals.ranks;
    CHECK_MS(r[0].skew, 7);
    CHECK_MS(r[0].transfer, 3);
    CHECK_MS(r[1].skew, 0);
    CHECK_MS(r[1].transfer, 3);
    const prof_row *row = row_named(&w, "dp reduce_scatter");
    CHECK_MS(row->skew, 3.5);
    CHECK_MS(row->transfer, 3);
    CHECK_INT(row->late, 1);
    CHECK_MS(row->late_by, 7);
    CHECK_NEAR(row->bus_bytes_per_s, 0.5 * 1048576 / 3e-3, 1);
    end(&w);
}

/* Rank 1 computes 20 ms longer than rank 0 before each of three reductions, all waited for at once; transfers take
 * 2 ms. */
TEST(lateness_is_put_down_to_the_rank_that_was_late)
{
    analysed w;
    begin(&w);
    for (int rank = 0; rank < 2; rank++) {
        traced t = traced_rank(rank, 2, "one", 0);
        uint16_t comm = traced_comm(&t, "weft.dp.0/set0/reduce", rank, 2, 5);
        for (uint64_t i = 0; i < 3; i++) {
            double at = (100 + 50 * (double)i) * MS, ready = at + (rank ? 30 : 10) * MS, over = at + 32 * MS;
            traced_collective(&t, comm, i + 1, "set0 reduce 0", (traced_times){ready, over, ready, over, 0});
            traced_step(&t, i + 1, "", at, at + 50 * MS);
        }
        add(&w, &t);
    }
    analyse(&w);
    CHECK_INT(w.a.totals.step_count, 3);
    CHECK_INT(w.a.late[1].times, 3);
    CHECK_INT(w.a.late[1].of, 3);
    CHECK_MS(w.a.late[1].by, 20);
    CHECK_MS(w.a.late[1].cost, 20);
    CHECK_INT(w.a.late[0].times, 0);
    CHECK_MS(w.a.totals.ranks[0].skew, 20);
    CHECK_MS(w.a.totals.ranks[0].transfer, 2);
    CHECK_MS(w.a.totals.ranks[1].skew, 0);
    CHECK(says(w.a.hints, w.a.hint_count, "rank 1 (host-one) is late: last in 3 of 3 collectives, 20.00 ms"));
    end(&w);
}

/* An operation behind another one on its comm stands in line, it does not wait for a rank. */
TEST(standing_in_line_is_not_skew)
{
    analysed w;
    begin(&w);
    for (int rank = 0; rank < 2; rank++) {
        traced t = traced_rank(rank, 2, "one", 0);
        uint16_t comm = traced_comm(&t, "dp", rank, 2, 5);
        traced_collective(&t, comm, 1, "x", (traced_times){100 * MS, 130 * MS, 150 * MS, 150 * MS, 0});
        traced_collective(&t, comm, 2, "y", (traced_times){(rank ? 105 : 110) * MS, 140 * MS, 150 * MS, 150 * MS, 0});
        traced_step(&t, 1, "", 90 * MS, 160 * MS);
        add(&w, &t);
    }
    analyse(&w);
    const prof_row *y = row_named(&w, "y");
    CHECK_MS(y->queue, 22.5);
    CHECK_MS(y->skew, 0);
    CHECK_MS(y->transfer, 10);
    end(&w);
}

/* ---- dependencies ---- */

/* One rank of two, a step: four buckets of 10 ms of computing each, which communicate 30, 1, 1 and 1 ms. */
typedef struct bucket_times {
    double ready, last, wait, go;
} bucket_times;

static void one_step(analysed *w, const char *label, const bucket_times b[4], double length)
{
    begin(w);
    for (int rank = 0; rank < 2; rank++) {
        traced t = traced_rank(rank, 2, "one", 0);
        uint16_t comm = traced_comm(&t, "weft.dp.0/set0/reduce", rank, 2, 5);
        for (uint64_t i = 0; i < 4; i++) {
            char name[32];
            snprintf(name, sizeof name, "set0 reduce %u", (unsigned)i);
            traced_collective(&t, comm, i + 1, name,
                              (traced_times){(100 + b[i].ready) * MS, (100 + b[i].last) * MS, (100 + b[i].wait) * MS,
                                             (100 + b[i].go) * MS, 0});
        }
        traced_step(&t, 1, label, 100 * MS, (100 + length) * MS);
        add(w, &t);
    }
    analyse(w);
}

TEST(what_starts_when_it_is_ready_leaves_what_must_be_left)
{
    analysed w;
    const bucket_times b[4] = {{10, 40, 40, 40}, {20, 41, 40, 41}, {30, 42, 41, 42}, {40, 43, 42, 43}};
    one_step(&w, "", b, 43);
    CHECK_MS(w.a.totals.mean.step, 43);
    CHECK_MS(w.a.totals.mean.exposed, 3);
    CHECK_MS(w.a.totals.mean.hidden, 30);
    CHECK_MS(w.a.reduces.ideal, 3);
    CHECK_MS(w.a.reduces.exposed, 3);
    CHECK_MS(row_named(&w, "set0 reduce 0")->hidden, 30);
    CHECK_MS(row_named(&w, "set0 reduce 3")->exposed, 1);
    CHECK_MS(row_named(&w, "set0 reduce 3")->queue, 2);
    CHECK(!says(w.a.hints, w.a.hint_count, "reductions: "));
    end(&w);
}

/* Computing is held up by the communication of two buckets before. */
TEST(a_wrong_dependency_shows)
{
    analysed w;
    const bucket_times b[4] = {{10, 40, 20, 40}, {20, 41, 50, 50}, {50, 51, 60, 60}, {60, 61, 60, 61}};
    one_step(&w, "", b, 61);
    CHECK_MS(w.a.totals.mean.step, 61);
    CHECK_MS(w.a.totals.mean.exposed, 21);
    CHECK_MS(w.a.totals.mean.hidden, 12);
    CHECK_MS(w.a.totals.mean.computing, 28);
    CHECK_MS(w.a.reduces.ideal, 1);
    CHECK(says(w.a.hints, w.a.hint_count,
               "reductions: 21.0 ms are exposed where their ready times and costs permit 1.0"));
    end(&w);
}

TEST(a_serial_step_hides_nothing)
{
    analysed w;
    const bucket_times b[4] = {{10, 40, 10, 40}, {50, 51, 50, 51}, {61, 62, 61, 62}, {72, 73, 72, 73}};
    one_step(&w, "", b, 73);
    CHECK_MS(w.a.totals.mean.step, 73);
    CHECK_MS(w.a.totals.mean.exposed, 33);
    CHECK_MS(w.a.totals.mean.hidden, 0);
    CHECK(says(w.a.hints, w.a.hint_count, "is the overlap off?"));
    CHECK(isnan(w.a.totals.eta));
    end(&w);
}

/* The same step overlapped (43 ms), serially (73) and without computing (33): 30 of 33 were gained. */
TEST(eta_comes_from_steps_that_were_run_both_ways)
{
    for (int by_itself = 0; by_itself < 2; by_itself++) {
        analysed w;
        begin(&w);
        traced t = traced_rank(0, 1, "one", 0);
        uint16_t comm = traced_comm(&t, "dp", 0, 1, 5);
        traced_collective(&t, comm, 1, "x", (traced_times){110 * MS, 143 * MS, 140 * MS, 143 * MS, 110 * MS});
        traced_step(&t, 1, "", 100 * MS, 143 * MS);
        traced_collective(&t, comm, 2, "x", (traced_times){200 * MS, 233 * MS, 200 * MS, 233 * MS, 200 * MS});
        traced_step(&t, 2, PROF_SERIAL, 200 * MS, 273 * MS);
        if (by_itself) {
            traced_collective(&t, comm, 3, "x", (traced_times){300 * MS, 340 * MS, 300 * MS, 340 * MS, 300 * MS});
            traced_step(&t, 3, PROF_ALONE, 300 * MS, 340 * MS);
        }
        add(&w, &t);
        analyse(&w);
        CHECK_MS(w.a.totals.mean.step, 43);
        CHECK_NEAR(w.a.totals.eta, by_itself ? 30.0 / 40 : 30.0 / 33, 1e-6);
        CHECK_MS(row_named(&w, "x")->alone, by_itself ? 36.5 : 33);
        end(&w);
    }
}

/* Forward of three pieces of 10 ms, bucket by bucket, each gathered in 8 ms from 100 ms on; the optimizer goes on until
 * 102 ms. The first must be waited for until 108, and the second, gathered by 116, is there in time. */
TEST(gathers_are_held_to_the_forward_that_needs_them)
{
    analysed w;
    begin(&w);
    for (int rank = 0; rank < 2; rank++) {
        traced t = traced_rank(rank, 2, "one", 0);
        uint16_t comm = traced_comm(&t, "weft.dp.0/set0/gather", rank, 2, 5);
        traced_collective(&t, comm, 1, "set0 gather 2", (traced_times){100 * MS, 108 * MS, 102 * MS, 108 * MS, 0});
        traced_collective(&t, comm, 2, "set0 gather 1", (traced_times){100 * MS, 116 * MS, 118 * MS, 118 * MS, 0});
        traced_collective(&t, comm, 3, "set0 gather 0", (traced_times){100 * MS, 124 * MS, 128 * MS, 128 * MS, 0});
        traced_step(&t, 1, "", 90 * MS, 150 * MS);
        add(&w, &t);
    }
    analyse(&w);
    CHECK_MS(w.a.gathers.exposed, 6);
    CHECK_MS(w.a.gathers.ideal, 6);
    CHECK_MS(w.a.gathers.transfer, 24);
    end(&w);
}

/* Eight bytes that take 9 ms because a gather is under way. */
TEST(a_small_operation_behind_a_large_one_is_hinted_at)
{
    analysed w;
    begin(&w);
    for (int rank = 0; rank < 2; rank++) {
        traced t = traced_rank(rank, 2, "one", 0);
        uint16_t gather = traced_comm(&t, "weft.dp/set0/gather", rank, 2, 5), all = traced_comm(&t, "all", rank, 2, 6);
        traced_collective(&t, gather, 1, "set0 gather 0", (traced_times){100 * MS, 120 * MS, 130 * MS, 130 * MS, 0});
        traced_collective(&t, all, 1, "loss", (traced_times){101 * MS, 110 * MS, 101 * MS, 110 * MS, 0})->bytes = 8;
        traced_step(&t, 1, "", 90 * MS, 150 * MS);
        add(&w, &t);
    }
    analyse(&w);
    CHECK(says(w.a.hints, w.a.hint_count, "loss moves 8 bytes and takes 9.0 ms once all ranks are there"));
    end(&w);
}

/* The same eight bytes while nothing else is under way: they take long by themselves. */
TEST(a_small_operation_by_itself_stands_behind_nothing)
{
    analysed w;
    begin(&w);
    for (int rank = 0; rank < 2; rank++) {
        traced t = traced_rank(rank, 2, "one", 0);
        uint16_t gather = traced_comm(&t, "weft.dp/set0/gather", rank, 2, 5), all = traced_comm(&t, "all", rank, 2, 6);
        traced_collective(&t, gather, 1, "set0 gather 0", (traced_times){100 * MS, 103 * MS, 130 * MS, 130 * MS, 0});
        traced_collective(&t, all, 1, "loss", (traced_times){101 * MS, 110 * MS, 101 * MS, 110 * MS, 0})->bytes = 8;
        traced_step(&t, 1, "", 90 * MS, 150 * MS);
        add(&w, &t);
    }
    analyse(&w);
    CHECK(!says(w.a.hints, w.a.hint_count, "loss moves 8 bytes"));
    end(&w);
}

/* 40 ms of computing, and then all four buckets at once. */
TEST(buckets_that_are_started_together_are_hinted_at)
{
    analysed w;
    const bucket_times b[4] = {{40, 45, 40.3, 45}, {40.1, 50, 45, 50}, {40.2, 55, 50, 55}, {40.3, 60, 55, 60}};
    one_step(&w, "", b, 60);
    CHECK(says(w.a.hints, w.a.hint_count, "the 4 buckets of a set are started within 0.3 ms of each other"));
    CHECK(says(w.a.hints, w.a.hint_count, "params marked only behind the backward?"));
    end(&w);
}

/* Three gathers that end 8 ms apart, waited for one right after the other, the first or all of them late enough. */
static void three_gathers(analysed *w, double between)
{
    begin(w);
    for (int rank = 0; rank < 2; rank++) {
        traced t = traced_rank(rank, 2, "one", 0);
        uint16_t comm = traced_comm(&t, "weft.dp.0/set0/gather", rank, 2, 5);
        double second = 108 + between, third = fmax(second, 116) + between;
        traced_collective(&t, comm, 1, "set0 gather 2", (traced_times){100 * MS, 108 * MS, 104 * MS, 108 * MS, 0});
        traced_collective(&t, comm, 2, "set0 gather 1",
                          (traced_times){100 * MS, 116 * MS, second * MS, fmax(second, 116) * MS, 0});
        traced_collective(&t, comm, 3, "set0 gather 0",
                          (traced_times){100 * MS, 124 * MS, third * MS, fmax(third, 124) * MS, 0});
        traced_step(&t, 1, "", 60 * MS, 170 * MS);
        add(w, &t);
    }
    analyse(w);
}

TEST(params_that_are_acquired_all_at_once_are_hinted_at)
{
    analysed w;
    three_gathers(&w, 0.1);
    CHECK(says(w.a.hints, w.a.hint_count, "acquires all 3 buckets of a set at once, with 0.2 ms of computing"));
    end(&w);
    three_gathers(&w, 6);
    CHECK(!says(w.a.hints, w.a.hint_count, "at once"));
    end(&w);
}

/* Rank 0 receives what rank 1 sends 30 ms later. */
TEST(what_is_not_sent_yet_is_the_bubble_of_the_pipeline)
{
    analysed w;
    begin(&w);
    for (int rank = 0; rank < 2; rank++) {
        traced t = traced_rank(rank, 2, "one", 0);
        uint16_t comm = traced_comm(&t, "pp", rank, 2, 5);
        double ready = (rank ? 130 : 100) * MS;
        traced_message(&t, comm, rank == 1, 1 - rank, 1, (traced_times){ready, 133 * MS, ready, 133 * MS, 0});
        traced_step(&t, 1, "", 90 * MS, 150 * MS);
        add(&w, &t);
    }
    analyse(&w);
    CHECK(says(w.a.hints, w.a.hint_count, "stages wait 15.0 ms a step (25 %) for messages that are not sent yet"));
    end(&w);
}

/* Rank 1 comes 20 ms later; it computed so much longer, or its step began so much later. */
static void late_by(analysed *w, double step_begins)
{
    begin(w);
    for (int rank = 0; rank < 2; rank++) {
        traced t = traced_rank(rank, 2, "one", 0);
        uint16_t comm = traced_comm(&t, "dp", rank, 2, 5);
        double ready = (rank ? 130 : 110) * MS;
        traced_collective(&t, comm, 1, "x", (traced_times){ready, 132 * MS, ready, 132 * MS, 0});
        traced_step(&t, 1, "", (rank ? step_begins : 100) * MS, 150 * MS);
        add(w, &t);
    }
    analyse(w);
}

TEST(only_a_rank_that_computes_longer_is_said_to)
{
    analysed w;
    late_by(&w, 100);
    CHECK(says(w.a.hints, w.a.hint_count, "Its computing takes longer than that of the others"));
    end(&w);
    late_by(&w, 120);
    CHECK(says(w.a.hints, w.a.hint_count, "Its computing takes no longer in all"));
    end(&w);
}

/* ---- checks ---- */

TEST(a_difference_in_launch_order_is_named)
{
    analysed w;
    begin(&w);
    for (int rank = 0; rank < 2; rank++) {
        traced t = traced_rank(rank, 2, "one", 0);
        uint16_t comm = traced_comm(&t, "data", rank, 2, 5);
        traced_collective(&t, comm, 1, rank ? "b" : "a", (traced_times){110 * MS, 120 * MS, 115 * MS, 120 * MS, 0});
        traced_collective(&t, comm, 2, rank ? "a" : "b", (traced_times){121 * MS, 130 * MS, 125 * MS, 130 * MS, 0});
        traced_step(&t, 1, "", 100 * MS, 200 * MS);
        add(&w, &t);
    }
    analyse(&w);
    CHECK(w.a.order_differs);
    CHECK(says(w.a.checks, w.a.check_count, "comm data, operation 1: rank 0 starts a (1048576 bytes), rank 1 b"));
    end(&w);
}

TEST(an_operation_that_never_ended_is_named_and_counts_until_the_end)
{
    analysed w;
    begin(&w);
    traced t = traced_rank(0, 2, "one", 0);
    uint16_t comm = traced_comm(&t, "data", 0, 2, 5);
    traced_collective(&t, comm, 1, "a", (traced_times){110 * MS, 120 * MS, 115 * MS, 120 * MS, 110 * MS});
    traced_step(&t, 1, "", 100 * MS, 130 * MS);
    traced_collective(&t, comm, 2, "b", (traced_times){.ready = 140 * MS});
    traced_span(&t, "backward", 0, 141 * MS, 160 * MS);
    add(&w, &t);
    analyse(&w);
    CHECK_INT(w.run.missing_count, 1);
    CHECK(says(w.a.checks, w.a.check_count,
               "rank 0: its trace ends while 1 operation was not finished, b first, 20.0 ms"));
    CHECK_MS(w.a.totals.mean.step, 30);
    CHECK_MS(w.a.totals.mean.skew, 0); /* by what the rank itself saw */
    end(&w);
}

TEST(a_trace_without_communication_has_none)
{
    analysed w;
    begin(&w);
    traced t = traced_rank(0, 1, "one", 0);
    traced_span(&t, "backward", 0, 110 * MS, 150 * MS);
    traced_step(&t, 1, "", 100 * MS, 200 * MS);
    add(&w, &t);
    analyse(&w);
    CHECK_MS(w.a.totals.mean.computing, 100);
    CHECK_INT(w.a.row_count, 0);
    CHECK_INT(w.a.reduces.count, 0);
    CHECK_INT(w.a.hint_count, 0);
    end(&w);
}

TEST(a_receive_waits_for_its_sender)
{
    analysed w;
    begin(&w);
    for (int rank = 0; rank < 2; rank++) {
        traced t = traced_rank(rank, 2, "one", 0);
        uint16_t comm = traced_comm(&t, "pp", rank, 2, 5);
        double ready = (rank ? 130 : 100) * MS;
        traced_message(&t, comm, rank == 1, 1 - rank, 1, (traced_times){ready, 133 * MS, ready, 133 * MS, 0});
        traced_step(&t, 1, "", 90 * MS, 150 * MS);
        add(&w, &t);
    }
    analyse(&w);
    CHECK_MS(w.a.totals.ranks[0].skew, 30);
    CHECK_MS(w.a.totals.ranks[0].transfer, 3);
    CHECK_MS(w.a.totals.ranks[1].skew, 0);
    CHECK_STR(w.a.rows[0].kind, "p2p");
    end(&w);
}

TEST(comms_of_one_purpose_are_called_alike)
{
    static const char *const names[][2] = {{"tp.0", "tp"},
                                           {"tp.17", "tp"},
                                           {"data", "data"},
                                           {"weft.dp.0/set0/reduce", "reduce"},
                                           {"weft.ends of pp.1/tied/sum", "sum"},
                                           {"mine/reduce", "mine/reduce"},
                                           {"7", "7"},
                                           {".5", ".5"},
                                           {"", ""}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char purpose[64];
        prof_purpose(names[i][0], purpose, sizeof purpose);
        CHECK_STR(purpose, names[i][1]);
    }
}
