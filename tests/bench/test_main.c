/* SPDX-License-Identifier: Apache-2.0 */
/* What holds for every subcommand: what it prints is not lost, and what was closed stays closed. */
#include <stdlib.h>
#include <unistd.h>

#include "harness/test.h"
#include "spawn.h"

TEST(output_that_cannot_be_written_is_an_error_of_every_subcommand)
{
    static const char *const lines[][4] = {
        {"--help"},         {"--version"},          {"gpt", "--help"}, {"run", "--help"}, {"topo", "--help"},
        {"perf", "--help"}, {"schedule", "--help"}, {"topo"},          {"info"},
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        spawned r = spawn_weft(&(const spawn_setup){.out = "/dev/full"}, lines[i]);
        CHECK_INT(spawn_finish(&r), 1);
        CHECK_MSG(strstr(r.complained.data, "built without a CBLAS") ||
                      strstr(r.complained.data, "weft: cannot write standard output: No space left on device\n"),
                  "weft %s: %s", lines[i][0], r.complained.data);
        spawn_forget(&r);
    }
}

TEST(help_tells_what_a_file_that_is_left_out_is)
{
    spawned r = spawn_weft(NULL, (const char *const[]){"perf", "pipeline", "--help", NULL});
    CHECK_INT(spawn_finish(&r), 0);
    CHECK_HAS(r.said.data, "--json [FILE]");
    CHECK_HAS(r.said.data, "[FILE]: left out, it is -, standard output, which then has nothing else.");
    spawn_forget(&r);
}

/* The exit code of a line of a shell, in which "$0" is the command. */
static int shell(const char *line)
{
    char all[1024];
    snprintf(all, sizeof all, "sh -c '%s' '%s'", line, spawn_command());
    return spawn_code(system(all));
}

TEST(results_that_nobody_can_take_are_an_error_and_messages_that_nobody_wants_are_none)
{
    CHECK_INT(shell("\"$0\" --version >&- 2>/dev/null"), 1);
    CHECK_INT(shell("\"$0\" run -n 2 -- sh -c \"echo result\" >&- 2>/dev/null"), 1);
    CHECK_INT(shell("\"$0\" run -n 2 -- sh -c \"echo message >&2\" 2>&-"), 0);
    CHECK_INT(shell("\"$0\" run -n 2 -- sh -c \"read line\" <&- 2>/dev/null"), 1); /* of read: the end of input */
}

TEST(costs_are_reported_to_people_and_to_a_file_or_standard_output)
{
    static const char once[] = "\"$0\" perf api --rounds 1 --repeats 10";
    char folder[] = "/tmp/weft-test-main-XXXXXX", line[512];
    CHECK(mkdtemp(folder));
    snprintf(line, sizeof line, "%s --json %s/json >%s/text && test $(grep -c ^{ %s/json) = 14 && ! grep { %s/text",
             once, folder, folder, folder, folder);
    CHECK_INT(shell(line), 0);
    snprintf(line, sizeof line, "%s --json - >%s/json 2>%s/text && test $(grep -c ^{ %s/json) = 14", once, folder,
             folder, folder);
    CHECK_INT(shell(line), 0);
    snprintf(line, sizeof line, "cd %s; ! grep -v ^{ json && test $(grep -c -e [0-9]$ -e n/a$ text) = 14", folder);
    CHECK_INT(shell(line), 0);
    snprintf(line, sizeof line, "rm -r %s", folder);
    CHECK_INT(system(line), 0);
    snprintf(line, sizeof line, "%s --json /no/such/folder/file 2>/dev/null", once);
    CHECK_INT(shell(line), 1);
    snprintf(line, sizeof line, "%s --json /dev/full >/dev/null 2>&1", once);
    CHECK_INT(shell(line), 1);
}

TEST(a_file_does_not_become_standard_output_that_was_closed)
{
    char folder[] = "/tmp/weft-test-main-XXXXXX", line[512];
    CHECK(mkdtemp(folder));
    snprintf(line, sizeof line,
             "\"$0\" gpt --mock-data --train-iters 1 --json %s/json >&- 2>&-; test $? = 1 && ! grep -v ^{ %s/json",
             folder, folder);
    int code = shell(line);
    snprintf(line, sizeof line, "rm -r %s", folder);
    CHECK_INT(system(line), 0);
    CHECK_INT(code, 0);
}
