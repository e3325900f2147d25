/* SPDX-License-Identifier: Apache-2.0 */
/* Traces that weft itself wrote: of ranks that ran, of one that was made late, and of one that was killed. What comes
 * before what is made so by messages, so no check depends on how fast anything is. */
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "complain.h"
#include "harness/ranks.h"
#include "prof/analysis.h"
#include "traces.h"

enum { STEPS = 3, LATE_MS = 20 };

static void pass_token(weft_comm *comm, weft_p2p_kind kind, int peer)
{
    float token = 0;
    weft_p2p m = {.kind = kind, .peer = peer, .dtype = WEFT_FP32, .buffer = &token, .count = 1};
    CHECK_OK(run_messages(comm, &m, 1));
}

/* Rank 1 starts its part of each reduction 20 ms after it has heard that rank 0 has started its own. */
static void late(weft_world *world, void *argument)
{
    (void)argument;
    int rank = weft_world_rank(world);
    weft_comm *comm = all_ranks(world, "data", NULL), *talk = all_ranks(world, "talk", NULL);
    uint32_t forward = weft_trace_label(world, "forward");
    for (uint64_t step = 1; step <= STEPS; step++) {
        float in[2] = {1, 2}, out = 0;
        weft_work work;
        uint64_t begin = weft_trace_now(world);
        weft_span_end(world, weft_span_begin(world, forward, step));
        if (rank == 1) {
            pass_token(talk, WEFT_RECV, 0);
            nanosleep(&(struct timespec){.tv_nsec = LATE_MS * 1000000L}, NULL);
        }
        CHECK_OK(weft_reduce_scatter_start(comm, in, &out, 1, WEFT_FP32, WEFT_SUM, WEFT_STREAM_HOST, &work));
        if (rank == 0)
            pass_token(talk, WEFT_SEND, 1);
        CHECK_OK(weft_work_finish(work, WEFT_STREAM_HOST));
        weft_trace_step(world, step, begin);
    }
    weft_comm_destroy(comm);
    weft_comm_destroy(talk);
}

static void check_late(const prof_run *run)
{
    prof_split split;
    prof_analysis a;
    CHECK_INT(run->count, 2);
    CHECK_INT(run->clock_count, 1);
    CHECK_INT(run->step_count, STEPS);
    CHECK_INT(run->note_count, 0);
    CHECK(prof_split_open(run, &split));
    CHECK(prof_analyse(&split, (prof_selection){0, STEPS - 1, -1}, &a));
    const prof_late *l = &a.late[1];
    CHECK_INT(l->times, STEPS);
    CHECK_INT(l->of, STEPS);
    CHECK(l->by >= LATE_MS * 1e6);
    CHECK_INT(a.late[0].times, 0);
    size_t messages = 0;
    for (int r = 0; r < 2; r++)
        for (size_t i = 0; i < run->ranks[r].count; i++) {
            const prof_record *m = &run->ranks[r].records[i], *peer = prof_peer(run, m);
            if (m->kind != WEFT_TRACE_MESSAGE)
                continue;
            messages++;
            CHECK(peer != NULL);
            CHECK_INT(m->late_rank, 1 - r);
            CHECK_INT(peer->number, m->number);
            CHECK(m->operation == WEFT_SEND ? peer->last >= m->start : peer->start <= m->last);
        }
    CHECK_INT(messages, 2 * STEPS);
    for (int r = 0; r < 2; r++) {
        const prof_budget *b = &a.totals.ranks[r];
        CHECK_NEAR(b->computing + b->hidden + b->exposed + b->idle, b->step, 1);
    }
    prof_analysis_close(&a);
    prof_split_close(&split);
}

TEST(a_rank_that_was_late_is_found)
{
    char folder[64];
    prof_run run;
    weft_world_config config = WEFT_WORLD_CONFIG_INIT;
    traces_folder(folder);
    config.trace = folder;
    ranks_as_processes(2, &config, late, NULL);
    CHECK_INT(prof_run_open(folder, &run), EXIT_DONE);
    check_late(&run);
    prof_run_close(&run);
    traces_remove(folder);
}

/* Rank 0 is killed in step 2, with an operation under way that rank 1 never comes to. */
static void killed(weft_world *world, void *argument)
{
    (void)argument;
    weft_comm *comm = all_ranks(world, "data", NULL);
    uint64_t begin = weft_trace_now(world);
    CHECK_OK(weft_barrier_run(comm, WEFT_STREAM_HOST));
    weft_trace_step(world, 1, begin);
    weft_work work;
    if (weft_world_rank(world) == 0) {
        CHECK_OK(weft_barrier_start(comm, WEFT_STREAM_HOST, &work));
        uint64_t span = weft_span_begin(world, weft_trace_label(world, "backward"), 7);
        (void)span;
        raise(SIGKILL);
    }
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    weft_comm_destroy(comm);
}

TEST(nothing_is_lost_of_a_rank_that_was_killed)
{
    char folder[64];
    prof_run run;
    prof_split split;
    prof_analysis a;
    weft_world_config config = WEFT_WORLD_CONFIG_INIT;
    traces_folder(folder);
    config.trace = folder;
    rank_group group = ranks_start(2, &config, killed, NULL);
    ranks_wait(&group, 0);
    ranks_expect_passed(&group, 1);
    CHECK_INT(prof_run_open(folder, &run), EXIT_DONE);
    CHECK_INT(run.count, 2);
    CHECK_INT(run.note_count, 0);
    const prof_rank *r = &run.ranks[0];
    CHECK_INT(r->lost, 0);
    CHECK_INT(r->count, 4);
    CHECK_INT(r->records[0].result, WEFT_OK);
    CHECK_INT(r->records[0].step, 0);
    CHECK_INT(r->records[2].result, WEFT_PENDING);
    CHECK_STR(r->records[3].label, "backward");
    CHECK_INT(r->records[3].number, 7);
    CHECK_INT(run.groups[0].count, 2);
    CHECK(prof_split_open(&run, &split));
    CHECK(prof_analyse(&split, prof_select_default(&run), &a));
    bool told = false;
    for (size_t i = 0; i < a.check_count; i++)
        told |= strstr(a.checks[i], "rank 0: its trace ends while 1 operation was not finished, barrier first") != NULL;
    CHECK(told);
    prof_analysis_close(&a);
    prof_split_close(&split);
    prof_run_close(&run);
    traces_remove(folder);
}
