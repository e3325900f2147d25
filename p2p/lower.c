/* SPDX-License-Identifier: Apache-2.0 */
/* Turns a schedule that computes into one that can be run: messages in batches, marks where gradients become final,
 * buffer numbers.
 *
 * A stage takes steps: one computation, or a forward with the backward behind it. Before step g is gap g, where messages
 * stand. Gaps have a time: that of an ideal run. A message leaves in the gap behind its computation; its receive stands
 * in the gap before the one that needs it, or earlier: never later than a message that its sender sends after it, and,
 * unless two stages only ever wait for each other in turn, no later than the time at which its sender has it. With the
 * last, all ends meet at their ideal times, so one batch a gap cannot deadlock in any queues. */
#include <stdlib.h>
#include <string.h>
#include <weft/p2p.h>

#include "base/error.h"
#include "base/memory.h"
#include "schedule.h"

/* A message of a link: the stage and channel it arrives on say the rest. */
typedef struct crossing {
    uint32_t microbatch;
    uint32_t from_chunk, from_gap;
    uint32_t to_chunk, to_gap;
} crossing;

typedef struct link {
    crossing *at; /* in the order in which they are sent */
    size_t count;
    uint32_t from, to;
} link;

/* The steps of a stage. */
typedef struct steps {
    uint32_t *of;    /* the step of each action */
    uint32_t *opens; /* when each gap opens: the gap before each step, and the last */
    uint32_t count;
} steps;

typedef struct lowering {
    const weft_schedule *s;
    weft_batching batching;
    uint32_t flags;
    weft__index index;
    uint32_t *begin;     /* of every action */
    uint32_t *step_room; /* memory of `steps` */
    steps *steps;        /* a stage */
    crossing *crossings; /* memory of `links` */
    link *links[2];      /* a channel: what arrives at each stage */
} lowering;

/* ---- where messages stand ---- */

static void find_steps(lowering *l)
{
    const weft_schedule *s = l->s;
    const uint32_t *begin = l->begin;
    uint32_t *room = l->step_room;
    for (uint32_t stage = 0; stage < s->stages; stage++) {
        const weft__actions *list = &s->lists[stage];
        steps *t = &l->steps[stage];
        *t = (steps){.of = room, .opens = room + list->count};
        t->opens[0] = 0;
        for (size_t i = 0; i < list->count; i++) {
            bool computes = weft__computes(list->at[i].kind);
            if (computes && (t->count == 0 || begin[i] + 1 != t->opens[t->count]))
                t->opens[++t->count] = begin[i] + 1;
            t->of[i] = computes ? t->count - 1 : t->count;
        }
        begin += list->count;
        room += 2 * list->count + 1;
    }
}

/* The crossings of a link but for the gap of their receives, which is set to the one before the need. */
static weft_result find_crossings(lowering *l, link *k, uint32_t channel, crossing *room)
{
    weft_action_kind kind = channel == 0 ? WEFT_ACTION_F : WEFT_ACTION_B;
    const weft__actions *list = &l->s->lists[k->from];
    k->at = room;
    for (size_t i = 0; i < list->count; i++) {
        const weft_action *a = &list->at[i];
        weft__part there;
        if (a->kind != kind || !weft__neighbour(l->s, (weft__part){k->from, a->chunk}, channel == 0, &there))
            continue;
        uint32_t need = weft__index_find(&l->index, kind, there, a->microbatch);
        if (!need)
            return weft__fail(WEFT_E_INVALID, "stage %u action %zu (%s) is for %s %u.%u of stage %u, which is missing",
                              k->from, i, weft__describe(a).text, weft_action_string(kind), a->microbatch, there.chunk,
                              there.stage);
        k->at[k->count++] = (crossing){.microbatch = a->microbatch,
                                       .from_chunk = a->chunk,
                                       .from_gap = l->steps[k->from].of[i] + 1,
                                       .to_chunk = there.chunk,
                                       .to_gap = l->steps[k->to].of[need - 1]};
    }
    return WEFT_OK;
}

/* Move receives from the gap of their need to where they have to be. */
static void place_receives(lowering *l, link *k)
{
    const steps *from = &l->steps[k->from], *to = &l->steps[k->to];
    bool when_sent = l->batching != WEFT_BATCHING_EXCHANGE;
    uint32_t gap = 0;
    for (size_t i = 0; i < k->count; i++) {
        crossing *c = &k->at[i];
        while (gap < to->count && to->opens[gap + 1] <= from->opens[c->from_gap])
            gap++;
        if (k->from == k->to)
            c->to_gap = c->from_gap; /* a message to oneself is received where it is sent */
        else if (when_sent && gap < c->to_gap)
            c->to_gap = gap;
    }
    for (size_t i = k->count; i-- > 1;)
        if (k->at[i - 1].to_gap > k->at[i].to_gap)
            k->at[i - 1].to_gap = k->at[i].to_gap;
    bool ahead = l->batching == WEFT_BATCHING_NONE && !(l->flags & WEFT_LOWER_NO_LOOKAHEAD) && k->from != k->to;
    for (size_t i = 0; ahead && i < k->count; i++)
        k->at[i].to_gap -= k->at[i].to_gap > 0;
}

/* The stage behind or before another, going round. */
static uint32_t around(const weft_schedule *s, uint32_t stage, bool forward)
{
    return forward ? (stage + 1) % s->stages : (stage ? stage : s->stages) - 1;
}

static weft_result place_messages(lowering *l)
{
    const weft_schedule *s = l->s;
    size_t forwards = (size_t)s->chunks * s->microbatches;
    for (uint32_t channel = 0; channel < 2; channel++)
        for (uint32_t stage = 0; stage < s->stages; stage++) {
            link *k = &l->links[channel][stage];
            k->to = stage;
            k->from = around(s, stage, channel == 1);
            WEFT_TRY(find_crossings(l, k, channel, l->crossings + (channel * s->stages + stage) * forwards));
            place_receives(l, k);
        }
    return WEFT_OK;
}

/* ---- writing ---- */

typedef struct message {
    weft_action action;
    uint32_t peer_gap; /* where the other end stands in its list */
    bool written;
} message;

typedef struct writer {
    const lowering *l;
    uint32_t stage;
    weft__actions *out;
    message *gap;       /* the messages of the gap at hand */
    size_t gap_count;   /* how many */
    size_t received[2]; /* a channel: how many of its crossings are written */
    size_t sent[2];
    uint32_t batch;   /* the last number given */
    uint32_t *due;    /* before each gradient action: chunk + 1 of the SYNC to write; behind the last: those left;
                       * then a mark for each chunk */
    size_t gradients; /* how many gradient actions there are */
} writer;

/* What a stage sends or receives on a channel. */
static const link *link_of(const lowering *l, uint32_t stage, uint32_t channel, bool sends)
{
    return &l->links[channel][sends ? around(l->s, stage, channel == 0) : stage];
}

static size_t messages_of(const lowering *l, uint32_t stage)
{
    size_t count = 0;
    for (uint32_t channel = 0; channel < 2; channel++)
        count += link_of(l, stage, channel, false)->count + link_of(l, stage, channel, true)->count;
    return count;
}

static void collect(writer *w, uint32_t gap, bool sends)
{
    static const weft_action_kind kinds[2][2] = {{WEFT_ACTION_RECV_F, WEFT_ACTION_SEND_F},
                                                 {WEFT_ACTION_RECV_B, WEFT_ACTION_SEND_B}};
    for (uint32_t channel = 0; channel < 2; channel++) {
        const link *k = link_of(w->l, w->stage, channel, sends);
        size_t *at = sends ? &w->sent[channel] : &w->received[channel];
        for (; *at < k->count; ++*at) {
            const crossing *c = &k->at[*at];
            if ((sends ? c->from_gap : c->to_gap) != gap)
                break;
            w->gap[w->gap_count++] = (message){.action = {.kind = kinds[channel][sends],
                                                          .microbatch = c->microbatch,
                                                          .chunk = sends ? c->from_chunk : c->to_chunk,
                                                          .peer = sends ? k->to : k->from,
                                                          .slot = WEFT_SLOT_NONE},
                                               .peer_gap = sends ? c->to_gap : c->from_gap};
        }
    }
}

/* Do two messages of a gap belong in one batch? @p turn: it lies between a last forward and a first backward, where a
 * stage has nothing to give for what it waits for. */
static bool together(const writer *w, bool turn, const message *x, const message *y)
{
    if (x->action.peer == w->stage && y->action.peer == w->stage)
        return true; /* a message to oneself needs its receive beside it */
    switch (w->l->batching) {
    case WEFT_BATCHING_EXCHANGE:
        return x->action.peer == y->action.peer && x->peer_gap == y->peer_gap;
    case WEFT_BATCHING_STEP:
        return !turn || weft__kinds[x->action.kind].send == weft__kinds[y->action.kind].send;
    default:
        return false;
    }
}

static void write_batch(writer *w, bool turn, size_t first)
{
    weft__actions *out = w->out;
    size_t begin = out->count;
    for (size_t i = first; i < w->gap_count && out->count - begin < WEFT_P2P_BATCH_MAX; i++) {
        message *m = &w->gap[i];
        if (m->written || (i != first && !together(w, turn, &w->gap[first], m)))
            continue;
        m->written = true;
        out->at[out->count++] = m->action;
    }
    if (out->count - begin > 1) {
        w->batch++;
        for (size_t i = begin; i < out->count; i++)
            out->at[i].batch = w->batch;
    }
}

static void write_gap(writer *w, uint32_t gap, bool turn)
{
    bool sends_first = w->l->batching != WEFT_BATCHING_NONE;
    w->gap_count = 0;
    collect(w, gap, sends_first);
    collect(w, gap, !sends_first);
    for (size_t i = 0; i < w->gap_count; i++)
        if (!w->gap[i].written)
            write_batch(w, turn, i);
}

static void write_sync(writer *w, uint32_t due)
{
    if (due)
        w->out->at[w->out->count++] =
            (weft_action){.kind = WEFT_ACTION_SYNC, .chunk = due - 1, .peer = WEFT_PEER_NONE, .slot = WEFT_SLOT_NONE};
}

/* Where the SYNC of each chunk goes, unless the schedule brings its own. */
static void find_sync(writer *w)
{
    const weft__actions *list = &w->l->s->lists[w->stage];
    uint32_t later = w->l->flags & WEFT_LOWER_ALIGN_SYNC ? w->stage : 0;
    size_t room = list->count + w->l->s->stages;
    bool own = false;
    memset(w->due, 0, room * sizeof *w->due);
    w->gradients = 0;
    for (size_t i = 0; i < list->count; i++) {
        own |= list->at[i].kind == WEFT_ACTION_SYNC;
        if (weft__adds_gradients(&w->l->index, w->stage, &list->at[i]))
            w->due[later + w->gradients++] = list->at[i].chunk + 1;
    }
    /* Of each chunk only the last stays. */
    uint32_t *seen = w->due + room;
    memset(seen, 0, w->l->s->chunks * sizeof *seen);
    for (size_t i = later + w->gradients; i-- > 0;) {
        uint32_t chunk = w->due[i];
        if (chunk && (own || seen[chunk - 1]++))
            w->due[i] = 0;
    }
}

static void write_stage(writer *w)
{
    const weft__actions *list = &w->l->s->lists[w->stage];
    const steps *t = &w->l->steps[w->stage];
    size_t gradient = 0;
    weft_action_kind last = WEFT_ACTION_SYNC;
    uint32_t gap = 0;
    find_sync(w);
    for (size_t i = 0; i < list->count; i++) {
        const weft_action *a = &list->at[i];
        if (weft__computes(a->kind) && t->of[i] == gap)
            write_gap(w, gap++, last == WEFT_ACTION_F && a->kind == WEFT_ACTION_B);
        if (weft__adds_gradients(&w->l->index, w->stage, a))
            write_sync(w, w->due[gradient++]);
        w->out->at[w->out->count++] = *a;
        if (weft__computes(a->kind))
            last = a->kind;
    }
    write_gap(w, gap, false);
    for (; gradient < w->gradients + w->l->s->stages; gradient++)
        write_sync(w, w->due[gradient]);
}

static weft_result write_all(const lowering *l, weft_schedule *out)
{
    const weft_schedule *s = l->s;
    size_t longest = 0;
    for (uint32_t stage = 0; stage < s->stages; stage++)
        longest = s->lists[stage].count > longest ? s->lists[stage].count : longest;
    size_t forwards = (size_t)s->chunks * s->microbatches;
    writer w = {.l = l};
    w.gap = weft__alloc(4 * forwards * sizeof *w.gap);
    w.due = weft__alloc((longest + s->stages + s->chunks) * sizeof *w.due);
    weft_result result = w.gap && w.due ? WEFT_OK : WEFT_E_NO_MEMORY;
    for (uint32_t stage = 0; stage < s->stages && result == WEFT_OK; stage++) {
        w = (writer){.l = l, .stage = stage, .out = &out->lists[stage], .gap = w.gap, .due = w.due};
        result = weft__actions_reserve(w.out, s->lists[stage].count + messages_of(l, stage) + s->chunks);
        if (result == WEFT_OK)
            write_stage(&w);
    }
    free(w.gap);
    free(w.due);
    return result;
}

/* ---- the whole ---- */

static weft_result build(lowering *l, bool with_messages, weft_schedule *out)
{
    uint32_t slots;
    WEFT_TRY(weft__clock(l->s, l->batching == WEFT_BATCHING_STEP, l->begin, &slots));
    find_steps(l);
    if (with_messages)
        WEFT_TRY(place_messages(l));
    WEFT_TRY(write_all(l, out));
    return weft__assign_slots(out);
}

static weft_result lower_once(lowering *l, bool with_messages, weft_schedule **out)
{
    const weft_schedule *s = l->s;
    WEFT_TRY(weft__schedule_new(s->stages, s->chunks, s->microbatches, out));
    memset(l->links[0], 0, 2 * (size_t)s->stages * sizeof *l->links[0]);
    weft_result result = build(l, with_messages, *out);
    if (result < 0) {
        weft_schedule_destroy(*out);
        *out = NULL;
    }
    return result;
}

/* Can it be run in these queues? WEFT_PENDING if it would stand still. */
static weft_result try_queues(const weft_schedule *s, weft_queues queues)
{
    weft__index index;
    WEFT_TRY(weft__index_create(s, &index));
    weft_result result = weft__run_queues(s, &index, queues, true);
    free(index.at);
    return result;
}

/* From the least batching to the most, until it can be proved. */
static weft_result lower_auto(lowering *l, weft_queues queues, weft_schedule **out)
{
    l->batching = queues <= WEFT_QUEUES_PEER ? WEFT_BATCHING_NONE : WEFT_BATCHING_EXCHANGE;
    for (;; l->batching++) {
        WEFT_TRY(lower_once(l, true, out));
        weft_result result = l->batching == WEFT_BATCHING_STEP ? WEFT_OK : try_queues(*out, queues);
        if (result == WEFT_OK)
            return WEFT_OK;
        weft_schedule_destroy(*out);
        *out = NULL;
        WEFT_TRY(result);
    }
}

static bool has_messages(const weft_schedule *s)
{
    for (uint32_t stage = 0; stage < s->stages; stage++)
        for (size_t i = 0; i < s->lists[stage].count; i++)
            if (weft__kinds[s->lists[stage].at[i].kind].message)
                return true;
    return false;
}

static weft_result lower_all(lowering *l, const weft_lower_config *c, weft_schedule **out)
{
    const weft_schedule *s = l->s;
    size_t total = weft__schedule_total(s), forwards = (size_t)s->chunks * s->microbatches;
    l->begin = weft__alloc(total * sizeof *l->begin);
    l->step_room = weft__alloc((2 * total + s->stages) * sizeof *l->step_room);
    l->steps = weft__alloc(s->stages * sizeof *l->steps);
    l->crossings = weft__alloc(2 * s->stages * forwards * sizeof *l->crossings);
    l->links[0] = weft__alloc(2 * (size_t)s->stages * sizeof *l->links[0]);
    if (!l->begin || !l->step_room || !l->steps || !l->crossings || !l->links[0])
        return WEFT_E_NO_MEMORY;
    l->links[1] = l->links[0] + s->stages;
    WEFT_TRY(weft__index_create(s, &l->index));
    bool with_messages = !has_messages(s);
    if (with_messages && l->batching == WEFT_BATCHING_AUTO)
        return lower_auto(l, c->queues, out);
    return lower_once(l, with_messages, out);
}

weft_result weft_schedule_lower(const weft_schedule *schedule, const weft_lower_config *config,
                                weft_schedule **lowered_out)
{
    if (!schedule || !lowered_out)
        return weft__fail(WEFT_E_INVALID, "lowering needs a schedule and somewhere to return the new one");
    *lowered_out = NULL;
    weft_lower_config c = {0};
    WEFT_TRY(weft__take_config(&c, sizeof c, config, "lowering"));
    if ((unsigned)c.queues > WEFT_QUEUES_ONE || (unsigned)c.batching > WEFT_BATCHING_STEP ||
        c.flags & ~(uint32_t)(WEFT_LOWER_NO_LOOKAHEAD | WEFT_LOWER_ALIGN_SYNC))
        return weft__fail(WEFT_E_INVALID, "lowering knows no queues %d with batching %d and flags %#x", (int)c.queues,
                          (int)c.batching, c.flags);
    lowering l = {.s = schedule, .batching = c.batching, .flags = c.flags};
    weft_result result = lower_all(&l, &c, lowered_out);
    free(l.begin);
    free(l.step_room);
    free(l.steps);
    free(l.crossings);
    free(l.links[0]);
    free(l.index.at);
    return result;
}
