/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors over sockets: all of a message, or none. */
#include <dirent.h>
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "bootstrap/socket.h"
#include "harness/test.h"

enum { FDS = 4, SECOND = 1000000000 };

static int count_descriptors(void)
{
    int count = 0;
    DIR *dir = opendir("/proc/self/fd");
    CHECK(dir != NULL);
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

static void make_pair(int *pair)
{
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0);
}

/* As many descriptors as the kernel takes; the receiver has room for 8. */
static void send_many(int socket, int count)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(16 * sizeof(int))];
    } space = {0};
    char byte = 0;
    struct iovec data = {.iov_base = &byte, .iov_len = 1};
    struct msghdr message = {.msg_iov = &data,
                             .msg_iovlen = 1,
                             .msg_control = space.bytes,
                             .msg_controllen = CMSG_SPACE((size_t)count * sizeof(int))};
    struct cmsghdr *control = CMSG_FIRSTHDR(&message);
    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN((size_t)count * sizeof(int));
    for (int i = 0; i < count; i++)
        memcpy(CMSG_DATA(control) + (size_t)i * sizeof(int), &socket, sizeof(int));
    CHECK(sendmsg(socket, &message, 0) == 1);
}

TEST(descriptors_come_as_they_were_sent)
{
    int pair[2], sent[FDS], got[FDS];
    make_pair(pair);
    for (int i = 0; i < FDS; i++)
        sent[i] = pair[i % 2];
    CHECK(weft__socket_send_fds(pair[0], sent, FDS, weft__now_ns() + SECOND) == WEFT__IO_DONE);
    CHECK(weft__socket_receive_fds(pair[1], got, FDS, weft__now_ns() + SECOND) == WEFT__IO_DONE);
    for (int i = 0; i < FDS; i++)
        CHECK(close(got[i]) == 0);
}

TEST(a_message_with_other_descriptors_than_expected_leaves_none_open)
{
    static const int counts[] = {1, 3, 5, 8, 9, 16};
    int pair[2];
    make_pair(pair);
    int before = count_descriptors();
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        int got[FDS];
        send_many(pair[0], counts[i]);
        errno = 0;
        CHECK(weft__socket_receive_fds(pair[1], got, FDS, weft__now_ns() + SECOND) == WEFT__IO_FAILED);
        CHECK_INT(errno, EMFILE);
        CHECK_INT(count_descriptors(), before);
    }
    CHECK(write(pair[0], "x", 1) == 1); /* none at all */
    int got[FDS];
    CHECK(weft__socket_receive_fds(pair[1], got, FDS, weft__now_ns() + SECOND) == WEFT__IO_FAILED);
    CHECK_INT(count_descriptors(), before);
}
