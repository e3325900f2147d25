/* SPDX-License-Identifier: Apache-2.0 */
/* All sockets are non-blocking and close-on-exec; waiting is done in poll(), never past the deadline. */
#include "bootstrap/socket.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"

#define FDS_MAX 8

static weft_result parse(const char *address, struct sockaddr_un *where, socklen_t *length)
{
    *where = (struct sockaddr_un){.sun_family = AF_UNIX};
    size_t bytes = strlen(address);
    bool abstract = address[0] == '@';
    if (bytes < 2 || bytes >= sizeof where->sun_path || (!abstract && address[0] != '/'))
        return weft__fail(WEFT_E_INVALID, "'%s' is no name of a socket", address);
    memcpy(where->sun_path, address, bytes);
    if (abstract)
        where->sun_path[0] = 0;
    *length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + bytes + (abstract ? 0 : 1));
    return WEFT_OK;
}

static int new_socket(void)
{
    return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

weft_result weft__socket_listen(const char *address, int *fd_out)
{
    struct sockaddr_un where;
    socklen_t length = 0;
    WEFT_TRY(parse(address, &where, &length));
    int fd = new_socket();
    if (fd < 0)
        return weft__fail_errno("cannot make a socket");
    bool taken = bind(fd, (struct sockaddr *)&where, length) != 0;
    if (taken && errno == EADDRINUSE && where.sun_path[0]) {
        /* A path that nobody listens at was left by a process that was killed. */
        int other = weft__socket_connect(address);
        if (other >= 0) {
            close(other);
            errno = EADDRINUSE;
        } else {
            unlink(where.sun_path);
            taken = bind(fd, (struct sockaddr *)&where, length) != 0;
        }
    }
    if (taken || listen(fd, 1024) != 0) {
        weft_result result = weft__fail_errno("cannot listen at %s", address);
        close(fd);
        return result;
    }
    *fd_out = fd;
    return WEFT_OK;
}

int weft__socket_connect(const char *address)
{
    struct sockaddr_un where;
    socklen_t length = 0;
    if (parse(address, &where, &length) != WEFT_OK)
        return -1;
    int fd = new_socket();
    if (fd < 0)
        return -1;
    int failed;
    do {
        failed = connect(fd, (struct sockaddr *)&where, length);
    } while (failed && errno == EINTR);
    if (!failed)
        return fd;
    int saved = errno;
    close(fd);
    errno = saved;
    return -1;
}

int weft__socket_accept(int listener)
{
    int fd;
    do {
        fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    } while (fd < 0 && errno == EINTR);
    return fd;
}

bool weft__socket_same_user(int fd)
{
    struct ucred peer;
    socklen_t length = sizeof peer;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.uid == geteuid();
}

/* Wait until @p fd is ready. False at the deadline. */
static bool wait_ready(int fd, short events, uint64_t deadline_ns)
{
    for (;;) {
        uint64_t now = weft__now_ns();
        if (now >= deadline_ns)
            return false;
        uint64_t left_ms = (deadline_ns - now + 999999) / 1000000;
        struct pollfd p = {.fd = fd, .events = events};
        int n = poll(&p, 1, left_ms > 1000 ? 1000 : (int)left_ms);
        if (n > 0)
            return true;
        if (n < 0 && errno != EINTR)
            return true; /* the transfer will say what is wrong */
    }
}

static bool would_block(void)
{
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

weft__io weft__socket_send(int fd, const void *bytes, size_t count, uint64_t deadline_ns)
{
    const char *from = bytes;
    while (count) {
        ssize_t n = send(fd, from, count, MSG_NOSIGNAL);
        if (n >= 0) {
            from += n;
            count -= (size_t)n;
            continue;
        }
        if (errno == EPIPE || errno == ECONNRESET)
            return WEFT__IO_CLOSED;
        if (!would_block())
            return WEFT__IO_FAILED;
        if (!wait_ready(fd, POLLOUT, deadline_ns))
            return WEFT__IO_LATE;
    }
    return WEFT__IO_DONE;
}

weft__io weft__socket_receive(int fd, void *bytes, size_t count, uint64_t deadline_ns)
{
    char *to = bytes;
    while (count) {
        ssize_t n = recv(fd, to, count, 0);
        if (n == 0)
            return WEFT__IO_CLOSED;
        if (n > 0) {
            to += n;
            count -= (size_t)n;
            continue;
        }
        if (errno == ECONNRESET)
            return WEFT__IO_CLOSED;
        if (!would_block())
            return WEFT__IO_FAILED;
        if (!wait_ready(fd, POLLIN, deadline_ns))
            return WEFT__IO_LATE;
    }
    return WEFT__IO_DONE;
}

typedef union fds_space {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(FDS_MAX * sizeof(int))];
} fds_space;

weft__io weft__socket_send_fds(int fd, const int *fds, int count, uint64_t deadline_ns)
{
    char byte = 0;
    fds_space space = {0};
    struct iovec data = {.iov_base = &byte, .iov_len = 1};
    struct msghdr message = {.msg_iov = &data,
                             .msg_iovlen = 1,
                             .msg_control = space.bytes,
                             .msg_controllen = CMSG_SPACE((size_t)count * sizeof *fds)};
    struct cmsghdr *control = CMSG_FIRSTHDR(&message);
    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN((size_t)count * sizeof *fds);
    memcpy(CMSG_DATA(control), fds, (size_t)count * sizeof *fds);
    while (sendmsg(fd, &message, MSG_NOSIGNAL) < 0) {
        if (errno == EPIPE || errno == ECONNRESET)
            return WEFT__IO_CLOSED;
        if (!would_block())
            return WEFT__IO_FAILED;
        if (!wait_ready(fd, POLLOUT, deadline_ns))
            return WEFT__IO_LATE;
    }
    return WEFT__IO_DONE;
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
    for (;;) {
        char byte;
        fds_space space = {0};
        struct iovec data = {.iov_base = &byte, .iov_len = 1};
        struct msghdr message = {
            .msg_iov = &data, .msg_iovlen = 1, .msg_control = space.bytes, .msg_controllen = sizeof space.bytes};
        ssize_t n = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
        if (n == 0)
            return WEFT__IO_CLOSED;
        if (n > 0) {
            if (take_fds(&message, fds, count))
                return WEFT__IO_DONE;
            errno = EMFILE; /* what the kernel cuts when the table of descriptors is full */
            return WEFT__IO_FAILED;
        }
        if (errno == ECONNRESET)
            return WEFT__IO_CLOSED;
        if (!would_block())
            return WEFT__IO_FAILED;
        if (!wait_ready(fd, POLLIN, deadline_ns))
            return WEFT__IO_LATE;
    }
}
