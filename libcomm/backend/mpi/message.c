/* SPDX-License-Identifier: Apache-2.0 */
/* P2p messages: a header that says size and tag, with the bytes of a small message, and those of a large one by
 * themselves. Headers are in memory of the comm's own, so that an operation can be given up before they have gone. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/mpi/module.h"

typedef struct wire {
    uint64_t bytes, tag;
    unsigned char data[WEFT__MPI_INLINE];
} wire;
enum { HEADER_BYTES = offsetof(wire, data) };

typedef struct letter {
    const weft_p2p *what;
    size_t bytes;
    MPI_Request header, data;
    wire wire;
} letter;

typedef struct weft__mpi_batch {
    struct weft__mpi_batch *next;
    weft_op *op;
    uint32_t room, count; /* letters */
    letter letters[];
} weft__mpi_batch;

/* ------------------------------------------------------------------------------------------- starting */

static weft__mpi_batch *take_batch(weft__mpi_comm *mc, uint32_t count)
{
    for (weft__mpi_batch **link = &mc->spare, *b; (b = *link); link = &b->next)
        if (b->room >= count) {
            *link = b->next;
            return b;
        }
    weft__mpi_batch *b = malloc(sizeof *b + count * sizeof *b->letters);
    if (b)
        b->room = count;
    return b;
}

static void post(weft__mpi_comm *mc, letter *l)
{
    const weft_p2p *m = l->what;
    int tag = (int)m->channel * WEFT__MPI_TAGS_OF_CHANNEL;
    bool apart = l->bytes > WEFT__MPI_INLINE;
    weft__mpi_bytes size = weft__mpi_bytes_of(apart ? l->bytes : 0);
    MPI_Comm on = mc->handle;
    l->header = l->data = MPI_REQUEST_NULL;
    if (m->kind == WEFT_SEND) {
        l->wire.bytes = l->bytes, l->wire.tag = m->tag;
        size_t with = apart ? 0 : l->bytes;
        if (with)
            memcpy(l->wire.data, m->buffer, with);
        weft__mpi_well(mc, MPI_Isend(&l->wire, (int)(HEADER_BYTES + with), MPI_BYTE, m->peer, tag, on, &l->header),
                       "MPI_Isend");
        if (apart)
            weft__mpi_well(mc, MPI_Isend(m->buffer, size.count, size.type, m->peer, tag + 1, on, &l->data),
                           "MPI_Isend");
    } else {
        weft__mpi_well(mc, MPI_Irecv(&l->wire, (int)sizeof l->wire, MPI_BYTE, m->peer, tag, on, &l->header),
                       "MPI_Irecv");
        if (apart)
            weft__mpi_well(mc, MPI_Irecv(m->buffer, size.count, size.type, m->peer, tag + 1, on, &l->data),
                           "MPI_Irecv");
    }
    weft__mpi_bytes_free(&size);
}

weft_result weft__mpi_batch_start(weft__mpi_comm *mc, weft_op *op)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < op->message_count; i++)
        count += op->messages[i].peer != mc->rank;
    if (!count) {
        weft_backend_done(op, WEFT_OK);
        return WEFT_OK;
    }
    weft__mpi_batch *b = take_batch(mc, count);
    if (!b)
        return weft_backend_error(WEFT_E_NO_MEMORY, "comm %s: no memory for %u messages", mc->name, count);
    b->op = op;
    b->count = 0;
    for (uint32_t i = 0; i < op->message_count; i++) {
        const weft_p2p *m = &op->messages[i];
        if (m->peer == mc->rank)
            continue; /* weft has carried it out */
        letter *l = &b->letters[b->count++];
        l->what = m;
        l->bytes = m->count * weft_dtype_bytes(m->dtype);
        post(mc, l);
    }
    b->next = mc->batches;
    mc->batches = b;
    mc->mpi->busy++;
    op->first = weft_trace_now(mc->mpi->world);
    return WEFT_OK;
}

/* ------------------------------------------------------------------------------------------- ending */

static bool fits(weft__mpi_comm *mc, const letter *l)
{
    const weft_p2p *m = l->what;
    int from = mc->ranks[m->peer], to = mc->ranks[mc->rank];
    if (l->wire.bytes != l->bytes)
        weft__mpi_fail(mc, WEFT_E_MISMATCH, "comm %s, channel %u: rank %d sends %llu bytes, rank %d receives %zu bytes",
                       mc->name, m->channel, from, (unsigned long long)l->wire.bytes, to, l->bytes);
    else if (l->wire.tag && m->tag && l->wire.tag != m->tag)
        weft__mpi_fail(mc, WEFT_E_MISMATCH, "comm %s, channel %u: rank %d sends tag %#llx, rank %d receives %#llx",
                       mc->name, m->channel, from, (unsigned long long)l->wire.tag, to, (unsigned long long)m->tag);
    else
        return true;
    return false;
}

/* Both requests of a letter are looked at; one that has ended is MPI_REQUEST_NULL. */
static bool look_at(weft__mpi_comm *mc, letter *l)
{
    int flag = 0;
    if (l->header != MPI_REQUEST_NULL) {
        if (!weft__mpi_well(mc, MPI_Test(&l->header, &flag, MPI_STATUS_IGNORE), "MPI_Test"))
            return false;
        if (flag && l->what->kind == WEFT_RECV && !fits(mc, l))
            return false;
        if (flag && l->what->kind == WEFT_RECV && l->bytes && l->bytes <= WEFT__MPI_INLINE)
            memcpy(l->what->buffer, l->wire.data, l->bytes);
    }
    /* Bytes behind a header that does not fit are an error of MPI's: the header comes first. */
    if (l->header == MPI_REQUEST_NULL && l->data != MPI_REQUEST_NULL &&
        !weft__mpi_well(mc, MPI_Test(&l->data, &flag, MPI_STATUS_IGNORE), "MPI_Test"))
        return false;
    return l->header == MPI_REQUEST_NULL && l->data == MPI_REQUEST_NULL;
}

static bool is_done(weft__mpi_comm *mc, weft__mpi_batch *b)
{
    bool done = true;
    for (uint32_t i = 0; i < b->count && !mc->failed; i++)
        done &= look_at(mc, &b->letters[i]);
    return done && !mc->failed;
}

static void end(weft__mpi_comm *mc, weft__mpi_batch **link, weft_result result)
{
    weft__mpi_batch *b = *link;
    *link = b->next;
    b->next = mc->spare;
    mc->spare = b;
    mc->mpi->busy--;
    weft_backend_done(b->op, result);
}

unsigned weft__mpi_batches(weft__mpi_comm *mc)
{
    unsigned answer = 0;
    for (weft__mpi_batch **link = &mc->batches; *link && !mc->failed;) {
        if (is_done(mc, *link)) {
            end(mc, link, WEFT_OK);
            answer = WEFT_PROGRESS_MOVED;
        } else {
            link = &(*link)->next;
        }
    }
    return answer;
}

/* ------------------------------------------------------------------------------------------- failing */

void weft__mpi_batches_cancel(weft__mpi_comm *mc)
{
    for (weft__mpi_batch *b = mc->batches; b; b = b->next)
        for (uint32_t i = 0; i < b->count; i++) {
            letter *l = &b->letters[i];
            if (l->what->kind != WEFT_RECV || l->header == MPI_REQUEST_NULL)
                continue; /* the bytes behind a header come by themselves */
            MPI_Cancel(&l->header);
            if (l->data != MPI_REQUEST_NULL)
                MPI_Cancel(&l->data);
        }
}

/* Does MPI still reach into the caller's memory? Headers are our own, and may be left behind. */
static bool is_held(weft__mpi_batch *b)
{
    bool held = false;
    for (uint32_t i = 0; i < b->count; i++) {
        letter *l = &b->letters[i];
        int flag;
        if (l->header != MPI_REQUEST_NULL)
            MPI_Test(&l->header, &flag, MPI_STATUS_IGNORE);
        if (l->data != MPI_REQUEST_NULL)
            MPI_Test(&l->data, &flag, MPI_STATUS_IGNORE);
        held |= l->data != MPI_REQUEST_NULL;
    }
    return held;
}

void weft__mpi_batches_end(weft__mpi_comm *mc, weft_result result, bool all)
{
    for (weft__mpi_batch **link = &mc->batches; *link;)
        if (is_held(*link) && !all)
            link = &(*link)->next;
        else
            end(mc, link, result);
}

int weft__mpi_batches_miss(const weft__mpi_comm *mc)
{
    for (const weft__mpi_batch *b = mc->batches; b; b = b->next)
        for (uint32_t i = 0; i < b->count; i++) {
            const letter *l = &b->letters[i];
            bool open = l->header != MPI_REQUEST_NULL || l->data != MPI_REQUEST_NULL;
            if (open && mc->left_after[l->what->peer] != UINT64_MAX)
                return l->what->peer;
        }
    return -1;
}

void weft__mpi_batches_explain(const weft__mpi_comm *mc, const weft_op *op, char *text, size_t bytes)
{
    size_t used = (size_t)snprintf(text, bytes, "messages are on their way:");
    for (const weft__mpi_batch *b = mc->batches; b; b = b->next)
        for (uint32_t i = 0; i < b->count && b->op == op && used < bytes; i++) {
            const letter *l = &b->letters[i];
            if (l->header != MPI_REQUEST_NULL || l->data != MPI_REQUEST_NULL)
                used += (size_t)snprintf(text + used, bytes - used, " %s rank %d,",
                                         l->what->kind == WEFT_SEND ? "to" : "from", mc->ranks[l->what->peer]);
        }
}

void weft__mpi_batches_free(weft__mpi_comm *mc)
{
    for (weft__mpi_batch *b = mc->spare, *next; b; b = next) {
        next = b->next;
        free(b);
    }
}
