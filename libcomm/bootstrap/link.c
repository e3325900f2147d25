/* SPDX-License-Identifier: Apache-2.0 */
/* Letters over a socket that never blocks: packed one behind the other in a buffer for each direction, where what has
 * been taken leaves room in front. */
#include "bootstrap/link.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/memory.h"

#define READ_BYTES ((size_t)16 << 10) /* at once, at least */
#define TIDY_BYTES ((size_t)64 << 10) /* that wait, before they are looked through */

_Static_assert(sizeof(weft__letter) % sizeof(int) == 0, "addressees are aligned behind the head");

/* Room for @p bytes behind what is there; letters begin where an int may. */
static bool make_room(weft__letters *l, size_t bytes)
{
    if (l->room - l->end >= bytes)
        return true;
    size_t used = l->end - l->begin;
    if (l->room - used >= bytes && l->begin >= used) {
        memcpy(l->bytes, l->bytes + l->begin, used);
    } else {
        size_t room = 2 * (used + bytes);
        unsigned char *larger = weft__alloc(room);
        if (!larger)
            return false;
        if (used)
            memcpy(larger, l->bytes + l->begin, used);
        free(l->bytes);
        l->bytes = larger;
        l->room = room;
    }
    l->begin = 0;
    l->end = used;
    return true;
}

/* Between two bursts a link holds no memory: rank 0 has one to every other rank. */
static void empty(weft__letters *l)
{
    free(l->bytes);
    *l = (weft__letters){0};
}

/* ------------------------------------------------------------------------------------------- opening and closing */

/* All links of this process. A child of fork() that kept them open would hide the death of its parent from whoever is
 * at the other end. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static weft__link *first;

static void before_fork(void)
{
    pthread_mutex_lock(&lock);
}

static void in_parent(void)
{
    pthread_mutex_unlock(&lock);
}

static void in_child(void)
{
    for (weft__link *link = first; link; link = link->next) {
        close(link->fd);
        link->fd = -1;
    }
    first = NULL;
    pthread_mutex_unlock(&lock);
}

static void watch_forks(void)
{
    pthread_atfork(before_fork, in_parent, in_child);
}

void weft__link_open(weft__link *link, int fd)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    int flags = fcntl(fd, F_GETFL);
    fcntl(fd, F_SETFL, flags | O_NONBLOCK);
    pthread_mutex_lock(&lock);
    *link = (weft__link){.fd = fd, .next = first};
    first = link;
    pthread_mutex_unlock(&lock);
}

void weft__link_close(weft__link *link)
{
    pthread_mutex_lock(&lock);
    weft__link **at = &first;
    while (*at && *at != link)
        at = &(*at)->next;
    if (*at) {
        *at = link->next;
        close(link->fd);
    }
    link->fd = -1;
    pthread_mutex_unlock(&lock);
    empty(&link->in);
    empty(&link->out);
}

/* ------------------------------------------------------------------------------------------- writing */

/* How many bytes the socket took: all of them also if it is broken, which the reader finds out. */
static size_t write_some(weft__link *link, struct iovec *parts, size_t count)
{
    int fd = link->fd;
    size_t all = 0;
    for (size_t i = 0; i < count; i++)
        all += parts[i].iov_len;
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = count};
    ssize_t n;
    do {
        n = sendmsg(fd, &message, MSG_NOSIGNAL);
    } while (n < 0 && errno == EINTR);
    if (n >= 0)
        return (size_t)n;
    if (errno == EAGAIN || errno == EWOULDBLOCK)
        return 0;
    link->error = link->error || errno == EPIPE ? link->error : errno;
    shutdown(fd, SHUT_RDWR); /* what was lost would leave the rest without sense */
    return all;
}

/* Letters lie at odd places behind one that was written in part. */
static size_t bytes_at(const weft__letters *l, size_t at)
{
    weft__letter head;
    memcpy(&head, l->bytes + at, sizeof head);
    return head.bytes;
}

bool weft__link_flush(weft__link *link)
{
    weft__letters *out = &link->out;
    while (link->fd >= 0 && out->begin < out->end) {
        size_t n = write_some(link, &(struct iovec){out->bytes + out->begin, out->end - out->begin}, 1);
        if (n == 0)
            return false;
        out->begin += n;
        while (link->whole < out->begin)
            link->whole += bytes_at(out, link->whole);
    }
    empty(out);
    link->whole = link->tidy_at = 0;
    return true;
}

/* Is there room for so many more bytes among those that wait? What has become untrue makes some. */
static bool may_wait(weft__link *link, size_t bytes)
{
    weft__letters *out = &link->out;
    size_t waiting = out->end - link->whole, tidy_at = link->tidy_at > TIDY_BYTES ? link->tidy_at : TIDY_BYTES;
    if (waiting + bytes > (link->most && link->most < tidy_at ? link->most : tidy_at)) {
        waiting = weft__letters_tidy(out->bytes + link->whole, waiting);
        out->end = link->whole + waiting;
        link->tidy_at = 2 * (waiting + bytes);
    }
    link->overrun |= link->most && waiting + bytes > link->most;
    return !link->overrun;
}

/* Queue what is behind the first @p skipped bytes. False: no memory, or too much, and the link ends. */
static bool put(weft__link *link, const struct iovec *parts, size_t count, size_t bytes, size_t skipped)
{
    weft__letters *out = &link->out;
    bool room = may_wait(link, bytes);
    size_t begun = link->whole - out->begin; /* bytes */
    if (!room || !make_room(out, bytes - skipped)) {
        shutdown(link->fd, SHUT_RDWR);
        return false;
    }
    link->whole = skipped ? out->end + bytes - skipped : out->begin + begun;
    for (size_t i = 0; i < count; i++) {
        size_t skip = skipped < parts[i].iov_len ? skipped : parts[i].iov_len;
        skipped -= skip;
        if (parts[i].iov_len > skip)
            memcpy(out->bytes + out->end, (const char *)parts[i].iov_base + skip, parts[i].iov_len - skip);
        out->end += parts[i].iov_len - skip;
    }
    return true;
}

static bool send_or_put(weft__link *link, const weft__letter *head, const int *addressees, const void *content,
                        bool at_once)
{
    if (link->fd < 0)
        return false;
    struct iovec parts[] = {
        {(void *)(uintptr_t)head, sizeof *head},
        {(void *)(uintptr_t)addressees, (size_t)head->addressees * sizeof *addressees},
        {(void *)(uintptr_t)content, weft__letter_content_bytes(head)},
    };
    size_t count = sizeof parts / sizeof *parts;
    bool direct = at_once && link->out.begin == link->out.end;
    size_t written = direct ? write_some(link, parts, count) : 0;
    return written == head->bytes || put(link, parts, count, head->bytes, written);
}

bool weft__link_send(weft__link *link, const weft__letter *head, const int *addressees, const void *content)
{
    return send_or_put(link, head, addressees, content, true);
}

bool weft__link_put(weft__link *link, const weft__letter *head, const int *addressees, const void *content)
{
    return send_or_put(link, head, addressees, content, false);
}

/* ------------------------------------------------------------------------------------------- reading */

bool weft__link_receive(weft__link *link)
{
    weft__letters *in = &link->in;
    /* The longest letter is there whole by then, and others want to be heard too. */
    while (link->fd >= 0 && in->end - in->begin < WEFT__LETTER_MOST) {
        if (!make_room(in, READ_BYTES))
            return false;
        ssize_t n = recv(link->fd, in->bytes + in->end, in->room - in->end, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return true;
        if (n < 0)
            link->error = link->error ? link->error : errno;
        if (n <= 0)
            return false;
        in->end += (size_t)n;
    }
    return link->fd >= 0;
}

static bool is_sound(const weft__letter *head)
{
    return head->bytes >= sizeof *head && head->bytes <= WEFT__LETTER_MOST && head->bytes % 4 == 0 &&
           head->addressees >= 0 && (size_t)head->addressees <= (head->bytes - sizeof *head) / sizeof(int);
}

const weft__letter *weft__link_next(weft__link *link, bool *sound_out)
{
    weft__letters *in = &link->in;
    *sound_out = true;
    if (in->end == in->begin)
        empty(in);
    if (in->end - in->begin < sizeof(weft__letter))
        return NULL;
    const weft__letter *letter = (const weft__letter *)(in->bytes + in->begin);
    if (!is_sound(letter)) {
        *sound_out = false;
        return NULL;
    }
    if (in->end - in->begin < letter->bytes)
        return NULL;
    in->begin += letter->bytes;
    return letter;
}

void weft__link_forget(weft__link *link)
{
    empty(&link->in);
}
