/* SPDX-License-Identifier: Apache-2.0 */
/* `weft schedule` as its user runs it. */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/test.h"

static char said[1 << 16], complained[4096], file[64], errors[80];

/* Runs `weft schedule @p arguments`; %s stands for a file with @p input. Its exit code. */
static int run(const char *input, const char *arguments)
{
    const char *command = getenv("WEFT_TEST_COMMAND");
    char line[4096], filled[1024];
    CHECK_MSG(command, "WEFT_TEST_COMMAND does not say where the weft command is");
    snprintf(file, sizeof file, "/tmp/weft-test-schedule-%d", (int)getpid());
    snprintf(errors, sizeof errors, "%s.err", file);
    FILE *f = fopen(file, "w");
    CHECK(f && fputs(input, f) >= 0 && fclose(f) == 0);
    const char *hole = strstr(arguments, "FILE");
    snprintf(filled, sizeof filled, "%.*s%s%s", hole ? (int)(hole - arguments) : 1000, arguments, hole ? file : "",
             hole ? hole + 4 : "");
    snprintf(line, sizeof line, "'%s' schedule %s 2>%s", command, filled, errors);
    FILE *out = popen(line, "r");
    CHECK(out);
    said[fread(said, 1, sizeof said - 1, out)] = 0;
    int status = pclose(out);
    f = fopen(errors, "r");
    CHECK(f);
    complained[fread(complained, 1, sizeof complained - 1, f)] = 0;
    fclose(f);
    unlink(file);
    unlink(errors);
    CHECK(WIFEXITED(status));
    return WEXITSTATUS(status);
}

TEST(a_policy_is_shown_as_a_table)
{
    CHECK_INT(run("", "--policy 1f1b -p 2 -m 3"), 0);
    CHECK_STR(complained, "");
    CHECK_HAS(said, "slot     0  1  2  3  4  5  6  7  8  9 10 11\n"
                    "stage 0 F0 F1  .  . B0  - F2 B1  -  . B2  -\n"
                    "stage 1  . F0 B0  - F1 B1  - F2 B2  -  .  .\n"
                    "12 slots, bubble 25.00 % (6 of 24 slots idle) = (p-1)/(v*m+p-1) = 1/4\n");
    CHECK_HAS(said, "\nstage 0             2 |      0      2      2      0 |        6             1\n"
                    "stage 1             1 |      2      0      0      2 |        6             1\n");
}

TEST(chunks_are_shown_where_there_are_several)
{
    CHECK_INT(run("", "--policy interleaved -p 2 -m 2 -v 2"), 0);
    CHECK_HAS(said, "\nstage 0 F0.0 F1.0 F0.1 F1.1    .    . B0.1    -    . B1.1    - B0.0    - B1.0    -\n"
                    "stage 1    . F0.0 F1.0 F0.1 B0.1    - F1.1 B1.1    - B0.0    - B1.0    -    .    .\n"
                    "15 slots, bubble 20.00 % (6 of 30 slots idle) = (p-1)/(v*m+p-1) = 1/5\n");
}

TEST(a_bubble_larger_than_the_closed_form_is_said)
{
    CHECK_INT(run("", "--policy interleaved -p 4 -m 2 -v 2"), 0);
    CHECK_HAS(said, "bubble 55.56 % (60 of 108 slots idle); the least for these sizes is (p-1)/(v*m+p-1) = 3/7\n");
}

/* With W a stage may idle less than the closed form has it. */
TEST(of_a_split_schedule_only_what_was_counted_is_said)
{
    CHECK_INT(run("stage 0: F0.0 F1.0 B0.0 W0.0 B1.0 W1.0\nstage 1: F0.0 B0.0 F1.0 B1.0 W0.0 W1.0\n", "--verify FILE"),
              0);
    CHECK_HAS(said, "stage 0 F0 F1  . B0 W0 B1 W1\n"
                    "stage 1  . F0 B0 F1 B1 W0 W1\n"
                    "7 slots, bubble 14.29 % (2 of 14 slots idle)\n");
}

TEST(computations_take_the_slots_they_are_given)
{
    CHECK_INT(run("", "--policy 1f1b -p 2 -m 1 --slots-f 2 --slots-b 3 --slots-w 1"), 0);
    CHECK_HAS(said, "stage 0 F0  -  .  .  .  .  .  . B0  -  -  -\n"
                    "stage 1  .  . F0  - B0  -  -  -  .  .  .  .\n"
                    "12 slots, bubble 50.00 % (12 of 24 slots idle) = (p-1)/(v*m+p-1) = 1/2\n");
}

TEST(messages_take_the_slots_they_are_given_and_stages_can_run_ahead)
{
    CHECK_INT(run("", "--policy 1f1b -p 2 -m 3 --slots-message 1"), 0);
    CHECK_HAS(said, "stage 0 F0 F1  .  .  .  . B0  - F2 B1  -  .  .  . B2  -\n"
                    "stage 1  .  . F0 B0  - F1 B1  -  .  . F2 B2  -  .  .  .\n"
                    "16 slots, ");
    CHECK_INT(run("", "--policy 1f1b -p 2 -m 3 --slots-message 1 --run-ahead"), 0);
    CHECK_HAS(said, "stage 0 F0 F1 F2  .  .  . B0  -  . B1  -  . B2  -\n"
                    "stage 1  .  . F0 B0  - F1 B1  - F2 B2  -  .  .  .\n"
                    "14 slots, ");
    CHECK_HAS(said, "\nstage 0             3 |");
    CHECK_INT(run("", "--policy gpipe -p 2 -m 3 --run-ahead"), 2);
    CHECK_STR(complained, "weft: policy gpipe cannot be told to run ahead\n");
}

TEST(what_csv_prints_can_be_verified)
{
    static char csv[sizeof said];
    CHECK_INT(run("", "--policy gpipe -p 3 -m 4 --queues one --csv"), 0);
    CHECK_HAS(said, "stage,action,microbatch,chunk,peer,batch,buffer\n0,F,0,0,,,\n0,SEND_F,0,0,1,0,0\n");
    snprintf(csv, sizeof csv, "%s", said);
    CHECK_INT(run(csv, "--verify FILE --queues one"), 0);
    CHECK_STR(complained, "");
    CHECK_HAS(said, "stages p = 3, microbatches m = 4, chunks a stage v = 1");
    CHECK_HAS(said, "nothing deadlocks with queues: direction peer channel one\n");
    CHECK_INT(run(csv, "--verify - --csv <FILE"), 0);
    CHECK_STR(said, csv);
}

TEST(computations_alone_get_their_messages)
{
    CHECK_INT(run("stage 0: F0.0 B0.0\nstage 1: F0.0 B0.0\n", "--verify FILE --text --queues one"), 0);
    CHECK_STR(said, "# 2 stages, 1 chunks a stage, 1 microbatches\n"
                    "stage 0: F0.0 SEND_F0.0>1#0 RECV_B0.0<1#0 SYNC.0 B0.0\n"
                    "stage 1: RECV_F0.0<0#0 F0.0 SYNC.0 B0.0 SEND_B0.0>0#0\n");
}

TEST(a_schedule_that_deadlocks_is_refused_in_one_line)
{
    CHECK_INT(run("stage,action,microbatch,chunk\n0,F,0,0\n0,SEND_F,0,0\n0,F,1,0\n0,SEND_F,1,0\n0,RECV_F,0,1\n"
                  "1,RECV_F,0,0\n1,F,0,0\n1,SEND_F,0,0\n1,RECV_F,1,0\n",
                  "--verify FILE"),
              1);
    CHECK_STR(said, "");
    CHECK_STR(complained,
              "weft: deadlock: stage 0 action 3 (SEND_F 1.0 to stage 1) waits for stage 1 action 3 (RECV_F "
              "1.0 from stage 0), which comes after stage 1 action 2 (SEND_F 0.0 to stage 0), and that waits "
              "too\n");
}

TEST(wrong_input_gets_one_clear_line_and_its_code)
{
    static const struct {
        const char *input, *arguments, *says;
        int code;
    } wrong[] = {
        {"", "", "--policy gpipe|1f1b|interleaved or --verify FILE is missing", 2},
        {"", "--policy zigzag", "--policy is 'zigzag', not one of gpipe|1f1b|interleaved", 2},
        {"", "--policy 1f1b -m 4", "-p, the number of stages, is missing", 2},
        {"", "--policy 1f1b -p 4", "-m, the number of microbatches, is missing", 2},
        {"", "--policy 1f1b -p 0 -m 4", "-p is '0', not a number from 1 to 65536", 2},
        {"", "--policy 1f1b -p x -m 4", "-p is 'x'", 2},
        {"", "--policy 1f1b -p 4 -m 4 extra", "'extra' is no option", 2},
        {"", "--policy 1f1b -p 4 -m 4 --png x", "unknown option '--png'", 2},
        {"", "--policy 1f1b -p 4 -m 4 -v 2", "policy 1f1b has one chunk a stage, not 2", 2},
        {"", "--policy 1f1b -p 4 -m 4 -g 4", "-g is for --policy interleaved", 2},
        {"", "--policy interleaved -p 4 -m 8 -v 2 -g 3", "group of 3 microbatches is smaller than the 4 stages", 2},
        {"", "--policy interleaved -p 4 -m 5 -v 2", "leave a last group of 1, fewer than the 4 stages", 2},
        {"", "--policy 1f1b -p 65536 -m 16777216", "more than 4194304 forwards", 2},
        {"", "--policy 1f1b -p 2 -m 2 --csv --text", "--csv, --text or --svg: one of them", 2},
        {"", "--policy 1f1b -p 2 -m 2 --csv --svg", "--csv, --text or --svg: one of them", 2},
        {"", "--policy 1f1b -p 2 -m 2 --svg /nowhere/at/all", "cannot write '/nowhere/at/all': No such file", 1},
        {"", "--policy 1f1b -p 2 -m 2 --svg /dev/full", "cannot write '/dev/full': No space left on device", 1},
        {"", "--policy 1f1b -p 2 -m 2 --svg - >/dev/full", "cannot write 'standard output': No space left", 1},
        {"", "--verify FILE -m 3", "--verify takes its schedule from the file, so -m says nothing", 2},
        {"", "--verify FILE --policy gpipe", "so --policy says nothing", 2},
        {"", "--verify FILE", "the schedule has no actions", 2},
        {"", "--verify FILE --svg /tmp/weft-test-schedule-$PPID", "would overwrite what is read: name another file", 2},
        {"", "--verify FILE --csv /tmp/weft-test-schedule-$PPID", "would overwrite what is read: name another file", 2},
        {"", "--verify /nowhere/at/all", "/nowhere/at/all: No such file or directory", 2},
        {"", "--verify /tmp", "/tmp: Is a directory", 2},
        {"stage 0: F0.0 X0.0\n", "--verify FILE", "line 1: no action", 2},
        {"stage 0: F0.0 B1.0\n", "--verify FILE", "stage 0 action 1 (B 1.0) needs F 1.0 of stage 0", 1},
        {"", "--policy 1f1b -p 2 -m 2 >/dev/full", "standard output: No space left on device", 1},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        int code = run(wrong[i].input, wrong[i].arguments);
        CHECK_MSG(code == wrong[i].code, "schedule %s: code %d, not %d (%s)", wrong[i].arguments, code, wrong[i].code,
                  complained);
        CHECK_HAS(complained, wrong[i].says);
        CHECK_MSG(strncmp(complained, "weft: ", 6) == 0 && strchr(complained, '\n') == strrchr(complained, '\n'),
                  "schedule %s says '%s'", wrong[i].arguments, complained);
        CHECK_STR(said, "");
    }
}

TEST(help_names_every_option)
{
    static const char *const options[] = {"--policy gpipe|1f1b|interleaved",
                                          "-p STAGES",
                                          "-m N",
                                          "-v CHUNKS",
                                          "-g N",
                                          "--csv [FILE]",
                                          "--text [FILE]",
                                          "--verify FILE",
                                          "--svg [FILE]",
                                          "--queues",
                                          "--batching"};
    CHECK_INT(run("", "--help"), 0);
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        CHECK_HAS(said, options[i]);
}
