/* SPDX-License-Identifier: Apache-2.0 */
/* Standard input, for rank 0. A terminal serves only the process group in its foreground, which no rank is in, so what
 * is typed is read here and passed on; anything else the rank reads itself. */
#ifndef WEFT_BENCH_RUN_INPUT_H
#define WEFT_BENCH_RUN_INPUT_H
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct input {
    int rank_end; /* what rank 0 reads from */
    int to;       /* writing end of the pipe to it; -1 = nothing is passed on (any more) */
    char data[4096];
    size_t start, end;
    int64_t away_until_ns; /* this process is in the background: do not read before */
} input;

/* False: errno says why. */
bool input_open(input *in);
/* The rank has its end. */
void input_started(input *in);
void input_close(input *in);
/* What to wait for; fd -1 = nothing. */
struct pollfd input_poll(const input *in, int64_t now_ns);
/* It has come. */
void input_pass(input *in, int64_t now_ns);

#endif
