/* SPDX-License-Identifier: Apache-2.0 */
/* Proves that a schedule can be run: every message has its other end and carries the right tensor, nothing can
 * deadlock, no computation comes before what it needs, no buffer is used twice at a time, limits are kept. */
#include <stdlib.h>
#include <string.h>
#include <weft/p2p.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/sized.h"
#include "schedule.h"

typedef struct proof {
    const weft_schedule *s;
    weft__index index;
    weft_verify_config config;
    weft_stage_needs *needs; /* of each stage */
    bool backward;           /* there is a backward somewhere */
    size_t room;             /* more buffers of a kind than any stage can use */
    uint32_t *owners;        /* of the buffers of each kind */
    uint32_t *left;          /* a chunk: backwards to come; then a mark for its SYNC */
} proof;

static weft__name name_of(const proof *p, uint32_t stage, size_t i)
{
    return weft__locate(p->s, stage, i);
}

/* Position + 1 of the action of this kind for the microbatch and chunk of @p a on the same stage; 0 = is not there. */
static uint32_t find(const proof *p, weft_action_kind kind, uint32_t stage, const weft_action *a)
{
    return weft__index_find(&p->index, kind, (weft__part){stage, a->chunk}, a->microbatch);
}

/* ---- messages and their other ends ---- */

static weft_result check_batches(const proof *p, uint32_t stage)
{
    const weft__actions *list = &p->s->lists[stage];
    weft_stage_needs *needs = &p->needs[stage];
    for (size_t i = 0, begin = 0; i < list->count; i++) {
        const weft_action *a = &list->at[i];
        if (!weft__kinds[a->kind].message)
            continue;
        if (weft__begins_batch(list, i))
            begin = i;
        if (i - begin == WEFT_P2P_BATCH_MAX)
            return weft__fail(WEFT_E_INVALID, "%s is one too many for the batch of action %zu: at most %d messages",
                              name_of(p, stage, i).text, begin, WEFT_P2P_BATCH_MAX);
        if (i - begin + 1 > needs->batch_messages)
            needs->batch_messages = (uint32_t)(i - begin + 1);
    }
    return WEFT_OK;
}

static weft_result check_peers(const proof *p, uint32_t stage)
{
    const weft__actions *list = &p->s->lists[stage];
    for (size_t i = 0; i < list->count; i++) {
        const weft_action *a = &list->at[i];
        if (!weft__kinds[a->kind].message)
            continue;
        uint32_t peer = weft_schedule_peer(p->s, a->kind, stage, a->chunk);
        if (peer == WEFT_PEER_NONE)
            return weft__fail(WEFT_E_INVALID, "%s has no other end: this is the %s part of the model",
                              name_of(p, stage, i).text, weft__kinds[a->kind].forward ? "last" : "first");
        if (peer != a->peer)
            return weft__fail(WEFT_E_INVALID, "%s has the wrong peer: the part %s it is on stage %u",
                              name_of(p, stage, i).text, weft__kinds[a->kind].forward ? "behind" : "before", peer);
    }
    return WEFT_OK;
}

/* The next action of this kind from @p i on. */
static size_t next_of(const weft__actions *list, weft_action_kind kind, size_t i)
{
    while (i < list->count && list->at[i].kind != kind)
        i++;
    return i;
}

/* Are two messages in one batch of one stage? */
static bool in_one_batch(const weft__actions *list, size_t i, size_t j)
{
    for (; i < j; i++)
        if (list->at[i].batch == 0 || list->at[i].batch != list->at[i + 1].batch)
            return false;
    return true;
}

static weft_result check_pair(const proof *p, uint32_t stage, size_t i, uint32_t peer, size_t j)
{
    const weft_action *send = &p->s->lists[stage].at[i], *receive = &p->s->lists[peer].at[j];
    weft__part there = {0};
    weft__neighbour(p->s, (weft__part){stage, send->chunk}, weft__kinds[send->kind].forward, &there);
    if (receive->microbatch != send->microbatch || receive->chunk != there.chunk)
        return weft__fail(WEFT_E_INVALID, "%s meets %s: the tensor is for %s %u.%u, messages come in the order sent",
                          name_of(p, stage, i).text, name_of(p, peer, j).text,
                          weft_action_string(weft__kinds[send->kind].of), send->microbatch, there.chunk);
    if (peer == stage && !in_one_batch(&p->s->lists[stage], i < j ? i : j, i < j ? j : i))
        return weft__fail(WEFT_E_INVALID, "%s and %s must be in one batch: a stage cannot wait for itself",
                          name_of(p, stage, i).text, name_of(p, peer, j).text);
    return WEFT_OK;
}

/* Sends of one kind with the receives that they meet. */
static weft_result check_order(const proof *p, uint32_t stage, weft_action_kind send)
{
    weft_action_kind receive = weft__kinds[send].answer;
    uint32_t peer = weft__beside(p->s, stage, weft__kinds[send].forward);
    const weft__actions *from = &p->s->lists[stage], *to = &p->s->lists[peer];
    size_t i = next_of(from, send, 0), j = next_of(to, receive, 0);
    while (i < from->count && j < to->count) {
        WEFT_TRY(check_pair(p, stage, i, peer, j));
        i = next_of(from, send, i + 1);
        j = next_of(to, receive, j + 1);
    }
    if (i < from->count)
        return weft__fail(WEFT_E_INVALID, "%s meets no receive: stage %u has too few", name_of(p, stage, i).text, peer);
    if (j < to->count)
        return weft__fail(WEFT_E_INVALID, "%s meets no send: stage %u has too few", name_of(p, peer, j).text, stage);
    return WEFT_OK;
}

/* The messages of a stage in one direction, batch by batch, in each by channel. */
typedef struct walk {
    const weft__actions *list;
    bool sends;
    size_t first, at; /* the batch at hand, and behind it */
    uint32_t left[2]; /* of it, a channel */
} walk;

/* The channel of the next one; 2: there is none. */
static uint32_t step(walk *w)
{
    while (w->left[0] + w->left[1] == 0 && w->at < w->list->count) {
        w->first = w->at;
        do {
            const weft__kind *kind = &weft__kinds[w->list->at[w->at].kind];
            if (kind->message && kind->send == w->sends)
                w->left[kind->channel]++;
            w->at++;
        } while (w->at < w->list->count && !weft__begins_batch(w->list, w->at));
    }
    uint32_t channel = w->left[0] ? 0 : w->left[1] ? 1 : 2;
    if (channel < 2)
        w->left[channel]--;
    return channel;
}

/* In a single queue messages are told apart by their order alone. Two stages send each other both activations and
 * gradients; of more, each pair has one kind in each direction. */
static weft_result check_single_order(const proof *p, uint32_t stage)
{
    walk from = {.list = &p->s->lists[stage], .sends = true}, to = {.list = &p->s->lists[1 - stage]};
    for (;;) {
        uint32_t sent = step(&from), received = step(&to);
        if (sent == 2 && received == 2)
            return WEFT_OK;
        if (sent != received)
            return weft__fail(WEFT_E_INVALID,
                              "%s sends %s, but %s awaits %s: in a single queue both stages have messages in one order",
                              name_of(p, stage, from.first).text, sent == 0 ? "an activation" : "a gradient",
                              name_of(p, 1 - stage, to.first).text, received == 0 ? "an activation" : "a gradient");
    }
}

static weft_result check_messages(const proof *p)
{
    for (uint32_t stage = 0; stage < p->s->stages; stage++) {
        WEFT_TRY(check_batches(p, stage));
        WEFT_TRY(check_peers(p, stage));
    }
    for (uint32_t stage = 0; stage < p->s->stages; stage++) {
        WEFT_TRY(check_order(p, stage, WEFT_ACTION_SEND_F));
        WEFT_TRY(check_order(p, stage, WEFT_ACTION_SEND_B));
        if (p->config.queues == WEFT_QUEUES_ONE && p->s->stages == 2)
            WEFT_TRY(check_single_order(p, stage));
    }
    return WEFT_OK;
}

/* ---- what each stage computes ---- */

/* The message that a computation needs or makes, on the right side of it. */
static weft_result check_message_of(const proof *p, uint32_t stage, size_t i, weft_action_kind message)
{
    const weft_action *a = &p->s->lists[stage].at[i];
    uint32_t peer = weft_schedule_peer(p->s, message, stage, a->chunk);
    if (peer == WEFT_PEER_NONE)
        return WEFT_OK;
    const weft__kind *kind = &weft__kinds[message];
    uint32_t at = find(p, message, stage, a);
    if (!at)
        return weft__fail(WEFT_E_INVALID, "%s has no %s %s stage %u", name_of(p, stage, i).text, kind->name,
                          kind->send ? "to" : "from", peer);
    if (kind->send ? at - 1 < i : at - 1 > i)
        return weft__fail(WEFT_E_INVALID, "%s comes %s %s", name_of(p, stage, i).text, kind->send ? "after" : "before",
                          name_of(p, stage, at - 1).text);
    return WEFT_OK;
}

/* @p later needs @p earlier. */
static weft_result check_before(const proof *p, uint32_t stage, size_t i, weft_action_kind earlier)
{
    uint32_t at = find(p, earlier, stage, &p->s->lists[stage].at[i]);
    if (!at)
        return weft__fail(WEFT_E_INVALID, "%s has no %s", name_of(p, stage, i).text, weft_action_string(earlier));
    if (at - 1 > i)
        return weft__fail(WEFT_E_INVALID, "%s comes before %s", name_of(p, stage, i).text,
                          name_of(p, stage, at - 1).text);
    return WEFT_OK;
}

static weft_result check_action(const proof *p, uint32_t stage, size_t i)
{
    const weft_action *a = &p->s->lists[stage].at[i];
    switch (a->kind) {
    case WEFT_ACTION_F:
        WEFT_TRY(check_message_of(p, stage, i, WEFT_ACTION_RECV_F));
        return check_message_of(p, stage, i, WEFT_ACTION_SEND_F);
    case WEFT_ACTION_B:
        WEFT_TRY(check_before(p, stage, i, WEFT_ACTION_F));
        WEFT_TRY(check_message_of(p, stage, i, WEFT_ACTION_RECV_B));
        return check_message_of(p, stage, i, WEFT_ACTION_SEND_B);
    case WEFT_ACTION_W:
        return check_before(p, stage, i, WEFT_ACTION_B);
    case WEFT_ACTION_SYNC:
        return WEFT_OK;
    default: /* a message of something that is computed */
        if (find(p, weft__kinds[a->kind].of, stage, a))
            return WEFT_OK;
        return weft__fail(WEFT_E_INVALID, "%s has no %s", name_of(p, stage, i).text,
                          weft_action_string(weft__kinds[a->kind].of));
    }
}

static weft_result check_complete(const proof *p, uint32_t stage)
{
    for (uint32_t chunk = 0; chunk < p->s->chunks; chunk++)
        for (uint32_t m = 0; m < p->s->microbatches; m++) {
            weft__part part = {stage, chunk};
            bool forward = weft__index_find(&p->index, WEFT_ACTION_F, part, m);
            bool backward = weft__index_find(&p->index, WEFT_ACTION_B, part, m);
            if (!forward || backward != p->backward)
                return weft__fail(WEFT_E_INVALID, "stage %u does not compute %s %u.%u", stage, forward ? "B" : "F", m,
                                  chunk);
        }
    return WEFT_OK;
}

static weft_result check_computations(const proof *p)
{
    for (uint32_t stage = 0; stage < p->s->stages; stage++)
        for (size_t i = 0; i < p->s->lists[stage].count; i++)
            WEFT_TRY(check_action(p, stage, i));
    for (uint32_t stage = 0; stage < p->s->stages; stage++)
        WEFT_TRY(check_complete(p, stage));
    return WEFT_OK;
}

/* ---- gradients, activations, buffers ---- */

static weft_result check_sync(const proof *p, uint32_t stage)
{
    const weft__actions *list = &p->s->lists[stage];
    uint32_t *left = p->left, *marked = p->left + p->s->chunks;
    memset(left, 0, 2 * (size_t)p->s->chunks * sizeof *left);
    for (size_t i = 0; i < list->count; i++)
        left[list->at[i].chunk] += list->at[i].kind == WEFT_ACTION_B;
    for (size_t i = 0; i < list->count; i++) {
        const weft_action *a = &list->at[i];
        left[a->chunk] -= a->kind == WEFT_ACTION_B;
        if (a->kind != WEFT_ACTION_SYNC)
            continue;
        if (marked[a->chunk])
            return weft__fail(WEFT_E_INVALID, "%s repeats action %u", name_of(p, stage, i).text, marked[a->chunk] - 1);
        marked[a->chunk] = (uint32_t)i + 1;
        size_t next = i + 1;
        while (left[a->chunk] > 1 && (list->at[next].chunk != a->chunk || list->at[next].kind != WEFT_ACTION_B))
            next++;
        if (left[a->chunk] > 1)
            return weft__fail(WEFT_E_INVALID, "%s comes before %s, which is not the last of its chunk",
                              name_of(p, stage, i).text, name_of(p, stage, next).text);
    }
    return WEFT_OK;
}

static weft_result check_activations(const proof *p, uint32_t stage)
{
    const weft__actions *list = &p->s->lists[stage];
    uint32_t alive = 0, most = p->config.activations_max, *peak = &p->needs[stage].activations;
    for (size_t i = 0; i < list->count; i++) {
        const weft_action *a = &list->at[i];
        alive += a->kind == WEFT_ACTION_F;
        if (most && alive > most)
            return weft__fail(WEFT_E_INVALID, "%s makes %u activations to keep, at most %u are allowed",
                              name_of(p, stage, i).text, alive, most);
        *peak = alive > *peak ? alive : *peak;
        alive -= weft__is_last(&p->index, stage, a);
    }
    return WEFT_OK;
}

/* The buffers of one kind of message on one stage. */
typedef struct pool {
    uint32_t *owner; /* of each: position + 1 of the action since which it is in use */
    uint32_t alive;  /* in use */
    uint32_t most;   /* allowed; 0 = any number */
    uint32_t *needs;
} pool;

static weft_result begin_buffer(const proof *p, uint32_t stage, size_t i, weft_action_kind kind, pool *q,
                                uint32_t buffer)
{
    uint32_t needs = ++q->alive;
    if (buffer != WEFT_BUFFER_NONE) {
        if (buffer >= p->room)
            return weft__fail(WEFT_E_INVALID, "%s uses buffer %u of %s; there is no need for more than %zu",
                              name_of(p, stage, i).text, buffer, weft_action_string(kind), p->room);
        if (q->owner[buffer])
            return weft__fail(WEFT_E_INVALID, "%s fills buffer %u of %s, which %s still has", name_of(p, stage, i).text,
                              buffer, weft_action_string(kind), name_of(p, stage, q->owner[buffer] - 1).text);
        q->owner[buffer] = (uint32_t)i + 1;
        needs = buffer >= needs ? buffer + 1 : needs;
    }
    if (q->most && needs > q->most)
        return weft__fail(WEFT_E_INVALID, "%s needs %u buffers of its kind, there are %u", name_of(p, stage, i).text,
                          needs, q->most);
    *q->needs = needs > *q->needs ? needs : *q->needs;
    return WEFT_OK;
}

/* A stage takes and gives its buffers in the order of its list, so counting along it shows all. */
static weft_result check_buffers(const proof *p, uint32_t stage)
{
    const weft__actions *list = &p->s->lists[stage];
    weft_stage_needs *needs = &p->needs[stage];
    pool pools[WEFT_ACTION_KINDS] = {
        [WEFT_ACTION_RECV_F] = {.most = p->config.receives_max, .needs = &needs->receives[0]},
        [WEFT_ACTION_RECV_B] = {.most = p->config.receives_max, .needs = &needs->receives[1]},
        [WEFT_ACTION_SEND_F] = {.needs = &needs->sends[0]},
        [WEFT_ACTION_SEND_B] = {.needs = &needs->sends[1]},
    };
    memset(p->owners, 0, WEFT_ACTION_KINDS * p->room * sizeof *p->owners);
    for (unsigned kind = 0; kind < WEFT_ACTION_KINDS; kind++)
        pools[kind].owner = p->owners + kind * p->room;
    for (size_t i = 0; i < list->count; i++) {
        const weft_action *a = &list->at[i];
        unsigned begin = weft__buffers_begin(&p->index, stage, a), end = weft__buffers_end(&p->index, stage, a);
        for (unsigned kind = 0; (begin | end) >> kind; kind++) {
            if (!((begin | end) >> kind & 1))
                continue;
            uint32_t buffer = list->at[find(p, (weft_action_kind)kind, stage, a) - 1].buffer;
            if (begin >> kind & 1)
                WEFT_TRY(begin_buffer(p, stage, i, (weft_action_kind)kind, &pools[kind], buffer));
            if (end >> kind & 1) {
                pools[kind].alive--;
                if (buffer != WEFT_BUFFER_NONE)
                    pools[kind].owner[buffer] = 0;
            }
        }
    }
    return WEFT_OK;
}

static weft_result check_memory(const proof *p)
{
    for (uint32_t stage = 0; stage < p->s->stages; stage++) {
        WEFT_TRY(check_sync(p, stage));
        WEFT_TRY(check_activations(p, stage));
        WEFT_TRY(check_buffers(p, stage));
    }
    return WEFT_OK;
}

/* ---- the whole ---- */

static weft_result prove(proof *p)
{
    const weft_schedule *s = p->s;
    p->needs = weft__alloc(s->stages * sizeof *p->needs);
    p->room = (size_t)s->chunks * s->microbatches + 2;
    p->owners = weft__alloc(WEFT_ACTION_KINDS * p->room * sizeof *p->owners);
    p->left = weft__alloc(2 * (size_t)s->chunks * sizeof *p->left);
    if (!p->needs || !p->owners || !p->left)
        return WEFT_E_NO_MEMORY;
    WEFT_TRY(weft__index_create(s, &p->index));
    for (uint32_t stage = 0; stage < s->stages; stage++)
        p->backward |= next_of(&s->lists[stage], WEFT_ACTION_B, 0) < s->lists[stage].count;
    WEFT_TRY(check_messages(p));
    WEFT_TRY(weft__run_queues(s, &p->index, p->config.queues, false));
    WEFT_TRY(check_computations(p));
    return check_memory(p);
}

static bool is_empty(const weft_schedule *s)
{
    for (uint32_t stage = 0; stage < s->stages; stage++)
        if (s->lists[stage].count)
            return false;
    return true;
}

weft_result weft_schedule_verify(const weft_schedule *schedule, const weft_verify_config *config,
                                 weft_stage_needs *needs_out)
{
    if (!schedule)
        return weft__fail(WEFT_E_INVALID, "there is no schedule to verify");
    if (is_empty(schedule))
        return weft__fail(WEFT_E_INVALID, "the schedule is empty: policy is none, and nothing was appended");
    proof p = {.s = schedule};
    WEFT_TRY(weft__take_sized(&p.config, sizeof p.config, config, "weft_verify_config"));
    if ((unsigned)p.config.queues > WEFT_QUEUES_ONE)
        return weft__fail(WEFT_E_INVALID, "verification knows no queues %d", (int)p.config.queues);
    weft_result result = prove(&p);
    if (result == WEFT_OK && needs_out)
        memcpy(needs_out, p.needs, schedule->stages * sizeof *needs_out);
    free(p.needs);
    free(p.owners);
    free(p.left);
    free(p.index.at);
    return result;
}
