/* SPDX-License-Identifier: Apache-2.0 */
/* Joins the streams that ranks write and the sinks they end in into one thing that can be polled. */
#include "run/output.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool same_file(int a, int b)
{
    struct stat sa, sb;
    return fstat(a, &sa) == 0 && fstat(b, &sb) == 0 && sa.st_dev == sb.st_dev && sa.st_ino == sb.st_ino;
}

bool output_open(output *o, int processes)
{
    *o = (output){.to = {&o->sinks[0], &o->sinks[1]}};
    o->streams = calloc((size_t)processes, 2 * sizeof *o->streams);
    if (same_file(STDOUT_FILENO, STDERR_FILENO))
        o->to[1] = o->to[0];
    return o->streams && sink_open(&o->sinks[0], STDOUT_FILENO) && sink_open(&o->sinks[1], STDERR_FILENO);
}

void output_free(output *o)
{
    for (int i = 0; i < o->count; i++)
        stream_free(&o->streams[i]);
    for (int i = 0; i < 2; i++)
        sink_free(&o->sinks[i]);
    free(o->streams);
}

bool output_add(output *o, const int pipes[2], int rank)
{
    bool made = true;
    for (int i = 0; i < 2; i++)
        made &= stream_open(&o->streams[o->count++], pipes[i], o->to[i], rank);
    return made;
}

void output_say(output *o, const char *format, ...)
{
    char line[512] = "weft: ";
    size_t used = strlen(line);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line + used, sizeof line - used, format, arguments);
    va_end(arguments);
    sink_say(o->to[1], line);
}

int output_poll(const output *o, struct pollfd *polls)
{
    for (int i = 0; i < o->count; i++)
        polls[i] = (struct pollfd){.fd = stream_wants(&o->streams[i]) ? o->streams[i].fd : -1, .events = POLLIN};
    for (int i = 0; i < 2; i++)
        polls[o->count + i] =
            (struct pollfd){.fd = sink_pending(&o->sinks[i]) ? o->sinks[i].fd : -1, .events = POLLOUT};
    return o->count + 2;
}

bool output_wants(const output *o)
{
    for (int i = 0; i < o->count; i++)
        if (stream_wants(&o->streams[i]))
            return true;
    return false;
}

bool output_pending(const output *o)
{
    for (int i = 0; i < o->count; i++)
        if (stream_pending(&o->streams[i]))
            return true;
    return sink_pending(&o->sinks[0]) || sink_pending(&o->sinks[1]);
}

static bool write_sinks(output *o)
{
    bool written = false;
    for (int i = 0; i < 2; i++) {
        sink *to = &o->sinks[i];
        bool was_open = to->fd >= 0;
        written |= sink_write(to);
        if (was_open && to->fd < 0 && to->error != EPIPE)
            output_say(o, "cannot write standard %s: %s", i == 0 ? "output" : "error", strerror(to->error));
    }
    return written;
}

/* Until nothing moves: the sinks are full, or no stream holds a whole line. */
static void pass_on(output *o)
{
    for (bool moved = true; moved; o->first = (o->first + 1) % (o->count + 1)) {
        moved = false;
        for (int i = 0; i < o->count; i++)
            moved |= stream_pass(&o->streams[(o->first + i) % o->count]);
        moved |= write_sinks(o);
    }
}

void output_turn(output *o, const struct pollfd *polls, bool last)
{
    for (int i = 0; i < o->count; i++) {
        stream *s = &o->streams[i];
        bool came = polls[i].fd >= 0 && polls[i].revents;
        if ((came || last) && stream_wants(s) && !stream_read(s) && last)
            stream_close(s);
    }
    pass_on(o);
}

void output_end(output *o)
{
    for (int i = 0; i < 2; i++)
        sink_end(&o->sinks[i]);
}

bool output_lost(const output *o)
{
    return (o->sinks[0].error && o->sinks[0].error != EPIPE) || (o->sinks[1].error && o->sinks[1].error != EPIPE);
}
