/* SPDX-License-Identifier: Apache-2.0 */
/* Passes on what the ranks write: whole lines, each with its rank in front, so that no two lines mix. */
#ifndef WEFT_BENCH_RUN_RELAY_H
#define WEFT_BENCH_RUN_RELAY_H
#include <stdbool.h>
#include <stddef.h>

enum {
    RELAY_LINE_BYTES = 256 << 10, /* a longer line is passed on in pieces; between them others may get a word in */
    RELAY_QUEUE_BYTES = 1 << 20,
    RELAY_PREFIX_BYTES = 16
};

/* Bytes that come in at the end and leave at the start, in a buffer of fixed size. */
typedef struct fifo {
    char *data;
    size_t start, end, room;
} fifo;

/* Where lines go: standard output or standard error of this process. */
typedef struct sink {
    int fd;    /* -1: closed after an error */
    int error; /* the errno of that */
    fifo queue;
    struct stream *open; /* whose line has begun but not ended; NULL = the next byte begins a line */
} sink;

/* What one rank writes: the reading end of its pipe. */
typedef struct stream {
    int fd; /* does not block; -1: at its end */
    sink *to;
    char prefix[RELAY_PREFIX_BYTES]; /* "[3] "; empty = none */
    fifo held;
    size_t scanned; /* bytes at the start of held that are known to have no newline */
    bool cut;       /* its line has begun in the sink, and then another came in between */
} stream;

/* False: no memory. */
bool sink_open(sink *to, int fd);
void sink_free(sink *to);
bool sink_pending(const sink *to);
/* A line of the launcher's own. */
void sink_say(sink *to, const char *line);
/* Write what @p to takes without blocking. False: nothing. An error closes it, and the streams that lead there. */
bool sink_write(sink *to);
/* Nothing more will come: end the line that is still open, unless lines have no prefix. */
void sink_end(sink *to);

/* @p fd is taken. False: no memory. @p rank -1: no prefix. */
bool stream_open(stream *from, int fd, sink *to, int rank);
void stream_free(stream *from);
/* Has it room for more? */
bool stream_wants(const stream *from);
/* Read once. False: there was nothing to read; poll says when there is. */
bool stream_read(stream *from);
void stream_close(stream *from);
/* Hand the lines that are whole to the sink, as far as it has room. False: nothing was handed over. */
bool stream_pass(stream *from);
/* Is there, or may there come, something that the sink does not have yet? */
bool stream_pending(const stream *from);

#endif
