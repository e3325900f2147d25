/* SPDX-License-Identifier: Apache-2.0 */
/* Sending and receiving over a stream socket until all of it has gone or come, or a deadline has passed; waiting is
 * done in poll(). */
#include "bootstrap/socket.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

#define FDS_MAX 8

bool weft__socket_is_silence(int error)
{
    return error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH || error == ENETDOWN ||
           error == EHOSTDOWN;
}

bool weft__socket_wait(int fd, short events, uint64_t deadline_ns)
{
    for (;;) {
        int left_ms = weft__poll_ms(weft__now_ns(), deadline_ns);
        struct pollfd p = {.fd = fd, .events = events};
        int n = poll(&p, 1, left_ms);
        if (n > 0 || (n < 0 && errno != EINTR))
            return true; /* the transfer will say what is wrong */
        if (!left_ms)
            return false;
    }
}

/* One transfer of what @p message says, POLLOUT or POLLIN, as soon as it can be made; *bytes_out of it went. */
static weft__io transfer(int fd, struct msghdr *message, short direction, uint64_t deadline_ns, size_t *bytes_out)
{
    for (;;) {
        ssize_t n = direction == POLLOUT ? sendmsg(fd, message, MSG_NOSIGNAL) : recvmsg(fd, message, MSG_CMSG_CLOEXEC);
        if (n > 0) {
            *bytes_out = (size_t)n;
            return WEFT__IO_DONE;
        }
        if (n == 0 || errno == EPIPE || errno == ECONNRESET)
            return WEFT__IO_CLOSED;
        if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
            return WEFT__IO_FAILED;
        if (!weft__socket_wait(fd, direction, deadline_ns))
            return WEFT__IO_LATE;
    }
}

static weft__io transfer_all(int fd, void *bytes, size_t count, short direction, uint64_t deadline_ns)
{
    struct iovec data = {.iov_base = bytes, .iov_len = count};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1};
    while (data.iov_len) {
        size_t part = 0;
        weft__io io = transfer(fd, &message, direction, deadline_ns, &part);
        if (io != WEFT__IO_DONE)
            return io;
        data.iov_base = (char *)data.iov_base + part;
        data.iov_len -= part;
    }
    return WEFT__IO_DONE;
}

weft__io weft__socket_send(int fd, const void *bytes, size_t count, uint64_t deadline_ns)
{
    return transfer_all(fd, (void *)(uintptr_t)bytes, count, POLLOUT, deadline_ns);
}

weft__io weft__socket_receive(int fd, void *bytes, size_t count, uint64_t deadline_ns)
{
    return transfer_all(fd, bytes, count, POLLIN, deadline_ns);
}

/* A message of one byte, with room for descriptors. */
typedef struct fds_message {
    _Alignas(struct cmsghdr) char space[CMSG_SPACE(FDS_MAX * sizeof(int))];
    char byte;
    struct iovec data;
    struct msghdr message;
} fds_message;

static void open_fds_message(fds_message *m, size_t control_bytes)
{
    *m = (fds_message){0};
    m->data = (struct iovec){.iov_base = &m->byte, .iov_len = 1};
    m->message =
        (struct msghdr){.msg_iov = &m->data, .msg_iovlen = 1, .msg_control = m->space, .msg_controllen = control_bytes};
}

weft__io weft__socket_send_fds(int fd, const int *fds, int count, uint64_t deadline_ns)
{
    fds_message m;
    size_t bytes = (size_t)count * sizeof *fds, sent;
    open_fds_message(&m, CMSG_SPACE(bytes));
    struct cmsghdr *control = CMSG_FIRSTHDR(&m.message);
    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN(bytes);
    memcpy(CMSG_DATA(control), fds, bytes);
    return transfer(fd, &m.message, POLLOUT, deadline_ns, &sent);
}

/* The descriptors of a message, if it has exactly @p count; else none of them stays open. */
static bool take_fds(struct msghdr *message, int *fds, int count)
{
    bool whole = !(message->msg_flags & MSG_CTRUNC);
    int taken = 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
        size_t bytes = c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS ? c->cmsg_len - CMSG_LEN(0) : 0;
        for (size_t at = 0; at + sizeof(int) <= bytes; at += sizeof(int)) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + at, sizeof fd);
            if (taken < count) {
                fds[taken++] = fd;
                continue;
            }
            close(fd);
            whole = false;
        }
    }
    if (whole && taken == count)
        return true;
    while (taken > 0)
        close(fds[--taken]);
    return false;
}

weft__io weft__socket_receive_fds(int fd, int *fds, int count, uint64_t deadline_ns)
{
    fds_message m;
    size_t received;
    open_fds_message(&m, sizeof m.space);
    weft__io io = transfer(fd, &m.message, POLLIN, deadline_ns, &received);
    if (io != WEFT__IO_DONE)
        return io;
    if (!take_fds(&m.message, fds, count)) {
        errno = EMFILE; /* what the kernel cuts when the table of descriptors is full */
        return WEFT__IO_FAILED;
    }
    return WEFT__IO_DONE;
}
