/* SPDX-License-Identifier: Apache-2.0 */
/* The reader: made-up files of all ranks on one clock, and files that are missing, damaged or cut off. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "complain.h"
#include "harness/test.h"
#include "prof/run.h"
#include "traces.h"

static char said[512]; /* the last complaint */

static int read_run(const char *folder, prof_run *run)
{
    complain_into(said, sizeof said);
    return prof_run_open(folder, run);
}

static bool is_noted(const prof_run *run, const char *what)
{
    for (size_t i = 0; i < run->note_count; i++)
        if (strstr(run->notes[i], what))
            return true;
    return false;
}

/* Two steps of 100 us on one of two ranks, which share a comm: in each a reduction, ready at 40 us or, on rank 1, at
 * 50 us, done at 90 us, and waited for from 70 us on. */
static traced two_steps(int rank, const char *machine, double ahead_us)
{
    traced t = traced_rank(rank, 2, machine, ahead_us);
    uint16_t comm = traced_comm(&t, "data", rank, 2, 77);
    for (uint64_t step = 1; step <= 2; step++) {
        double at = 100 * (double)step;
        traced_collective(&t, comm, step, "model reduce 0",
                          (traced_times){at + 40 + 10 * rank, at + 90, at + 70, at + 91, at + 50})
            ->late_rank = 1;
        traced_step(&t, step, "", at, at + 100);
    }
    return t;
}

static void write_two(const char *folder, const char *other_machine, double ahead_us)
{
    for (int rank = 0; rank < 2; rank++) {
        traced t = two_steps(rank, rank ? other_machine : "one", rank ? ahead_us : 0);
        traced_write(&t, folder, 0);
        traced_free(&t);
    }
}

TEST(ranks_of_a_machine_are_on_one_clock_and_their_operations_are_matched)
{
    char folder[64];
    prof_run run;
    traces_folder(folder);
    write_two(folder, "one", 0);
    CHECK_INT(read_run(folder, &run), EXIT_DONE);
    CHECK_INT(run.size, 2);
    CHECK_INT(run.count, 2);
    CHECK_INT(run.clock_count, 1);
    CHECK_INT(run.note_count, 0);
    CHECK_INT(run.comm_count, 1);
    CHECK_STR(run.comms[0].name, "data");
    CHECK_STR(run.comms[0].backend, "made-up");
    CHECK_INT(run.comms[0].world_ranks[1], 1);
    CHECK_INT(run.step_count, 2);
    CHECK_INT(run.steps[1].number, 2);
    CHECK_INT(run.steps[1].windows[1].begin, 200000);
    CHECK_INT(run.steps[1].windows[1].end, 300000);
    CHECK_INT(run.group_count, 2);
    for (int g = 0; g < 2; g++) {
        CHECK_INT(run.groups[g].number, g + 1);
        CHECK_INT(run.groups[g].count, 2);
        for (int i = 0; i < 2; i++) {
            const prof_part *p = &run.parts[run.groups[g].first + (size_t)i];
            const prof_record *r = &run.ranks[p->rank].records[p->record];
            CHECK_INT(p->rank, i);
            CHECK_INT(r->ready, 100000 * (g + 1) + 40000 + 10000 * i);
            CHECK_INT(r->last_arrival, 100000 * (g + 1) + 50000);
            CHECK_INT(r->step, g);
            CHECK_INT(r->group, g);
            CHECK_INT(r->late_rank, 1);
            CHECK_STR(r->label, "model reduce 0");
        }
    }
    prof_run_close(&run);
    traces_remove(folder);
}

TEST(clocks_of_machines_are_aligned_by_what_ranks_did_together)
{
    char folder[64];
    prof_run run;
    traces_folder(folder);
    write_two(folder, "two", 123456789);
    CHECK_INT(read_run(folder, &run), EXIT_DONE);
    CHECK_INT(run.clock_count, 2);
    CHECK_INT(run.clocks[0].fit, PROF_FIT_SAME);
    CHECK_INT(run.clocks[1].fit, PROF_FIT_FITTED);
    /* Rank 0 may be up to 50 us late (rank 1 ends at 90 us, rank 0 begins at 40), rank 1 up to 40: so the middle is
     * 5 us off the truth, 45 us in doubt. */
    CHECK_NEAR(run.clocks[1].residual_ns, 45000, 1);
    CHECK_NEAR(run.clocks[1].offset_ns, -5000, 1);
    CHECK_NEAR(run.steps[0].windows[1].begin, 100000 - 5000, 1);
    prof_run_close(&run);
    traces_remove(folder);
}

TEST(what_is_missing_or_damaged_is_named_and_the_rest_is_read)
{
    char folder[64], path[128];
    prof_run run;
    traces_folder(folder);
    CHECK_INT(read_run("/no/such/folder", &run), EXIT_FAILED);
    CHECK_HAS(said, "/no/such/folder");
    prof_run_close(&run);
    CHECK_INT(read_run(folder, &run), EXIT_FAILED);
    CHECK_HAS(said, "there is no trace in");
    prof_run_close(&run);
    write_two(folder, "one", 0);
    snprintf(path, sizeof path, "%s/trace.0.weft", folder);
    CHECK(truncate(path, 100) == 0);
    CHECK_INT(read_run(folder, &run), EXIT_DONE);
    CHECK_INT(run.count, 1);
    CHECK_INT(run.missing_count, 1);
    CHECK_INT(run.missing[0], 0);
    CHECK(is_noted(&run, "trace.0.weft is left out: cut off"));
    CHECK_INT(run.groups[0].count, 1);
    prof_run_close(&run);
    traces_remove(folder);
}

/* The true moment of a record's start, from what the record was called with. */
static double off_us(const prof_run *run, int rank, size_t record, double true_us)
{
    return (double)run->ranks[rank].records[record].start * 1e-3 - true_us;
}

/* Twenty seconds in which the clock of the other machine gains 50 parts in a million, 1 ms in all; every half second an
 * operation that takes 10 us once the last rank has come, which is one, then the other. */
TEST(a_clock_that_drifts_is_followed)
{
    enum { OPERATIONS = 40 };
    char folder[64];
    prof_run run;
    traces_folder(folder);
    for (int rank = 0; rank < 2; rank++) {
        traced t = traced_rank(rank, 2, rank ? "two" : "one", rank ? 5555 : 0);
        t.ticks_per_us *= rank ? 1 + 50e-6 : 1;
        uint16_t comm = traced_comm(&t, "data", rank, 2, 7);
        for (uint64_t i = 0; i < OPERATIONS; i++) {
            double at = 1000 + 500000 * (double)i, ready = at + ((int)i % 2 == rank ? 40 : 0);
            traced_collective(&t, comm, i + 1, "x", (traced_times){ready, at + 50, ready, at + 50, 0});
        }
        traced_write(&t, folder, 0);
        traced_free(&t);
    }
    CHECK_INT(read_run(folder, &run), EXIT_DONE);
    CHECK_INT(run.clocks[1].fit, PROF_FIT_FITTED);
    CHECK_NEAR(run.clocks[1].drift, -50e-6, 2e-6);
    CHECK(run.clocks[1].residual_ns <= 15000);
    for (size_t i = 0; i < OPERATIONS; i++)
        CHECK_NEAR(off_us(&run, 1, i, 1000 + 500000 * (double)i + (i % 2 ? 40 : 0)), 0, 15);
    prof_run_close(&run);
    traces_remove(folder);
}

/* A pipeline of three machines, of which the first and the last exchange nothing: messages of 20 us go to and fro
 * between neighbours. The calendar of the last is 3 ms ahead. */
static void write_pipeline(const char *folder, bool talk)
{
    for (int rank = 0; rank < 3; rank++) {
        static const char *const machines[] = {"one", "two", "three"};
        traced t = traced_rank(rank, 3, machines[rank], 1e6 * rank);
        t.header.realtime0_ns += rank == 2 ? 3000000 : 0;
        uint16_t comm = traced_comm(&t, "pp", rank, 3, 7);
        for (uint64_t i = 0; i < 4; i++)
            for (int peer = rank - 1; peer <= rank + 1 && talk; peer += 2) {
                int lower = peer < rank ? peer : rank;
                double at = 1000 * (double)(i + 1) + 100 * lower;
                if (peer < 0 || peer > 2)
                    continue;
                traced_message(&t, comm, rank == lower, peer, i + 1, (traced_times){at, at + 20, at, at + 20, 0});
                traced_message(&t, comm, rank != lower, peer, i + 1,
                               (traced_times){at + 40, at + 60, at + 40, at + 60, 0});
            }
        traced_step(&t, 1, "", 500, 5000);
        traced_write(&t, folder, 0);
        traced_free(&t);
    }
}

TEST(clocks_are_aligned_from_neighbour_to_neighbour)
{
    char folder[64];
    prof_run run;
    traces_folder(folder);
    write_pipeline(folder, true);
    CHECK_INT(read_run(folder, &run), EXIT_DONE);
    CHECK_INT(run.clock_count, 3);
    for (int r = 0; r < 3; r++) {
        CHECK_INT(run.clocks[r].fit, r ? PROF_FIT_FITTED : PROF_FIT_SAME);
        CHECK_NEAR(run.steps[0].windows[r].begin, 500000, 20000);
        for (size_t i = 0; i < run.ranks[r].count; i++)
            CHECK(run.ranks[r].records[i].kind != WEFT_TRACE_MESSAGE || prof_peer(&run, &run.ranks[r].records[i]));
    }
    CHECK_NEAR(run.clocks[2].offset_ns, -3000000, 20000);
    prof_run_close(&run);
    traces_remove(folder);
}

TEST(without_common_operations_the_calendar_must_do_and_that_is_said)
{
    char folder[64];
    prof_run run;
    traces_folder(folder);
    write_pipeline(folder, false);
    CHECK_INT(read_run(folder, &run), EXIT_DONE);
    CHECK_INT(run.clocks[1].fit, PROF_FIT_CALENDAR);
    CHECK_NEAR(run.steps[0].windows[1].begin, 500000, 1);
    CHECK_NEAR(run.steps[0].windows[2].begin, 3500000, 1);
    CHECK(is_noted(&run, "host host-three: its clock is set by the time of day only"));
    prof_run_close(&run);
    traces_remove(folder);
}

/* Rank 0 has a comm of that name, members and number more than rank 1: it was made again. And another comm has the same
 * name, but other members. */
TEST(comms_of_one_name_are_told_apart)
{
    char folder[64];
    prof_run run;
    traces_folder(folder);
    for (int rank = 0; rank < 2; rank++) {
        traced t = traced_rank(rank, 2, "one", 0);
        uint16_t first = traced_comm(&t, "data", rank, 2, 7), again = traced_comm(&t, "data", rank, 2, 7);
        uint16_t other = traced_comm(&t, "data", 0, 1, 100 + (uint64_t)rank);
        t.comms[again].incarnation = 2;
        traced_collective(&t, first, 1, "", (traced_times){10, 20, 10, 20, 0});
        traced_collective(&t, again, 1, "", (traced_times){30, 40, 30, 40, 0});
        traced_collective(&t, other, 1, "", (traced_times){50, 60, 50, 60, 0});
        traced_write(&t, folder, 0);
        traced_free(&t);
    }
    CHECK_INT(read_run(folder, &run), EXIT_DONE);
    CHECK_INT(run.comm_count, 4);
    CHECK_INT(run.group_count, 4);
    int whole = 0;
    for (size_t g = 0; g < run.group_count; g++)
        whole += run.groups[g].count == 2;
    CHECK_INT(whole, 2);
    CHECK(!run.steps_marked);
    CHECK_INT(run.step_count, 1);
    CHECK(is_noted(&run, "no step is marked"));
    prof_run_close(&run);
    traces_remove(folder);
}
