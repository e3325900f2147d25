/* SPDX-License-Identifier: Apache-2.0 */
/* All that the ranks write, on its way to standard output and standard error. */
#ifndef WEFT_BENCH_RUN_OUTPUT_H
#define WEFT_BENCH_RUN_OUTPUT_H
#include <poll.h>
#include <stdbool.h>

#include "run/relay.h"

typedef struct output {
    sink sinks[2];
    sink *to[2];     /* of standard output and error; the same sink if both are one file, so that lines stay whole */
    stream *streams; /* two a process */
    int count;       /* of streams */
    int first;       /* whose turn it is to pass on first */
} output;

/* False: no memory. */
bool output_open(output *o, int processes);
void output_free(output *o);
/* The pipes of one process, taken. @p rank -1: no prefix. */
bool output_add(output *o, const int pipes[2], int rank);
/* A line on standard error: "weft: ...". */
void output_say(output *o, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* What to wait for: count + 2 entries. */
int output_poll(const output *o, struct pollfd *polls);
/* Read what came (@p polls, from output_poll()), pass it on, write it. @p last: what is not there now will not come. */
void output_turn(output *o, const struct pollfd *polls, bool last);
/* Nothing is pending: end the last lines. */
void output_end(output *o);
/* Can more be read? */
bool output_wants(const output *o);
/* Is there, or may there come, more to write? */
bool output_pending(const output *o);
/* Was anything lost, other than to a reader that has gone? */
bool output_lost(const output *o);

#endif
