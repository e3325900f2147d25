/* SPDX-License-Identifier: Apache-2.0 */
/* Reads one trace file: the header is believed only as far as it makes sense, and a record only if it is whole. */
#include "prof/file.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    HEADER_V1 = offsetof(weft_trace_header, machine), /* bytes of the header that version 1 has */
    MOST_LABELS = 1 << 20,
    MOST_LABEL_BYTES = 1 << 12,
    MOST_COMMS = 1 << 16,
    MOST_RECORDS = 1 << 26, /* of a ring */
    MOST_RANKS = 1 << 20
};

/* Where an answer goes. */
typedef struct reading {
    int fd;
    prof_file *file;
    char *why;
    size_t why_bytes;
} reading;

__attribute__((format(printf, 2, 3))) static bool refuse(reading *r, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(r->why, r->why_bytes, format, arguments);
    va_end(arguments);
    return false;
}

/* Read up to @p bytes that lie at @p at; how many there were. */
static size_t read_at(const reading *r, void *to, uint64_t at, size_t bytes)
{
    size_t done = 0;
    while (done < bytes) {
        ssize_t n = pread(r->fd, (char *)to + done, bytes - done, (off_t)(at + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        done += (size_t)n;
    }
    return done;
}

/* ---- the header ---- */

static bool check_sizes(reading *r)
{
    const weft_trace_header *h = &r->file->header;
    const struct {
        const char *name;
        uint64_t value, least, most;
    } fields[] = {
        {"header_bytes", h->header_bytes, h->version == 1 ? HEADER_V1 : sizeof *h, 1 << 20},
        {"record_bytes", h->record_bytes, sizeof(weft_trace_record), sizeof(weft_trace_record)},
        {"capacity", h->capacity, 1, MOST_RECORDS},
        {"labels", h->labels, 1, MOST_LABELS},
        {"label_bytes", h->label_bytes, 1, MOST_LABEL_BYTES},
        {"comms", h->comms, 0, MOST_COMMS},
        {"comm_bytes", h->comm_bytes, h->comms ? sizeof(weft_trace_comm) : 0, h->comms ? sizeof(weft_trace_comm) : 0},
        {"size", h->size < 0 ? 0 : (uint64_t)h->size, 1, MOST_RANKS},
        {"rank", h->rank < 0 ? UINT64_MAX : (uint64_t)h->rank, 0, h->size > 0 ? (uint64_t)h->size - 1 : 0},
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (fields[i].value < fields[i].least || fields[i].value > fields[i].most)
            return refuse(r, "damaged: its header has a %s of %lld", fields[i].name, (long long)fields[i].value);
    if (h->capacity & (h->capacity - 1))
        return refuse(r, "damaged: its header has a capacity of %u, not a power of two", h->capacity);
    if (!isfinite(h->ns_per_tick) || h->ns_per_tick < 1e-6 || h->ns_per_tick > 1e6)
        return refuse(r, "damaged: its header has %g ns a tick", h->ns_per_tick);
    return true;
}

static void make_printable(char *text, size_t bytes)
{
    text[bytes - 1] = 0;
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = '?';
}

static bool is_zero(const void *memory, size_t bytes)
{
    const unsigned char *byte = memory;
    while (bytes > 0 && byte[bytes - 1] == 0)
        bytes--;
    return bytes == 0;
}

static bool read_header(reading *r)
{
    weft_trace_header *h = &r->file->header;
    size_t bytes = read_at(r, h, 0, sizeof *h);
    if (bytes < HEADER_V1)
        return refuse(r, "cut off: %zu bytes, not even a header", bytes);
    if (h->magic != WEFT_TRACE_MAGIC)
        return refuse(r, is_zero(h, sizeof *h) ? "empty: its header was never written"
                         : h->magic == 0 ? "its first 8 bytes are zero: damaged, or its writer was killed as it began"
                                         : "not a trace file of weft");
    if (h->version < 1 || h->version > WEFT_TRACE_VERSION)
        return refuse(r, "of version %u of the format; this weft reads 1 to %d", h->version, WEFT_TRACE_VERSION);
    if (h->version == 1 || bytes < sizeof *h)
        memset((char *)h + HEADER_V1, 0, sizeof *h - HEADER_V1);
    make_printable(h->host, sizeof h->host);
    make_printable(h->clock, sizeof h->clock);
    make_printable(h->machine, sizeof h->machine);
    return check_sizes(r);
}

/* ---- tables and records ---- */

static uint64_t ring_at(const weft_trace_header *h)
{
    return h->header_bytes + (uint64_t)h->labels * h->label_bytes;
}

static uint64_t comms_at(const weft_trace_header *h)
{
    return ring_at(h) + (uint64_t)h->capacity * h->record_bytes;
}

/* Room for @p count of @p bytes, zero. */
static bool make_room(reading *r, void *pointer_out, size_t count, size_t bytes)
{
    void *memory = calloc(count ? count : 1, bytes);
    memcpy(pointer_out, &memory, sizeof memory);
    return memory || refuse(r, "too large: no memory for %zu times %zu bytes", count, bytes);
}

/* Of a table of @p count entries at @p at, those that the file reaches to. */
static size_t entries_there(const reading *r, uint64_t at, uint64_t count, size_t bytes)
{
    uint64_t there = r->file->bytes > at ? (r->file->bytes - at) / bytes : 0;
    return (size_t)(there < count ? there : count);
}

static bool read_tables(reading *r)
{
    prof_file *f = r->file;
    const weft_trace_header *h = &f->header;
    size_t labels = entries_there(r, h->header_bytes, h->labels, h->label_bytes);
    if (!make_room(r, &f->labels, labels, h->label_bytes) || !make_room(r, &f->comms, h->comms, sizeof *f->comms))
        return false;
    (void)read_at(r, f->labels, h->header_bytes, labels * h->label_bytes);
    for (size_t i = 0; i < labels; i++)
        make_printable(f->labels + i * h->label_bytes, h->label_bytes);
    f->label_count = (uint32_t)labels;
    size_t got = read_at(r, f->comms, comms_at(h), h->comms * sizeof *f->comms);
    f->comm_count = got / sizeof *f->comms;
    f->whole_bytes = comms_at(h) + (uint64_t)h->comms * h->comm_bytes;
    return true;
}

/* Keep what is whole in slots [from, to), of a ring the oldest record of which is number @p first. */
static void take_whole(prof_file *f, const weft_trace_record *ring, uint64_t first, uint64_t from, uint64_t to)
{
    uint64_t mask = f->header.capacity - 1;
    for (uint64_t slot = from; slot < to; slot++) {
        uint64_t number = first + ((slot - first) & mask);
        if (number < f->header.next && ring[slot].sequence == number + 1)
            f->records[f->count++] = ring[slot];
    }
}

/* The slots that hold anything, and of them the records that are whole, by their numbers. Those before a gap that was
 * cut into the middle are given up: what lies in between would be missed in steps that seem whole. */
static bool read_records(reading *r)
{
    prof_file *f = r->file;
    const weft_trace_header *h = &f->header;
    uint64_t first = h->next > h->capacity ? h->next - h->capacity : 0, kept = h->next - first;
    uint64_t at = ring_at(h);
    size_t slots = entries_there(r, at, kept, h->record_bytes);
    weft_trace_record *ring;
    if (!make_room(r, &ring, slots, sizeof *ring))
        return false;
    if (!make_room(r, &f->records, slots, sizeof *f->records)) {
        free(ring);
        return false;
    }
    slots = read_at(r, ring, at, slots * sizeof *ring) / sizeof *ring;
    uint64_t oldest = first & (h->capacity - 1);
    f->records_cut = slots < kept;
    if (oldest == 0 || !f->records_cut)
        take_whole(f, ring, first, oldest, slots);
    take_whole(f, ring, first, 0, oldest < slots ? oldest : slots);
    f->overwritten = first;
    f->lost = kept - f->count;
    free(ring);
    return true;
}

/* Does a record name a comm that the header speaks of, but the file does not reach to? */
static bool find_cut_comms(reading *r)
{
    prof_file *f = r->file;
    for (size_t i = 0; i < f->count && !f->comms_cut; i++) {
        const weft_trace_record *record = &f->records[i];
        bool has_comm = record->kind != WEFT_TRACE_SPAN && record->kind != WEFT_TRACE_STEP;
        f->comms_cut = has_comm && record->comm_entry >= f->comm_count && record->comm_entry < f->header.comms &&
                       record->comm_entry > 0;
    }
    return true;
}

bool prof_file_read(const char *path, prof_file *file, char *why, size_t bytes)
{
    *file = (prof_file){0};
    reading r = {.file = file, .why = why, .why_bytes = bytes};
    struct stat info;
    r.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe of that name must not keep us */
    if (r.fd < 0)
        return refuse(&r, "cannot be opened: %s", strerror(errno));
    bool is_file = fstat(r.fd, &info) == 0 && S_ISREG(info.st_mode);
    file->bytes = is_file ? (uint64_t)info.st_size : 0;
    bool read = (is_file || refuse(&r, "not a file")) && read_header(&r) && read_tables(&r) && read_records(&r) &&
                find_cut_comms(&r);
    close(r.fd);
    return read;
}

void prof_file_close(prof_file *file)
{
    free(file->labels);
    free(file->comms);
    free(file->records);
    *file = (prof_file){0};
}

const char *prof_file_label(const prof_file *file, uint32_t label)
{
    return label > 0 && label < file->label_count ? file->labels + (size_t)label * file->header.label_bytes : "";
}
