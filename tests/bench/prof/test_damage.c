/* SPDX-License-Identifier: Apache-2.0 */
/* Files that were cut off, overwritten with noise, or are of another kind: none may crash the reader or what is worked
 * out of what is left, and each that is left out is named. */
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <weft/collective.h>

#include "complain.h"
#include "harness/test.h"
#include "prof/report.h"
#include "traces.h"

static char said[512];

/* A run of two ranks on two machines, of six steps, with collectives and messages. */
static void write_run(const char *folder, uint32_t capacity)
{
    for (int rank = 0; rank < 2; rank++) {
        traced t = traced_rank(rank, 2, rank ? "two" : "one", rank ? 777 : 0);
        uint16_t reduce = traced_comm(&t, "weft.dp/set0/reduce", rank, 2, 5), pp = traced_comm(&t, "pp", rank, 2, 6);
        for (uint64_t s = 1; s <= 6; s++) {
            double at = 1000 * (double)s;
            traced_span(&t, "F0", s, at + 1, at + 50);
            traced_message(&t, pp, rank == 0, 1 - rank, s, (traced_times){at + 100, at + 150, at + 120, at + 150, 0});
            for (uint64_t b = 0; b < 3; b++) {
                char name[32];
                snprintf(name, sizeof name, "set0 reduce %u", (unsigned)b);
                double ready = at + 200 + 100 * (double)b + rank;
                traced_collective(&t, reduce, 3 * s - 2 + b, name,
                                  (traced_times){ready, ready + 90, at + 480, at + 600, ready + 1});
            }
            traced_step(&t, s, "", at, at + 900);
        }
        traced_write(&t, folder, capacity);
        traced_free(&t);
    }
}

/* Read it and print all there is of it, into nothing. */
static int digest(const char *folder)
{
    prof_run run;
    complain_into(said, sizeof said);
    int code = prof_run_open(folder, &run);
    if (code == EXIT_DONE) {
        prof_split split;
        prof_analysis a;
        FILE *nothing = fopen("/dev/null", "w");
        CHECK(nothing != NULL);
        CHECK(prof_split_open(&run, &split));
        CHECK(prof_analyse(&split, prof_select_default(&run), &a));
        const prof_budget *b = &a.totals.mean;
        CHECK_NEAR(b->computing + b->hidden + b->exposed + b->idle, b->step, 1e-6 * b->step + 1);
        prof_print_text(nothing, &a, 50);
        prof_print_json(nothing, &a, 50);
        prof_analysis_close(&a);
        prof_split_close(&split);
        fclose(nothing);
    }
    prof_run_close(&run);
    return code;
}

static uint64_t state = 2024;

static uint64_t draw(uint64_t below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 20) % below;
}

static void load(const char *path, unsigned char **bytes, size_t *count)
{
    FILE *file = fopen(path, "r");
    CHECK(file != NULL && fseek(file, 0, SEEK_END) == 0);
    *count = (size_t)ftell(file);
    rewind(file);
    *bytes = malloc(*count);
    CHECK(*bytes && fread(*bytes, 1, *count, file) == *count);
    fclose(file);
}

static void store(const char *path, const unsigned char *bytes, size_t count)
{
    unlink(path); /* file systems take their time over a file that is written again */
    FILE *file = fopen(path, "w");
    CHECK(file != NULL && fwrite(bytes, 1, count, file) == count && fclose(file) == 0);
}

/* Words of the header, or of records and comms, become what is seldom right. */
static void spoil(unsigned char *bytes, size_t count, size_t ring_at)
{
    static const uint64_t words[] = {0, 1, 2, 0xff, 0x7fffffff, 0x80000000, UINT64_MAX, INT64_MAX, (uint64_t)1 << 40};
    size_t times = 1 + draw(6);
    for (size_t i = 0; i < times; i++) {
        size_t size = (size_t)1 << draw(4), header = sizeof(weft_trace_header);
        size_t at = draw(3) == 0 ? draw(header - 8) : ring_at + draw(count - ring_at - 8);
        uint64_t word = draw(2) ? words[draw(sizeof words / sizeof *words)] : state;
        memcpy(bytes + at / size * size, &word, size);
    }
}

TEST(noise_does_no_harm)
{
    char folder[64], path[2][128];
    unsigned char *bytes[2];
    size_t count[2], read = 0;
    int rounds = test_is_slow() ? 200 : 1500;
    traces_folder(folder);
    write_run(folder, 0);
    for (int r = 0; r < 2; r++) {
        snprintf(path[r], sizeof path[r], "%s/trace.%d.weft", folder, r);
        load(path[r], &bytes[r], &count[r]);
    }
    for (int round = 0; round < rounds; round++) {
        int r = (int)draw(2);
        unsigned char *spoilt = malloc(count[r]);
        CHECK(spoilt != NULL);
        memcpy(spoilt, bytes[r], count[r]);
        spoil(spoilt, count[r], 4096 + TRACES_LABELS * WEFT_TRACE_LABEL_BYTES);
        store(path[r], spoilt, draw(4) ? count[r] : draw(count[r]));
        read += digest(folder) == EXIT_DONE;
        store(path[r], bytes[r], count[r]);
        free(spoilt);
    }
    CHECK(read > (size_t)rounds / 2);
    free(bytes[0]);
    free(bytes[1]);
    traces_remove(folder);
}

TEST(of_a_file_that_was_cut_off_the_whole_records_count)
{
    char folder[64], path[128];
    prof_run run;
    traces_folder(folder);
    write_run(folder, 0);
    snprintf(path, sizeof path, "%s/trace.1.weft", folder);
    size_t ring_at = 4096 + TRACES_LABELS * WEFT_TRACE_LABEL_BYTES;
    CHECK(truncate(path, (off_t)(ring_at + 10 * sizeof(weft_trace_record) + 5)) == 0);
    CHECK_INT(prof_run_open(folder, &run), EXIT_DONE);
    CHECK_INT(run.count, 2);
    CHECK_INT(run.ranks[1].count, 10);
    CHECK_INT(run.ranks[1].lost, 6 * 7 - 10);
    CHECK_HAS(run.notes[0], "trace.1.weft is cut off: 9237 of 15360 bytes; its comms are missing");
    CHECK_HAS(run.notes[run.note_count - 1], "rank 1: 32 records were not written whole, or cut off; 10 are whole");
    prof_run_close(&run);
    CHECK_INT(digest(folder), EXIT_DONE);
    traces_remove(folder);
}

/* Of rank 1 the file ends where its comms begin, or behind those that it made: of a page, a report and events each says
 * so, and only what depends on who the members are is not known. */
static void check_cut(const char *folder, bool missing, const char *note)
{
    prof_run run;
    prof_split split;
    prof_analysis a;
    CHECK_INT(prof_run_open(folder, &run), EXIT_DONE);
    CHECK_INT(run.ranks[1].count, 6 * 7);
    CHECK_INT(run.ranks[1].comms_cut, missing);
    CHECK_INT(run.note_count > 0, note != NULL);
    if (note)
        CHECK_HAS(run.notes[0], note);
    CHECK(prof_split_open(&run, &split));
    CHECK(prof_analyse(&split, prof_select_default(&run), &a));
    CHECK_INT(a.totals.windows, 2 * 5);
    CHECK_INT(a.reduces.count > 0, !missing);
    CHECK_INT(a.order_known, !missing);
    for (int i = 0; i < a.row_count; i++)
        CHECK_MSG((a.rows[i].bus_bytes_per_s > 0) == (!missing || strcmp(a.rows[i].kind, "p2p") == 0), "%s",
                  a.rows[i].name);
    for (size_t i = 0; missing && i < a.hint_count; i++)
        CHECK_MSG(!strstr(a.hints[i], "late") && !strstr(a.hints[i], "permit"), "%s", a.hints[i]);
    prof_analysis_close(&a);
    prof_split_close(&split);
    prof_run_close(&run);
}

TEST(without_its_comms_a_file_tells_what_does_not_depend_on_them)
{
    char folder[64], path[128];
    struct stat info;
    traces_folder(folder);
    write_run(folder, 0);
    check_cut(folder, false, NULL);
    snprintf(path, sizeof path, "%s/trace.1.weft", folder);
    CHECK(stat(path, &info) == 0);
    off_t comms_at = info.st_size - TRACES_COMMS * (off_t)sizeof(weft_trace_comm);
    CHECK(truncate(path, comms_at + 3 * (off_t)sizeof(weft_trace_comm)) == 0);
    check_cut(folder, false, "none of the comms that its records name is missing");
    CHECK(truncate(path, comms_at) == 0);
    check_cut(folder, true, "; its comms are missing, and what depends on them is not known");
    CHECK_INT(digest(folder), EXIT_DONE);
    traces_remove(folder);
}

/* Slots 0-9 hold the newest ten of the ring before the gap; with it begins what is older. */
TEST(what_stands_before_a_gap_is_given_up)
{
    char folder[64], path[128];
    prof_run run;
    traces_folder(folder);
    write_run(folder, 32);
    snprintf(path, sizeof path, "%s/trace.1.weft", folder);
    size_t ring_at = 4096 + TRACES_LABELS * WEFT_TRACE_LABEL_BYTES;
    CHECK(truncate(path, (off_t)(ring_at + 20 * sizeof(weft_trace_record))) == 0);
    CHECK_INT(prof_run_open(folder, &run), EXIT_DONE);
    CHECK_INT(run.ranks[1].count, 10);
    CHECK_INT(run.ranks[1].lost, 32 - 10);
    CHECK(run.steps[run.step_count - 1].windows[1].begin != PROF_UNKNOWN);
    for (int s = 0; s + 1 < run.step_count; s++)
        CHECK(run.steps[s].windows[1].begin == PROF_UNKNOWN);
    prof_run_close(&run);
    traces_remove(folder);
}

TEST(a_ring_that_was_too_small_keeps_the_last_steps)
{
    char folder[64];
    prof_run run;
    traces_folder(folder);
    write_run(folder, 16);
    CHECK_INT(prof_run_open(folder, &run), EXIT_DONE);
    CHECK_INT(run.ranks[0].overwritten, 6 * 7 - 16);
    CHECK_INT(run.ranks[0].count, 16);
    CHECK_INT(run.step_count, 3); /* the mark of step 4 is still there, most of its records are not */
    CHECK(run.steps[0].windows[0].begin == PROF_UNKNOWN);
    CHECK(run.steps[1].windows[0].begin != PROF_UNKNOWN);
    CHECK_INT(run.steps[1].number, 5);
    prof_run_close(&run);
    traces_remove(folder);
}

static void expect_left_out(const char *folder, const char *why)
{
    prof_run run;
    CHECK_INT(prof_run_open(folder, &run), EXIT_DONE);
    CHECK_INT(run.count, 1);
    bool told = false;
    for (size_t i = 0; i < run.note_count; i++)
        told |= strstr(run.notes[i], "trace.1.weft is left out: ") && strstr(run.notes[i], why);
    CHECK_MSG(told, "no note says '%s' but %s", why, run.note_count ? run.notes[0] : "none at all");
    prof_run_close(&run);
}

TEST(files_of_another_kind_version_rank_or_run_are_left_out)
{
    char folder[64], path[128];
    traces_folder(folder);
    snprintf(path, sizeof path, "%s/trace.1.weft", folder);
    static const struct {
        uint32_t version;
        int rank, size;
        uint64_t magic;
        const char *why;
    } wrong[] = {
        {WEFT_TRACE_VERSION + 1, 1, 2, WEFT_TRACE_MAGIC, "of version 3 of the format; this weft reads 1 to 2"},
        {WEFT_TRACE_VERSION, 0, 2, WEFT_TRACE_MAGIC, "holds the trace of rank 0"},
        {WEFT_TRACE_VERSION, 1, 4, WEFT_TRACE_MAGIC, "of a world of 4 ranks, not of 2 as trace.0.weft: of another run"},
        {WEFT_TRACE_VERSION, 1, 2, 0, "its first 8 bytes are zero: damaged, or its writer was killed as it began"},
        {WEFT_TRACE_VERSION, 1, 2, 12345, "not a trace file of weft"},
        {WEFT_TRACE_VERSION, 5, 2, WEFT_TRACE_MAGIC, "damaged: its header has a rank of 5"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        write_run(folder, 0);
        traced t = traced_rank(1, 2, "one", 0);
        t.header.version = wrong[i].version;
        t.header.rank = wrong[i].rank;
        t.header.size = wrong[i].size;
        t.header.magic = wrong[i].magic;
        if (wrong[i].rank != 1) { /* which would be the name of its file */
            traced_write(&t, folder, 0);
            char other[128];
            snprintf(other, sizeof other, "%s/trace.%d.weft", folder, wrong[i].rank);
            CHECK(rename(other, path) == 0);
            traced_free(&t);
            t = traced_rank(0, 2, "one", 0);
        }
        traced_write(&t, folder, 0);
        traced_free(&t);
        expect_left_out(folder, wrong[i].why);
    }
    CHECK(truncate(path, 0) == 0 && truncate(path, 100000) == 0);
    expect_left_out(folder, "empty: its header was never written");
    CHECK(unlink(path) == 0 && mkfifo(path, 0600) == 0);
    expect_left_out(folder, "not a file");
    CHECK(unlink(path) == 0 && symlink("/no/such/file", path) == 0);
    expect_left_out(folder, "cannot be opened: No such file");
    traces_remove(folder);
}

/* Version 1 knows neither machines nor who a comm's members are. */
TEST(files_of_version_1_are_read)
{
    char folder[64];
    prof_run run;
    traces_folder(folder);
    for (int rank = 0; rank < 2; rank++) {
        traced t = traced_rank(rank, 2, "one", 0);
        uint16_t comm = traced_comm(&t, "dp", rank, 2, 5);
        weft_trace_record *r = traced_collective(&t, comm, 1, "x", (traced_times){110, 120, 115, 120, 112});
        r->comm_entry = 0;
        traced_step(&t, 1, "", 100, 200);
        t.header.version = 1;
        traced_write(&t, folder, 0);
        traced_free(&t);
    }
    CHECK_INT(prof_run_open(folder, &run), EXIT_DONE);
    CHECK_INT(run.count, 2);
    CHECK_INT(run.clock_count, 1); /* by the name of the host */
    CHECK_INT(run.group_count, 0);
    CHECK_STR(run.comms[0].name, "dp");
    CHECK_INT(run.ranks[1].records[0].ready, 110000);
    prof_run_close(&run);
    CHECK_INT(digest(folder), EXIT_DONE);
    traces_remove(folder);
}
