/* SPDX-License-Identifier: Apache-2.0 */
/* What the ranks of `weft run` are given, and what becomes of their output. */
#include <ctype.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cores.h"
#include "harness/test.h"
#include "spawn.h"

#define START(how, ...) spawn_weft(how, (const char *const[]){"run", __VA_ARGS__, NULL})

static char *in_temporary(const char *name)
{
    static char folder[] = "/tmp/weft-test-run-XXXXXX", paths[4][64];
    static int used;
    if (!used)
        CHECK(mkdtemp(folder));
    char *path = paths[used++ % 4];
    snprintf(path, sizeof paths[0], "%s%s%s", folder, *name ? "/" : "", name);
    return path;
}

static void remove_temporary(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", in_temporary(""));
    CHECK_INT(system(command), 0);
}

/* ---- environment and input ---- */

TEST(every_rank_knows_itself_and_the_place_to_meet)
{
    setenv("WEFT_THREADS", "7", 1);
    spawned r = START(NULL, "-n", "3", "--", "sh", "-c",
                      "echo $WEFT_RANK of $WEFT_SIZE local $WEFT_LOCAL_RANK threads ${WEFT_THREADS-none}; "
                      "echo $WEFT_RENDEZVOUS");
    CHECK_INT(spawn_finish(&r), 0);
    CHECK_STR(r.complained.data, "");
    CHECK_INT(spawn_count(r.said.data, "\n"), 6);
    CHECK_HAS(r.said.data, "[0] 0 of 3 local 0 threads none\n");
    CHECK_HAS(r.said.data, "[1] 1 of 3 local 1 threads none\n");
    CHECK_HAS(r.said.data, "[2] 2 of 3 local 2 threads none\n");
    char name[64];
    snprintf(name, sizeof name, "unix://@weft-%u-", (unsigned)geteuid());
    const char *secret = strstr(r.said.data, name);
    CHECK(secret);
    secret += strlen(name);
    char line[128];
    snprintf(line, sizeof line, "%s%.32s\n", name, secret);
    CHECK_INT(spawn_count(r.said.data, line), 3);
    for (int i = 0; i < 32; i++)
        CHECK(isxdigit((unsigned char)secret[i]));
    spawned again = START(NULL, "-n", "1", "printenv", "WEFT_RENDEZVOUS");
    CHECK_INT(spawn_finish(&again), 0);
    CHECK_MSG(!strstr(again.said.data, line), "two runs meet at one place");
    spawn_forget(&r);
    spawn_forget(&again);
}

TEST(with_threads_one_process_is_told_how_many)
{
    setenv("WEFT_RANK", "5", 1);
    setenv("WEFT_SIZE", "9", 1);
    spawned r = START(NULL, "-n", "4", "--threads", "--", "sh", "-c",
                      "echo $WEFT_THREADS${WEFT_RANK-}${WEFT_SIZE-}${WEFT_LOCAL_RANK-}${WEFT_RENDEZVOUS-}; exit 3");
    CHECK_INT(spawn_finish(&r), 3);
    CHECK_STR(r.said.data, "4\n");
    CHECK_STR(r.complained.data, "weft: the program ended with code 3\n");
    spawn_forget(&r);
}

TEST(input_goes_to_rank_0_alone)
{
    spawned r = START(NULL, "-n", "3", "--", "sh", "-c", "n=$(wc -c); echo $n bytes");
    spawn_tell(&r, "hello\n");
    close(r.in);
    CHECK_INT(spawn_finish(&r), 0);
    CHECK_HAS(r.said.data, "[0] 6 bytes\n");
    CHECK_HAS(r.said.data, "[1] 0 bytes\n");
    CHECK_HAS(r.said.data, "[2] 0 bytes\n");
    spawn_forget(&r);
}

TEST(a_run_takes_no_more_input_than_its_rank_does)
{
    char *path = in_temporary("lines");
    FILE *file = fopen(path, "w");
    CHECK(file && fputs("one\ntwo\n", file) >= 0 && fclose(file) == 0);
    char command[512];
    snprintf(command, sizeof command, "{ '%s' run -n 2 -- true; cat; } < %s", spawn_command(), path);
    FILE *pipe = popen(command, "r");
    char all[64] = "";
    size_t n = fread(all, 1, sizeof all - 1, pipe);
    CHECK_INT(pclose(pipe), 0);
    remove_temporary();
    CHECK_INT(n, 8);
    CHECK_STR(all, "one\ntwo\n");
}

TEST(what_is_typed_on_a_terminal_reaches_rank_0)
{
    spawned r = START(&(const spawn_setup){.terminal = true}, "-n", "2", "--", "sh", "-c",
                      "read line && echo got $line; cat; echo at end");
    spawn_read_until(&r, "[1] at end\n");
    spawn_tell(&r, "hello\n");
    spawn_read_until(&r, "[0] got hello\n");
    spawn_tell(&r, "more\n");
    spawn_read_until(&r, "[0] more\n");
    spawn_tell(&r, "\004"); /* control-D */
    CHECK_INT(spawn_finish(&r), 0);
    CHECK_HAS(r.said.data, "[0] at end\n");
    spawn_forget(&r);
}

/* ---- output ---- */

TEST(output_and_errors_stay_apart)
{
    spawned r = START(NULL, "-n", "2", "--", "sh", "-c", "echo out; echo err >&2");
    CHECK_INT(spawn_finish(&r), 0);
    CHECK_INT(spawn_count(r.said.data, "out\n"), 2);
    CHECK_INT(spawn_count(r.complained.data, "err\n"), 2);
    CHECK_INT(r.said.used, 2 * strlen("[0] out\n"));
    CHECK_INT(r.complained.used, 2 * strlen("[0] err\n"));
    CHECK_HAS(r.complained.data, "[1] err\n");
    spawn_forget(&r);
}

/* Every line is "[r] " and 5000 times the digit r (standard output) or the letter a + r (standard error). */
static void check_long_lines(const char *all, int ranks, int lines)
{
    int seen[2][10] = {{0}};
    for (const char *line = all; *line;) {
        const char *end = strchr(line, '\n');
        CHECK_INT(end - line, 5004);
        CHECK(line[0] == '[' && line[2] == ']' && line[3] == ' ');
        int rank = line[1] - '0', is_error = line[4] == 'a' + rank;
        CHECK(rank >= 0 && rank < ranks && (is_error || line[4] == '0' + rank));
        for (int i = 4; i < 5004; i++)
            CHECK_MSG(line[i] == line[4], "a line of rank %d has '%c' inside", rank, line[i]);
        seen[is_error][rank]++;
        line = end + 1;
    }
    for (int rank = 0; rank < ranks; rank++) {
        CHECK_INT(seen[0][rank], lines);
        CHECK_INT(seen[1][rank], lines);
    }
}

/* Half of each line is written alone. */
#define LONG_LINES                                                             \
    "half() { head -c 2500 /dev/zero | tr '\\0' $1; }; o=$(half $WEFT_RANK); " \
    "e=$(half $(echo $WEFT_RANK | tr 0-9 a-j)); i=0; while [ $i -lt 50 ]; do " \
    "printf %s $o; printf %s $e >&2; echo $o; echo $e >&2; i=$((i+1)); done"

TEST(long_lines_of_many_ranks_stay_whole)
{
    spawned r = START(&(const spawn_setup){.one_pipe = true}, "-n", "8", "--", "sh", "-c", LONG_LINES);
    CHECK_INT(spawn_finish(&r), 0);
    check_long_lines(r.said.data, 8, 50);
    spawn_forget(&r);
}

/* More of them than the queue of the launcher holds. */
TEST(lines_of_200_kb_stay_whole)
{
    spawned r = START(NULL, "-n", "8", "--", "sh", "-c",
                      "l=$(head -c 200000 /dev/zero | tr '\\0' $WEFT_RANK); "
                      "for i in 1 2 3 4 5 6 7 8 9 10; do echo $l; done");
    CHECK_INT(spawn_finish(&r), 0);
    CHECK_INT(r.said.used, 80 * 200005);
    for (size_t line = 0; line < 80; line++) {
        const char *at = r.said.data + line * 200005;
        CHECK(at[0] == '[' && at[1] == at[4] && at[2] == ']' && at[3] == ' ' && at[200004] == '\n');
        CHECK(memcmp(at + 4, at + 5, 199999) == 0);
    }
    spawn_forget(&r);
}

TEST(a_last_line_without_newline_is_not_lost)
{
    spawned r = START(NULL, "-n", "3", "--", "sh", "-c", "echo first; printf last");
    CHECK_INT(spawn_finish(&r), 0);
    for (int rank = 0; rank < 3; rank++) {
        char line[16];
        snprintf(line, sizeof line, "[%d] last\n", rank);
        CHECK_HAS(r.said.data, line);
    }
    CHECK_INT(r.said.used, 3 * strlen("[0] first\n[0] last\n"));
    spawn_forget(&r);
}

/* All values of a byte, in lines of every length to 255, without newline at the end. */
static size_t fill_with_bytes(unsigned char *bytes)
{
    size_t n = 0;
    for (int length = 0; length < 256; length++) {
        for (int i = 0; i < length; i++)
            bytes[n++] = (unsigned char)((length + i) % 256 == '\n' ? 0 : (length + i) % 256);
        bytes[n++] = '\n';
    }
    memcpy(bytes + n, "the end", 7);
    return n + 7;
}

TEST(any_bytes_pass)
{
    static unsigned char bytes[40000], got[40000];
    size_t n = fill_with_bytes(bytes), kept = 0;
    char *path = in_temporary("bytes");
    FILE *file = fopen(path, "w");
    CHECK(file && fwrite(bytes, 1, n, file) == n && fclose(file) == 0);

    spawned plain = START(NULL, "-n", "1", "--prefix", "none", "cat", path);
    CHECK_INT(spawn_finish(&plain), 0);
    CHECK_INT(plain.said.used, n);
    CHECK(memcmp(plain.said.data, bytes, n) == 0);

    spawned marked = START(NULL, "-n", "1", "cat", path);
    CHECK_INT(spawn_finish(&marked), 0);
    bool at_start = true;
    for (size_t i = 0; i < marked.said.used; i++) {
        if (at_start) {
            CHECK(memcmp(marked.said.data + i, "[0] ", 4) == 0);
            i += 4;
        }
        got[kept++] = (unsigned char)marked.said.data[i];
        at_start = marked.said.data[i] == '\n';
    }
    CHECK_INT(kept, n + 1); /* the last line gets a newline */
    CHECK(memcmp(got, bytes, n) == 0 && got[n] == '\n');
    remove_temporary();
    spawn_forget(&plain);
    spawn_forget(&marked);
}

TEST(a_very_long_line_comes_in_pieces_that_fit_together)
{
    char *fifo = in_temporary("fifo"), script[256];
    CHECK(mkfifo(fifo, 0600) == 0);
    snprintf(script, sizeof script,
             "if [ $WEFT_RANK = 1 ]; then read x < %s; echo between; exit; fi; "
             "head -c 300000 /dev/zero | tr '\\0' x; read x; head -c 700000 /dev/zero | tr '\\0' x; echo",
             fifo);
    spawned r = START(NULL, "-n", "2", "--", "sh", "-c", script);
    while (r.said.used < 262144)
        CHECK(spawn_read(&r)); /* the first piece is out */
    int go = open(fifo, O_WRONLY | O_CLOEXEC);
    CHECK(write(go, "go\n", 3) == 3);
    close(go);
    spawn_read_until(&r, "\n[1] between\n");
    spawn_tell(&r, "go\n");
    CHECK_INT(spawn_finish(&r), 0);
    remove_temporary();
    const char *rest = strstr(r.said.data, "\n[1] between\n") + strlen("\n[1] between\n");
    CHECK(memcmp(r.said.data, "[0] x", 5) == 0);
    CHECK(memcmp(rest, "[0]+x", 5) == 0);
    size_t xs = 0;
    for (size_t i = 0; i < r.said.used; i++)
        xs += r.said.data[i] == 'x';
    CHECK_INT(xs, 1000000);
    CHECK_INT(r.said.used, 1000000 + strlen("[0] \n[1] between\n[0]+\n"));
    spawn_forget(&r);
}

TEST(ranks_end_quietly_when_nobody_reads)
{
    spawned r = START(NULL, "-n", "2", "yes");
    spawn_read_until(&r, "] y\n");
    close(r.out);
    r.out = -1;
    CHECK_INT(spawn_finish(&r), 128 + SIGPIPE);
    CHECK_HAS(r.complained.data, "was killed by signal 13");
    spawn_forget(&r);
}

TEST(output_that_cannot_be_written_fails_the_run)
{
    spawned r = START(&(const spawn_setup){.out = "/dev/full"}, "-n", "2", "echo", "hello");
    CHECK_INT(spawn_finish(&r), 1);
    CHECK_HAS(r.complained.data, "weft: cannot write standard output: No space left on device\n");
    spawn_forget(&r);
}

/* ---- cores ---- */

TEST(bound_ranks_have_a_core_each_in_turn)
{
    char count[16], says[64], line[64], again[96];
    int ranks = 2 * (int)sysconf(_SC_NPROCESSORS_CONF) + 1; /* more than there can be cores */
    snprintf(count, sizeof count, "%d", ranks);
    spawned r = START(NULL, "-n", count, "--bind", "core", "--", "grep", "Cpus_allowed_list", "/proc/self/status");
    CHECK_INT(spawn_finish(&r), 0);
    int used = snprintf(says, sizeof says, "weft: %d ranks share ", ranks);
    CHECK_HAS(r.complained.data, says);
    CHECK_INT(spawn_count(r.complained.data, "\n"), 1);
    CHECK_INT(spawn_count(r.said.data, "Cpus_allowed_list"), ranks);
    int turn = atoi(r.complained.data + used);
    CHECK(turn >= 1 && turn < ranks);
    const char *first = strstr(r.said.data, "[0] ");
    CHECK(first);
    snprintf(line, sizeof line, "%.*s\n", (int)strcspn(first + 4, "\n"), first + 4);
    snprintf(again, sizeof again, "[%d] %s", turn, line);
    CHECK_HAS(r.said.data, again);
    CHECK_INT(spawn_count(r.said.data, line), (ranks + turn - 1) / turn);
    spawn_forget(&r);
}

/* What the first ranks say of the CPUs that they may use. */
static void read_cpus(const char *ranks, const char *option, const char *how, char lines[2][64])
{
    spawned r = START(NULL, "-n", ranks, option, how, "--", "grep", "Cpus_allowed_list", "/proc/self/status");
    CHECK_INT(spawn_finish(&r), 0);
    CHECK_STR(r.complained.data, "");
    for (int i = 0; i < 2; i++) {
        const char *line = strstr(r.said.data, i ? "[1] " : "[0] ");
        CHECK(line);
        snprintf(lines[i], 64, "%.*s", (int)strcspn(line + 4, "\n"), line + 4);
    }
    spawn_forget(&r);
}

TEST(ranks_divide_the_cores_unless_there_are_too_few_or_they_are_told_not_to)
{
    static cores all;
    char lines[2][64], free_lines[2][64], many[16];
    CHECK(cores_of_process(&all));
    read_cpus("2", "--bind", "none", free_lines);
    CHECK_STR(free_lines[0], free_lines[1]);
    snprintf(many, sizeof many, "%d", all.count > 1 ? all.count + 1 : 2);
    read_cpus(many, "--grace", "5", lines);
    CHECK_STR(lines[0], free_lines[0]);
    if (all.count < 2)
        return;
    read_cpus("2", "--grace", "5", lines);
    CHECK(strcmp(lines[0], free_lines[0]) != 0 && strcmp(lines[0], lines[1]) != 0);
}
