/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a schedule in the queues of a backend, as slowly as these allow, and finds who would wait for ever.
 *
 * Every stage takes its actions in order. A batch enters its queues, and each part of it stays at the head of its queue
 * until its messages have met their other ends, which must be at the head of theirs. A batch that holds a send stops
 * its stage until all of it is over; a computation stops it until the batch with its tensor is over. Time plays no
 * part: whoever can go on goes on, and the outcome is the same in any order. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "schedule.h"

#define NONE        UINT32_MAX
#define QUEUES_MOST 8 /* of a stage: two peers, two channels, two directions */

/* A message, by the number of its action counted through all stages. */
typedef struct node {
    uint32_t other;  /* the other end */
    uint32_t queue;  /* stage * QUEUES_MOST + queue of the stage */
    uint32_t behind; /* the next message in the queue */
    uint32_t batch;  /* the first message of its batch */
    uint32_t part;   /* the first message of its batch in its queue */
    /* In those first messages: how many are not over. */
    uint32_t batch_left, part_left;
    bool batch_sends;
    bool issued, active, over;
} node;

typedef struct run {
    const weft_schedule *s;
    const weft__index *index;
    weft_queues queues;
    node *nodes;
    uint32_t *base;   /* a stage: the number of its first action */
    uint32_t *next;   /* a stage: its next action, counted in its own list */
    uint32_t *held;   /* a stage: the batch it cannot go on without, by its first message; NONE */
    uint32_t *stands; /* a stage: the action for which it is held */
    uint32_t *head;   /* a queue: its first message that is not over; NONE */
    uint32_t *heads;  /* queues whose head has come up and is issued */
    uint32_t *work;   /* stages to look at, each once */
    bool *listed;     /* is the stage among them? */
    size_t heads_count, work_count;
} run;

/* ---- preparing ---- */

static uint32_t queue_of(const run *r, uint32_t stage, const weft_action *a)
{
    const weft__kind *kind = &weft__kinds[a->kind];
    uint32_t queue = stage * QUEUES_MOST;
    if (r->queues < WEFT_QUEUES_ONE)
        queue += kind->channel;
    if (r->queues < WEFT_QUEUES_CHANNEL)
        queue += 2 * (a->peer == weft__beside(r->s, stage, true));
    if (r->queues < WEFT_QUEUES_PEER)
        queue += 4 * kind->send;
    return queue;
}

/* The n-th send on a channel meets the n-th receive at its peer. Peers are neighbours in a ring, so a stage has all
 * that a channel brings it from one of them. */
static void pair_sends(run *r, uint32_t stage, weft_action_kind send)
{
    const weft__actions *from = &r->s->lists[stage];
    uint32_t j = 0;
    for (uint32_t i = 0; i < from->count; i++) {
        if (from->at[i].kind != send)
            continue;
        uint32_t peer = from->at[i].peer;
        while (r->s->lists[peer].at[j].kind != weft__kinds[send].answer)
            j++;
        r->nodes[r->base[stage] + i].other = r->base[peer] + j;
        r->nodes[r->base[peer] + j].other = r->base[stage] + i;
        j++;
    }
}

static void enter_queues(run *r, uint32_t stage)
{
    const weft__actions *list = &r->s->lists[stage];
    uint32_t last[QUEUES_MOST], batch = NONE;
    memset(last, 0xff, sizeof last);
    for (uint32_t i = 0; i < list->count; i++) {
        const weft_action *a = &list->at[i];
        if (!weft__kinds[a->kind].message)
            continue;
        uint32_t number = r->base[stage] + i;
        if (weft__begins_batch(list, i))
            batch = number;
        node *n = &r->nodes[number];
        n->queue = queue_of(r, stage, a);
        n->behind = NONE;
        n->batch = batch;
        uint32_t *before = &last[n->queue % QUEUES_MOST];
        n->part = *before != NONE && r->nodes[*before].batch == batch ? r->nodes[*before].part : number;
        *(*before == NONE ? &r->head[n->queue] : &r->nodes[*before].behind) = number;
        *before = number;
        r->nodes[n->batch].batch_left++;
        r->nodes[n->batch].batch_sends |= weft__kinds[a->kind].send;
        r->nodes[n->part].part_left++;
    }
}

/* ---- running ---- */

static void look_at(run *r, uint32_t stage)
{
    if (!r->listed[stage]) {
        r->listed[stage] = true;
        r->work[r->work_count++] = stage;
    }
}

/* A message has met its other end. */
static void end_message(run *r, node *n)
{
    n->over = true;
    if (--r->nodes[n->batch].batch_left == 0)
        look_at(r, n->queue / QUEUES_MOST);
    if (--r->nodes[n->part].part_left > 0)
        return;
    uint32_t head = r->head[n->queue];
    while (head != NONE && r->nodes[head].part == n->part)
        head = r->nodes[head].behind;
    r->head[n->queue] = head;
    if (head != NONE && r->nodes[head].issued)
        r->heads[r->heads_count++] = n->queue;
}

/* What is at the head of this queue can meet its other ends. */
static void activate(run *r, uint32_t queue)
{
    uint32_t part = r->head[queue];
    for (uint32_t i = part; i != NONE && r->nodes[i].part == part; i = r->nodes[i].behind) {
        node *n = &r->nodes[i], *other = &r->nodes[n->other];
        n->active = true;
        if (other->active) {
            end_message(r, other);
            end_message(r, n);
        }
    }
}

/* Start the batch that a stage has come to. */
static void issue(run *r, uint32_t stage)
{
    const weft__actions *list = &r->s->lists[stage];
    uint32_t batch = r->base[stage] + r->next[stage];
    for (; r->next[stage] < list->count; r->next[stage]++) {
        node *n = &r->nodes[r->base[stage] + r->next[stage]];
        if (!weft__kinds[list->at[r->next[stage]].kind].message || n->batch != batch)
            break;
        n->issued = true;
        if (r->head[n->queue] == (uint32_t)(n - r->nodes))
            r->heads[r->heads_count++] = n->queue;
    }
    if (r->nodes[batch].batch_sends) {
        r->held[stage] = batch;
        r->stands[stage] = batch - r->base[stage];
    }
    while (r->heads_count)
        activate(r, r->heads[--r->heads_count]);
}

/* The message that brings a computation its tensor; NONE if there is none. */
static uint32_t receive_for(const run *r, uint32_t stage, const weft_action *a)
{
    if (a->kind != WEFT_ACTION_F && a->kind != WEFT_ACTION_B)
        return NONE;
    weft_action_kind kind = a->kind == WEFT_ACTION_F ? WEFT_ACTION_RECV_F : WEFT_ACTION_RECV_B;
    uint32_t receive = weft__index_find(r->index, kind, (weft__part){stage, a->chunk}, a->microbatch);
    return receive ? r->base[stage] + receive - 1 : NONE;
}

static bool is_held(const run *r, uint32_t stage)
{
    return r->held[stage] != NONE && r->nodes[r->held[stage]].batch_left > 0;
}

/* Go on as far as this stage can. */
static void advance(run *r, uint32_t stage)
{
    const weft__actions *list = &r->s->lists[stage];
    while (!is_held(r, stage) && r->next[stage] < list->count) {
        const weft_action *a = &list->at[r->next[stage]];
        if (weft__kinds[a->kind].message) {
            issue(r, stage);
            continue;
        }
        uint32_t receive = receive_for(r, stage, a);
        r->held[stage] = receive == NONE ? NONE : r->nodes[receive].batch;
        r->stands[stage] = r->next[stage];
        r->next[stage] += !is_held(r, stage);
    }
}

/* ---- telling who waits ---- */

static uint32_t first_left(const run *r, uint32_t message)
{
    while (r->nodes[message].over)
        message++;
    return message;
}

/* What a message that has been issued waits behind in its queue: perhaps itself. */
static uint32_t at_head(const run *r, uint32_t message)
{
    uint32_t i = r->head[r->nodes[message].queue];
    while (r->nodes[i].over)
        i = r->nodes[i].behind;
    return r->nodes[message].active ? message : i;
}

static weft__name name_message(const run *r, uint32_t message)
{
    uint32_t stage = r->nodes[message].queue / QUEUES_MOST;
    return weft__locate(r->s, stage, message - r->base[stage]);
}

/* The action at which a stage stands. */
static weft__name name_stand(const run *r, uint32_t stage)
{
    uint32_t i = r->stands[stage];
    bool computes = weft__computes(r->s->lists[stage].at[i].kind);
    return computes ? weft__locate(r->s, stage, i) : name_message(r, first_left(r, r->held[stage]));
}

/* The message for whose end a stage waits; NONE if it has not come to it yet itself. */
static uint32_t waits_for(const run *r, uint32_t stage)
{
    uint32_t batch = r->held[stage];
    return r->nodes[batch].issued ? at_head(r, first_left(r, batch)) : NONE;
}

/* The message that has to end before the other end of @p message can take part; NONE: its stage waits for itself. */
static uint32_t next_wait(const run *r, uint32_t message)
{
    const node *other = &r->nodes[r->nodes[message].other];
    if (other->issued)
        return at_head(r, r->nodes[message].other);
    return waits_for(r, other->queue / QUEUES_MOST);
}

static weft_result explain(const run *r)
{
    uint32_t stage = 0;
    while (!is_held(r, stage))
        stage++;
    uint32_t at = waits_for(r, stage);
    for (size_t steps = weft__schedule_total(r->s); steps > 0 && at != NONE; steps--) {
        stage = r->nodes[r->nodes[at].other].queue / QUEUES_MOST;
        at = next_wait(r, at);
    }
    if (at == NONE)
        return weft__fail(WEFT_E_INVALID, "deadlock: %s needs %s, which comes after it", name_stand(r, stage).text,
                          name_message(r, receive_for(r, stage, &r->s->lists[stage].at[r->stands[stage]])).text);
    /* After so many steps this goes in a circle; begin it at the lowest stage. */
    uint32_t first = at;
    for (uint32_t i = next_wait(r, at); i != at; i = next_wait(r, i))
        first = i < first ? i : first;
    uint32_t other = r->nodes[first].other;
    bool issued = r->nodes[other].issued;
    return weft__fail(
        WEFT_E_INVALID, "deadlock: %s waits for %s, which %s %s, and that waits too", name_message(r, first).text,
        name_message(r, other).text, issued ? "is queued behind" : "comes after",
        issued ? name_message(r, at_head(r, other)).text : name_stand(r, r->nodes[other].queue / QUEUES_MOST).text);
}

/* ---- the whole ---- */

static weft_result run_all(run *r, bool quiet)
{
    const weft_schedule *s = r->s;
    for (uint32_t stage = 0, base = 0; stage < s->stages; base += (uint32_t)s->lists[stage++].count)
        r->base[stage] = base;
    memset(r->held, 0xff, s->stages * sizeof *r->held);
    memset(r->head, 0xff, QUEUES_MOST * (size_t)s->stages * sizeof *r->head);
    for (uint32_t stage = 0; stage < s->stages; stage++) {
        pair_sends(r, stage, WEFT_ACTION_SEND_F);
        pair_sends(r, stage, WEFT_ACTION_SEND_B);
        enter_queues(r, stage);
    }
    for (uint32_t stage = s->stages; stage-- > 0;)
        look_at(r, stage);
    while (r->work_count) {
        uint32_t stage = r->work[--r->work_count];
        r->listed[stage] = false;
        advance(r, stage);
    }
    for (uint32_t stage = 0; stage < s->stages; stage++)
        if (is_held(r, stage))
            return quiet ? WEFT_PENDING : explain(r);
    return WEFT_OK;
}

weft_result weft__run_queues(const weft_schedule *s, const weft__index *index, weft_queues queues, bool quiet)
{
    size_t total = weft__schedule_total(s), stages = s->stages;
    run r = {.s = s, .index = index, .queues = queues};
    r.nodes = weft__alloc(total * sizeof *r.nodes);
    r.base = weft__alloc((5 + 2 * QUEUES_MOST) * stages * sizeof *r.base);
    r.listed = weft__alloc(stages * sizeof *r.listed);
    weft_result result = WEFT_E_NO_MEMORY;
    if (r.nodes && r.base && r.listed) {
        r.next = r.base + stages;
        r.held = r.next + stages;
        r.stands = r.held + stages;
        r.work = r.stands + stages;
        r.head = r.work + stages;
        r.heads = r.head + QUEUES_MOST * stages;
        result = run_all(&r, quiet);
    }
    free(r.nodes);
    free(r.base);
    free(r.listed);
    return result;
}
