/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses of sockets, and making them listen and connect. */
#include "bootstrap/endpoint.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/error.h"
#include "bootstrap/socket.h"

#define BACKLOG 4096 /* as far as the kernel goes along */

weft_result weft__endpoint_unix(const char *name, weft__endpoint *endpoint_out)
{
    struct sockaddr_un where = {.sun_family = AF_UNIX};
    size_t bytes = strlen(name);
    bool abstract = name[0] == '@';
    if (bytes < 2 || bytes >= sizeof where.sun_path || (!abstract && name[0] != '/'))
        return weft__fail(WEFT_E_INVALID, "'%s' is no name of a socket", name);
    memcpy(where.sun_path, name, bytes);
    if (abstract)
        where.sun_path[0] = 0;
    *endpoint_out =
        (weft__endpoint){.length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + bytes + (abstract ? 0 : 1))};
    memcpy(&endpoint_out->where, &where, sizeof where);
    return WEFT_OK;
}

bool weft__endpoint_numeric(const char *host, uint16_t port, weft__endpoint *endpoint_out)
{
    const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found;
    if (getaddrinfo(host, NULL, &hints, &found) != 0)
        return false;
    *endpoint_out = (weft__endpoint){.length = found->ai_addrlen};
    memcpy(&endpoint_out->where, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    weft__endpoint_set_port(endpoint_out, port);
    return true;
}

/* ------------------------------------------------------------------------------------------- looking into one */

static struct sockaddr_in ipv4(const weft__endpoint *e)
{
    struct sockaddr_in where;
    memcpy(&where, &e->where, sizeof where);
    return where;
}

static struct sockaddr_in6 ipv6(const weft__endpoint *e)
{
    struct sockaddr_in6 where;
    memcpy(&where, &e->where, sizeof where);
    return where;
}

weft__endpoint weft__endpoint_any(bool use_ipv6, uint16_t port)
{
    const struct sockaddr_in any4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY)};
    const struct sockaddr_in6 any6 = {.sin6_family = AF_INET6, .sin6_addr = in6addr_any};
    weft__endpoint e = {.length = use_ipv6 ? sizeof any6 : sizeof any4};
    memcpy(&e.where, use_ipv6 ? (const void *)&any6 : (const void *)&any4, e.length);
    weft__endpoint_set_port(&e, port);
    return e;
}

/* Both kinds have their port behind the family. */
_Static_assert(offsetof(struct sockaddr_in, sin_port) == offsetof(struct sockaddr_in6, sin6_port), "ports");

void weft__endpoint_set_port(weft__endpoint *endpoint, uint16_t port)
{
    in_port_t value = htons(port);
    memcpy((char *)&endpoint->where + offsetof(struct sockaddr_in, sin_port), &value, sizeof value);
}

uint16_t weft__endpoint_port(const weft__endpoint *endpoint)
{
    return ntohs(ipv4(endpoint).sin_port);
}

bool weft__endpoint_loopback(const weft__endpoint *endpoint)
{
    if (endpoint->where.ss_family == AF_INET)
        return ntohl(ipv4(endpoint).sin_addr.s_addr) >> 24 == 127;
    struct sockaddr_in6 where = ipv6(endpoint);
    return endpoint->where.ss_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&where.sin6_addr);
}

bool weft__endpoint_equal_host(const weft__endpoint *a, const weft__endpoint *b)
{
    if (a->where.ss_family != b->where.ss_family)
        return false;
    if (a->where.ss_family == AF_INET)
        return ipv4(a).sin_addr.s_addr == ipv4(b).sin_addr.s_addr;
    struct sockaddr_in6 a6 = ipv6(a), b6 = ipv6(b);
    return a->where.ss_family == AF_INET6 && memcmp(&a6.sin6_addr, &b6.sin6_addr, sizeof a6.sin6_addr) == 0;
}

const char *weft__endpoint_text(const weft__endpoint *endpoint, char text[WEFT__ENDPOINT_TEXT])
{
    char host[INET6_ADDRSTRLEN + IF_NAMESIZE + 1];
    if (endpoint->where.ss_family == AF_UNIX) {
        const char *path = ((const struct sockaddr_un *)(const void *)&endpoint->where)->sun_path;
        int bytes = (int)(endpoint->length - offsetof(struct sockaddr_un, sun_path));
        snprintf(text, WEFT__ENDPOINT_TEXT, "%s%.*s", *path ? "" : "@", *path ? bytes : bytes - 1, path + !*path);
    } else if (getnameinfo((const struct sockaddr *)&endpoint->where, endpoint->length, host, sizeof host, NULL, 0,
                           NI_NUMERICHOST) == 0) {
        snprintf(text, WEFT__ENDPOINT_TEXT, endpoint->where.ss_family == AF_INET6 ? "[%s]:%u" : "%s:%u", host,
                 (unsigned)weft__endpoint_port(endpoint));
    } else {
        snprintf(text, WEFT__ENDPOINT_TEXT, "an unknown address");
    }
    return text;
}

/* ------------------------------------------------------------------------------------------- sockets */

/* errno is what @p what left, not what close() says. */
static int give_up(int fd)
{
    int saved = errno;
    close(fd);
    errno = saved;
    return -1;
}

static int new_socket(const weft__endpoint *endpoint)
{
    return socket(endpoint->where.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

static bool bind_to(int fd, const weft__endpoint *endpoint)
{
    return bind(fd, (const struct sockaddr *)&endpoint->where, endpoint->length) == 0;
}

static bool is_socket(const char *path)
{
    struct stat there;
    return lstat(path, &there) == 0 && S_ISSOCK(there.st_mode);
}

/* A socket that nobody listens at was left by a process that was killed. */
static bool take_over(int fd, const weft__endpoint *endpoint)
{
    const char *path = ((const struct sockaddr_un *)(const void *)&endpoint->where)->sun_path;
    weft__endpoint local;
    if (endpoint->where.ss_family != AF_UNIX || !*path)
        return false;
    if (!is_socket(path)) {
        errno = ENOTSOCK;
        return false;
    }
    int other = weft__endpoint_connect(endpoint, NULL, 0, &local);
    if (other >= 0)
        close(other);
    bool dead = other < 0 && errno == ECONNREFUSED;
    errno = EADDRINUSE;
    if (!dead)
        return false;
    unlink(path);
    return bind_to(fd, endpoint);
}

int weft__endpoint_listen(const weft__endpoint *endpoint)
{
    int fd = new_socket(endpoint), on = 1, off = 0;
    if (fd < 0)
        return -1;
    if (endpoint->where.ss_family != AF_UNIX) /* ports of links that have ended are free */
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (endpoint->where.ss_family == AF_INET6)
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    bool bound = bind_to(fd, endpoint) || (errno == EADDRINUSE && take_over(fd, endpoint));
    if (!bound || listen(fd, BACKLOG) != 0)
        return give_up(fd);
    return fd;
}

/* The kernel connects a socket to itself if its own port happens to be the one that nobody listens at. */
static bool is_itself(const weft__endpoint *to, const weft__endpoint *local)
{
    return to->where.ss_family != AF_UNIX && weft__endpoint_equal_host(to, local) &&
           weft__endpoint_port(to) == weft__endpoint_port(local);
}

static bool connected(int fd, uint64_t deadline_ns)
{
    int error = 0;
    socklen_t length = sizeof error;
    if (!weft__socket_wait(fd, POLLOUT, deadline_ns))
        error = ETIMEDOUT;
    else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0)
        return false;
    errno = error;
    return !error;
}

int weft__endpoint_connect(const weft__endpoint *to, const weft__endpoint *from, uint64_t deadline_ns,
                           weft__endpoint *local_out)
{
    *local_out = (weft__endpoint){0};
    int fd = new_socket(to);
    if (fd < 0)
        return -1;
    if (from && from->where.ss_family == to->where.ss_family && !bind_to(fd, from))
        return give_up(fd);
    /* Interrupted, it goes on connecting by itself, as it does with EINPROGRESS; a unix socket starts anew. */
    int failed;
    do {
        failed = connect(fd, (const struct sockaddr *)&to->where, to->length);
    } while (failed && errno == EINTR && to->where.ss_family == AF_UNIX);
    int saved = errno;
    local_out->length = sizeof local_out->where;
    if (to->where.ss_family == AF_UNIX || getsockname(fd, (struct sockaddr *)&local_out->where, &local_out->length))
        local_out->length = 0;
    errno = saved;
    if (failed && ((errno != EINPROGRESS && errno != EINTR) || !connected(fd, deadline_ns)))
        return give_up(fd);
    if (is_itself(to, local_out)) {
        errno = ECONNREFUSED;
        return give_up(fd);
    }
    return fd;
}

int weft__endpoint_accept(int listener)
{
    int fd;
    do {
        fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    } while (fd < 0 && (errno == EINTR || errno == ECONNABORTED));
    return fd;
}

bool weft__endpoint_is_unix(int fd)
{
    struct sockaddr_storage own;
    socklen_t length = sizeof own;
    return getsockname(fd, (struct sockaddr *)&own, &length) == 0 && own.ss_family == AF_UNIX;
}

void weft__endpoint_tune(int fd)
{
    static const struct {
        int level, name, value;
    } options[] = {
        {IPPROTO_TCP, TCP_NODELAY, 1},   {SOL_SOCKET, SO_KEEPALIVE, 1}, {IPPROTO_TCP, TCP_KEEPIDLE, 15},
        {IPPROTO_TCP, TCP_KEEPINTVL, 5}, {IPPROTO_TCP, TCP_KEEPCNT, 6},
    };
    for (size_t i = 0; i < sizeof options / sizeof *options && !weft__endpoint_is_unix(fd); i++)
        (void)setsockopt(fd, options[i].level, options[i].name, &options[i].value, sizeof options[i].value);
}

bool weft__endpoint_same_user(int fd)
{
    struct ucred peer;
    socklen_t length = sizeof peer;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.uid == geteuid();
}
