/* SPDX-License-Identifier: Apache-2.0 */
/* The trace ring. Words of a record are stored one by one and its sequence last, so that another process, or this one
 * after the other was killed, never takes half a record for a whole one. */
#include "trace.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/collectives.h"
#include "base/dtype.h"
#include "base/error.h"
#include "base/log.h"
#include "comm.h"

#define HEADER_BYTES  4096
#define WORDS         (sizeof(weft_trace_record) / sizeof(uint64_t))
#define RECORDS       8192
#define MESSAGES_MOST 1024 /* of a batch that are recorded one by one; or a quarter of the ring */

struct weft__trace {
    weft_trace_header *header;
    char (*labels)[WEFT_TRACE_LABEL_BYTES];
    weft_trace_record *ring;
    weft_trace_comm *comms;
    uint64_t mask;
    size_t bytes;
    bool in_file; /* messages are recorded */
    _Atomic bool off;
    _Atomic uint32_t label_count;
    _Atomic bool is_full; /* of labels, which was said */
    uint32_t comm_count;
    pthread_mutex_t label_lock;
};

_Static_assert(sizeof(weft_trace_record) % sizeof(uint64_t) == 0, "records are words");
_Static_assert(sizeof(weft_trace_header) <= HEADER_BYTES, "the header is one page");

static weft_result map_trace(const char *folder, int rank, size_t bytes, void **memory_out)
{
    if (!folder) {
        *memory_out = weft__map_pages(bytes);
        return *memory_out ? WEFT_OK : WEFT_E_NO_MEMORY;
    }
    char path[512];
    if (snprintf(path, sizeof path, "%s/trace.%d.weft", folder, rank) >= (int)sizeof path)
        return weft__fail(WEFT_E_INVALID, "trace folder '%s' has too long a name", folder);
    if (mkdir(folder, 0777) != 0 && errno != EEXIST)
        return weft__fail_errno("cannot make trace folder '%s'", folder);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        return weft__fail_errno("cannot make '%s'", path);
    int failed = posix_fallocate(fd, 0, (off_t)bytes);
    void *memory = failed ? MAP_FAILED : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    int saved = failed ? failed : errno;
    close(fd);
    errno = saved;
    if (memory == MAP_FAILED)
        return weft__fail_errno("no room for '%s' (%zu bytes)", path, bytes);
    *memory_out = memory;
    return WEFT_OK;
}

/* Where the parts of a file begin. */
typedef struct places {
    size_t labels, ring, comms, end;
} places;

static places places_of(uint32_t records)
{
    places p = {.labels = HEADER_BYTES};
    p.ring = p.labels + (size_t)WEFT_TRACE_LABELS * WEFT_TRACE_LABEL_BYTES;
    p.comms = p.ring + (size_t)records * sizeof(weft_trace_record);
    p.end = p.comms + (size_t)WEFT_TRACE_COMMS * sizeof(weft_trace_comm);
    return p;
}

/* A second look at both clocks, as late as can be, tells their rates best. */
static void look_at_clocks(weft_trace_header *header)
{
    uint64_t tick, ns;
    weft__read_clocks(&tick, &ns);
    __atomic_store_n(&header->monotonic1_ns, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&header->tick1, tick, __ATOMIC_RELEASE);
    __atomic_store_n(&header->monotonic1_ns, ns, __ATOMIC_RELEASE);
}

static void fill_header(weft_trace_header *header, const weft__trace_owner *owner, uint32_t records)
{
    struct timespec now;
    uint64_t tick, ns;
    clock_gettime(CLOCK_REALTIME, &now);
    weft__read_clocks(&tick, &ns);
    *header = (weft_trace_header){.version = WEFT_TRACE_VERSION,
                                  .header_bytes = HEADER_BYTES,
                                  .record_bytes = sizeof(weft_trace_record),
                                  .capacity = records,
                                  .labels = WEFT_TRACE_LABELS,
                                  .label_bytes = WEFT_TRACE_LABEL_BYTES,
                                  .rank = owner->rank,
                                  .size = owner->size,
                                  .ns_per_tick = weft__ns_per_tick(),
                                  .tick0 = tick,
                                  .monotonic0_ns = ns,
                                  .realtime0_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec,
                                  .clock = "CLOCK_MONOTONIC",
                                  .comms = WEFT_TRACE_COMMS,
                                  .comm_bytes = sizeof(weft_trace_comm),
                                  .crowded = owner->crowded};
    snprintf(header->host, sizeof header->host, "%s", owner->host);
    snprintf(header->machine, sizeof header->machine, "%s", owner->machine);
    header->magic = WEFT_TRACE_MAGIC;
}

weft_result weft__trace_open(const char *folder, const weft__trace_owner *owner, uint32_t records,
                             weft__trace **trace_out)
{
    records = records ? records : RECORDS;
    if (records & (records - 1))
        return weft__fail(WEFT_E_INVALID, "trace_records is %u, not a power of two", records);
    weft__trace *trace = weft__alloc(sizeof *trace);
    if (!trace)
        return WEFT_E_NO_MEMORY;
    places at = places_of(records);
    trace->bytes = at.end;
    void *memory;
    weft_result result = map_trace(folder, owner->rank, trace->bytes, &memory);
    if (result != WEFT_OK) {
        free(trace);
        return result;
    }
    trace->header = memory;
    trace->labels = (void *)((char *)memory + at.labels);
    trace->ring = (void *)((char *)memory + at.ring);
    trace->comms = (void *)((char *)memory + at.comms);
    trace->mask = records - 1;
    trace->in_file = folder != NULL;
    trace->label_count = trace->comm_count = 1;
    pthread_mutex_init(&trace->label_lock, NULL);
    fill_header(trace->header, owner, records);
    *trace_out = trace;
    return WEFT_OK;
}

void weft__trace_close(weft__trace *trace)
{
    if (!trace)
        return;
    look_at_clocks(trace->header);
    munmap(trace->header, trace->bytes);
    pthread_mutex_destroy(&trace->label_lock);
    free(trace);
}

/* ------------------------------------------------------------------------------------------- records */

static uint64_t reserve(weft__trace *trace, uint32_t count)
{
    return __atomic_fetch_add(&trace->header->next, count, __ATOMIC_RELAXED);
}

/* Write record @p number, unless its slot already belongs to a later one. */
static void put(weft__trace *trace, uint64_t number, const weft_trace_record *record)
{
    uint64_t *slot = (uint64_t *)&trace->ring[number & trace->mask];
    if (__atomic_load_n(&slot[0], __ATOMIC_RELAXED) > number + 1)
        return;
    __atomic_store_n(&slot[0], 0, __ATOMIC_RELAXED);
    for (size_t i = 1; i < WORDS; i++) {
        uint64_t word;
        memcpy(&word, (const char *)record + i * sizeof word, sizeof word);
        __atomic_store_n(&slot[i], word, __ATOMIC_RELEASE); /* not before the sequence was cleared */
    }
    __atomic_store_n(&slot[0], number + 1, __ATOMIC_RELEASE);
}

static bool get(const weft__trace *trace, uint64_t number, weft_trace_record *record)
{
    uint64_t words[WORDS];
    const uint64_t *slot = (const uint64_t *)&trace->ring[number & trace->mask];
    uint64_t before = __atomic_load_n(&slot[0], __ATOMIC_ACQUIRE);
    for (size_t i = 1; i < WORDS; i++)
        words[i] = __atomic_load_n(&slot[i], __ATOMIC_ACQUIRE);
    words[0] = __atomic_load_n(&slot[0], __ATOMIC_RELAXED);
    if (before != number + 1 || words[0] != before)
        return false;
    memcpy(record, words, sizeof *record);
    return true;
}

static uint64_t bytes_of(const weft__work *work)
{
    const weft_op *op = &work->op;
    uint64_t bytes = 0;
    if (op->is_p2p) {
        for (uint32_t i = 0; i < op->message_count; i++)
            bytes += op->messages[i].count * weft__dtype_bytes(op->messages[i].dtype);
        return bytes;
    }
    return op->what.count * weft__dtype_bytes(op->what.dtype) *
           weft__most_parts(&weft__collectives[op->what.kind], work->comm->size);
}

/* Records of messages that a work has: so many would push everything else out of the ring. */
static bool is_too_many(const weft__trace *trace, uint32_t messages)
{
    uint64_t most = (trace->mask + 1) / 4;
    return messages > (most < MESSAGES_MOST ? most : MESSAGES_MOST);
}

static uint16_t messages_of(const weft__trace *trace, const weft__work *work)
{
    uint32_t count = work->op.is_p2p && work->comm->messages ? work->op.message_count : 0;
    return is_too_many(trace, count) ? 0 : (uint16_t)count;
}

/* How many messages have none for that. */
static uint32_t untold_of(const weft__trace *trace, const weft__work *work)
{
    uint32_t count = work->comm->messages ? work->op.message_count : 0;
    return is_too_many(trace, count) ? count : 0;
}

static weft_trace_record record_of(const weft__trace *trace, const weft__work *work)
{
    const weft_op *op = &work->op;
    return (weft_trace_record){.kind = op->is_p2p ? WEFT_TRACE_P2P : WEFT_TRACE_COLLECTIVE,
                               .operation = (uint8_t)op->what.kind,
                               .dtype = (uint8_t)op->what.dtype,
                               .reduction = (uint8_t)op->what.reduction,
                               .label = op->label,
                               .comm = work->comm->label,
                               .comm_entry = work->comm->trace_entry,
                               .messages = messages_of(trace, work),
                               .result = WEFT_PENDING,
                               .number = op->is_p2p ? untold_of(trace, work) : op->number,
                               .bytes = bytes_of(work),
                               .late_rank = -1,
                               .ready = work->ready};
}

/* The next number of those to, or from, that peer on that channel. */
static uint64_t number_message(weft_comm *comm, const weft_p2p *m)
{
    return ++comm->messages[((size_t)m->peer * comm->config.p2p_channels + m->channel) * 2 + (m->kind == WEFT_RECV)];
}

/* Number the messages of a batch, and write who they go to and come from, behind its record, unless they are many. */
static void put_messages(weft__trace *trace, const weft__work *work, uint64_t number)
{
    const weft_op *op = &work->op;
    weft_comm *comm = work->comm;
    bool many = is_too_many(trace, op->message_count);
    for (uint32_t i = 0; i < op->message_count; i++) {
        const weft_p2p *m = &op->messages[i];
        uint64_t message = number_message(comm, m);
        if (many)
            continue;
        weft_trace_record record = {.kind = WEFT_TRACE_MESSAGE,
                                    .operation = (uint8_t)m->kind,
                                    .dtype = (uint8_t)m->dtype,
                                    .label = op->label,
                                    .comm = comm->label,
                                    .comm_entry = comm->trace_entry,
                                    .messages = (uint16_t)m->channel,
                                    .number = message,
                                    .bytes = m->count * weft__dtype_bytes(m->dtype),
                                    .late_rank = comm->ranks[m->peer]};
        put(trace, ++number, &record);
    }
}

/* A place for the record of a work, and for those of its messages, which are written. */
static uint64_t make_room(weft__trace *trace, const weft__work *work)
{
    uint64_t number = reserve(trace, 1u + messages_of(trace, work));
    if (work->op.is_p2p && work->comm->messages)
        put_messages(trace, work, number);
    return number;
}

/* The next record's place is not in the cache: it is on its way when the next operation, which publishes behind its
 * record, writes there. */
static void fetch_next(const weft__trace *trace)
{
    uint64_t number = __atomic_load_n(&trace->header->next, __ATOMIC_RELAXED);
    const char *next = (const char *)&trace->ring[number & trace->mask];
    __builtin_prefetch(next, 1);
    __builtin_prefetch(next + 64, 1);
}

static bool is_off(const weft__trace *trace)
{
    return __builtin_expect(atomic_load_explicit(&trace->off, memory_order_relaxed), 0);
}

void weft__trace_start(weft__trace *trace, weft__work *work)
{
    if (is_off(trace))
        return;
    work->record = make_room(trace, work);
    weft_trace_record record = record_of(trace, work);
    put(trace, work->record, &record);
}

void weft__trace_pending(weft__trace *trace, weft__work *work)
{
    if (work->record == WEFT__NO_RECORD)
        weft__trace_start(trace, work);
}

void weft__trace_finish(weft__trace *trace, const weft__work *work, uint64_t came, uint64_t went)
{
    if (work->record == WEFT__NO_RECORD && is_off(trace))
        return;
    weft_trace_record record = record_of(trace, work);
    record.result = work->op.result;
    record.start = work->op.start;
    record.first = work->op.first;
    record.last = work->op.last;
    record.last_arrival = work->op.last_arrival;
    record.late_rank = work->op.late_rank;
    record.wait = came;
    record.go = went > came ? went : came;
    put(trace, work->record == WEFT__NO_RECORD ? make_room(trace, work) : work->record, &record);
    fetch_next(trace);
}

/* ------------------------------------------------------------------------------------------- comms */

weft_result weft__trace_comm(weft__trace *trace, weft_comm *comm)
{
    if (trace->in_file && !(comm->config.flags & WEFT_COMM_NO_P2P)) {
        comm->messages = weft__alloc((size_t)comm->size * comm->config.p2p_channels * 2 * sizeof *comm->messages);
        if (!comm->messages)
            return WEFT_E_NO_MEMORY;
    }
    uint32_t backend = weft_trace_label(comm->world, comm->backend->name);
    pthread_mutex_lock(&trace->label_lock);
    uint32_t entry = trace->comm_count < WEFT_TRACE_COMMS ? trace->comm_count++ : 0;
    pthread_mutex_unlock(&trace->label_lock);
    if (!entry)
        return WEFT_OK;
    comm->trace_entry = (uint16_t)entry;
    trace->comms[entry] = (weft_trace_comm){.incarnation = comm->use->count + 1, /* as its card will say */
                                            .rank = comm->rank,
                                            .size = comm->size,
                                            .members = comm->key.ranks,
                                            .backend = backend};
    __atomic_store_n(&trace->comms[entry].label, comm->label, __ATOMIC_RELEASE);
    return WEFT_OK;
}

/* ------------------------------------------------------------------------------------------- calls */

uint32_t weft_trace_label(weft_world *world, const char *text)
{
    weft__trace *trace = world->trace;
    char cut[WEFT_TRACE_LABEL_BYTES] = {0}; /* the file gets all of it */
    snprintf(cut, sizeof cut, "%s", text);
    pthread_mutex_lock(&trace->label_lock);
    uint32_t count = atomic_load(&trace->label_count), label = 1;
    while (label < count && strcmp(trace->labels[label], cut) != 0)
        label++;
    if (label == count && count < WEFT_TRACE_LABELS) {
        memcpy(trace->labels[label], cut, sizeof cut);
        atomic_store(&trace->label_count, count + 1);
    }
    pthread_mutex_unlock(&trace->label_lock);
    if (label < WEFT_TRACE_LABELS)
        return label;
    if (!atomic_exchange(&trace->is_full, true))
        weft__log(WEFT_LOG_WARN,
                  "the trace has %d labels already: '%s', and what else is named later, has none in it (label 0)",
                  WEFT_TRACE_LABELS - 1, cut);
    return 0;
}

const char *weft_trace_label_text(const weft_world *world, uint32_t label)
{
    const weft__trace *trace = world->trace;
    return label > 0 && label < atomic_load(&trace->label_count) ? trace->labels[label] : "";
}

uint64_t weft_trace_now(const weft_world *world)
{
    (void)world;
    return weft__ticks();
}

double weft_trace_ns(const weft_world *world, uint64_t ticks)
{
    return (double)ticks * world->trace->header->ns_per_tick;
}

uint64_t weft_span_begin(weft_world *world, uint32_t label, uint64_t number)
{
    if (is_off(world->trace))
        return WEFT__NO_RECORD;
    uint64_t span = reserve(world->trace, 1);
    weft_trace_record record = {.kind = WEFT_TRACE_SPAN,
                                .label = label,
                                .number = number,
                                .result = WEFT_PENDING,
                                .late_rank = -1,
                                .start = weft__ticks()};
    put(world->trace, span, &record);
    return span;
}

void weft_span_end(weft_world *world, uint64_t span)
{
    weft_trace_record record;
    if (span == WEFT__NO_RECORD || !get(world->trace, span, &record))
        return; /* overwritten by now */
    record.result = WEFT_OK;
    record.last = weft__ticks();
    put(world->trace, span, &record);
}

void weft_trace_step(weft_world *world, uint64_t step, uint64_t begin)
{
    weft_trace_step_as(world, step, begin, 0);
}

void weft_trace_step_as(weft_world *world, uint64_t step, uint64_t begin, uint32_t label)
{
    if (is_off(world->trace))
        return;
    weft_trace_record record = {.kind = WEFT_TRACE_STEP,
                                .label = label,
                                .number = step,
                                .late_rank = -1,
                                .start = begin,
                                .last = weft__ticks()};
    put(world->trace, reserve(world->trace, 1), &record);
    look_at_clocks(world->trace->header);
}

void weft_trace_enable(weft_world *world, int on)
{
    atomic_store(&world->trace->off, !on);
}

uint64_t weft_trace_count(const weft_world *world)
{
    return __atomic_load_n(&world->trace->header->next, __ATOMIC_RELAXED);
}

size_t weft_trace_read(const weft_world *world, uint64_t first, weft_trace_record *records, size_t max,
                       uint64_t *next_out)
{
    const weft__trace *trace = world->trace;
    uint64_t end = weft_trace_count(world), capacity = trace->mask + 1;
    if (end > capacity && first < end - capacity)
        first = end - capacity;
    size_t copied = 0;
    while (first < end && copied < max)
        copied += get(trace, first++, &records[copied]);
    if (next_out)
        *next_out = first;
    return copied;
}
