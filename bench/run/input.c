/* SPDX-License-Identifier: Apache-2.0 */
/* Passes on what is typed: from the terminal to a pipe, one block at a time. */
#include "run/input.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* How often a launcher in the background looks whether it is in front again. */
#define AWAY_NS INT64_C(1000000000)

bool input_open(input *in)
{
    int ends[2];
    *in = (input){.rank_end = STDIN_FILENO, .to = -1};
    if (!isatty(STDIN_FILENO))
        return true;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return false;
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    in->rank_end = ends[0];
    in->to = ends[1];
    return true;
}

void input_started(input *in)
{
    if (in->rank_end != STDIN_FILENO)
        close(in->rank_end);
    in->rank_end = -1;
}

void input_close(input *in)
{
    if (in->to >= 0)
        close(in->to);
    in->to = -1;
}

struct pollfd input_poll(const input *in, int64_t now_ns)
{
    if (in->to < 0)
        return (struct pollfd){.fd = -1};
    if (in->start < in->end)
        return (struct pollfd){.fd = in->to, .events = POLLOUT};
    return (struct pollfd){.fd = now_ns < in->away_until_ns ? -1 : STDIN_FILENO, .events = POLLIN};
}

static void fill(input *in, int64_t now_ns)
{
    ssize_t n = read(STDIN_FILENO, in->data, sizeof in->data);
    if (n > 0) {
        in->start = 0;
        in->end = (size_t)n;
    } else if (n == 0) {
        input_close(in);
    } else if (errno == EIO) {
        in->away_until_ns = now_ns + AWAY_NS;
    } else if (errno != EINTR && errno != EAGAIN) {
        input_close(in);
    }
}

void input_pass(input *in, int64_t now_ns)
{
    if (in->start == in->end)
        fill(in, now_ns);
    while (in->to >= 0 && in->start < in->end) {
        ssize_t n = write(in->to, in->data + in->start, in->end - in->start);
        if (n > 0)
            in->start += (size_t)n;
        else if (errno == EAGAIN)
            return;
        else if (errno != EINTR)
            input_close(in); /* the rank reads no more */
    }
}
