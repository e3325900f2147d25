/* SPDX-License-Identifier: Apache-2.0 */
/* Turns a schedule that computes into one that can be run: adds messages in batches, marks where gradients become
 * final, numbers buffers. */
#include <stdlib.h>
#include <string.h>
#include <weft/p2p.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/sized.h"
#include "crossings.h"

typedef struct lowering {
    const weft_schedule *s;
    weft_batching batching;
    uint32_t flags;
    bool has_messages; /* of its own: nothing is added */
    weft__index index;
    weft__crossings crossings;
} lowering;

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
    uint32_t *due;    /* before each backward: chunk + 1 of the SYNC to write; behind the last: those left; then a mark
                       * for each chunk */
    size_t backwards; /* how many there are */
} writer;

static void collect(writer *w, uint32_t gap, bool sends)
{
    static const weft_action_kind kinds[2][2] = {{WEFT_ACTION_RECV_F, WEFT_ACTION_SEND_F},
                                                 {WEFT_ACTION_RECV_B, WEFT_ACTION_SEND_B}};
    for (uint32_t channel = 0; channel < 2; channel++) {
        const weft__link *k = weft__crossings_of(w->l->s, &w->l->crossings, w->stage, channel, sends);
        size_t *at = sends ? &w->sent[channel] : &w->received[channel];
        for (; *at < k->count; ++*at) {
            const weft__crossing *c = &k->at[*at];
            if ((sends ? c->from_gap : c->to_gap) != gap)
                break;
            w->gap[w->gap_count++] = (message){.action = {.kind = kinds[channel][sends],
                                                          .microbatch = c->microbatch,
                                                          .chunk = sends ? c->from_chunk : c->to_chunk,
                                                          .peer = sends ? k->to : k->from,
                                                          .buffer = WEFT_BUFFER_NONE},
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
        w->out->at[w->out->count++] = (weft_action){
            .kind = WEFT_ACTION_SYNC, .chunk = due - 1, .peer = WEFT_PEER_NONE, .buffer = WEFT_BUFFER_NONE};
}

/* Where the SYNC of each chunk goes, unless the schedule brings its own. */
static void find_sync(writer *w)
{
    const weft__actions *list = &w->l->s->lists[w->stage];
    uint32_t later = w->l->flags & WEFT_LOWER_ALIGN_SYNC ? w->stage : 0;
    size_t room = list->count + w->l->s->stages;
    bool own = false;
    memset(w->due, 0, room * sizeof *w->due);
    w->backwards = 0;
    for (size_t i = 0; i < list->count; i++) {
        own |= list->at[i].kind == WEFT_ACTION_SYNC;
        if (list->at[i].kind == WEFT_ACTION_B)
            w->due[later + w->backwards++] = list->at[i].chunk + 1;
    }
    /* Of each chunk only the last stays. */
    uint32_t *seen = w->due + room;
    memset(seen, 0, w->l->s->chunks * sizeof *seen);
    for (size_t i = later + w->backwards; i-- > 0;) {
        uint32_t chunk = w->due[i];
        if (chunk && (own || seen[chunk - 1]++))
            w->due[i] = 0;
    }
}

static void write_stage(writer *w)
{
    const weft__actions *list = &w->l->s->lists[w->stage];
    const weft__steps *steps = w->l->has_messages ? NULL : &w->l->crossings.steps[w->stage];
    size_t backward = 0;
    weft_action_kind last = WEFT_ACTION_SYNC;
    uint32_t gap = 0;
    find_sync(w);
    for (size_t i = 0; i < list->count; i++) {
        const weft_action *a = &list->at[i];
        bool computes = weft__computes(a->kind);
        if (computes && steps && steps->of[i] == gap)
            write_gap(w, gap++, last == WEFT_ACTION_F && a->kind == WEFT_ACTION_B);
        if (a->kind == WEFT_ACTION_B)
            write_sync(w, w->due[backward++]);
        w->out->at[w->out->count++] = *a;
        last = computes ? a->kind : last;
    }
    write_gap(w, gap, false);
    for (; backward < w->backwards + w->l->s->stages; backward++)
        write_sync(w, w->due[backward]);
}

/* How many actions a stage can have in the end. */
static size_t room_for(const lowering *l, uint32_t stage)
{
    size_t room = l->s->lists[stage].count + l->s->chunks;
    for (uint32_t channel = 0; channel < 2; channel++)
        for (int sends = 0; sends < 2; sends++)
            room += weft__crossings_of(l->s, &l->crossings, stage, channel, sends)->count;
    return room;
}

static weft_result write_all(const lowering *l, weft_schedule *out)
{
    const weft_schedule *s = l->s;
    size_t longest = 0, most = 0;
    for (uint32_t stage = 0; stage < s->stages; stage++) {
        longest = s->lists[stage].count > longest ? s->lists[stage].count : longest;
        most = room_for(l, stage) > most ? room_for(l, stage) : most;
    }
    message *gap = weft__alloc(most * sizeof *gap);
    uint32_t *due = weft__alloc((longest + s->stages + s->chunks) * sizeof *due);
    weft_result result = gap && due ? WEFT_OK : WEFT_E_NO_MEMORY;
    for (uint32_t stage = 0; stage < s->stages && result == WEFT_OK; stage++) {
        writer w = {.l = l, .stage = stage, .out = &out->lists[stage], .gap = gap, .due = due};
        result = weft__actions_reserve(w.out, room_for(l, stage));
        if (result == WEFT_OK)
            write_stage(&w);
    }
    free(gap);
    free(due);
    return result;
}

/* ---- the whole ---- */

static weft_result lower_once(lowering *l, weft_schedule **out)
{
    const weft_schedule *s = l->s;
    bool ahead = l->batching == WEFT_BATCHING_NONE && !(l->flags & WEFT_LOWER_NO_LOOKAHEAD);
    WEFT_TRY(weft__schedule_new(s->stages, s->chunks, s->microbatches, out));
    weft_result result = WEFT_OK;
    if (!l->has_messages)
        result = weft__crossings_find(s, &l->index, l->batching, ahead, &l->crossings);
    if (result == WEFT_OK)
        result = write_all(l, *out);
    if (result == WEFT_OK)
        result = weft__number_buffers(*out);
    weft__crossings_release(&l->crossings);
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

/* From the least batching to the most, until it can be proved; the last needs no trial. */
static weft_result lower_auto(lowering *l, weft_queues queues, weft_schedule **out)
{
    l->batching = queues <= WEFT_QUEUES_PEER ? WEFT_BATCHING_NONE : WEFT_BATCHING_EXCHANGE;
    for (;; l->batching++) {
        WEFT_TRY(lower_once(l, out));
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

weft_result weft_schedule_lower(const weft_schedule *schedule, const weft_lower_config *config,
                                weft_schedule **lowered_out)
{
    if (!schedule || !lowered_out)
        return weft__fail(WEFT_E_INVALID, "lowering needs a schedule and somewhere to return the new one");
    *lowered_out = NULL;
    weft_lower_config c = {0};
    WEFT_TRY(weft__take_sized(&c, sizeof c, config, "weft_lower_config"));
    if ((unsigned)c.queues > WEFT_QUEUES_ONE || (unsigned)c.batching > WEFT_BATCHING_STEP ||
        c.flags & ~WEFT__LOWER_FLAGS)
        return weft__fail(WEFT_E_INVALID, "lowering knows no queues %d with batching %d and flags %#x", (int)c.queues,
                          (int)c.batching, c.flags);
    lowering l = {.s = schedule, .batching = c.batching, .flags = c.flags, .has_messages = has_messages(schedule)};
    WEFT_TRY(weft__index_create(schedule, &l.index));
    bool automatic = c.batching == WEFT_BATCHING_AUTO && !l.has_messages;
    weft_result result = automatic ? lower_auto(&l, c.queues, lowered_out) : lower_once(&l, lowered_out);
    free(l.index.at);
    return result;
}
