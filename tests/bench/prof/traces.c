/* SPDX-License-Identifier: Apache-2.0 */
/* Writes files as libcomm/include/weft/trace.h describes them. */
#include "traces.h"

#include <dirent.h>
#include <stdlib.h>
#include <unistd.h>
#include <weft/collective.h>
#include <weft/p2p.h>

#include "harness/test.h"

#define TICKS_PER_US 2000.0
#define TICK0        1000000007
#define NS0          5000000000
#define RECORDS      65536

void traces_folder(char *folder)
{
    snprintf(folder, 64, "/tmp/weft-prof-XXXXXX");
    CHECK(mkdtemp(folder) != NULL);
}

void traces_remove(const char *folder)
{
    DIR *directory = opendir(folder);
    CHECK(directory != NULL);
    for (const struct dirent *entry; (entry = readdir(directory));) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        unlink(path);
    }
    closedir(directory);
    rmdir(folder);
}

/* ---- a rank ---- */

traced traced_rank(int rank, int size, const char *machine, double ahead_us)
{
    traced t = {.header = {.magic = WEFT_TRACE_MAGIC,
                           .version = WEFT_TRACE_VERSION,
                           .header_bytes = 4096,
                           .record_bytes = sizeof(weft_trace_record),
                           .labels = TRACES_LABELS,
                           .label_bytes = WEFT_TRACE_LABEL_BYTES,
                           .rank = rank,
                           .size = size,
                           .tick0 = (uint64_t)(TICK0 + llround(ahead_us * TICKS_PER_US)),
                           .monotonic0_ns = (uint64_t)(NS0 + llround(ahead_us * 1000)),
                           .ns_per_tick = 1000.0 / TICKS_PER_US,
                           .realtime0_ns = (uint64_t)1700000000 * 1000000000,
                           .clock = "CLOCK_MONOTONIC",
                           .comms = TRACES_COMMS,
                           .comm_bytes = sizeof(weft_trace_comm)},
                .ticks_per_us = TICKS_PER_US};
    snprintf(t.header.machine, sizeof t.header.machine, "%s/%d", machine, rank);
    snprintf(t.header.host, sizeof t.header.host, "host-%s", machine);
    t.records = calloc(RECORDS, sizeof *t.records);
    CHECK(t.records != NULL);
    return t;
}

void traced_free(traced *t)
{
    free(t->records);
    t->records = NULL;
}

uint32_t traced_label(traced *t, const char *text)
{
    uint32_t label = 1;
    while (label < TRACES_LABELS && t->labels[label][0] && strcmp(t->labels[label], text) != 0)
        label++;
    CHECK(label < TRACES_LABELS);
    snprintf(t->labels[label], sizeof t->labels[label], "%s", text);
    return label;
}

uint16_t traced_comm(traced *t, const char *name, int rank, int size, uint64_t members)
{
    uint16_t entry = 1;
    while (entry < TRACES_COMMS && t->comms[entry].label)
        entry++;
    CHECK(entry < TRACES_COMMS);
    t->comms[entry] = (weft_trace_comm){.label = traced_label(t, name),
                                        .incarnation = 1,
                                        .rank = rank,
                                        .size = size,
                                        .members = members,
                                        .backend = traced_label(t, "made-up")};
    return entry;
}

/* ---- its records ---- */

uint64_t traced_tick(const traced *t, double us)
{
    return us == 0 ? 0 : t->header.tick0 + (uint64_t)llround(us * t->ticks_per_us);
}

weft_trace_record *traced_next(traced *t, weft_trace_kind kind)
{
    CHECK(t->count < RECORDS);
    weft_trace_record *r = &t->records[t->count++];
    *r = (weft_trace_record){.sequence = t->count, .kind = (uint8_t)kind, .late_rank = -1};
    return r;
}

static weft_trace_record *operation(traced *t, weft_trace_kind kind, uint16_t comm, traced_times us)
{
    weft_trace_record *r = traced_next(t, kind);
    r->comm = t->comms[comm].label;
    r->comm_entry = comm;
    r->result = us.last == 0 ? WEFT_PENDING : WEFT_OK;
    r->bytes = 1 << 20;
    r->ready = traced_tick(t, us.ready);
    r->start = us.last == 0 ? 0 : r->ready; /* not known before it is finished */
    r->first = r->start;
    r->last = traced_tick(t, us.last);
    r->wait = traced_tick(t, us.wait);
    r->go = traced_tick(t, us.go);
    r->last_arrival = traced_tick(t, us.arrival);
    return r;
}

weft_trace_record *traced_collective(traced *t, uint16_t comm, uint64_t number, const char *label, traced_times us)
{
    weft_trace_record *r = operation(t, WEFT_TRACE_COLLECTIVE, comm, us);
    r->operation = WEFT_REDUCE_SCATTER;
    r->number = number;
    r->label = *label ? traced_label(t, label) : 0;
    return r;
}

void traced_step(traced *t, uint64_t number, const char *label, double begin_us, double end_us)
{
    weft_trace_record *r = traced_next(t, WEFT_TRACE_STEP);
    r->number = number;
    r->label = *label ? traced_label(t, label) : 0;
    r->start = traced_tick(t, begin_us);
    r->last = traced_tick(t, end_us);
}

void traced_span(traced *t, const char *label, uint64_t number, double begin_us, double end_us)
{
    weft_trace_record *r = traced_next(t, WEFT_TRACE_SPAN);
    r->number = number;
    r->label = traced_label(t, label);
    r->start = traced_tick(t, begin_us);
    r->last = traced_tick(t, end_us);
}

void traced_message(traced *t, uint16_t comm, bool sends, int peer, uint64_t number, traced_times us)
{
    operation(t, WEFT_TRACE_P2P, comm, us)->messages = 1;
    weft_trace_record *m = traced_next(t, WEFT_TRACE_MESSAGE);
    m->operation = sends ? WEFT_SEND : WEFT_RECV;
    m->comm = t->comms[comm].label;
    m->comm_entry = comm;
    m->number = number;
    m->bytes = 1 << 20;
    m->late_rank = peer;
}

/* ---- its file ---- */

static void put(FILE *file, const void *data, size_t bytes)
{
    CHECK_INT(fwrite(data, 1, bytes, file), bytes);
}

void traced_write(traced *t, const char *folder, uint32_t capacity)
{
    char path[512];
    t->header.capacity = capacity ? capacity : 1;
    while (!capacity && t->header.capacity < t->count)
        t->header.capacity *= 2;
    t->header.next = t->count;
    weft_trace_record *ring = calloc(t->header.capacity, sizeof *ring);
    CHECK(ring != NULL);
    for (size_t i = 0; i < t->count; i++)
        ring[i % t->header.capacity] = t->records[i];
    snprintf(path, sizeof path, "%s/trace.%d.weft", folder, t->header.rank);
    FILE *file = fopen(path, "w");
    CHECK(file != NULL);
    char page[4096] = {0};
    memcpy(page, &t->header, sizeof t->header);
    put(file, page, sizeof page);
    put(file, t->labels, sizeof t->labels);
    put(file, ring, t->header.capacity * sizeof *ring);
    put(file, t->comms, sizeof t->comms);
    CHECK(fclose(file) == 0);
    free(ring);
}
