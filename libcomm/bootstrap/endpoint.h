/* SPDX-License-Identifier: Apache-2.0 */
/* One end of a socket: where to listen and where to connect to, unix or TCP. All sockets made here are non-blocking and
 * close-on-exec. */
#ifndef WEFT_BOOTSTRAP_ENDPOINT_H
#define WEFT_BOOTSTRAP_ENDPOINT_H
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <weft/result.h>

#define WEFT__ENDPOINT_TEXT 128

typedef struct weft__endpoint {
    struct sockaddr_storage where;
    socklen_t length;
} weft__endpoint;

/* From "/path" or "@name" (abstract: the @ stands for a zero byte). E_INVALID names it. */
weft_result weft__endpoint_unix(const char *name, weft__endpoint *endpoint_out);
/* From "10.0.0.1" or "fe80::1%eth0", without brackets. Is it an address, and no name? */
bool weft__endpoint_numeric(const char *host, uint16_t port, weft__endpoint *endpoint_out);
/* Any address of this host: IPv6 and IPv4 in one, or IPv4 alone where there is no IPv6. */
weft__endpoint weft__endpoint_any(bool ipv6, uint16_t port);
void weft__endpoint_set_port(weft__endpoint *endpoint, uint16_t port);
uint16_t weft__endpoint_port(const weft__endpoint *endpoint);
bool weft__endpoint_loopback(const weft__endpoint *endpoint);
bool weft__endpoint_equal_host(const weft__endpoint *a, const weft__endpoint *b);
/* "10.0.0.1:4000", "[::1]:4000", "/path", "@name". Returns @p text. */
const char *weft__endpoint_text(const weft__endpoint *endpoint, char text[WEFT__ENDPOINT_TEXT]);

/* A listening socket, or -1 with errno. A socket in the file system that nobody listens at any more is taken over;
 * ENOTSOCK: something else has its name. */
int weft__endpoint_listen(const weft__endpoint *endpoint);
/* Connected, or -1 with errno; ETIMEDOUT at the deadline. @p from: leave by that address; NULL = as the kernel
 * routes. *local_out: the address that was left by, even in failure, if there was one (length 0: none). */
int weft__endpoint_connect(const weft__endpoint *to, const weft__endpoint *from, uint64_t deadline_ns,
                           weft__endpoint *local_out);
/* The next client, or -1 with errno. */
int weft__endpoint_accept(int listener);
/* Nothing waits in the sending queue for more, and a dead host is noticed; no effect on unix sockets. */
void weft__endpoint_tune(int fd);
bool weft__endpoint_is_unix(int fd);
/* Does the process at the other end of a unix socket belong to this user? */
bool weft__endpoint_same_user(int fd);

#endif
