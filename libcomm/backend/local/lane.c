/* SPDX-License-Identifier: Apache-2.0 */
/* Messages. Each peer and channel is a lane with mail of its own in both directions, so lanes never hold each other
 * up. A small message goes through the pipe and is done at once; a large one is fetched where it lies, or streamed
 * through the pipe if the peer cannot reach it. */
#include <stdio.h>
#include <string.h>

#include "backend/local/local.h"
#include "base/clock.h"

/* Messages in the order they were started. */
typedef struct queue {
    weft__message *first, **end;
} queue;

struct weft__lane {
    int peer;
    uint32_t channel;
    /* To the peer. */
    queue unposted; /* the first may be streaming: posted, its bytes on their way */
    queue posted;   /* fetched by the peer where they lie */
    bool streaming;
    uint64_t posts, taken_seen;
    weft__mail_out *out;
    const weft__mail_in *out_taken;
    weft__pipe_writer writer;
    /* From the peer. */
    queue wanted;
    uint64_t takes;
    const weft__mail_out *in;
    weft__mail_in *in_taken;
    weft__pipe_reader reader;

    bool busy;
    weft__lane *next; /* busy */
};

static void put(queue *q, weft__message *m)
{
    m->next = NULL;
    *q->end = m;
    q->end = &m->next;
}

static weft__message *take(queue *q)
{
    weft__message *m = q->first;
    q->first = m->next;
    if (!q->first)
        q->end = &q->first;
    return m;
}

static void clear(queue *q)
{
    q->first = NULL;
    q->end = &q->first;
}

/* ------------------------------------------------------------------------------------------- opening */

weft_result weft__lanes_open(weft__local_comm *lc)
{
    size_t lanes = (size_t)lc->count * lc->channels;
    lc->lanes = weft__alloc(lanes * sizeof *lc->lanes);
    if (!lc->lanes)
        return WEFT_E_NO_MEMORY;
    for (size_t i = 0; i < lanes; i++) {
        weft__lane *lane = &lc->lanes[i];
        lane->peer = (int)(i / lc->channels);
        lane->channel = (uint32_t)(i % lc->channels);
        clear(&lane->unposted);
        clear(&lane->posted);
        clear(&lane->wanted);
    }
    return WEFT_OK;
}

void weft__lanes_connect(weft__local_comm *lc)
{
    const weft__page_layout *l = &lc->layout;
    for (size_t i = 0; i < (size_t)lc->count * lc->channels; i++) {
        weft__lane *lane = &lc->lanes[i];
        weft__page *theirs = lc->pages[lane->peer];
        lane->out = weft__page_mail_out(l, lc->page, lane->peer, lane->channel);
        lane->out_taken = weft__page_mail_in(l, theirs, lc->rank, lane->channel);
        lane->in = weft__page_mail_out(l, theirs, lc->rank, lane->channel);
        lane->in_taken = weft__page_mail_in(l, lc->page, lane->peer, lane->channel);
        lane->writer =
            (weft__pipe_writer){.out = &lane->out->pipe, .in = &lane->out_taken->pipe, .bytes = l->mail_bytes};
        lane->reader = (weft__pipe_reader){.out = &lane->in->pipe, .in = &lane->in_taken->pipe, .bytes = l->mail_bytes};
    }
}

/* ------------------------------------------------------------------------------------------- starting */

/* What the others can be told of this rank's last batch: its first message. */
static void tell_doing(weft__local_comm *lc, const weft_op *op)
{
    for (uint32_t i = 0; i < op->message_count; i++) {
        const weft_p2p *m = &op->messages[i];
        if (m->peer == lc->rank)
            continue;
        uint64_t doing =
            1 | (uint64_t)(m->kind == WEFT_RECV) << 1 | (uint64_t)m->channel << 8 | (uint64_t)m->peer << 32;
        atomic_store_explicit(&lc->page->doing, doing, memory_order_relaxed);
        return;
    }
}

static weft__lane *lane_of(const weft__local_comm *lc, const weft_p2p *what)
{
    return &lc->lanes[(size_t)what->peer * lc->channels + what->channel];
}

static void queue_up(weft__local_comm *lc, weft_op *op)
{
    weft__batch *batch = op->memory;
    weft__message *messages = (weft__message *)(batch + 1);
    *batch = (weft__batch){.small = true};
    for (uint32_t i = 0; i < op->message_count; i++) {
        const weft_p2p *what = &op->messages[i];
        if (what->peer == lc->rank)
            continue;
        weft__message *m = &messages[i];
        *m = (weft__message){.op = op, .what = what, .bytes = what->count * weft__dtype_bytes(what->dtype)};
        weft__lane *lane = lane_of(lc, what);
        put(what->kind == WEFT_SEND ? &lane->unposted : &lane->wanted, m);
        batch->left++;
        batch->small &= m->bytes <= weft__local_small(lc->local);
        if (!lane->busy) {
            lane->busy = true;
            lane->next = lc->busy_lanes;
            lc->busy_lanes = lane;
        }
    }
    tell_doing(lc, op);
}

static void message_done(const weft__local *local, weft__message *m)
{
    weft_op *op = m->op;
    weft__batch *batch = op->memory;
    if (--batch->left)
        return;
    if (batch->small)
        op->last = local->now;
    weft_backend_done(op, WEFT_OK);
}

/* ------------------------------------------------------------------------------------------- sending */

/* The peer is woken by the caller, once for all that it publishes. */
static void post(const weft__local *local, weft__lane *lane, weft__message *m, uint32_t mode, uint64_t offset)
{
    weft__mail_entry *e = &lane->out->entries[weft__page_place(lane->posts)];
    m->entry = lane->posts++;
    e->bytes = m->bytes;
    e->tag = m->what->tag;
    e->started = m->op->start;
    e->mode = mode;
    if (mode == WEFT__MAIL_DIRECT)
        e->offset = offset;
    else if (mode == WEFT__MAIL_IN_LINE && m->bytes)
        memcpy(e->input, m->what->buffer, m->bytes);
    atomic_store_explicit(&lane->out->posted, lane->posts, memory_order_relaxed);
    atomic_store(&e->number, lane->posts);
    weft__fetch_to_write(&lane->out->entries[weft__page_place(lane->posts)]);
    weft__local_mark_first(local, m->op);
}

static bool has_entry(weft__lane *lane)
{
    if (lane->posts - lane->taken_seen >= WEFT__MAIL_ENTRIES)
        lane->taken_seen = atomic_load(&lane->out_taken->taken);
    return lane->posts - lane->taken_seen < WEFT__MAIL_ENTRIES;
}

/* Put as much of a message into the pipe as there is room for. How much it was. */
static size_t stream(weft__lane *lane, weft__message *m)
{
    size_t before = m->done, part = 1;
    while (m->done < m->bytes && part) {
        part = weft__pipe_write(&lane->writer, (const unsigned char *)m->what->buffer + m->done, m->bytes - m->done);
        m->done += part;
    }
    return m->done - before;
}

/* Can the message go at once? A little room is left, so that it can whatever came before. */
static bool fits_pipe(const weft__local *local, weft__lane *lane, size_t bytes)
{
    size_t small = weft__local_small(local);
    if (bytes > small)
        return false;
    uint64_t most = lane->writer.bytes - small - bytes;
    return weft__pipe_used(&lane->writer, most) <= most;
}

/* Post the first message. True: its bytes are, or go, through the pipe or the entry: the peer is not waited for. */
static bool post_first(weft__local_comm *lc, weft__lane *lane)
{
    weft__message *m = lane->unposted.first;
    if (m->bytes <= WEFT__MAIL_LINE_BYTES) {
        post(lc->local, lane, m, WEFT__MAIL_IN_LINE, 0);
        m->done = m->bytes;
        return true;
    }
    if (fits_pipe(lc->local, lane,
                  m->bytes)) { /* in it before it is posted: so the peer need not look how far it is filled */
        (void)stream(lane, m);
        post(lc->local, lane, m, WEFT__MAIL_WHOLE, 0);
        return true;
    }
    uint64_t offset = weft__local_offset(lc, m->what->buffer, m->bytes);
    if (offset == WEFT__NOWHERE) {
        post(lc->local, lane, m, WEFT__MAIL_IN_PIPE, 0);
        return true;
    }
    post(lc->local, lane, m, WEFT__MAIL_DIRECT, offset);
    put(&lane->posted, take(&lane->unposted));
    return false;
}

static unsigned send_some(weft__local_comm *lc, weft__lane *lane)
{
    unsigned moved = 0;
    while (lane->unposted.first && (lane->streaming || has_entry(lane))) {
        weft__message *m = lane->unposted.first;
        if (!lane->streaming) {
            moved = WEFT_PROGRESS_MOVED;
            lane->streaming = post_first(lc, lane);
            if (!lane->streaming)
                continue;
        }
        if (stream(lane, m))
            moved = WEFT_PROGRESS_MOVED;
        if (m->done < m->bytes)
            break;
        lane->streaming = false;
        message_done(lc->local, take(&lane->unposted));
    }
    if (moved)
        weft__local_wake(lc, lane->peer);
    if (lane->posted.first)
        lane->taken_seen = atomic_load(&lane->out_taken->taken);
    while (lane->posted.first && lane->taken_seen > lane->posted.first->entry) {
        message_done(lc->local, take(&lane->posted));
        moved = WEFT_PROGRESS_MOVED;
    }
    return moved;
}

/* ------------------------------------------------------------------------------------------- receiving */

static bool matches(weft__local_comm *lc, const weft__lane *lane, const weft__mail_entry *e, const weft__message *m)
{
    int from = lc->ranks[lane->peer], to = lc->ranks[lc->rank];
    if (e->bytes != m->bytes)
        weft_backend_fail(lc->comm, WEFT_E_MISMATCH,
                          "comm %s, channel %u: rank %d sends %llu bytes, rank %d receives %zu bytes", lc->name,
                          lane->channel, from, (unsigned long long)e->bytes, to, m->bytes);
    else if (e->tag && m->what->tag && e->tag != m->what->tag)
        weft_backend_fail(lc->comm, WEFT_E_MISMATCH,
                          "comm %s, channel %u: rank %d sends tag %#llx, rank %d receives %#llx", lc->name,
                          lane->channel, from, (unsigned long long)e->tag, to, (unsigned long long)m->what->tag);
    else
        return true;
    return false;
}

static size_t fetch(weft__local_comm *lc, weft__lane *lane, const weft__mail_entry *e, weft__message *m)
{
    const unsigned char *from;
    size_t left = m->bytes - m->done, most = weft__local_part(lc->local), part = left < most ? left : most;
    if (e->mode == WEFT__MAIL_IN_LINE) {
        from = e->input;
    } else if (e->mode == WEFT__MAIL_DIRECT) {
        from = lc->bases[lane->peer] + e->offset + m->done;
    } else {
        if (e->mode == WEFT__MAIL_WHOLE)
            weft__pipe_trust(&lane->reader, left);
        size_t available = weft__pipe_available(&lane->reader, &from);
        part = part < available ? part : available;
    }
    if (!part)
        return 0;
    if (m->done == 0)
        m->past = weft__local_is_cold(lc->local, m->what->buffer, m->bytes, 2 * m->bytes);
    unsigned char *to = (unsigned char *)m->what->buffer + m->done;
    if (m->past)
        lc->local->vector->copy_past(to, from, part);
    else
        memcpy(to, from, part);
    if (e->mode == WEFT__MAIL_IN_PIPE || e->mode == WEFT__MAIL_WHOLE)
        weft__local_took(lc, lane->peer, &lane->reader, part, part == left);
    m->done += part;
    return part;
}

/* Say so. The sender can go on if it counts on us to take it, or has no entry left for its next one. */
static void took_message(weft__local_comm *lc, weft__lane *lane, uint32_t mode)
{
    uint64_t before = lane->takes++;
    atomic_store(&lane->in_taken->taken, lane->takes);
    if (!weft__local_sleeps(lc, lane->peer))
        return;
    if (mode == WEFT__MAIL_DIRECT || atomic_load(&lane->in->posted) - before >= WEFT__MAIL_ENTRIES)
        weft__local_wake(lc, lane->peer);
}

/* The next message from the peer, or NULL. */
static const weft__mail_entry *next_mail(const weft__lane *lane)
{
    const weft__mail_entry *e = &lane->in->entries[weft__page_place(lane->takes)];
    return atomic_load(&e->number) == lane->takes + 1 ? e : NULL;
}

/* A look that found it has not ended before it was sent, however long this rank was kept from looking. */
static void note_started(weft__local *local, const weft__mail_entry *e)
{
    if (local->now && local->now < e->started)
        local->now = e->started;
}

static unsigned receive_some(weft__local_comm *lc, weft__lane *lane)
{
    unsigned moved = 0;
    while (lane->wanted.first) {
        weft__message *m = lane->wanted.first;
        const weft__mail_entry *e = next_mail(lane);
        if (!e)
            break;
        if (m->done == 0 && !matches(lc, lane, e, m))
            break;
        note_started(lc->local, e);
        weft__local_mark_first(lc->local, m->op);
        while (m->done < m->bytes && fetch(lc, lane, e, m)) {
            moved = WEFT_PROGRESS_MOVED;
            if (m->done < m->bytes && weft__local_turn_over(lc->local))
                break;
        }
        if (m->done < m->bytes)
            break;
        if (e->mode == WEFT__MAIL_DIRECT && !weft__local_still_good(lc, lane->peer, WEFT__ANY_NUMBER))
            break;
        took_message(lc, lane, e->mode);
        message_done(lc->local, take(&lane->wanted));
        moved = WEFT_PROGRESS_MOVED;
    }
    return moved;
}

/* ------------------------------------------------------------------------------------------- all lanes */

unsigned weft__lanes_progress(weft__local_comm *lc)
{
    unsigned moved = 0;
    for (weft__lane **link = &lc->busy_lanes; *link && !weft__local_has_verdict(lc);) {
        weft__lane *lane = *link;
        moved |= send_some(lc, lane);
        moved |= receive_some(lc, lane);
        lane->busy = lane->unposted.first || lane->posted.first || lane->wanted.first;
        if (lane->busy)
            link = &lane->next;
        else
            *link = lane->next;
    }
    return moved;
}

/* @p now: near enough for small messages. */
static void look_once(weft__local_comm *lc, uint64_t now)
{
    lc->local->now = now;
    lc->local->turn_end = 0;
    lc->local->turn_over = false;
    (void)weft__lanes_progress(lc);
    lc->local->now = 0;
}

void weft__lanes_start(weft__local_comm *lc, weft_op *op)
{
    weft__batch *batch = op->memory;
    queue_up(lc, op);
    if (!batch->left) {
        weft_backend_done(op, WEFT_OK);
        return;
    }
    if (batch->small)
        look_once(lc, op->start);
}

/* Of small messages the last look for them is near enough to their end. */
void weft__lanes_hasten(weft__local_comm *lc, weft_op *op)
{
    const weft__batch *batch = op->memory;
    uint64_t until = op->start + lc->local->hasten_ticks;
    for (uint64_t now = 0; batch->small && batch->left && now < until && !weft__local_has_verdict(lc);) {
        now = weft__ticks();
        look_once(lc, now);
    }
}

bool weft__lanes_miss(const weft__local_comm *lc, int member)
{
    for (const weft__lane *lane = lc->busy_lanes; lane; lane = lane->next) {
        if (lane->peer != member)
            continue;
        bool wants = lane->wanted.first && !next_mail(lane);
        bool offers = lane->posted.first && atomic_load(&lane->out_taken->taken) <= lane->posted.first->entry;
        if (wants || offers || lane->unposted.first)
            return true;
    }
    return false;
}

/* The operations that messages belong to, each once; afterwards no lane knows any. */
static weft_op *unlink_all(weft__local_comm *lc)
{
    weft_op *ops = NULL;
    for (weft__lane *lane = lc->busy_lanes; lane; lane = lane->next) {
        queue *queues[] = {&lane->unposted, &lane->posted, &lane->wanted};
        for (int i = 0; i < 3; i++) {
            for (weft__message *m = queues[i]->first; m; m = m->next) {
                weft__batch *batch = m->op->memory;
                if (!batch->left)
                    continue; /* has been listed */
                batch->left = 0;
                m->op->next = ops;
                ops = m->op;
            }
            clear(queues[i]);
        }
        lane->busy = false;
    }
    lc->busy_lanes = NULL;
    return ops;
}

void weft__lanes_give_back(weft__local_comm *lc)
{
    weft_result verdict = (weft_result)atomic_load(&lc->comm->verdict);
    for (weft_op *op = unlink_all(lc), *next; op; op = next) {
        next = op->next;
        weft_backend_done(op, verdict);
    }
}

/* ------------------------------------------------------------------------------------------- explaining */

static bool is_first(const weft__lane *lane, const weft_op *op, bool *sends)
{
    const weft__message *out = lane->posted.first ? lane->posted.first : lane->unposted.first;
    *sends = out && out->op == op;
    return *sends || (lane->wanted.first && lane->wanted.first->op == op);
}

void weft__lanes_explain(weft__local_comm *lc, const weft_op *op, char *text, size_t bytes)
{
    size_t used = 0;
    bool sends;
    for (const weft__lane *lane = lc->busy_lanes; lane && used + 64 < bytes; lane = lane->next) {
        if (!is_first(lane, op, &sends))
            continue;
        int peer = lc->ranks[lane->peer];
        used += (size_t)snprintf(text + used, bytes - used, "%s%s rank %d on channel %u waits", used ? "; " : "",
                                 sends ? "send to" : "receive from", peer, lane->channel);
        uint64_t doing = atomic_load_explicit(&lc->pages[lane->peer]->doing, memory_order_relaxed);
        if (doing && used < bytes)
            used += (size_t)snprintf(text + used, bytes - used, ", rank %d last began to %s rank %d", peer,
                                     doing & 2 ? "receive from" : "send to",
                                     lc->ranks[(doing >> 32) % (uint64_t)lc->count]);
    }
}
