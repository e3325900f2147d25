/* SPDX-License-Identifier: Apache-2.0 */
/* A wire of pipes in shared memory, one for each pair of ranks, channel and direction. */
#include "wire.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>
#include <weft/backend.h>

#include "harness/machines.h"

enum { PIPES = 20000, RING = 12288, PARTS_MOST = 16 };

typedef struct pipe_ends {
    _Atomic uint64_t written, read;
    unsigned char ring[RING];
} pipe_ends;

typedef struct board {
    _Atomic int used;
    int bells[MACHINE_RANKS];
    pipe_ends pipes[PIPES];
} board;
static board *the_board;

typedef struct letter {
    weft_op *op;
    const weft_p2p *what;
    size_t bytes, done;
    bool begun;
    struct letter *next;
} letter;

typedef struct envelope {
    uint64_t bytes, tag;
} envelope;

typedef struct queue {
    letter *first, **end;
    pipe_ends *pipe;
} queue;

typedef struct paper_comm {
    struct paper_world *world;
    struct paper_comm *next;
    weft_backend_comm is;
    int first_pipe;
    queue *out, *in; /* [peer * channels + channel] */
    int starts;
    bool failed, left;
} paper_comm;

typedef struct paper_world {
    int bell;
    paper_comm *comms;
} paper_world;

static size_t lanes(const paper_comm *c)
{
    return (size_t)c->is.count * c->is.p2p_channels;
}

static void ring_bell(const paper_comm *c, size_t lane)
{
    int rank = c->is.ranks[lane / c->is.p2p_channels];
    CHECK(write(the_board->bells[rank], &(uint64_t){1}, 8) == 8);
}

/* ------------------------------------------------------------------------------------------- a comm's life */

static weft_result query(const weft_backend_question *question, weft_backend_facts *facts)
{
    (void)question;
    facts->caps = WEFT_CAP_P2P;
    facts->score = WEFT_SCORE_WIRE - 1;
    facts->op_bytes = sizeof(uint64_t);
    facts->message_bytes = sizeof(letter);
    facts->card_bytes = sizeof(int);
    return WEFT_OK;
}

static weft_result open_world(weft_world *world, void **state_out)
{
    paper_world *w = calloc(1, sizeof *w);
    w->bell = the_board->bells[weft_world_rank(world)];
    *state_out = w;
    return WEFT_OK;
}

static void close_world(void *state)
{
    CHECK(((paper_world *)state)->comms == NULL);
    free(state);
}

static weft_result comm_create(void *state, const weft_backend_comm *comm, void **comm_out, unsigned char *card)
{
    paper_comm *c = calloc(1, sizeof *c);
    c->world = state;
    c->is = *comm;
    c->first_pipe = atomic_fetch_add(&the_board->used, (int)lanes(c));
    CHECK(c->first_pipe + (int)lanes(c) <= PIPES);
    memcpy(card, &c->first_pipe, sizeof c->first_pipe);
    c->out = calloc(lanes(c), sizeof *c->out);
    c->in = calloc(lanes(c), sizeof *c->in);
    c->next = c->world->comms;
    c->world->comms = c;
    *comm_out = c;
    if (strcmp(comm->name, "unmade") == 0)
        return weft_backend_error(WEFT_E_SYSTEM, "paperwire is out of paper");
    return WEFT_OK;
}

static weft_result comm_connect(void *comm, const unsigned char *cards)
{
    paper_comm *c = comm;
    uint32_t channels = c->is.p2p_channels;
    for (size_t lane = 0; lane < lanes(c); lane++) {
        int theirs;
        memcpy(&theirs, cards + lane / channels * sizeof theirs, sizeof theirs);
        c->out[lane].pipe = &the_board->pipes[(size_t)c->first_pipe + lane];
        c->in[lane].pipe = &the_board->pipes[(size_t)theirs + (size_t)c->is.rank * channels + lane % channels];
        c->out[lane].end = &c->out[lane].first;
        c->in[lane].end = &c->in[lane].first;
    }
    return WEFT_OK;
}

static void comm_destroy(void *comm)
{
    paper_comm *c = comm;
    CHECK(c->left);
    for (paper_comm **link = &c->world->comms; *link; link = &(*link)->next)
        if (*link == c) {
            *link = c->next;
            break;
        }
    free(c->out);
    free(c->in);
    free(c);
}

static void drop(queue *q, weft_result result)
{
    for (letter *l = q->first, *next; l; l = next) {
        uint64_t *left = l->op->memory;
        next = l->next;
        if (--*left == 0)
            weft_backend_done(l->op, result);
    }
    q->first = NULL;
    q->end = &q->first;
}

static void comm_abort(void *comm, weft_result result, const char *text)
{
    paper_comm *c = comm;
    (void)text;
    c->failed = true;
    for (size_t lane = 0; lane < lanes(c); lane++) {
        drop(&c->out[lane], result);
        drop(&c->in[lane], result);
    }
}

static void comm_leave(void *comm)
{
    paper_comm *c = comm;
    c->failed = c->left = true;
    for (size_t lane = 0; lane < lanes(c); lane++)
        c->out[lane].first = c->in[lane].first = NULL;
}

/* ------------------------------------------------------------------------------------------- moving */

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static void put(pipe_ends *p, const void *from, size_t bytes)
{
    uint64_t at = atomic_load(&p->written);
    size_t first = least(bytes, RING - at % RING);
    memcpy(p->ring + at % RING, from, first);
    memcpy(p->ring, (const unsigned char *)from + first, bytes - first);
    atomic_store(&p->written, at + bytes);
}

static void get(pipe_ends *p, void *to, size_t bytes)
{
    uint64_t at = atomic_load(&p->read);
    size_t first = least(bytes, RING - at % RING);
    memcpy(to, p->ring + at % RING, first);
    memcpy((unsigned char *)to + first, p->ring, bytes - first);
    atomic_store(&p->read, at + bytes);
}

static void end_first(queue *q)
{
    letter *l = q->first;
    uint64_t *left = l->op->memory;
    q->first = l->next;
    if (!q->first)
        q->end = &q->first;
    if (--*left == 0)
        weft_backend_done(l->op, WEFT_OK);
}

static bool send_some(queue *q)
{
    bool moved = false;
    while (q->first) {
        letter *l = q->first;
        size_t room = RING - (size_t)(atomic_load(&q->pipe->written) - atomic_load(&q->pipe->read));
        if (!l->begun) {
            if (room < sizeof(envelope))
                return moved;
            put(q->pipe, &(envelope){l->bytes, l->what->tag}, sizeof(envelope));
            room -= sizeof(envelope);
            l->begun = moved = true;
        }
        size_t n = least(room, l->bytes - l->done);
        if (n)
            put(q->pipe, (const unsigned char *)l->what->buffer + l->done, n);
        l->done += n;
        moved |= n > 0;
        if (l->done < l->bytes)
            return moved;
        end_first(q);
    }
    return moved;
}

static bool fits(paper_comm *c, size_t lane, const letter *l, const envelope *e)
{
    char theirs[96] = "something", ours[96] = "something else";
    uint32_t channel = (uint32_t)(lane % c->is.p2p_channels);
    bool tags_differ = e->tag && l->what->tag && e->tag != l->what->tag;
    if (!tags_differ && e->bytes == l->bytes)
        return true;
    if (tags_differ && channel >= c->is.p2p_channels - c->is.part_channels) {
        weft_backend_tell_part(e->tag, theirs, sizeof theirs);
        weft_backend_tell_part(l->what->tag, ours, sizeof ours);
    }
    weft_backend_fail(c->is.comm, WEFT_E_MISMATCH, "comm %s: rank %d asks for %s, rank %d for %s", c->is.name,
                      c->is.ranks[lane / c->is.p2p_channels], theirs, c->is.ranks[c->is.rank], ours);
    c->failed = true;
    return false;
}

static bool receive_some(paper_comm *c, size_t lane)
{
    queue *q = &c->in[lane];
    bool moved = false;
    while (q->first) {
        letter *l = q->first;
        size_t there = (size_t)(atomic_load(&q->pipe->written) - atomic_load(&q->pipe->read));
        if (!l->begun) {
            envelope e;
            if (there < sizeof e)
                return moved;
            get(q->pipe, &e, sizeof e);
            if (!fits(c, lane, l, &e))
                return true;
            there -= sizeof e;
            l->begun = moved = true;
        }
        size_t n = least(there, l->bytes - l->done);
        if (n)
            get(q->pipe, (unsigned char *)l->what->buffer + l->done, n);
        l->done += n;
        moved |= n > 0;
        if (l->done < l->bytes)
            return moved;
        end_first(q);
    }
    return moved;
}

static weft_result start(void *comm, weft_op *op)
{
    paper_comm *c = comm;
    uint64_t *left = op->memory, all = op->message_count;
    letter *letters = (letter *)(left + 1);
    CHECK(op->is_p2p && all > 0);
    if (++c->starts % 3 == 0)
        return WEFT_AGAIN;
    *left = all;
    for (uint64_t i = 0; i < all; i++) {
        const weft_p2p *m = &op->messages[i];
        CHECK(m->channel < c->is.p2p_channels && m->peer != c->is.rank);
        size_t lane = (size_t)m->peer * c->is.p2p_channels + m->channel;
        queue *q = m->kind == WEFT_SEND ? &c->out[lane] : &c->in[lane];
        letters[i] = (letter){.op = op, .what = m, .bytes = m->count * weft_dtype_bytes(m->dtype)};
        *q->end = &letters[i];
        q->end = &letters[i].next;
    }
    return WEFT_OK;
}

static unsigned progress(void *state, uint64_t slice_ticks)
{
    unsigned answer = 0;
    (void)slice_ticks;
    for (paper_comm *c = ((paper_world *)state)->comms; c; c = c->next)
        for (size_t lane = 0; lane < lanes(c) && !c->failed; lane++) {
            bool moved = send_some(&c->out[lane]);
            moved |= receive_some(c, lane);
            if (moved)
                ring_bell(c, lane);
            answer |= moved ? WEFT_PROGRESS_MOVED : 0;
            answer |= c->out[lane].first || c->in[lane].first ? WEFT_PROGRESS_ATTENTION : 0;
        }
    return answer;
}

static void explain(void *comm, const weft_op *op, char *text, size_t text_bytes)
{
    paper_comm *c = comm;
    size_t used = 0;
    for (uint32_t i = 0; i < op->message_count && used < text_bytes; i++) {
        const letter *l = (const letter *)((uint64_t *)op->memory + 1) + i;
        if (l->done < l->bytes || !l->begun)
            used += (size_t)snprintf(text + used, text_bytes - used, "%srank %d has %s %zu of %zu bytes",
                                     used ? "; " : "", c->is.ranks[l->what->peer],
                                     l->what->kind == WEFT_SEND ? "taken" : "sent", l->done, l->bytes);
    }
}

static int bell_fd(void *state)
{
    return ((paper_world *)state)->bell;
}

static weft_result arm(void *state)
{
    uint64_t rings;
    ssize_t n = read(((paper_world *)state)->bell, &rings, sizeof rings);
    CHECK(n > 0 || errno == EAGAIN);
    return n > 0 ? WEFT_AGAIN : WEFT_OK; /* who rings after this is seen by poll() */
}

void wire_lay(void)
{
    static bool known;
    the_board =
        mmap(NULL, sizeof *the_board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(the_board != MAP_FAILED);
    for (int r = 0; r < MACHINE_RANKS; r++) {
        the_board->bells[r] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        CHECK(the_board->bells[r] >= 0);
    }
    if (!known)
        CHECK_OK(weft_backend_register(&(weft_backend){.abi_major = WEFT_BACKEND_ABI,
                                                       .size = sizeof(weft_backend),
                                                       .name = "paperwire",
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
                                                       .fd = bell_fd,
                                                       .arm = arm}));
    known = true;
}
