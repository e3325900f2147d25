/* SPDX-License-Identifier: Apache-2.0 */
/* A link: letters in order over a connected stream socket that never blocks. What does not fit into the socket waits
 * in memory, but for what a later letter makes untrue; a reader that lets more wait than may is given up. One thread
 * reads; who writes is up to the caller's lock. */
#ifndef WEFT_BOOTSTRAP_LINK_H
#define WEFT_BOOTSTRAP_LINK_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WEFT__LETTER_MOST ((size_t)1 << 20) /* bytes of a letter, its head included */

typedef struct weft__letter {
    uint32_t bytes; /* all of it, this head included: what follows are the addressees, then the content */
    uint32_t kind;
    int32_t from; /* a rank */
    int32_t addressees;
    uint32_t topic; /* of letters of one kind and sender to the same addressees, the last on a topic counts; 0 = each */
} weft__letter;

typedef struct weft__letters { /* bytes on their way */
    unsigned char *bytes;
    size_t begin, end, room;
} weft__letters;

typedef struct weft__link {
    int fd; /* -1 = it has ended */
    weft__letters in, out;
    size_t whole;            /* in `out`: where letters begin of which nothing was written */
    size_t tidy_at;          /* so many bytes of them are looked through for what has become untrue */
    size_t most;             /* so many may be left; 0 = any number */
    _Atomic bool overrun;    /* more were, and it ends */
    _Atomic int error;       /* that it ended with; 0 = none. Who reads and who writes find it */
    struct weft__link *next; /* of this process */
} weft__link;

/* Takes @p fd, and makes it non-blocking. A child of fork() has the link closed. It stays where it is in memory. */
void weft__link_open(weft__link *link, int fd);
/* One that has ended, or was never opened (fd -1), is fine. */
void weft__link_close(weft__link *link);

/* Write a letter; what the socket does not take is queued, which is all that takes memory. False: the link has ended,
 * or there is no memory or too much waits, and it ends. */
bool weft__link_send(weft__link *link, const weft__letter *head, const int *addressees, const void *content);
/* Queue it only, for whoever has many to write at once. */
bool weft__link_put(weft__link *link, const weft__letter *head, const int *addressees, const void *content);
/* Is there something to be flushed? */
static inline bool weft__link_is_behind(const weft__link *link)
{
    return link->out.end > link->out.begin;
}
/* Write what the socket takes. False: something is left. */
bool weft__link_flush(weft__link *link);
/* Read what has come. False: the other end has closed it, or it is broken; letters that came before are still there. */
bool weft__link_receive(weft__link *link);
/* The next letter that is here whole, or NULL; it stays until the next call. *sound_out is false if what came is no
 * letter. */
const weft__letter *weft__link_next(weft__link *link, bool *sound_out);
/* Drop what has come and was not taken. */
void weft__link_forget(weft__link *link);

/* backlog.c: of @p size bytes of letters, drop those that a later one on their topic makes untrue. How many bytes are
 * left. */
size_t weft__letters_tidy(unsigned char *letters, size_t size);

static inline const int *weft__letter_addressees(const weft__letter *letter)
{
    return (const int *)(letter + 1);
}

static inline size_t weft__letter_content_bytes(const weft__letter *letter)
{
    return letter->bytes - sizeof *letter - (size_t)letter->addressees * sizeof(int);
}

static inline const void *weft__letter_content(const weft__letter *letter)
{
    return weft__letter_addressees(letter) + letter->addressees;
}

#endif
