/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the built `weft` (WEFT_TEST_COMMAND) as a user would, and looks at it from outside. The process of the test
 * adopts orphans, so after a run it can tell that nothing is left running. */
#ifndef WEFT_TESTS_BENCH_SPAWN_H
#define WEFT_TESTS_BENCH_SPAWN_H
#include <stdbool.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/types.h>

typedef struct spawn_text {
    char *data; /* ends with a zero */
    size_t used, room;
} spawn_text;

typedef struct spawned {
    pid_t pid;
    int in, out, err; /* pipes to and from it; -1 = closed */
    spawn_text said, complained;
} spawned;

/* Beyond the arguments; all zero = three pipes and nothing special. */
typedef struct spawn_setup {
    bool one_pipe;            /* standard error goes where standard output goes */
    bool terminal;            /* standard input is a terminal, with the command in its foreground */
    const char *out;          /* standard output is this file */
    int ignored;              /* this signal is ignored */
    rlim_t files, most_files; /* RLIMIT_NOFILE, soft and hard */
} spawn_setup;

/* Where the command is. */
const char *spawn_command(void);
/* @p setup NULL = nothing special; @p arguments end with NULL. Failures end the test. */
spawned spawn_weft(const spawn_setup *setup, const char *const *arguments);
/* Write to its standard input. */
void spawn_tell(spawned *s, const char *text);
/* Read once from what has something to say; false if nothing more can come. */
bool spawn_read(spawned *s);
/* Read until standard output has said @p part. */
void spawn_read_until(spawned *s, const char *part);
/* Read to the end and wait; the exit code, or 1000 and the signal. Nothing may run afterwards. */
int spawn_finish(spawned *s);
void spawn_forget(spawned *s);

void spawn_check_nothing_runs(void);
/* Of the status from wait(): the exit code, or 1000 and the signal. */
int spawn_code(int status);
/* How often @p part is in @p all. */
int spawn_count(const char *all, const char *part);

#endif
