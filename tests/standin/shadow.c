/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps a list of pieces for each block, cut where accesses begin and end. */
#include "shadow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct use {
    const char *what;
    int stream;
    standin_moment when;
} use;

/* Bytes that were last touched alike. */
typedef struct piece {
    size_t begin, end;
    bool written;
    use writer;
    use *readers; /* since it was written; one a timeline */
    size_t reader_count;
    struct piece *next;
} piece;

typedef struct block {
    char *memory;
    size_t bytes;
    standin_where where;
    int device;
    piece *pieces;
    struct block *next;
} block;

static block *blocks;
static void (*on_race)(const char *text);
static uint64_t races;

/* ---- blocks ---- */

static void *need(void *memory)
{
    if (!memory)
        abort();
    return memory;
}

static block **find_link(const void *memory)
{
    for (block **link = &blocks; *link; link = &(*link)->next)
        if ((const char *)memory >= (*link)->memory && (const char *)memory < (*link)->memory + (*link)->bytes)
            return link;
    return NULL;
}

void standin_shadow_add(void *memory, size_t bytes, standin_where where, int device)
{
    block *b = need(calloc(1, sizeof *b));
    piece *whole = need(calloc(1, sizeof *whole));
    whole->end = bytes;
    *b = (block){.memory = memory, .bytes = bytes, .where = where, .device = device, .pieces = whole, .next = blocks};
    blocks = b;
}

static void free_piece(piece *p)
{
    free(p->readers);
    free(p);
}

bool standin_shadow_remove(const void *memory, standin_where where)
{
    block **link = find_link(memory);
    if (!link || (*link)->where != where || (*link)->memory != memory)
        return false;
    block *b = *link;
    *link = b->next;
    for (piece *p = b->pieces, *next; p; p = next) {
        next = p->next;
        free_piece(p);
    }
    free(b);
    return true;
}

standin_where standin_shadow_find(const void *memory, int *device_out)
{
    block **link = find_link(memory);
    *device_out = link ? (*link)->device : -1;
    return link ? (*link)->where : STANDIN_UNKNOWN;
}

size_t standin_shadow_device_bytes(int device)
{
    size_t bytes = 0;
    for (const block *b = blocks; b; b = b->next)
        bytes += b->where == STANDIN_DEVICE && b->device == device ? b->bytes : 0;
    return bytes;
}

/* ---- races ---- */

void standin_on_race(void (*report)(const char *text))
{
    on_race = report;
}

uint64_t standin_races(void)
{
    return races;
}

void standin_report(const char *text)
{
    races++;
    if (on_race) {
        on_race(text);
        return;
    }
    fprintf(stderr, "standin: %s\n", text);
    _exit(STANDIN_EXIT);
}

static void report_race(const standin_access *access, bool writes, const block *b, const piece *p, const use *other,
                        bool other_wrote)
{
    char text[400];
    snprintf(text, sizeof text,
             "race: '%s' on stream %d %s bytes %zu to %zu of a block of %zu that '%s' on stream %d %s, and nothing "
             "orders one behind the other",
             access->what, access->stream, writes ? "writes" : "reads", p->begin, p->end, b->bytes, other->what,
             other->stream, other_wrote ? "writes" : "reads");
    standin_report(text);
}

static void report_stranger(const standin_access *access, const standin_range *range)
{
    char text[300];
    snprintf(text, sizeof text, "stray: '%s' on stream %d %s %zu bytes that are no memory of the device", access->what,
             access->stream, range->writes ? "writes" : "reads", range->bytes);
    standin_report(text);
}

/* ---- accesses ---- */

/* Cut the pieces so that one begins at @p at. */
static void cut(block *b, size_t at)
{
    for (piece *p = b->pieces; p; p = p->next) {
        if (at <= p->begin || at >= p->end)
            continue;
        piece *rest = need(malloc(sizeof *rest));
        *rest = *p;
        rest->readers = NULL;
        if (p->reader_count) {
            rest->readers = need(malloc(p->reader_count * sizeof *rest->readers));
            memcpy(rest->readers, p->readers, p->reader_count * sizeof *rest->readers);
        }
        rest->begin = p->end = at;
        p->next = rest;
        return;
    }
}

static void check(const standin_access *access, bool writes, const block *b, const piece *p)
{
    if (p->written && !standin_clock_covers(access->before, p->writer.when))
        report_race(access, writes, b, p, &p->writer, true);
    for (size_t i = 0; writes && i < p->reader_count; i++)
        if (!standin_clock_covers(access->before, p->readers[i].when))
            report_race(access, writes, b, p, &p->readers[i], false);
}

static void note_reader(piece *p, const use *reader)
{
    for (size_t i = 0; i < p->reader_count; i++)
        if (p->readers[i].when.timeline == reader->when.timeline) {
            p->readers[i] = *reader;
            return;
        }
    p->readers = need(realloc(p->readers, (p->reader_count + 1) * sizeof *p->readers));
    p->readers[p->reader_count++] = *reader;
}

static void note_writer(piece *p, const use *writer)
{
    p->written = true;
    p->writer = *writer;
    p->reader_count = 0;
}

/* Pieces that a write has made alike become one. */
static void unite(block *b)
{
    for (piece *p = b->pieces; p && p->next;) {
        piece *next = p->next;
        bool alike = p->written && next->written && !p->reader_count && !next->reader_count &&
                     p->writer.when.timeline == next->writer.when.timeline &&
                     p->writer.when.tick == next->writer.when.tick;
        if (!alike) {
            p = next;
            continue;
        }
        p->end = next->end;
        p->next = next->next;
        free_piece(next);
    }
}

static bool touch(const standin_access *access, const standin_range *range)
{
    if (!range->bytes)
        return true;
    block **link = find_link(range->memory);
    size_t begin = link ? (size_t)((const char *)range->memory - (*link)->memory) : 0;
    if (!link || range->bytes > (*link)->bytes - begin) {
        report_stranger(access, range);
        return false;
    }
    block *b = *link;
    cut(b, begin);
    cut(b, begin + range->bytes);
    const use mine = {access->what, access->stream, access->when};
    for (piece *p = b->pieces; p; p = p->next) {
        if (p->begin < begin || p->end > begin + range->bytes)
            continue;
        check(access, range->writes, b, p);
        if (range->writes)
            note_writer(p, &mine);
        else
            note_reader(p, &mine);
    }
    if (range->writes)
        unite(b);
    return true;
}

bool standin_shadow_touch(const standin_access *access, const standin_range *ranges, size_t count)
{
    bool known = true;
    for (size_t i = 0; i < count; i++)
        known &= touch(access, &ranges[i]);
    return known;
}
