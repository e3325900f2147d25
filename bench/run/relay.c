/* SPDX-License-Identifier: Apache-2.0 */
/* Moves lines from many pipes to one descriptor. All memory is taken at the start: a slow reader slows the ranks
 * down. */
#include "run/relay.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Of the queue, kept for the launcher's own lines. */
#define OWN_BYTES 4096

static bool fifo_open(fifo *f, size_t room)
{
    *f = (fifo){.data = malloc(room), .room = room};
    return f->data;
}

static size_t fifo_used(const fifo *f)
{
    return f->end - f->start;
}

static size_t fifo_free(const fifo *f)
{
    return f->room - fifo_used(f);
}

/* The free bytes, side by side at the end. */
static char *fifo_tail(fifo *f)
{
    if (f->start > 0) {
        memmove(f->data, f->data + f->start, fifo_used(f));
        f->end -= f->start;
        f->start = 0;
    }
    return f->data + f->end;
}

static void fifo_put(fifo *f, const char *bytes, size_t n)
{
    char *at = f->room - f->end >= n ? f->data + f->end : fifo_tail(f);
    memcpy(at, bytes, n);
    f->end += n;
}

static void fifo_drop(fifo *f, size_t n)
{
    f->start += n;
    if (f->start == f->end)
        f->start = f->end = 0;
}

bool sink_open(sink *to, int fd)
{
    *to = (sink){.fd = fd};
    return fifo_open(&to->queue, RELAY_QUEUE_BYTES);
}

void sink_free(sink *to)
{
    free(to->queue.data);
}

bool sink_pending(const sink *to)
{
    return fifo_used(&to->queue) > 0;
}

/* Before somebody else writes: the line that is open goes on later, marked. */
static void cut_open_line(sink *to)
{
    if (!to->open)
        return;
    fifo_put(&to->queue, "\n", 1);
    to->open->cut = true;
    to->open = NULL;
}

void sink_say(sink *to, const char *line)
{
    size_t n = strlen(line);
    if (to->fd < 0 || fifo_free(&to->queue) < n + 2)
        return;
    cut_open_line(to);
    fifo_put(&to->queue, line, n);
    fifo_put(&to->queue, "\n", 1);
}

void sink_end(sink *to)
{
    if (to->fd >= 0 && to->open && *to->open->prefix)
        cut_open_line(to);
}

/* The descriptor is shared with whoever started this process, so it is not made non-blocking. A pipe that polls
 * writable takes PIPE_BUF bytes at once. */
bool sink_write(sink *to)
{
    fifo *queue = &to->queue;
    size_t before = fifo_used(queue);
    struct pollfd ready = {.fd = to->fd, .events = POLLOUT};
    while (fifo_used(queue) > 0 && poll(&ready, 1, 0) > 0) {
        size_t n = fifo_used(queue) < PIPE_BUF ? fifo_used(queue) : PIPE_BUF;
        ssize_t written = write(to->fd, queue->data + queue->start, n);
        if (written < 0 && (errno == EAGAIN || errno == EINTR))
            break;
        if (written < 0) {
            to->error = errno;
            to->fd = -1;
        }
        fifo_drop(queue, written < 0 ? fifo_used(queue) : (size_t)written);
    }
    return fifo_used(queue) < before;
}

bool stream_open(stream *from, int fd, sink *to, int rank)
{
    *from = (stream){.fd = fd, .to = to};
    if (rank >= 0)
        snprintf(from->prefix, sizeof from->prefix, "[%d] ", rank);
    return fifo_open(&from->held, RELAY_LINE_BYTES);
}

void stream_close(stream *from)
{
    if (from->fd >= 0)
        close(from->fd);
    from->fd = -1;
}

void stream_free(stream *from)
{
    stream_close(from);
    free(from->held.data);
}

bool stream_wants(const stream *from)
{
    return from->fd >= 0 && fifo_free(&from->held) > 0;
}

bool stream_pending(const stream *from)
{
    return from->fd >= 0 || fifo_used(&from->held) > 0;
}

bool stream_read(stream *from)
{
    fifo *held = &from->held;
    char *tail = fifo_tail(held);
    ssize_t n = read(from->fd, tail, held->room - held->end);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return errno == EINTR;
    if (n <= 0)
        stream_close(from);
    else
        held->end += (size_t)n;
    return true;
}

/* What may go now: a line with its newline, or a piece of one that is too long or will get no newline; else 0. */
static size_t passable(stream *from)
{
    const char *data = from->held.data + from->held.start;
    size_t used = fifo_used(&from->held);
    const char *newline = memchr(data + from->scanned, '\n', used - from->scanned);
    if (newline)
        return (size_t)(newline - data) + 1;
    from->scanned = used;
    return from->fd < 0 || used == from->held.room ? used : 0;
}

static void begin(stream *from)
{
    sink *to = from->to;
    if (to->open != from)
        cut_open_line(to);
    if (to->open == from || !*from->prefix)
        return;
    size_t n = strlen(from->prefix);
    fifo_put(&to->queue, from->prefix, n - 1);
    fifo_put(&to->queue, from->cut ? "+" : " ", 1);
}

static void pass(stream *from, size_t n)
{
    const char *data = from->held.data + from->held.start;
    begin(from);
    fifo_put(&from->to->queue, data, n);
    from->cut = false;
    from->to->open = data[n - 1] == '\n' ? NULL : from;
    from->scanned = 0;
    fifo_drop(&from->held, n);
}

bool stream_pass(stream *from)
{
    if (from->to->fd < 0) {
        stream_close(from);
        fifo_drop(&from->held, fifo_used(&from->held));
        return false;
    }
    bool passed = false;
    size_t n;
    while ((n = passable(from)) > 0 && fifo_free(&from->to->queue) >= n + RELAY_PREFIX_BYTES + OWN_BYTES) {
        pass(from, n);
        passed = true;
    }
    return passed;
}
