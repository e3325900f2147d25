/* SPDX-License-Identifier: Apache-2.0 */
/* Unix stream sockets with deadlines. Every call survives signals and short transfers. */
#ifndef WEFT_BOOTSTRAP_SOCKET_H
#define WEFT_BOOTSTRAP_SOCKET_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <weft/result.h>

/* How a transfer ended. */
typedef enum weft__io { WEFT__IO_DONE, WEFT__IO_CLOSED, WEFT__IO_LATE, WEFT__IO_FAILED /* errno */ } weft__io;

/* Addresses are "/path" or "@name" (abstract). */
/* A listening socket; E_SYSTEM if the address is taken. */
weft_result weft__socket_listen(const char *address, int *fd_out);
/* Connected, or -1 with errno: nobody listens (yet). */
int weft__socket_connect(const char *address);
/* The next client, or -1 with errno. */
int weft__socket_accept(int listener);
/* Does the process at the other end belong to this user? */
bool weft__socket_same_user(int fd);

weft__io weft__socket_send(int fd, const void *bytes, size_t count, uint64_t deadline_ns);
weft__io weft__socket_receive(int fd, void *bytes, size_t count, uint64_t deadline_ns);
/* Descriptors, with one byte. A message that has not exactly @p count is IO_FAILED, and leaves none open. */
weft__io weft__socket_send_fds(int fd, const int *fds, int count, uint64_t deadline_ns);
weft__io weft__socket_receive_fds(int fd, int *fds, int count, uint64_t deadline_ns);

#endif
