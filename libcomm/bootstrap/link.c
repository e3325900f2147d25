/* SPDX-License-Identifier: Apache-2.0 */
/* Letters are packed one behind the other in a buffer for each direction; what has been taken leaves room in front. */
#include "bootstrap/link.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define READ_BYTES ((size_t)64 << 10) /* at once */

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
        unsigned char *larger = malloc(room);
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

void weft__link_open(weft__link *link, int fd)
{
    int flags = fcntl(fd, F_GETFL);
    fcntl(fd, F_SETFL, flags | O_NONBLOCK);
    *link = (weft__link){.fd = fd};
}

void weft__link_close(weft__link *link)
{
    if (link->fd >= 0)
        close(link->fd);
    free(link->in.bytes);
    free(link->out.bytes);
    *link = (weft__link){.fd = -1};
}

/* ------------------------------------------------------------------------------------------- writing */

bool weft__link_flush(weft__link *link)
{
    weft__letters *out = &link->out;
    while (link->fd >= 0 && out->begin < out->end) {
        ssize_t n = send(link->fd, out->bytes + out->begin, out->end - out->begin, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return false;
        if (n < 0)
            break; /* the reader finds out */
        out->begin += (size_t)n;
    }
    out->begin = out->end = 0;
    return true;
}

static void put(weft__letters *out, const void *from, size_t bytes)
{
    if (bytes)
        memcpy(out->bytes + out->end, from, bytes);
    out->end += bytes;
}

bool weft__link_send(weft__link *link, const weft__letter *head, const int *addressees, const void *content)
{
    if (link->fd < 0)
        return false;
    if (!make_room(&link->out, head->bytes)) {
        shutdown(link->fd, SHUT_RDWR);
        return false;
    }
    put(&link->out, head, sizeof *head);
    put(&link->out, addressees, (size_t)head->addressees * sizeof *addressees);
    put(&link->out, content, weft__letter_content_bytes(head));
    (void)weft__link_flush(link);
    return true;
}

/* ------------------------------------------------------------------------------------------- reading */

bool weft__link_receive(weft__link *link)
{
    weft__letters *in = &link->in;
    for (int turns = 0; link->fd >= 0 && turns < 16; turns++) { /* others want to be heard too */
        if (!make_room(in, READ_BYTES))
            return false;
        ssize_t n = recv(link->fd, in->bytes + in->end, in->room - in->end, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return true;
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
