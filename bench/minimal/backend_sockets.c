/* SPDX-License-Identifier: Apache-2.0 */
/* A complete backend in one file, outside of weft: ranks of one host exchange bytes through Unix sockets. It is an
 * example for those who write a backend of their own; the contract it keeps is in weft/backend.h.
 *
 *     cc -std=c17 -D_GNU_SOURCE -O2 -fPIC -shared -o libweft-backend-sockets.so backend_sockets.c \
 *        $(pkg-config --cflags --libs weft)
 *     WEFT_MODULE_PATH=$PWD WEFT_BACKEND=sockets weft run -n 4 -- ./program
 *     WEFT_MODULE_PATH=$PWD weft perf conform --backend sockets
 *
 * Every two members of a comm have a socket for each stream of messages between them: one for verdicts, one for
 * collectives, and one for each p2p channel. A socket keeps the order within its stream, the kernel holds what nobody
 * has asked for yet, and no stream can hold another up. A message is a header, which says what its sender is doing, and
 * its bytes; who receives it compares the header with what it is doing itself before it takes a byte.
 *
 * A collective is a message to every member and one from every member, many of them without bytes, and arithmetic when
 * all have come: the shortest way to do it, and far from the fastest. All sockets are watched by one epoll descriptor,
 * each for what its queues want, so that a rank can sleep on it at any time. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <weft/backend.h>
#include <weft/trace.h>

enum { VERDICTS, COLLECTIVES, FIRST_CHANNEL }; /* streams */
enum { PIECE_BYTES = 1 << 18 };                /* moved through one socket at a time */

/* What stands before the bytes of a message. */
typedef struct header {
    uint64_t is_p2p;  /* else it belongs to a collective */
    uint64_t bytes;   /* of a p2p message, */
    uint64_t tag;     /* and its tag; */
    weft_asked asked; /* of a collective */
} header;

/* A message on its way. */
typedef struct message {
    struct message *next; /* in its queue */
    weft_op *op;
    header head;        /* to be sent, or to be compared with what comes */
    header seen;        /* of what comes */
    char *data;         /* borrowed */
    size_t bytes, done; /* `done` counts the header too */
} message;

typedef struct queue {
    message *first, **end;
} queue;

/* One end of the socket between this rank and a member, for one stream. */
typedef struct line {
    struct sockets_comm *comm;
    int fd, member;
    uint32_t stream, watched; /* EPOLL* events */
    bool is_connected;        /* else it listens */
    queue sends, receives;
} line;

/* Where a member listens for another one, for each stream: a name that needs no file. */
typedef struct card {
    uint64_t key;
} card;

typedef struct verdict {
    int32_t result;
    char text[252];
} verdict;

typedef struct sockets_comm {
    struct sockets_world *world;
    weft_comm *comm;
    char name[WEFT_COMM_NAME_MAX + 1];
    int rank, count;
    const int *ranks;
    uint32_t streams;
    uint64_t key;
    line *lines;  /* [member * streams + stream] */
    weft_op *ops; /* taken and not done */
    bool failed;  /* said so, or told so: nothing more is moved */
} sockets_comm;

typedef struct sockets_world {
    weft_world *world;
    int epoll_fd;
    int busy;       /* operations in flight */
    bool is_asleep; /* armed: the descriptor may have been read for something else than an operation */
} sockets_world;

/* The memory of an operation. */
typedef struct flight {
    uint32_t left; /* messages that are not done */
    char *staging; /* a part of every member */
    message
        messages[]; /* collectives: to all members, then from all, then pointers to their parts; p2p: as they come */
} flight;

/* ------------------------------------------------------------------------------------------- the world */

static weft_result query(const weft_backend_question *question, weft_backend_facts *facts)
{
    facts->caps = WEFT_CAP_COLLECTIVE | WEFT_CAP_P2P | WEFT_CAP_ORDERED;
    facts->queues = WEFT_QUEUES_DIRECTION;
    facts->score = question->same_memory && question->count > 1 ? WEFT_SCORE_WIRE : WEFT_SCORE_NONE;
    facts->op_bytes = sizeof(flight) + (size_t)question->count * (2 * sizeof(message) + sizeof(void *));
    facts->message_bytes = sizeof(message);
    facts->card_bytes = sizeof(card);
    return WEFT_OK;
}

static weft_result open_world(weft_world *world, void **state_out)
{
    sockets_world *own = calloc(1, sizeof *own);
    if (!own)
        return weft_backend_error(WEFT_E_NO_MEMORY, "backend sockets: no memory for a world");
    own->world = world;
    own->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (own->epoll_fd < 0) {
        free(own);
        return weft_backend_error(WEFT_E_SYSTEM, "backend sockets: no epoll descriptor: %s", strerror(errno));
    }
    *state_out = own;
    return WEFT_OK;
}

static void close_world(void *state)
{
    sockets_world *own = state;
    close(own->epoll_fd);
    free(own);
}

/* ------------------------------------------------------------------------------------------- making a comm */

static line *line_to(const sockets_comm *comm, int member, uint32_t stream)
{
    return &comm->lines[(size_t)member * comm->streams + stream];
}

static weft_result fail_system(const sockets_comm *comm, const char *what)
{
    return weft_backend_error(WEFT_E_SYSTEM, "comm %s: %s: %s", comm->name, what, strerror(errno));
}

/* Have the descriptor told of what the queues want. Verdicts may come at any time. */
static void watch(line *l)
{
    uint32_t wanted = (l->receives.first || l->stream == VERDICTS ? EPOLLIN : 0) | (l->sends.first ? EPOLLOUT : 0);
    wanted = l->comm->failed ? 0 : wanted;
    if (l->fd < 0 || wanted == l->watched)
        return;
    int change = !wanted ? EPOLL_CTL_DEL : l->watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    struct epoll_event event = {.events = wanted, .data.ptr = l};
    epoll_ctl(l->comm->world->epoll_fd, change, l->fd, &event);
    l->watched = wanted;
}

static struct sockaddr_un name_of(uint64_t key, int caller, uint32_t stream)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX}; /* a first byte of 0: forgotten when its socket is closed */
    snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "weft-%016llx-%d-%u", (unsigned long long)key, caller,
             stream);
    return name;
}

/* Members of lower number listen, before anybody can have their card. */
static weft_result listen_to(line *l)
{
    struct sockaddr_un name = name_of(l->comm->key, l->member, l->stream);
    l->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    bool well = l->fd >= 0 && bind(l->fd, (struct sockaddr *)&name, sizeof name) == 0 && listen(l->fd, 1) == 0;
    return well ? WEFT_OK : fail_system(l->comm, "cannot listen");
}

/* The others call. */
static weft_result call(line *l, uint64_t key)
{
    struct sockaddr_un name = name_of(key, l->comm->rank, l->stream);
    l->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    l->is_connected = l->fd >= 0 && connect(l->fd, (struct sockaddr *)&name, sizeof name) == 0;
    return l->is_connected ? WEFT_OK : fail_system(l->comm, "cannot connect");
}

/* WEFT_PENDING: nobody has called. */
static weft_result answer(line *l)
{
    int fd = accept4(l->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0)
        return errno == EAGAIN || errno == EINTR ? WEFT_PENDING : fail_system(l->comm, "cannot accept");
    close(l->fd);
    l->fd = fd;
    l->is_connected = true;
    return WEFT_OK;
}

static weft_result comm_create(void *state, const weft_backend_comm *what, void **comm_out, unsigned char *card_out)
{
    uint32_t streams = FIRST_CHANNEL + what->p2p_channels;
    sockets_comm *comm = calloc(1, sizeof *comm);
    line *lines = calloc((size_t)what->count * streams, sizeof *lines);
    if (!comm || !lines) {
        free(comm);
        free(lines);
        return weft_backend_error(WEFT_E_NO_MEMORY, "comm %s: no memory for its sockets", what->name);
    }
    *comm = (sockets_comm){.world = state, .comm = what->comm, .rank = what->rank, .count = what->count};
    comm->ranks = what->ranks, comm->streams = streams, comm->lines = lines;
    snprintf(comm->name, sizeof comm->name, "%s", what->name);
    for (int m = 0; m < comm->count; m++)
        for (uint32_t s = 0; s < streams; s++) {
            line *l = line_to(comm, m, s);
            *l = (line){.comm = comm, .fd = -1, .member = m, .stream = s};
            l->sends.end = &l->sends.first, l->receives.end = &l->receives.first;
        }
    *comm_out = comm; /* from here on it is given back by comm_destroy */
    if (getrandom(&comm->key, sizeof comm->key, 0) != sizeof comm->key)
        return fail_system(comm, "no random numbers");
    memcpy(card_out, &(card){comm->key}, sizeof(card));
    weft_result result = WEFT_OK;
    for (int m = comm->rank + 1; m < comm->count; m++)
        for (uint32_t s = 0; s < streams && result == WEFT_OK; s++)
            result = listen_to(line_to(comm, m, s));
    return result;
}

static weft_result comm_connect(void *arg, const unsigned char *cards)
{
    sockets_comm *comm = arg;
    weft_result all = WEFT_OK;
    for (int m = 0; m < comm->count; m++)
        for (uint32_t s = 0; s < comm->streams && m != comm->rank; s++) {
            line *l = line_to(comm, m, s);
            card theirs;
            memcpy(&theirs, cards + (size_t)m * sizeof theirs, sizeof theirs);
            weft_result one = l->is_connected ? WEFT_OK : m > comm->rank ? answer(l) : call(l, theirs.key);
            if (one < 0)
                return one;
            all = one == WEFT_PENDING ? WEFT_PENDING : all;
        }
    for (int m = 0; m < comm->count && all == WEFT_OK; m++)
        watch(line_to(comm, m, VERDICTS));
    return all;
}

/* ------------------------------------------------------------------------------------------- failing */

/* weft keeps the first verdict, and answers with comm_abort() when nothing moves any more. */
static void hear_verdict(line *l)
{
    sockets_comm *comm = l->comm;
    verdict told;
    ssize_t got = recv(l->fd, &told, sizeof told, 0); /* it was sent as a whole, into a socket that was empty */
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got == sizeof told) {
        told.text[sizeof told.text - 1] = 0;
        weft_backend_fail(comm->comm, (weft_result)told.result, "%s", told.text);
        comm->failed = true;
    } else if (l->watched) { /* it has left: whoever still wants something of it will find out */
        epoll_ctl(comm->world->epoll_fd, EPOLL_CTL_DEL, l->fd, NULL);
        close(l->fd);
        l->fd = -1;
    }
}

static void tell_verdict(sockets_comm *comm, weft_result result, const char *text)
{
    verdict told = {.result = result};
    snprintf(told.text, sizeof told.text, "%s", text);
    for (int m = 0; m < comm->count; m++) {
        const line *l = line_to(comm, m, VERDICTS);
        if (l->is_connected && l->fd >= 0)
            (void)!send(l->fd, &told, sizeof told, MSG_NOSIGNAL);
    }
}

/* A line has ended though something was to come. Its member may have said why. */
static void fail_line(line *l)
{
    sockets_comm *comm = l->comm;
    line *verdicts = line_to(comm, l->member, VERDICTS);
    if (verdicts->fd >= 0)
        hear_verdict(verdicts);
    if (!comm->failed)
        weft_backend_fail(comm->comm, WEFT_E_PEER_LOST, "rank %d has left comm %s, which others still use",
                          comm->ranks[l->member], comm->name);
    comm->failed = true;
}

static void describe(const header *h, char *text, size_t bytes)
{
    if (h->is_p2p)
        snprintf(text, bytes, "a message of %llu bytes, tag %#llx", (unsigned long long)h->bytes,
                 (unsigned long long)h->tag);
    else
        weft_backend_tell_asked(&h->asked, text, bytes);
}

static bool fits(line *l, const message *m)
{
    sockets_comm *comm = l->comm;
    header theirs = m->seen;
    if (!theirs.tag || !m->head.tag) /* any */
        theirs.tag = m->head.tag;
    if (memcmp(&theirs, &m->head, sizeof theirs) == 0)
        return true;
    char they[128], we[128];
    describe(&m->seen, they, sizeof they);
    describe(&m->head, we, sizeof we);
    weft_backend_fail(comm->comm, WEFT_E_MISMATCH, "comm %s: rank %d asks for %s, rank %d for %s", comm->name,
                      comm->ranks[l->member], they, comm->ranks[comm->rank], we);
    comm->failed = true;
    return false;
}

/* ------------------------------------------------------------------------------------------- what is done */

/* What each kind of collective moves. `for_each` and `from_each`: the buffer has a part for, or from, every member. */
static const struct shape {
    bool moves, reduces, for_each, from_each, root_sends, root_receives;
} shapes[] = {
    [WEFT_ALL_REDUCE] = {.moves = true, .reduces = true},
    [WEFT_REDUCE_SCATTER] = {.moves = true, .reduces = true, .for_each = true},
    [WEFT_ALL_GATHER] = {.moves = true, .from_each = true},
    [WEFT_BROADCAST] = {.moves = true, .root_sends = true},
    [WEFT_REDUCE] = {.moves = true, .reduces = true, .root_receives = true},
    [WEFT_ALL_TO_ALL] = {.moves = true, .for_each = true, .from_each = true},
    [WEFT_BARRIER] = {.moves = false},
};
_Static_assert(sizeof shapes / sizeof *shapes == WEFT_COLLECTIVE_KINDS, "each kind has a row");

/* Does a part go from one member to another? */
static bool goes(const weft_collective *c, int from, int to)
{
    const struct shape *shape = &shapes[c->kind];
    return shape->moves && c->count && (!shape->root_sends || from == c->root) &&
           (!shape->root_receives || to == c->root);
}

static char *part_of(const void *buffer, bool has_parts, int member, size_t one)
{
    return buffer ? (char *)(uintptr_t)buffer + (has_parts ? (size_t)member * one : 0) : NULL;
}

static bool is_staged(const weft_collective *c)
{
    return shapes[c->kind].reduces || (c->kind == WEFT_ALL_TO_ALL && c->send == c->recv);
}

/* All messages of a collective have gone and come: what is left is this rank's own. */
static void complete_collective(const sockets_comm *comm, flight *f, const weft_collective *c)
{
    const struct shape *shape = &shapes[c->kind];
    size_t one = c->count * weft_dtype_bytes(c->dtype);
    const char *own_part = part_of(c->send, shape->for_each, comm->rank, one);
    if (!goes(c, comm->rank, comm->rank))
        return;
    const void **sources = (const void **)(void *)&f->messages[2 * comm->count];
    for (int m = 0; m < comm->count && shape->reduces; m++)
        sources[m] = m == comm->rank ? own_part : f->staging + (size_t)m * one;
    if (shape->reduces) {
        weft_backend_reduce(c->recv, sources, comm->count, c->count, c->dtype, c->reduction);
        return;
    }
    for (int m = 0; m < comm->count && f->staging; m++)
        if (m != comm->rank)
            memcpy(part_of(c->recv, true, m, one), f->staging + (size_t)m * one, one);
    char *to = part_of(c->recv, shape->from_each, comm->rank, one);
    if (to != own_part)
        memcpy(to, own_part, one);
}

static void forget(sockets_comm *comm, weft_op *op)
{
    weft_op **link = &comm->ops;
    while (*link != op)
        link = &(*link)->next;
    *link = op->next;
    comm->world->busy--;
    free(((flight *)op->memory)->staging);
}

static void count_down(sockets_comm *comm, weft_op *op)
{
    flight *f = op->memory;
    if (--f->left > 0)
        return;
    if (!op->is_p2p)
        complete_collective(comm, f, &op->what);
    forget(comm, op);
    weft_backend_done(op, WEFT_OK);
}

/* ------------------------------------------------------------------------------------------- moving bytes */

static void put(queue *q, message *m)
{
    m->next = NULL;
    *q->end = m;
    q->end = &m->next;
}

static message *take(queue *q)
{
    message *m = q->first;
    q->first = m->next;
    if (!q->first)
        q->end = &q->first;
    return m;
}

/* What of the message is to be moved next: the header on its own, then the bytes, a piece at a time. */
static size_t next_piece(const message *m, header *head, char **at)
{
    if (m->done < sizeof *head) {
        *at = (char *)head + m->done;
        return sizeof *head - m->done;
    }
    size_t moved = m->done - sizeof *head, left = m->bytes - moved;
    *at = m->bytes ? m->data + moved : NULL;
    return left < PIECE_BYTES ? left : PIECE_BYTES;
}

static bool is_done(const message *m)
{
    return m->done == sizeof m->head + m->bytes;
}

/* Bytes moved; 0: none yet, or the line has ended, which fails the comm. */
static size_t moved(line *l, ssize_t got)
{
    if (got > 0)
        return (size_t)got;
    if (got == 0 || (errno != EAGAIN && errno != EINTR))
        fail_line(l);
    return 0;
}

static size_t send_piece(line *l)
{
    char *at;
    message *m = l->sends.first;
    size_t want = next_piece(m, &m->head, &at);
    size_t sent = moved(l, send(l->fd, at, want, MSG_NOSIGNAL | (m->bytes && m->done < sizeof m->head ? MSG_MORE : 0)));
    if (sent && !m->op->first)
        m->op->first = weft_trace_now(l->comm->world->world);
    m->done += sent;
    if (is_done(m))
        count_down(l->comm, take(&l->sends)->op);
    return sent;
}

static size_t receive_piece(line *l)
{
    char *at;
    message *m = l->receives.first;
    size_t want = next_piece(m, &m->seen, &at);
    size_t got = moved(l, recv(l->fd, at, want, 0));
    bool had_header = m->done >= sizeof m->head;
    m->done += got;
    if (!had_header && m->done == sizeof m->head) {
        if (!fits(l, m))
            return 0;
        m->op->last_arrival = weft_trace_now(l->comm->world->world);
        m->op->late_rank = l->comm->ranks[l->member];
    }
    if (is_done(m))
        count_down(l->comm, take(&l->receives)->op);
    return got;
}

/* Move what can be moved through one line, a little of it. */
static bool serve(line *l)
{
    sockets_comm *comm = l->comm;
    size_t sum = 0, more = 1;
    if (l->stream == VERDICTS && l->fd >= 0)
        hear_verdict(l);
    while (more && sum < PIECE_BYTES && !comm->failed && (l->sends.first || l->receives.first)) {
        more = l->sends.first ? send_piece(l) : 0;
        more += l->receives.first && !comm->failed ? receive_piece(l) : 0;
        sum += more;
    }
    watch(l);
    return sum > 0;
}

static unsigned progress(void *state, uint64_t slice_ticks)
{
    sockets_world *own = state;
    uint64_t end = weft_trace_now(own->world) + slice_ticks;
    struct epoll_event events[16];
    unsigned answer = 0;
    int count = 1;
    /* Who uses no comm of this backend need not pay for it. */
    for (bool look = own->busy || own->is_asleep; look && count > 0; look = weft_trace_now(own->world) < end) {
        count = epoll_wait(own->epoll_fd, events, 16, 0);
        own->is_asleep = false;
        bool any = false;
        for (int i = 0; i < count; i++)
            any |= serve(events[i].data.ptr);
        answer |= any ? WEFT_PROGRESS_MOVED : 0;
        if (!any)
            break;
    }
    return answer | (own->busy ? WEFT_PROGRESS_ATTENTION : 0);
}

/* ------------------------------------------------------------------------------------------- operations */

static void enter(sockets_comm *comm, weft_op *op, uint32_t messages)
{
    ((flight *)op->memory)->left = messages;
    op->next = comm->ops;
    comm->ops = op;
    comm->world->busy++;
}

static void queue_message(sockets_comm *comm, message *m, int member, uint32_t stream, bool is_send)
{
    line *l = line_to(comm, member, stream);
    put(is_send ? &l->sends : &l->receives, m);
    watch(l);
}

static weft_result start_collective(sockets_comm *comm, weft_op *op)
{
    const weft_collective *c = &op->what;
    const struct shape *shape = &shapes[c->kind];
    header head = {.asked = weft_backend_asked(c)};
    size_t one = c->count * weft_dtype_bytes(c->dtype);
    flight *f = op->memory;
    f->staging = NULL;
    if (is_staged(c) && c->count && !(f->staging = malloc((size_t)comm->count * one)))
        return weft_backend_error(WEFT_E_NO_MEMORY, "comm %s: no memory for %zu bytes of %d members", comm->name, one,
                                  comm->count);
    enter(comm, op, 2 * (uint32_t)(comm->count - 1));
    for (int m = 0; m < comm->count; m++) {
        if (m == comm->rank)
            continue;
        message *to = &f->messages[m], *from = &f->messages[comm->count + m];
        *to = (message){.op = op, .head = head, .data = part_of(c->send, shape->for_each, m, one)};
        *from = (message){.op = op, .head = head, .data = part_of(c->recv, shape->from_each, m, one)};
        if (f->staging)
            from->data = f->staging + (size_t)m * one;
        to->bytes = goes(c, comm->rank, m) ? one : 0;
        from->bytes = goes(c, m, comm->rank) ? one : 0;
        queue_message(comm, to, m, COLLECTIVES, true);
        queue_message(comm, from, m, COLLECTIVES, false);
    }
    return WEFT_OK;
}

static weft_result start_batch(sockets_comm *comm, weft_op *op)
{
    flight *f = op->memory;
    uint32_t count = 0;
    f->staging = NULL;
    for (uint32_t i = 0; i < op->message_count; i++)
        count += op->messages[i].peer != comm->rank;
    if (!count) {
        weft_backend_done(op, WEFT_OK);
        return WEFT_OK;
    }
    enter(comm, op, count);
    for (uint32_t i = 0; i < op->message_count; i++) {
        const weft_p2p *p = &op->messages[i];
        message *m = &f->messages[i];
        if (p->peer == comm->rank)
            continue; /* weft has carried it out */
        size_t bytes = p->count * weft_dtype_bytes(p->dtype);
        *m = (message){.op = op, .head = {.is_p2p = 1, .bytes = bytes, .tag = p->tag}};
        m->data = p->buffer, m->bytes = bytes;
        queue_message(comm, m, p->peer, FIRST_CHANNEL + p->channel, p->kind == WEFT_SEND);
    }
    return WEFT_OK;
}

static weft_result start(void *arg, weft_op *op)
{
    sockets_comm *comm = arg;
    return op->is_p2p ? start_batch(comm, op) : start_collective(comm, op);
}

static size_t name_missing(const queue *q, const weft_op *op, const char *what, int rank, char *text, size_t bytes)
{
    for (const message *m = q->first; m; m = m->next)
        if (m->op == op)
            return (size_t)snprintf(text, bytes, " %s rank %d,", what, rank);
    return 0;
}

static void explain(void *arg, const weft_op *op, char *text, size_t text_bytes)
{
    const sockets_comm *comm = arg;
    size_t used = (size_t)snprintf(text, text_bytes, "messages are on their way:");
    for (size_t i = 0; i < (size_t)comm->count * comm->streams; i++) {
        const line *l = &comm->lines[i];
        int rank = comm->ranks[l->member];
        if (used < text_bytes)
            used += name_missing(&l->receives, op, "from", rank, text + used, text_bytes - used);
        if (used < text_bytes)
            used += name_missing(&l->sends, op, "to", rank, text + used, text_bytes - used);
    }
}

/* ------------------------------------------------------------------------------------------- the end of a comm */

static void drop_messages(sockets_comm *comm)
{
    comm->failed = true;
    for (size_t i = 0; i < (size_t)comm->count * comm->streams; i++) {
        line *l = &comm->lines[i];
        l->sends = (queue){.end = &l->sends.first}, l->receives = (queue){.end = &l->receives.first};
        watch(l);
    }
}

/* Nobody but this rank writes into its buffers, so they can be given back at once. */
static void comm_abort(void *arg, weft_result result, const char *text)
{
    sockets_comm *comm = arg;
    tell_verdict(comm, result, text);
    drop_messages(comm);
    while (comm->ops) {
        weft_op *op = comm->ops;
        forget(comm, op);
        weft_backend_done(op, result);
    }
}

static void comm_leave(void *arg)
{
    sockets_comm *comm = arg;
    char text[128];
    snprintf(text, sizeof text, "rank %d has destroyed comm %s with operations in flight", comm->ranks[comm->rank],
             comm->name);
    if (comm->ops)
        tell_verdict(comm, WEFT_E_ABORTED, text);
    drop_messages(comm);
    while (comm->ops) /* weft ends them */
        forget(comm, comm->ops);
    for (size_t i = 0; i < (size_t)comm->count * comm->streams; i++)
        if (comm->lines[i].fd >= 0)
            close(comm->lines[i].fd); /* what was sent still arrives */
}

static void comm_destroy(void *arg)
{
    sockets_comm *comm = arg;
    free(comm->lines);
    free(comm);
}

/* ------------------------------------------------------------------------------------------- sleeping */

static int descriptor(void *state)
{
    return ((sockets_world *)state)->epoll_fd;
}

/* What each socket is watched for is always up to date, and told for as long as it lasts: nothing can be missed. */
static weft_result arm(void *state)
{
    ((sockets_world *)state)->is_asleep = true;
    return WEFT_OK;
}

WEFT_API weft_backend_module_function WEFT_BACKEND_MODULE;

const weft_backend *WEFT_BACKEND_MODULE(void)
{
    static const weft_backend table = {
        .abi_major = WEFT_BACKEND_ABI,
        .size = sizeof table,
        .name = "sockets",
        .query = query,
        .open = open_world,
        .close = close_world,
        .comm_create = comm_create,
        .comm_connect = comm_connect,
        .comm_abort = comm_abort,
        .comm_leave = comm_leave,
        .comm_destroy = comm_destroy,
        .start = start,
        .progress = progress,
        .explain = explain,
        .fd = descriptor,
        .arm = arm,
    };
    return &table;
}
