/* SPDX-License-Identifier: Apache-2.0 */
/* The table of operations that can be measured. */
#include "perf/operations.h"

#include <string.h>
#include <weft/composed.h>
#include <weft/p2p.h>

/* ------------------------------------------------------------------------------------------- what is brought */

static size_t mine(const perf_subject *s)
{
    return (size_t)s->rank * s->count;
}

static perf_piece reduced(const perf_subject *s, int index)
{
    (void)index;
    return (perf_piece){0, s->count, PERF_REDUCED, s->operation->send == PERF_PART_PER_RANK ? mine(s) : 0};
}

static perf_piece of_root(const perf_subject *s, int index)
{
    (void)index;
    return (perf_piece){0, s->count, s->root, s->operation->send == PERF_PART_PER_RANK ? mine(s) : 0};
}

static perf_piece of_each(const perf_subject *s, int index)
{
    return (perf_piece){(size_t)index * s->count, s->count, index,
                        s->operation->send == PERF_PART_PER_RANK ? mine(s) : 0};
}

static perf_piece of_previous(const perf_subject *s, int index)
{
    (void)index;
    return (perf_piece){0, s->count, (s->rank + s->ranks - 1) % s->ranks, 0};
}

/* ------------------------------------------------------------------------------------------- uneven parts */

/* Halves of `count` that rank @p from has for rank @p to: none, one or two. */
static size_t halves(int from, int to)
{
    return ((size_t)from + (size_t)to + 1) % 3;
}

static size_t uneven_part(const perf_subject *s, int from, int to)
{
    return s->count * halves(from, to) / 2;
}

/* The most elements that a rank sends, which is what one receives: the parts are symmetric. */
static size_t uneven_most(const perf_subject *s)
{
    size_t most = 0;
    for (int from = 0; from < s->ranks; from++) {
        size_t sum = 0;
        for (int to = 0; to < s->ranks; to++)
            sum += uneven_part(s, from, to);
        most = sum > most ? sum : most;
    }
    return most;
}

static perf_piece of_each_uneven(const perf_subject *s, int index)
{
    size_t from = 0;
    for (int r = 0; r < s->rank; r++)
        from += uneven_part(s, index, r);
    return (perf_piece){s->recv_offsets[index], s->recv_counts[index], index, from};
}

void perf_subject_lay_out(perf_subject *s)
{
    size_t sent = 0, received = 0;
    for (int r = 0; r < s->ranks; r++) {
        s->send_counts[r] = uneven_part(s, s->rank, r);
        s->recv_counts[r] = uneven_part(s, r, s->rank);
        s->send_offsets[r] = sent;
        s->recv_offsets[r] = received;
        sent += s->send_counts[r];
        received += s->recv_counts[r];
    }
}

/* ------------------------------------------------------------------------------------------- calls */

static weft_result start_gather(const perf_subject *s, weft_comm *comm, const void *send, void *recv, weft_work *work)
{
    return weft_gather_start(comm, send, recv, s->count, s->dtype, s->root, WEFT_STREAM_HOST, work);
}

static weft_result run_gather(const perf_subject *s, weft_comm *comm, const void *send, void *recv)
{
    return weft_gather_run(comm, send, recv, s->count, s->dtype, s->root, WEFT_STREAM_HOST);
}

static weft_result start_scatter(const perf_subject *s, weft_comm *comm, const void *send, void *recv, weft_work *work)
{
    return weft_scatter_start(comm, send, recv, s->count, s->dtype, s->root, WEFT_STREAM_HOST, work);
}

static weft_result run_scatter(const perf_subject *s, weft_comm *comm, const void *send, void *recv)
{
    return weft_scatter_run(comm, send, recv, s->count, s->dtype, s->root, WEFT_STREAM_HOST);
}

static weft_result start_uneven(const perf_subject *s, weft_comm *comm, const void *send, void *recv, weft_work *work)
{
    return weft_all_to_allv_start(comm, send, s->send_counts, s->send_offsets, recv, s->recv_counts, s->recv_offsets,
                                  s->dtype, WEFT_STREAM_HOST, work);
}

static weft_result run_uneven(const perf_subject *s, weft_comm *comm, const void *send, void *recv)
{
    return weft_all_to_allv_run(comm, send, s->send_counts, s->send_offsets, recv, s->recv_counts, s->recv_offsets,
                                s->dtype, WEFT_STREAM_HOST);
}

static weft_p2p message(const perf_subject *s, weft_p2p_kind kind, int peer, const void *buffer, size_t count)
{
    return (weft_p2p){
        .kind = kind, .peer = peer, .dtype = s->dtype, .buffer = (void *)(uintptr_t)buffer, .count = count};
}

/* To the next rank, from the one before. */
static void pass_on(const perf_subject *s, const void *send, void *recv, weft_p2p messages[2])
{
    int next = (s->rank + 1) % s->ranks, previous = (s->rank + s->ranks - 1) % s->ranks;
    messages[0] = message(s, WEFT_RECV, previous, recv, s->count);
    messages[1] = message(s, WEFT_SEND, next, send, s->count);
}

static weft_result start_ring(const perf_subject *s, weft_comm *comm, const void *send, void *recv, weft_work *work)
{
    weft_p2p messages[2];
    weft_p2p_batch batch = WEFT_P2P_BATCH_INIT;
    pass_on(s, send, recv, messages);
    batch.messages = messages;
    batch.count = 2;
    return weft_p2p_start(comm, &batch, WEFT_STREAM_HOST, work);
}

static weft_result run_ring(const perf_subject *s, weft_comm *comm, const void *send, void *recv)
{
    weft_p2p messages[2];
    weft_p2p_batch batch = WEFT_P2P_BATCH_INIT;
    pass_on(s, send, recv, messages);
    batch.messages = messages;
    batch.count = 2;
    return weft_p2p_run(comm, &batch, WEFT_STREAM_HOST);
}

/* An all-gather in which what is known doubles with every exchange. */
static weft_result run_hypercube(const perf_subject *s, weft_comm *comm, const void *send, void *recv)
{
    size_t part = s->count * weft_dtype_bytes(s->dtype);
    char *parts = recv;
    if (part && send != parts + (size_t)s->rank * part)
        memcpy(parts + (size_t)s->rank * part, send, part);
    weft_result result = WEFT_OK;
    for (int bit = 1; bit < s->ranks && result == WEFT_OK; bit *= 2) {
        int peer = s->rank ^ bit, known = s->rank & ~(bit - 1), unknown = peer & ~(bit - 1);
        weft_p2p messages[] = {
            message(s, WEFT_RECV, peer, parts + (size_t)unknown * part, s->count * (size_t)bit),
            message(s, WEFT_SEND, peer, parts + (size_t)known * part, s->count * (size_t)bit),
        };
        weft_p2p_batch batch = WEFT_P2P_BATCH_INIT;
        batch.messages = messages;
        batch.count = 2;
        result = weft_p2p_run(comm, &batch, WEFT_STREAM_HOST);
    }
    return result;
}

static weft_collective collective_of(const perf_subject *s, const void *send, void *recv)
{
    weft_collective c = WEFT_COLLECTIVE_INIT;
    c.kind = (weft_collective_kind)s->operation->collective;
    c.dtype = s->dtype;
    c.reduction = s->reduction;
    c.root = s->root;
    c.send = send;
    c.recv = recv;
    c.count = s->count;
    return c;
}

weft_result perf_start(const perf_subject *s, weft_comm *comm, const void *send, void *recv, weft_work *work_out)
{
    if (s->operation->collective < 0)
        return s->operation->start(s, comm, send, recv, work_out);
    weft_collective c = collective_of(s, send, recv);
    return weft_collective_start(comm, &c, WEFT_STREAM_HOST, work_out);
}

weft_result perf_run(const perf_subject *s, weft_comm *comm, const void *send, void *recv)
{
    if (s->operation->collective < 0)
        return s->operation->run(s, comm, send, recv);
    weft_collective c = collective_of(s, send, recv);
    return weft_collective_run(comm, &c, WEFT_STREAM_HOST);
}

/* ------------------------------------------------------------------------------------------- the table */

#define ONE  PERF_ONE_PART
#define EACH PERF_PART_PER_RANK
#define ALL  PERF_EVERYBODY

static const perf_operation operations[] = {
    {"all_reduce", ONE, ONE, ALL, ALL, .collective = WEFT_ALL_REDUCE, .reduces = true, .in_place = true,
     .bus = PERF_TWICE_OTHERS, .piece = reduced},
    {"all_gather", ONE, EACH, ALL, ALL, .collective = WEFT_ALL_GATHER, .in_place = true, .bus = PERF_OTHERS,
     .piece = of_each},
    {"reduce_scatter", EACH, ONE, ALL, ALL, .collective = WEFT_REDUCE_SCATTER, .reduces = true, .in_place = true,
     .bus = PERF_OTHERS, .piece = reduced},
    {"broadcast", ONE, ONE, PERF_ROOT, ALL, .collective = WEFT_BROADCAST, .in_place = true, .piece = of_root},
    {"reduce", ONE, ONE, ALL, PERF_ROOT, .collective = WEFT_REDUCE, .reduces = true, .in_place = true,
     .piece = reduced},
    {"alltoall", EACH, EACH, ALL, ALL, .collective = WEFT_ALL_TO_ALL, .in_place = true, .swaps = true,
     .bus = PERF_OTHERS, .piece = of_each},
    {"alltoallv", EACH, EACH, ALL, ALL, .collective = -1, .start = start_uneven, .run = run_uneven, .bus = PERF_OTHERS,
     .piece = of_each_uneven, .uneven = true},
    {"gather", ONE, EACH, ALL, PERF_ROOT, .collective = -1, .start = start_gather, .run = run_gather, .in_place = true,
     .bus = PERF_OTHERS, .piece = of_each},
    {"scatter", EACH, ONE, PERF_ROOT, ALL, .collective = -1, .start = start_scatter, .run = run_scatter,
     .in_place = true, .bus = PERF_OTHERS, .piece = of_root},
    {"sendrecv", ONE, ONE, ALL, ALL, .collective = -1, .start = start_ring, .run = run_ring, .piece = of_previous},
    {"hypercube", ONE, EACH, ALL, ALL, .collective = -1, .run = run_hypercube, .in_place = true, .moved = PERF_OTHERS,
     .piece = of_each, .power_of_two = true},
};
enum { OPERATIONS = sizeof operations / sizeof *operations };

const perf_operation *perf_operation_at(size_t index)
{
    return index < OPERATIONS ? &operations[index] : NULL;
}

const perf_operation *perf_operation_named(const char *name, size_t length)
{
    if (length > 5 && strncmp(name + length - 5, "_perf", 5) == 0)
        length -= 5;
    for (size_t i = 0; i < OPERATIONS; i++)
        if (strlen(operations[i].name) == length && strncmp(operations[i].name, name, length) == 0)
            return &operations[i];
    return NULL;
}

/* ------------------------------------------------------------------------------------------- sizes */

static size_t elements(const perf_subject *s, perf_extent extent)
{
    if (s->operation->uneven)
        return uneven_most(s);
    return extent == PERF_PART_PER_RANK ? s->count * (size_t)s->ranks : s->count;
}

size_t perf_send_elements(const perf_subject *s)
{
    return elements(s, s->operation->send);
}

size_t perf_recv_elements(const perf_subject *s)
{
    return elements(s, s->operation->recv);
}

size_t perf_count_of(const perf_operation *operation, weft_dtype dtype, int ranks, size_t bytes)
{
    bool parted = operation->send == PERF_PART_PER_RANK || operation->recv == PERF_PART_PER_RANK;
    return bytes / weft_dtype_bytes(dtype) / (parted ? (size_t)ranks : 1);
}

size_t perf_size_of(const perf_subject *s)
{
    size_t send = perf_send_elements(s), recv = perf_recv_elements(s);
    return (send > recv ? send : recv) * weft_dtype_bytes(s->dtype);
}

size_t perf_send_offset(const perf_subject *s)
{
    return s->operation->recv == PERF_PART_PER_RANK && s->operation->send == PERF_ONE_PART ? mine(s) : 0;
}

size_t perf_recv_offset(const perf_subject *s)
{
    return s->operation->send == PERF_PART_PER_RANK && s->operation->recv == PERF_ONE_PART ? mine(s) : 0;
}

bool perf_sends(const perf_subject *s)
{
    return s->operation->senders == PERF_EVERYBODY || s->rank == s->root;
}

bool perf_receives(const perf_subject *s)
{
    return s->operation->receivers == PERF_EVERYBODY || s->rank == s->root;
}

int perf_pieces(const perf_subject *s)
{
    return s->operation->recv == PERF_PART_PER_RANK ? s->ranks : 1;
}

/* ------------------------------------------------------------------------------------------- bandwidths */

static double times(perf_factor factor, int ranks)
{
    double others = (double)(ranks - 1) / ranks;
    return factor == PERF_WHOLE ? 1 : factor == PERF_OTHERS ? others : 2 * others;
}

double perf_algbw(const perf_subject *s, double us)
{
    return us > 0 ? (double)perf_size_of(s) * times(s->operation->moved, s->ranks) / us / 1e3 : 0;
}

double perf_busbw(const perf_subject *s, double us)
{
    return perf_algbw(s, us) * times(s->operation->bus, s->ranks);
}
