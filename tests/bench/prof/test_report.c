/* SPDX-License-Identifier: Apache-2.0 */
/* `weft prof report` as its user runs it: what it prints, and how it ends. */
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../spawn.h"
#include "harness/json.h"
#include "harness/test.h"
#include "traces.h"

/* Two ranks, three steps of 50 ms, in each a reduction: rank 0 is ready at 20 ms and waits from 30 to 35, so that 10 ms
 * are hidden and 5 exposed; rank 1 comes at 33 and waits from 33 to 35. So skew is 3 ms on rank 0. The means are 5 ms
 * hidden, 3.5 exposed, 1.5 skew. */
static void write_run(const char *folder)
{
    for (int rank = 0; rank < 2; rank++) {
        traced t = traced_rank(rank, 2, "one", 0);
        uint16_t comm = traced_comm(&t, "weft.dp/set0/reduce", rank, 2, 5);
        for (uint64_t s = 1; s <= 3; s++) {
            double at = 100000 + 50000 * (double)s, ready = at + (rank ? 33000 : 20000);
            traced_collective(&t, comm, s, "set0 reduce 0",
                              (traced_times){ready, at + 35000, rank ? ready : at + 30000, at + 35000, 0});
            traced_step(&t, s, "", at, at + 50000);
        }
        traced_write(&t, folder, 0);
        traced_free(&t);
    }
}

static spawned report(const char *const *arguments, int want)
{
    spawned r = spawn_weft(NULL, arguments);
    int code = spawn_finish(&r);
    CHECK_MSG(code == want, "code %d, not %d: %s", code, want, r.complained.data);
    return r;
}

#define REPORT(want, ...) report((const char *const[]){"prof", "report", __VA_ARGS__, NULL}, want)

TEST(a_report_says_what_was_exposed_and_why)
{
    char folder[64];
    traces_folder(folder);
    write_run(folder);
    spawned r = REPORT(0, folder);
    CHECK_HAS(r.said.data, "steps 1-3 (3 of 3): median 50.00 ms");
    CHECK_HAS(r.said.data, "EXPOSED                        3.50 ms    7.0 %");
    CHECK_HAS(r.said.data, "reduce 3.50");
    CHECK_HAS(r.said.data, "skew                         1.50 ms");
    CHECK_HAS(r.said.data, "hidden/communication");
    CHECK_HAS(r.said.data, "eta                    n/a");
    CHECK_HAS(r.said.data, "launch order: the same on all ranks");
    CHECK_HAS(r.said.data, "rank 1 (host-one) is late");
    CHECK_HAS(r.said.data, "there is one bucket");
    CHECK_STR(r.complained.data, "");
    spawn_forget(&r);
    traces_remove(folder);
}

static double number(const json *object, const char *key)
{
    return json_real(json_get(object, key), -1);
}

TEST(the_same_as_json)
{
    char folder[64], message[128];
    traces_folder(folder);
    write_run(folder);
    spawned r = REPORT(0, folder, "--json", "--step", "2-3");
    json *j = json_parse(r.said.data, message, sizeof message);
    CHECK_MSG(j, "%s: %s", message, r.said.data);
    const json *budget = json_get(j, "budget"), *overlap = json_get(j, "overlap"), *steps = json_get(j, "steps");
    CHECK_INT(json_int(json_get(j, "ranks"), 0), 2);
    CHECK_INT(json_int(json_get(steps, "count"), 0), 2);
    CHECK_INT(json_int(json_get(steps, "first"), 0), 2);
    CHECK_NEAR(number(budget, "step_ms"), 50, 1e-6);
    CHECK_NEAR(number(budget, "hidden_ms"), 5, 1e-6);
    CHECK_NEAR(number(budget, "exposed_ms"), 3.5, 1e-6);
    CHECK_NEAR(number(budget, "skew_ms"), 1.5, 1e-6);
    CHECK_NEAR(number(overlap, "exposed_fraction"), 0.07, 1e-6);
    CHECK(isnan(json_real(json_get(overlap, "eta"), (double)NAN)));
    const json *row = json_get(j, "operations")->first;
    CHECK_STR(json_text(json_get(row, "name"), ""), "set0 reduce 0");
    CHECK_INT(json_int(json_get(row, "count"), 0), 4);
    CHECK_INT(json_int(json_get(row, "late_rank"), -1), 1);
    json_free(j);
    spawn_forget(&r);
    traces_remove(folder);
}

TEST(a_limit_that_is_exceeded_is_exit_code_3)
{
    char folder[64];
    traces_folder(folder);
    write_run(folder);
    spawned r = REPORT(3, "--fail-exposed", "5%", folder);
    CHECK_HAS(r.complained.data, "7.00 % of the step is exposed, more than 5%");
    CHECK_HAS(r.said.data, "STEP BUDGET");
    spawn_forget(&r);
    r = REPORT(0, folder, "--fail-exposed=7.5%");
    spawn_forget(&r);
    r = REPORT(3, folder, "--rank", "0", "--fail-exposed=7.5%"); /* of rank 0 alone it is 10 % */
    spawn_forget(&r);
    traces_remove(folder);
}

TEST(what_is_asked_wrongly_is_said)
{
    char folder[64];
    traces_folder(folder);
    write_run(folder);
    static const struct {
        const char *words[4];
        int code;
        const char *says;
    } wrong[] = {
        {{NULL}, 2, "of which folder? (see"},
        {{"--json", "report", NULL}, 2, "of which folder? --json took 'report' as its value"},
        {{"--rank", "1", "--step", "FOLDER"}, 2, "of which folder? --step took '/tmp/"},
        {{"/no/such/folder", NULL}, 1, "cannot read folder '/no/such/folder'"},
        {{"FOLDER", "--step", "9", NULL}, 2, "--step 9: the trace has steps 1 to 3"},
        {{"FOLDER", "--step", "2-", NULL}, 2, "--step is '2-', not N or A-B"},
        {{"FOLDER", "--rank", "7", NULL}, 2, "--rank 7: there is no trace of it"},
        {{"FOLDER", "--fail-exposed", "5", NULL}, 2, "--fail-exposed is '5', not a part of the step such as 5%"},
        {{"FOLDER", "more", NULL}, 2, "'more' is one word too many"},
        {{"FOLDER", "--wrong", NULL}, 2, "unknown option '--wrong'"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const char *arguments[8] = {"prof", "report"};
        for (int k = 0; k < 4 && wrong[i].words[k]; k++)
            arguments[2 + k] = strcmp(wrong[i].words[k], "FOLDER") == 0 ? folder : wrong[i].words[k];
        spawned r = report(arguments, wrong[i].code);
        CHECK_HAS(r.complained.data, wrong[i].says);
        spawn_forget(&r);
    }
    static const char *const no_steps[][2] = {
        {"x", "--step is 'x', not a number"}, {"1-2", "--step is '1-2', not a number"}, {"9", "--step 9: '/tmp/"}};
    for (size_t i = 0; i < sizeof no_steps / sizeof *no_steps; i++) {
        spawned page = report((const char *const[]){"prof", "html", folder, "--step", no_steps[i][0], NULL}, 2);
        CHECK_HAS(page.complained.data, no_steps[i][1]);
        spawn_forget(&page);
    }
    spawned r = report((const char *const[]){"prof", "nothing", NULL}, 2);
    CHECK_HAS(r.complained.data, "there is no view 'nothing'");
    spawn_forget(&r);
    r = report((const char *const[]){"prof", "--help", NULL}, 0);
    CHECK_HAS(r.said.data, "report");
    spawn_forget(&r);
    traces_remove(folder);
}

/* Every trace of the run stays as it is, whatever it is called where it would be written to. */
TEST(no_view_overwrites_a_trace)
{
    char folder[64], path[128], linked[128];
    struct stat before, after;
    traces_folder(folder);
    write_run(folder);
    snprintf(path, sizeof path, "%s/trace.1.weft", folder);
    snprintf(linked, sizeof linked, "%s/report.html", folder);
    CHECK(symlink("trace.1.weft", linked) == 0 && stat(path, &before) == 0);
    const char *const lines[][7] = {
        {"prof", "html", "--out", path, folder, NULL},      {"prof", "html", folder, NULL},
        {"prof", "trace", "--out", linked, folder, NULL},   {"prof", "report", folder, "--json", path, NULL},
        {"prof", "report", folder, "--json", linked, NULL},
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        spawned r = report(lines[i], 2);
        CHECK_HAS(r.complained.data, i < 3 ? "--out '/tmp/" : "--json '/tmp/");
        CHECK_HAS(r.complained.data, "would overwrite what is read");
        CHECK_STR(r.said.data, "");
        CHECK(stat(path, &after) == 0 && after.st_size == before.st_size);
        spawn_forget(&r);
    }
    traces_remove(folder);
}

/* The report measures what a record costs: it must not put its own trace in place of the one it looks at. */
TEST(the_trace_that_is_read_stays_as_it_is)
{
    char folder[64];
    traces_folder(folder);
    write_run(folder);
    setenv("WEFT_TRACE", folder, 1);
    for (int i = 0; i < 2; i++) {
        spawned r = REPORT(0, folder);
        CHECK_HAS(r.said.data, "steps 1-3 (3 of 3)");
        spawn_forget(&r);
    }
    traces_remove(folder);
}

/* Whatever the figures are, the word about noise goes with the interval that is printed. */
TEST(an_interval_too_wide_to_tell_is_called_so)
{
    spawned r = report((const char *const[]){"prof", "cost", "--pairs", "4", "--compute", "0.5", NULL}, 0);
    const char *line = strstr(r.said.data, "median of differences"), *part = line ? strchr(line, '%') : NULL;
    double least, most;
    part = part ? strstr(part, "of the step (") : NULL;
    CHECK_MSG(part && sscanf(part, "of the step (%lf to %lf)", &least, &most) == 2, "%s", r.said.data);
    bool told = strstr(r.said.data, "too noisy to tell") != NULL;
    CHECK_MSG(told == (most - least > 10) || fabs(most - least - 10) < 0.01, "%s", r.said.data);
    spawn_forget(&r);
    r = report((const char *const[]){"prof", "cost", "--help", NULL}, 0);
    CHECK_HAS(r.said.data, "the median\nof the differences of pairs");
    spawn_forget(&r);
}
