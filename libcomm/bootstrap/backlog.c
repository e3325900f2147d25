/* SPDX-License-Identifier: Apache-2.0 */
/* Letters that wait for a reader: what a later one makes untrue is dropped, the others keep their order. */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "bootstrap/link.h"

#define DROPPED (-1) /* in place of the number of addressees */

static weft__letter head_at(const unsigned char *letter)
{
    weft__letter head;
    memcpy(&head, letter, sizeof head);
    return head;
}

static size_t addressees_bytes(const weft__letter *head)
{
    return (size_t)head->addressees * sizeof(int);
}

/* What both are about is the same: all of the head but its length, and the addressees. */
static bool is_about_the_same(const unsigned char *a, const unsigned char *b)
{
    weft__letter x = head_at(a), y = head_at(b);
    return x.topic == y.topic && x.kind == y.kind && x.from == y.from && x.addressees == y.addressees &&
           memcmp(a + sizeof x, b + sizeof y, addressees_bytes(&x)) == 0;
}

static uint64_t hash_of(const unsigned char *letter)
{
    weft__letter head = head_at(letter);
    head.bytes = 0;
    return weft__hash(weft__hash(WEFT__HASH_START, &head, sizeof head), letter + sizeof head, addressees_bytes(&head));
}

static void drop(unsigned char *letter)
{
    weft__letter head = head_at(letter);
    head.addressees = DROPPED;
    memcpy(letter, &head, sizeof head);
}

/* The place in the table for what this letter is about: of the last one so far, or empty. */
static unsigned char **place_of(unsigned char **table, size_t slots, const unsigned char *letter)
{
    size_t at = (size_t)hash_of(letter) & (slots - 1);
    while (table[at] && !is_about_the_same(table[at], letter))
        at = (at + 1) & (slots - 1);
    return &table[at];
}

static void drop_untrue(unsigned char *letters, size_t size, unsigned char **table, size_t slots)
{
    for (size_t at = 0; at < size; at += head_at(letters + at).bytes) {
        if (!head_at(letters + at).topic)
            continue;
        unsigned char **place = place_of(table, slots, letters + at);
        if (*place)
            drop(*place);
        *place = letters + at;
    }
}

static size_t close_gaps(unsigned char *letters, size_t size)
{
    size_t end = 0;
    for (size_t at = 0, bytes; at < size; at += bytes) {
        weft__letter head = head_at(letters + at);
        bytes = head.bytes;
        if (head.addressees == DROPPED)
            continue;
        memmove(letters + end, letters + at, bytes);
        end += bytes;
    }
    return end;
}

size_t weft__letters_tidy(unsigned char *letters, size_t size)
{
    size_t count = 0, slots = 2;
    for (size_t at = 0; at < size; at += head_at(letters + at).bytes)
        count++;
    while (slots < 2 * count)
        slots *= 2;
    unsigned char **table = weft__alloc(slots * sizeof *table);
    if (!table)
        return size; /* they wait as they are */
    drop_untrue(letters, size, table, slots);
    free(table);
    return close_gaps(letters, size);
}
