/* SPDX-License-Identifier: Apache-2.0 */
/* Transfers over stream sockets with deadlines. Every call survives signals and short transfers. */
#ifndef WEFT_BOOTSTRAP_SOCKET_H
#define WEFT_BOOTSTRAP_SOCKET_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How a transfer ended. */
typedef enum weft__io { WEFT__IO_DONE, WEFT__IO_CLOSED, WEFT__IO_LATE, WEFT__IO_FAILED /* errno */ } weft__io;

/* Did a connection end with that error because nothing is heard from there any more (a link may be down for a while, or
 * who listens be stopped)? Else the other, or its host, has said so. */
bool weft__socket_is_silence(int error);

/* Wait until @p fd is ready for @p events of poll(), or broken. False: it is not, and the deadline has passed. */
bool weft__socket_wait(int fd, short events, uint64_t deadline_ns);
weft__io weft__socket_send(int fd, const void *bytes, size_t count, uint64_t deadline_ns);
weft__io weft__socket_receive(int fd, void *bytes, size_t count, uint64_t deadline_ns);
/* Descriptors, with one byte; unix sockets only. A message that has not exactly @p count is IO_FAILED, and leaves none
 * open. */
weft__io weft__socket_send_fds(int fd, const int *fds, int count, uint64_t deadline_ns);
weft__io weft__socket_receive_fds(int fd, int *fds, int count, uint64_t deadline_ns);

#endif
