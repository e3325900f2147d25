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
        if (!wait_ready(fd, direction, deadline_ns))
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
