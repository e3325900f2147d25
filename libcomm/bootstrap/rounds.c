/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks say to each other once they have come together: rounds over the links to rank 0, each answer led by a
 * verdict, so that one rank's trouble is everybody's error and nobody waits for more than the deadline. */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/pack.h"
#include "bootstrap/folder.h"
#include "bootstrap/rendezvous.h"

#define SEGMENT_FDS 4

static weft__verdict verdict_of(weft_result result)
{
    weft__verdict v = {0};
    weft__verdict_add(&v, result);
    return v;
}

void weft__rendezvous_tell(weft__rendezvous *z, const weft__verdict *v)
{
    for (int r = 1; r < z->meeting.size; r++)
        if (z->links[r] >= 0)
            (void)weft__socket_send(z->links[r], v, sizeof *v, z->meeting.deadline_ns + WEFT__VERDICT_WAIT_NS);
}

static weft_result hear_rank(const weft__rendezvous *z, int r, weft__io io)
{
    int name = weft__meeting_name(&z->meeting, r);
    if (io == WEFT__IO_CLOSED)
        return weft__fail(WEFT_E_PEER_LOST, "rank %d ended while the ranks met", name);
    if (io == WEFT__IO_LATE)
        return weft__fail(WEFT_E_TIMEOUT, "rank %d did not answer while the ranks met", name);
    if (io == WEFT__IO_FAILED)
        return weft__fail_errno("cannot hear rank %d", name);
    return WEFT_OK;
}

/* ------------------------------------------------------------------------------------------- the table of all */

typedef struct table {
    uint64_t count;   /* words */
    uint32_t *packed; /* the record of each rank against the one before it: ranks of a machine are much alike */
} table;

static weft_result alloc_table(table *t, int size, size_t bytes)
{
    size_t words = (size_t)size * weft__pack_most(bytes / sizeof *t->packed);
    t->count = 0;
    t->packed = weft__alloc(words * sizeof *t->packed);
    return t->packed ? WEFT_OK : WEFT_E_NO_MEMORY;
}

static void pack_table(table *t, const char *all, int size, size_t bytes)
{
    for (int r = 0; r < size; r++)
        t->count += weft__pack(all + (size_t)r * bytes, r ? all + (size_t)(r - 1) * bytes : NULL,
                               bytes / sizeof *t->packed, t->packed + t->count);
}

static bool unpack_table(const table *t, char *all, int size, size_t bytes)
{
    size_t at = 0;
    for (int r = 0; r < size; r++) {
        size_t taken = weft__unpack(t->packed + at, t->count - at, r ? all + (size_t)(r - 1) * bytes : NULL,
                                    bytes / sizeof *t->packed, all + (size_t)r * bytes);
        if (!taken)
            return false;
        at += taken;
    }
    return at == t->count;
}

/* Who has ended is missed in the next round. */
static void send_table(const weft__rendezvous *z, int link, const table *t)
{
    weft__io io = weft__socket_send(link, &t->count, sizeof t->count, z->meeting.deadline_ns);
    if (io == WEFT__IO_DONE)
        (void)weft__socket_send(link, t->packed, t->count * sizeof *t->packed, z->meeting.deadline_ns);
}

/* To its children in the tree; rank 0 also to those that could not reach their parents. */
static void send_table_on(const weft__rendezvous *z, const table *t)
{
    for (int i = 0; i < z->place.children; i++)
        if (z->links[weft__tree_child(&z->place, i)] >= 0)
            send_table(z, z->links[weft__tree_child(&z->place, i)], t);
    for (int r = 0; z->apart && r < z->meeting.size; r++)
        if (z->apart[r])
            send_table(z, z->links[r], t);
}

static weft_result receive_table(const weft__rendezvous *z, size_t bytes, table *t)
{
    int from = z->place.parent >= 0 && z->links[z->place.parent] >= 0 ? z->place.parent : 0, link = z->links[from];
    uint64_t deadline = z->meeting.deadline_ns, most = (uint64_t)z->meeting.size * weft__pack_most(bytes / 4);
    WEFT_TRY(hear_rank(z, from, weft__socket_receive(link, &t->count, sizeof t->count, deadline)));
    if (t->count > most)
        return weft__fail(WEFT_E_MISMATCH, "what rank %d passes on makes no sense",
                          weft__meeting_name(&z->meeting, from));
    return hear_rank(z, from, weft__socket_receive(link, t->packed, t->count * sizeof *t->packed, deadline));
}

static weft_result exchange_as_root(weft__rendezvous *z, const void *mine, size_t bytes, char *all)
{
    table t;
    weft_result result = alloc_table(&t, z->meeting.size, bytes);
    memcpy(all, mine, bytes);
    for (int r = 1; r < z->meeting.size && result == WEFT_OK; r++)
        result =
            hear_rank(z, r, weft__socket_receive(z->links[r], all + (size_t)r * bytes, bytes, z->meeting.deadline_ns));
    weft__verdict v = verdict_of(result);
    weft__rendezvous_tell(z, &v);
    if (result == WEFT_OK) {
        pack_table(&t, all, z->meeting.size, bytes);
        send_table_on(z, &t);
    }
    free(t.packed);
    return result;
}

static weft_result exchange_as_other(weft__rendezvous *z, const void *mine, size_t bytes, char *all)
{
    table t;
    WEFT_TRY(alloc_table(&t, z->meeting.size, bytes));
    weft_result result = hear_rank(z, 0, weft__socket_send(z->links[0], mine, bytes, z->meeting.deadline_ns));
    if (result == WEFT_OK)
        result = weft__rendezvous_verdict(z);
    if (result == WEFT_OK)
        result = receive_table(z, bytes, &t);
    if (result == WEFT_OK) {
        send_table_on(z, &t);
        if (!unpack_table(&t, all, z->meeting.size, bytes))
            result = weft__fail(WEFT_E_MISMATCH, "what rank %d has passed on makes no sense",
                                weft__meeting_name(&z->meeting, 0));
    }
    free(t.packed);
    return result;
}

static weft_result exchange(weft__meeting *meeting, const void *mine, size_t bytes, void *all)
{
    weft__rendezvous *z = (weft__rendezvous *)meeting;
    return meeting->rank == 0 ? exchange_as_root(z, mine, bytes, all) : exchange_as_other(z, mine, bytes, all);
}

/* ------------------------------------------------------------------------------------------- verdicts, and memory */

/* Rank 0 hears everybody out, also after a failure, so that whatever comes next is heard in its place. */
static weft_result agree_as_root(weft__rendezvous *z, weft__verdict *worst)
{
    for (int r = 1; r < z->meeting.size; r++) {
        weft__verdict theirs;
        weft_result heard =
            hear_rank(z, r, weft__socket_receive(z->links[r], &theirs, sizeof theirs, z->meeting.deadline_ns));
        if (heard != WEFT_OK)
            theirs = verdict_of(heard);
        theirs.text[sizeof theirs.text - 1] = 0;
        if (worst->result == WEFT_OK)
            *worst = theirs;
    }
    weft__rendezvous_tell(z, worst);
    return weft__verdict_result(worst);
}

static weft_result agree(weft__meeting *meeting, weft__verdict *verdict)
{
    weft__rendezvous *z = (weft__rendezvous *)meeting;
    if (meeting->rank == 0)
        return agree_as_root(z, verdict);
    WEFT_TRY(hear_rank(z, 0, weft__socket_send(z->links[0], verdict, sizeof *verdict, meeting->deadline_ns)));
    return weft__rendezvous_verdict(z);
}

static void close_fds(const int *fds)
{
    for (int i = 0; i < SEGMENT_FDS; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

static void flatten(const weft__segment *segment, int *fds)
{
    fds[0] = segment->fds.memory;
    fds[1] = segment->fds.bells[0];
    fds[2] = segment->fds.bells[1];
    fds[3] = segment->fds.process;
}

static weft_result map_peer(weft__rendezvous *z, int r, const int *fds, size_t reserve)
{
    weft__segment_fds taken = {.memory = fds[0], .bells = {fds[1], fds[2]}, .process = fds[3]};
    return weft__segment_map(taken, reserve, &z->segments[r]);
}

/* Take the segment of rank @p r out of the link to @p from; if all is lost @p already, only off the line. */
static weft_result take_segment(weft__rendezvous *z, int from, int r, size_t reserve, bool already)
{
    int fds[SEGMENT_FDS];
    WEFT_TRY(hear_rank(z, from, weft__socket_receive_fds(z->links[from], fds, SEGMENT_FDS, z->meeting.deadline_ns)));
    if (!already)
        return map_peer(z, r, fds, reserve);
    close_fds(fds);
    return WEFT_OK;
}

static weft_result give_segments(weft__rendezvous *z, const weft__segment *mine, int to)
{
    int fds[SEGMENT_FDS];
    for (int r = 0; r < z->meeting.size; r++) {
        if (r == to)
            continue;
        flatten(r ? &z->segments[r] : mine, fds);
        WEFT_TRY(hear_rank(z, to, weft__socket_send_fds(z->links[to], fds, SEGMENT_FDS, z->meeting.deadline_ns)));
    }
    return WEFT_OK;
}

/* Rank 0 collects the descriptors of all ranks, maps them itself, and hands each to each. */
static weft_result share_as_root(weft__rendezvous *z, const weft__segment *mine, const size_t *reserves)
{
    weft__verdict v = {0};
    for (int r = 1; r < z->meeting.size; r++)
        weft__verdict_add(&v, take_segment(z, r, r, reserves[r], v.result < 0));
    weft__rendezvous_tell(z, &v);
    WEFT_TRY(weft__verdict_result(&v));
    for (int to = 1; to < z->meeting.size; to++)
        if (weft__verdict_add(&v, give_segments(z, mine, to)) < 0)
            shutdown(z->links[to], SHUT_RDWR); /* it waits for more than will come */
    return weft__verdict_result(&v);
}

static weft_result share_as_other(weft__rendezvous *z, const weft__segment *mine, const size_t *reserves)
{
    int fds[SEGMENT_FDS];
    flatten(mine, fds);
    WEFT_TRY(hear_rank(z, 0, weft__socket_send_fds(z->links[0], fds, SEGMENT_FDS, z->meeting.deadline_ns)));
    WEFT_TRY(weft__rendezvous_verdict(z));
    weft__verdict v = {0};
    for (int r = 0; r < z->meeting.size; r++)
        if (r != z->meeting.rank)
            weft__verdict_add(&v, take_segment(z, 0, r, reserves[r], v.result < 0));
    return weft__verdict_result(&v);
}

static weft_result share(weft__meeting *meeting, weft__segment *mine, const size_t *reserves, weft__segment **segments,
                         weft__segment **owned_out)
{
    weft__rendezvous *z = (weft__rendezvous *)meeting;
    if (!meeting->can_share)
        return weft__fail(WEFT_E_UNSUPPORTED, "memory cannot be shared over %s", z->text);
    z->segments = weft__alloc((size_t)meeting->size * sizeof *z->segments);
    weft_result result = z->segments ? WEFT_OK : WEFT_E_NO_MEMORY;
    result = weft__meeting_agree(meeting, result);
    if (result == WEFT_OK)
        result = meeting->rank == 0 ? share_as_root(z, mine, reserves) : share_as_other(z, mine, reserves);
    result = weft__meeting_agree(meeting, result);
    if (result != WEFT_OK)
        return result;
    for (int r = 0; r < meeting->size; r++)
        segments[r] = r == meeting->rank ? mine : &z->segments[r];
    *owned_out = z->segments;
    z->segments = NULL;
    return WEFT_OK;
}

static int *take_links(weft__meeting *meeting)
{
    weft__rendezvous *z = (weft__rendezvous *)meeting;
    int *links = z->links;
    z->links = NULL;
    return links;
}

static void end(weft__meeting *meeting)
{
    weft__rendezvous *z = (weft__rendezvous *)meeting;
    for (int r = 0; z->links && r < meeting->size; r++)
        if (z->links[r] >= 0)
            close(z->links[r]);
    if (z->listener >= 0) {
        close(z->listener);
        if (z->address.kind == WEFT__ADDRESS_UNIX && z->address.path[0] == '/')
            unlink(z->address.path);
        if (z->address.kind == WEFT__ADDRESS_FOLDER)
            weft__folder_remove(z->address.path, z->key);
    }
    for (int r = 0; z->segments && r < meeting->size; r++)
        if (r != meeting->rank)
            weft__segment_unmap(&z->segments[r]);
    free(z->segments);
    free(z->links);
    free(z->apart);
    free(z->doors);
    free(z);
}

const weft__meeting_table weft__rendezvous_calls = {exchange, agree, share, take_links, end};
