/* SPDX-License-Identifier: Apache-2.0 */
/* The launcher's output with every queue full at some time: what a slow reader does to it. */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "harness/test.h"
#include "run/output.h"

enum { PROCESSES = 12, SOURCE_BYTES = 1 << 20 };

static char collected[2 * PROCESSES * SOURCE_BYTES + 4096];
static size_t used;
static unsigned seed = 1;

static unsigned random_below(unsigned limit)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % limit;
}

/* A pipe that holds SOURCE_BYTES and is at its end: lines "r n xxx...", n from 0, up to @p longest. */
static int make_source(int rank, size_t longest, int *lines)
{
    static char text[SOURCE_BYTES];
    size_t n = 0;
    int ends[2];
    for (*lines = 0; n + longest + 32 < sizeof text; ++*lines) {
        n += (size_t)snprintf(text + n, 32, "%d %d ", rank, *lines);
        size_t more = random_below((unsigned)longest);
        memset(text + n, 'x', more);
        n += more;
        text[n++] = '\n';
    }
    CHECK(pipe2(ends, O_NONBLOCK | O_CLOEXEC) == 0);
    if (fcntl(ends[1], F_SETPIPE_SZ, SOURCE_BYTES) < 0)
        test_skip("a pipe of %d bytes is not allowed", SOURCE_BYTES);
    CHECK(write(ends[1], text, n) == (ssize_t)n);
    close(ends[1]);
    return ends[0];
}

static void collect(int fd, size_t most)
{
    ssize_t n = 0;
    for (; most > 0 && (n = read(fd, collected + used, most)) > 0; most -= (size_t)n)
        used += (size_t)n;
}

/* Something to wait for, or nothing to do: otherwise the launcher would sleep for ever. */
static void check_armed(const output *o)
{
    struct pollfd polls[2 * PROCESSES + 2];
    int armed = 0, count = output_poll(o, polls);
    for (int i = 0; i < count; i++)
        armed += polls[i].fd >= 0;
    CHECK(armed > 0 || !output_pending(o));
}

static void turn(output *o)
{
    struct pollfd polls[2 * PROCESSES + 2];
    poll(polls, (nfds_t)output_poll(o, polls), 0);
    output_turn(o, polls, false);
    check_armed(o);
}

static void check_lines(const int *lines)
{
    int next[PROCESSES] = {0};
    collected[used] = 0;
    for (char *line = collected; *line;) {
        long mark = strtol(line + 1, &line, 10);
        CHECK(line[0] == ']' && line[1] == ' ' && mark >= 0 && mark < PROCESSES);
        CHECK_INT(strtol(line + 2, &line, 10), mark);
        CHECK_INT(strtol(line, &line, 10), next[mark]);
        next[mark]++;
        CHECK(*line == ' ');
        line += 1 + strspn(line + 1, "x");
        CHECK(*line++ == '\n');
        CHECK(*line == '[' || !*line);
    }
    for (int i = 0; i < PROCESSES; i++)
        CHECK_INT(next[i], lines[i]);
}

/* @p most: what the reader takes at a time, at random up to that. */
static void relay_all(size_t longest, unsigned most)
{
    static const int nothing = -1;
    int reader[2], lines[PROCESSES];
    output o;
    CHECK(pipe2(reader, O_CLOEXEC) == 0);
    fcntl(reader[0], F_SETFL, O_NONBLOCK);
    fcntl(reader[1], F_SETPIPE_SZ, SOURCE_BYTES);
    CHECK(dup2(reader[1], STDOUT_FILENO) >= 0 && dup2(reader[1], STDERR_FILENO) >= 0);
    CHECK(output_open(&o, PROCESSES));
    for (int i = 0; i < PROCESSES; i++)
        CHECK(output_add(&o, (const int[]){make_source(i, longest, &lines[i]), nothing}, i));
    used = 0;
    while (output_pending(&o)) {
        turn(&o);
        collect(reader[0], most > SOURCE_BYTES ? most : random_below(most));
    }
    collect(reader[0], sizeof collected - used);
    check_lines(lines);
    output_free(&o);
    close(reader[0]);
    close(reader[1]);
}

TEST(a_reader_in_bursts_gets_every_line)
{
    relay_all(100, 2 * SOURCE_BYTES);
    relay_all(200000, 2 * SOURCE_BYTES);
}

TEST(a_reader_in_bits_gets_every_line)
{
    relay_all(100, 30000);
    relay_all(200000, 100000);
}
