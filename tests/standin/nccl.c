/* SPDX-License-Identifier: Apache-2.0 */
/* The calls of NCCL that move data: groups, and what they queue on streams. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nccl_comm.h"
#include "nccl_move.h"
#include "standin.h"

#define API STANDIN_API

enum {
    DIFFERS_MS = 1500 /* that NCCL would hang for ever */
};

/* What is queued on one stream at once: a collective, or the messages of a group. */
typedef struct task {
    ncclComm_t comm;
    uint64_t number; /* on the communicator, whose tasks run in the order of their calls */
    cudaStream_t stream;
    bool is_collective;
    standin_collective collective;
    standin_message *messages;
    size_t message_count;
    int differs_ms; /* since ranks were found to ask for different things, as far as it was looked at */
    struct task *next;
} task;

static _Thread_local struct {
    int depth;
    task *first, **last;
} group;

/* ---- tasks ---- */

/* It hangs, as NCCL does, until somebody aborts it; when nobody does, that is an error. */
static void report_difference(task *t)
{
    if (t->differs_ms++ < DIFFERS_MS) {
        standin_nccl_pause_us(1000);
        return;
    }
    fprintf(stderr, "standin: nccl: rank %d of %d and another ask for different things\n", t->comm->rank,
            t->comm->ranks);
    exit(STANDIN_EXIT);
}

static bool step_messages(task *t, bool *differs)
{
    const ncclComm_t comm = t->comm;
    bool all = true;
    for (size_t i = 0; i < t->message_count; i++) {
        standin_message *m = &t->messages[i];
        if (m->done)
            continue;
        /* Between two ranks in order: not before an earlier one of the same pair. */
        bool behind = false;
        for (size_t k = 0; k < i; k++)
            behind |= !t->messages[k].done && t->messages[k].peer == m->peer && t->messages[k].sends == m->sends;
        if (!behind && standin_message_step(m, &comm->room, comm->rank, comm->ranks, differs))
            m->done = true;
        all &= m->done;
    }
    return all;
}

static bool step(void *state)
{
    task *t = state;
    ncclComm_t comm = t->comm;
    bool differs = false;
    if (comm->aborted)
        return true;
    if (comm->state == ncclInProgress || comm->ended < t->number)
        return false;
    bool done = t->is_collective ? standin_collective_step(&t->collective, &comm->room, comm->rank, comm->ranks,
                                                           &comm->rounds, &differs)
                                 : step_messages(t, &differs);
    if (differs)
        report_difference(t);
    return done && !differs;
}

static void drop(void *state)
{
    task *t = state;
    atomic_fetch_add(&t->comm->ended, 1);
    standin_nccl_release(t->comm);
    free(t->messages);
    free(t);
}

static const char *name_of(const task *t)
{
    static const char *const names[] = {"all-reduce", "reduce", "reduce-scatter", "all-gather", "broadcast"};
    return t->is_collective ? names[t->collective.asked.kind] : "messages";
}

static size_t list_ranges(const task *t, standin_range *ranges)
{
    if (!t->is_collective) {
        for (size_t i = 0; i < t->message_count; i++)
            ranges[i] = (standin_range){t->messages[i].memory, t->messages[i].bytes, !t->messages[i].sends};
        return t->message_count;
    }
    const standin_collective *c = &t->collective;
    size_t bytes = c->asked.count * standin_type_bytes((ncclDataType_t)c->asked.type),
           all = bytes * (size_t)t->comm->ranks;
    bool is_root = t->comm->rank == c->asked.root;
    size_t read = c->asked.kind == STANDIN_REDUCE_SCATTER          ? all
                  : c->asked.kind == STANDIN_BROADCAST && !is_root ? 0
                                                                   : bytes;
    size_t written = c->asked.kind == STANDIN_ALL_GATHER           ? all
                     : c->asked.kind == STANDIN_REDUCE && !is_root ? 0
                                                                   : bytes;
    ranges[0] = (standin_range){c->from, read, false};
    ranges[1] = (standin_range){c->to, written, true};
    return 2;
}

static ncclResult_t queue(task *t)
{
    standin_range two[2], *ranges = t->message_count > 2 ? malloc(t->message_count * sizeof *ranges) : two;
    if (!ranges)
        abort();
    size_t count = list_ranges(t, ranges);
    atomic_fetch_add(&t->comm->holds, 1);
    t->number = t->comm->queued++;
    int error = standin_queue(t->stream, &(standin_task){name_of(t), ranges, count, step, drop, t});
    if (ranges != two)
        free(ranges);
    if (error == cudaSuccess)
        return ncclSuccess;
    drop(t);
    return standin_nccl_fail(ncclUnhandledCudaError, cudaGetErrorString((cudaError_t)error));
}

/* ---- connecting, when an operation first wants it: the call waits for those at the other end ---- */

/* As NCCL does on hosts with switches, where it may: see ncclNvlsSupported() of NCCL 2.28. */
static bool is_for_multicast(const standin_asked *asked)
{
    bool is_float = asked->type == ncclFloat32 || asked->type == ncclFloat64;
    bool bytes = asked->type == ncclInt8 || asked->type == ncclUint8;
    return asked->kind == STANDIN_ALL_GATHER ||
           (!bytes && (asked->op == ncclSum || (!is_float && (asked->op == ncclMin || asked->op == ncclMax))));
}

/* Which kinds a way is for is NCCL's; each has its range of sizes, that a factor of four does not step over. */
static standin_way way_of(const standin_collective *c, int ranks)
{
    enum { SMALL = 1 << 10, MIDDLE = 16 << 10, LARGE = 64 << 10, LARGEST = 8 << 20 };
    const standin_asked *asked = &c->asked;
    bool reduces = asked->kind == STANDIN_ALL_REDUCE, scatters = asked->kind == STANDIN_REDUCE_SCATTER;
    bool multicast = is_for_multicast(asked);
    size_t bytes = asked->count * standin_type_bytes((ncclDataType_t)asked->type) * (reduces ? 1 : (size_t)ranks);
    if (asked->kind == STANDIN_BROADCAST || asked->kind == STANDIN_REDUCE || bytes < SMALL)
        return STANDIN_RING;
    if (reduces)
        return multicast ? (bytes < LARGEST || ranks < 4 ? STANDIN_MULTICAST : STANDIN_MULTICAST_TREE)
                         : (bytes < LARGE ? STANDIN_TREE : STANDIN_RING);
    if (bytes < MIDDLE)
        return scatters && asked->op == ncclAvg ? STANDIN_RING : STANDIN_PAT;
    return multicast ? STANDIN_MULTICAST : STANDIN_RING;
}

static standin_box *box_of(const ncclComm_t comm, const standin_message *m)
{
    int from = m->sends ? comm->rank : m->peer, to = m->sends ? m->peer : comm->rank;
    return &comm->room.boxes[from * comm->ranks + to];
}

/* This rank's part. */
static void begin_to_connect(const task *t)
{
    const ncclComm_t comm = t->comm;
    if (t->is_collective)
        standin_nccl_join(comm, way_of(&t->collective, comm->ranks));
    for (size_t i = 0; i < t->message_count; i++)
        atomic_fetch_or(&box_of(comm, &t->messages[i])->ends, t->messages[i].sends ? STANDIN_SENDER : STANDIN_RECEIVER);
}

static bool is_connected(const task *t)
{
    const ncclComm_t comm = t->comm;
    bool connected =
        !t->is_collective || standin_room_meets(&comm->room, way_of(&t->collective, comm->ranks), comm->ranks);
    for (size_t i = 0; i < t->message_count; i++)
        connected &= t->messages[i].peer == comm->rank ||
                     atomic_load(&box_of(comm, &t->messages[i])->ends) == (STANDIN_SENDER | STANDIN_RECEIVER);
    return connected;
}

static void connect_all(const task *first)
{
    for (const task *t = first; t; t = t->next)
        begin_to_connect(t);
    for (const task *t = first; t; t = t->next)
        while (!is_connected(t) && !t->comm->aborted)
            standin_nccl_pause_us(50);
}

/* ---- groups ---- */

API ncclResult_t ncclGroupStart(void)
{
    if (group.depth++ == 0) {
        group.first = NULL;
        group.last = &group.first;
    }
    return ncclSuccess;
}

API ncclResult_t ncclGroupEnd(void)
{
    if (group.depth == 0)
        return standin_nccl_fail(ncclInvalidUsage, "no group was started");
    if (--group.depth)
        return ncclSuccess;
    ncclResult_t result = ncclSuccess;
    connect_all(group.first);
    for (task *t = group.first, *next; t; t = next) {
        next = t->next;
        ncclResult_t queued = queue(t);
        result = result == ncclSuccess ? queued : result;
    }
    group.first = NULL;
    return result;
}

static ncclResult_t check(ncclComm_t comm, ncclDataType_t type)
{
    return !comm                           ? standin_nccl_fail(ncclInvalidArgument, "no communicator")
           : !standin_type_bytes(type)     ? standin_nccl_fail(ncclInvalidArgument, "unknown type")
           : comm->state == ncclInProgress ? standin_nccl_fail(ncclInvalidUsage, "the communicator is not made yet")
                                           : ncclSuccess;
}

static task *add_task(ncclComm_t comm, cudaStream_t stream)
{
    task *t = calloc(1, sizeof *t);
    if (!t)
        abort();
    t->comm = comm;
    t->stream = stream;
    *group.last = t;
    group.last = &t->next;
    return t;
}

static ncclResult_t collective(ncclComm_t comm, cudaStream_t stream, const void *from, void *to,
                               const standin_asked *asked)
{
    ncclResult_t result = check(comm, (ncclDataType_t)asked->type);
    if (result != ncclSuccess || !asked->count)
        return result;
    if (asked->root < 0 || asked->root >= comm->ranks)
        return standin_nccl_fail(ncclInvalidArgument, "no such root");
    static _Thread_local task *late; /* by a fault: it comes behind the next */
    ncclGroupStart();
    task *t = add_task(comm, stream);
    t->is_collective = true;
    t->collective = (standin_collective){.asked = *asked, .from = from, .to = to};
    if (standin_fault("swap")) {
        late = t;
        group.first = NULL;
        group.last = &group.first;
    } else if (late && late->comm == comm) {
        *group.last = late;
        group.last = &late->next;
        late = NULL;
    }
    return ncclGroupEnd();
}

API ncclResult_t ncclReduce(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
                            ncclComm_t comm, cudaStream_t stream)
{
    return collective(comm, stream, from, to, &(standin_asked){count, STANDIN_REDUCE, (int)type, (int)op, root});
}

API ncclResult_t ncclBroadcast(const void *from, void *to, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                               cudaStream_t stream)
{
    return collective(comm, stream, from, to, &(standin_asked){count, STANDIN_BROADCAST, (int)type, 0, root});
}

API ncclResult_t ncclAllReduce(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream)
{
    return collective(comm, stream, from, to, &(standin_asked){count, STANDIN_ALL_REDUCE, (int)type, (int)op, 0});
}

API ncclResult_t ncclReduceScatter(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t op,
                                   ncclComm_t comm, cudaStream_t stream)
{
    return collective(comm, stream, from, to, &(standin_asked){count, STANDIN_REDUCE_SCATTER, (int)type, (int)op, 0});
}

API ncclResult_t ncclAllGather(const void *from, void *to, size_t count, ncclDataType_t type, ncclComm_t comm,
                               cudaStream_t stream)
{
    return collective(comm, stream, from, to, &(standin_asked){count, STANDIN_ALL_GATHER, (int)type, 0, 0});
}

/* The messages of a group on one communicator and stream are one task. */
static task *task_of_messages(ncclComm_t comm, cudaStream_t stream)
{
    for (task *t = group.first; t; t = t->next)
        if (!t->is_collective && t->comm == comm && t->stream == stream)
            return t;
    return add_task(comm, stream);
}

static ncclResult_t message(ncclComm_t comm, cudaStream_t stream, const standin_message *m, ncclDataType_t type)
{
    ncclResult_t result = check(comm, type);
    if (result != ncclSuccess)
        return result;
    if (m->peer < 0 || m->peer >= comm->ranks)
        return standin_nccl_fail(ncclInvalidArgument, "no such peer");
    ncclGroupStart();
    task *t = task_of_messages(comm, stream);
    t->messages = realloc(t->messages, (t->message_count + 1) * sizeof *t->messages);
    if (!t->messages)
        abort();
    t->messages[t->message_count++] = *m;
    return ncclGroupEnd();
}

API ncclResult_t ncclSend(const void *from, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                          cudaStream_t stream)
{
    const standin_message m = {
        .sends = true, .peer = peer, .memory = (void *)from, .bytes = count * standin_type_bytes(type)};
    return message(comm, stream, &m, type);
}

API ncclResult_t ncclRecv(void *to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream)
{
    const standin_message m = {.peer = peer, .memory = to, .bytes = count * standin_type_bytes(type)};
    return message(comm, stream, &m, type);
}
