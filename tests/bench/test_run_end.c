/* SPDX-License-Identifier: Apache-2.0 */
/* How runs of `weft run` start and end: codes, failures, deadlines, signals; after each nothing is left running. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/test.h"
#include "spawn.h"

#define START(how, ...) spawn_weft(how, (const char *const[]){"run", __VA_ARGS__, NULL})

/* ---- what cannot start ---- */

TEST(a_program_that_is_not_there_is_named)
{
    spawned r = START(NULL, "-n", "2", "--", "weft-no-such-program", "-x");
    CHECK_INT(spawn_finish(&r), 127);
    CHECK_STR(r.complained.data, "weft: cannot run 'weft-no-such-program': No such file or directory\n");
    spawned file = START(NULL, "-n", "2", "/etc/passwd");
    CHECK_INT(spawn_finish(&file), 126);
    CHECK_STR(file.complained.data, "weft: cannot run '/etc/passwd': Permission denied\n");
    spawn_forget(&r);
    spawn_forget(&file);
}

TEST(wrong_use_is_named)
{
    static const struct {
        const char *arguments[7], *says;
    } cases[] = {
        {{"run", "-n", "0", "true"}, "-n is '0'"},
        {{"run", "-n", "two", "true"}, "-n is 'two'"},
        {{"run", "-n", "4097", "true"}, "-n is '4097'"},
        {{"run", "-n", "2"}, "no program"},
        {{"run", "-n", "2", "--"}, "no program"},
        {{"run", "true"}, "-n is missing"},
        {{"run", "-n"}, "-n wants a value"},
        {{"run", "-n", "2", "--bend", "core", "true"}, "'--bend'"},
        {{"run", "-n", "2", "--bind", "socket", "true"}, "--bind is 'socket'"},
        {{"run", "-n", "2", "--timeout", "-1", "true"}, "--timeout is '-1'"},
        {{"run", "-n", "2", "--last-words", "bye", "true"}, "--last-words is 'bye'"},
        {{"run", "-n", "2", "--grace", "soon", "true"}, "--grace is 'soon'"},
        {{"run", "-n", "2", "--prefix", "host", "true"}, "--prefix is 'host'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        spawned r = spawn_weft(NULL, cases[i].arguments);
        CHECK_INT(spawn_finish(&r), 2);
        CHECK_HAS(r.complained.data, cases[i].says);
        CHECK_INT(spawn_count(r.complained.data, "\n"), 1);
        CHECK_STR(r.said.data, "");
        spawn_forget(&r);
    }
}

TEST(the_help_tells_the_codes)
{
    spawned r = START(NULL, "--help");
    CHECK_INT(spawn_finish(&r), 0);
    CHECK_HAS(r.said.data, "usage: weft run -n N");
    CHECK_HAS(r.said.data, "127 if PROGRAM is not found");
    spawn_forget(&r);
}

TEST(many_ranks_need_no_higher_limit_of_files)
{
    spawned r = START(&(const spawn_setup){.files = 80}, "-n", "40", "--", "sh", "-c", "ulimit -n");
    CHECK_INT(spawn_finish(&r), 0);
    CHECK_INT(spawn_count(r.said.data, "] 80\n"), 40);
    spawn_forget(&r);
}

TEST(when_not_all_ranks_can_start_those_that_did_end)
{
    const spawn_setup few = {.files = 40, .most_files = 40};
    spawned r = START(&few, "-n", "40", "sleep", "1000");
    CHECK_INT(spawn_finish(&r), 1);
    CHECK_HAS(r.complained.data, "weft: cannot ");
    CHECK_HAS(r.complained.data, ": Too many open files\nweft: ending ");
    spawn_forget(&r);
}

/* ---- ends and codes ---- */

TEST(the_code_is_that_of_the_rank_that_failed)
{
    spawned r = START(NULL, "-n", "3", "--last-words", "0.1", "--", "sh", "-c",
                      "[ $WEFT_RANK = 1 ] && exit 42; exec sleep 1000");
    CHECK_INT(spawn_finish(&r), 42);
    CHECK_STR(r.complained.data, "weft: rank 1 ended with code 42\nweft: ending 2 ranks\n");
    spawn_forget(&r);
}

TEST(a_rank_killed_by_a_signal_gives_128_and_its_number)
{
    spawned r = START(NULL, "-n", "2", "--last-words", "0.1", "--", "sh", "-c",
                      "[ $WEFT_RANK = 1 ] && kill -ABRT $$; exec sleep 1000");
    CHECK_INT(spawn_finish(&r), 128 + SIGABRT);
    CHECK_HAS(r.complained.data, "weft: rank 1 was killed by signal 6 (Aborted)\n");
    spawn_forget(&r);
}

TEST(the_others_have_time_for_last_words)
{
    spawned r = START(NULL, "-n", "2", "--", "sh", "-c",
                      "[ $WEFT_RANK = 1 ] && exit 7; sleep 0.3; echo rank 1 is lost; exit 9");
    CHECK_INT(spawn_finish(&r), 7);
    CHECK_STR(r.said.data, "[0] rank 1 is lost\n");
    CHECK_STR(r.complained.data, "weft: rank 1 ended with code 7\n");
    spawn_forget(&r);
}

TEST(a_rank_that_will_not_end_is_killed_after_the_grace)
{
    spawned r = START(NULL, "-n", "2", "--grace", "0.2", "--last-words", "0.1", "--", "sh", "-c",
                      "[ $WEFT_RANK = 1 ] && exit 7; trap '' TERM; sleep 1000; sleep 1000");
    CHECK_INT(spawn_finish(&r), 7);
    CHECK_HAS(r.complained.data, "weft: rank 0 still runs 0.2 s after SIGTERM: killing it\n");
    spawn_forget(&r);
}

TEST(a_stopped_rank_ends_too)
{
    spawned r =
        START(NULL, "-n", "2", "--last-words", "0.1", "--", "sh", "-c", "[ $WEFT_RANK = 1 ] && exit 7; kill -STOP $$");
    CHECK_INT(spawn_finish(&r), 7);
    CHECK_MSG(!strstr(r.complained.data, "killing"), "%s", r.complained.data);
    spawn_forget(&r);
}

TEST(what_a_rank_leaves_behind_ends_with_it)
{
    spawned r = START(NULL, "-n", "2", "--", "sh", "-c", "sleep 1000 & echo $!");
    CHECK_INT(spawn_finish(&r), 0);
    CHECK_STR(r.complained.data, "");
    spawn_forget(&r);
}

TEST(a_daemon_that_keeps_the_output_open_does_not_hold_the_run)
{
    spawned r = START(NULL, "-n", "1", "--prefix", "none", "--", "sh", "-c",
                      "setsid sh -c 'echo $$; exec sleep 1000' & read x; echo done");
    spawn_read_until(&r, "\n"); /* it has its session: it is a daemon now */
    spawn_tell(&r, "\n");
    spawn_read_until(&r, "done\n");
    int status;
    CHECK_INT(waitpid(r.pid, &status, 0), r.pid);
    CHECK_INT(spawn_code(status), 0);
    pid_t daemon = atoi(r.said.data);
    CHECK(daemon > 1 && kill(daemon, SIGKILL) == 0);
    CHECK_INT(waitpid(daemon, &status, 0), daemon);
    spawn_check_nothing_runs();
    spawn_forget(&r);
}

TEST(the_time_limit_ends_all_with_code_4)
{
    spawned r = START(NULL, "-n", "3", "--timeout", "0.3", "--", "sh", "-c", "echo hello; exec sleep 1000");
    CHECK_INT(spawn_finish(&r), 4);
    CHECK_INT(spawn_count(r.said.data, "hello\n"), 3);
    CHECK_STR(r.complained.data, "weft: the time limit of 0.3 s has passed\nweft: ending 3 ranks\n");
    spawn_forget(&r);
}

TEST(the_time_limit_holds_while_nobody_reads)
{
    int status;
    spawned r = START(NULL, "-n", "2", "--timeout", "0.3", "--grace", "0.1", "yes");
    CHECK_INT(waitpid(r.pid, &status, 0), r.pid);
    CHECK_INT(spawn_code(status), 4);
    spawn_check_nothing_runs();
}

TEST(a_run_within_its_time_limit_is_done)
{
    spawned r = START(NULL, "-n", "2", "--timeout", "50", "true");
    CHECK_INT(spawn_finish(&r), 0);
    spawn_forget(&r);
}

/* ---- signals ---- */

#define WAIT_FOR_SIGNAL(trap) "trap '" trap "' USR1 TERM; echo ready; while :; do sleep 0.02; done"

static void read_ready(spawned *r, int ranks)
{
    for (int rank = 0; rank < ranks; rank++) {
        char line[32];
        snprintf(line, sizeof line, "[%d] ready\n", rank);
        spawn_read_until(r, line);
    }
}

TEST(signals_reach_every_rank)
{
    static const int numbers[] = {SIGUSR1, SIGTERM};
    for (int i = 0; i < 2; i++) {
        spawned r = START(NULL, "-n", "3", "--", "sh", "-c", WAIT_FOR_SIGNAL("echo heard; exit 0"));
        read_ready(&r, 3);
        kill(r.pid, numbers[i]);
        CHECK_INT(spawn_finish(&r), 0);
        CHECK_INT(spawn_count(r.said.data, "heard\n"), 3);
        spawn_forget(&r);
    }
}

TEST(an_interrupt_ends_ranks_that_do_not_care)
{
    spawned r = START(NULL, "-n", "2", "--last-words", "0.1", "--", "sh", "-c", "echo ready; exec sleep 1000");
    read_ready(&r, 2);
    kill(r.pid, SIGINT);
    CHECK_INT(spawn_finish(&r), 128 + SIGINT);
    spawn_forget(&r);
}

TEST(a_signal_that_was_ignored_is_not_passed_on)
{
    spawned r = START(&(const spawn_setup){.ignored = SIGHUP}, "-n", "1", "--", "env", "--default-signal=HUP", "sh",
                      "-c", WAIT_FOR_SIGNAL("echo heard; exit 0"));
    read_ready(&r, 1);
    kill(r.pid, SIGHUP);
    kill(r.pid, SIGUSR1); /* comes behind it */
    CHECK_INT(spawn_finish(&r), 0);
    CHECK_HAS(r.said.data, "[0] heard\n");
    spawn_forget(&r);
}

TEST(control_c_on_the_terminal_reaches_the_ranks)
{
    spawned r =
        START(&(const spawn_setup){.terminal = true}, "-n", "2", "--", "sh", "-c", "echo ready; exec sleep 1000");
    read_ready(&r, 2);
    spawn_tell(&r, "\003");
    CHECK_INT(spawn_finish(&r), 128 + SIGINT);
    spawn_forget(&r);
}

static char state_of(int pid)
{
    char path[32], line[256] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "r");
    CHECK(file && fgets(line, sizeof line, file));
    fclose(file);
    return strrchr(line, ')')[2];
}

TEST(control_z_stops_the_ranks_and_the_launcher_until_it_goes_on)
{
    int status;
    spawned r = START(&(const spawn_setup){.terminal = true}, "-n", "1", "--prefix", "none", "--", "sh", "-c",
                      "echo $$; read x; echo went $x");
    spawn_read_until(&r, "\n");
    int rank = atoi(r.said.data);
    spawn_tell(&r, "\032");
    CHECK_INT(waitpid(r.pid, &status, WUNTRACED), r.pid);
    CHECK(WIFSTOPPED(status));
    while (state_of(rank) != 'T')
        usleep(1000);
    kill(r.pid, SIGCONT);
    while (state_of(rank) == 'T')
        usleep(1000);
    spawn_tell(&r, "on\n");
    CHECK_INT(spawn_finish(&r), 0);
    CHECK_HAS(r.said.data, "went on\n");
    spawn_forget(&r);
}

/* Launcher, keeper, ranks and what they started are all adopted by this process in the end: its limit is the check. */
static void wait_for_all_adopted(void)
{
    while (waitpid(-1, NULL, 0) > 0)
        ;
    CHECK_INT(errno, ECHILD);
}

TEST(when_the_launcher_is_killed_nothing_stays)
{
    spawned r = START(NULL, "-n", "3", "--", "sh", "-c",
                      "trap '' TERM HUP INT; sleep 1000 & echo ready; sleep 1000; sleep 1000");
    read_ready(&r, 3);
    kill(r.pid, SIGKILL);
    wait_for_all_adopted();
    spawn_forget(&r);
}

static pid_t first_child_of(pid_t parent)
{
    char path[64];
    int child = 0;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)parent, (int)parent);
    FILE *file = fopen(path, "r");
    if (!file)
        test_skip("%s cannot be read", path);
    CHECK(fscanf(file, "%d", &child) == 1);
    fclose(file);
    return child;
}

TEST(ranks_end_with_the_launcher_even_when_its_keeper_was_killed)
{
    spawned r = START(NULL, "-n", "2", "--", "sh", "-c", "echo ready; exec sleep 1000");
    read_ready(&r, 2);
    kill(first_child_of(r.pid), SIGKILL);
    kill(r.pid, SIGKILL);
    wait_for_all_adopted();
    spawn_forget(&r);
}
