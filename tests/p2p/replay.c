/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a schedule step by step with labelled values, sharing no code with the verifier. */
#include "replay.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "harness/test.h"

enum {
    ACTIONS = 256, /* of a stage, at most */
    BUFFERS = 64,
    UNDEFINED = -1, /* as memset leaves it */
    OPEN = -2,      /* a receive may fill it at any time from now on */
    SPOILT = -3     /* two may */
};
enum { ACTIVATION = 1000, GRADIENT = 2000 }; /* labels: + 100 * part + microbatch */

typedef struct player {
    const weft_action *at;
    int count, next;
    int begin_of_batch[ACTIONS], end_of_batch[ACTIONS];
    bool issued[ACTIONS], done[ACTIONS];
    int undone;                                                       /* all before it are done or no messages */
    int where[WEFT_ACTION_KINDS][REPLAY_CHUNKS][REPLAY_MICROBATCHES]; /* index of an action, -1 */
    int buffer[WEFT_ACTION_KINDS][BUFFERS];                           /* labels */
    bool ran[WEFT_ACTION_KINDS][REPLAY_CHUNKS][REPLAY_MICROBATCHES];
    int contributions[REPLAY_CHUNKS];
    bool synced[REPLAY_CHUNKS];
} player;

static player players[REPLAY_STAGES];
static int stages, chunks, microbatches;
static weft_queues queues;
static bool failed;
static char why[256];

static void wrong(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void wrong(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (!failed)
        vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    failed = true;
}

static bool is_send(const weft_action *a)
{
    return a->kind == WEFT_ACTION_SEND_F || a->kind == WEFT_ACTION_SEND_B;
}

static bool is_recv(const weft_action *a)
{
    return a->kind == WEFT_ACTION_RECV_F || a->kind == WEFT_ACTION_RECV_B;
}

static bool is_message(const weft_action *a)
{
    return is_send(a) || is_recv(a);
}

static bool carries_gradient(const weft_action *a)
{
    return a->kind == WEFT_ACTION_SEND_B || a->kind == WEFT_ACTION_RECV_B;
}

static int part_of(int stage, uint32_t chunk)
{
    return (int)chunk * stages + stage;
}

static void open_player(int stage, const weft_schedule *s)
{
    player *p = &players[stage];
    size_t count;
    memset(p, 0, sizeof *p);
    p->at = weft_schedule_actions(s, (uint32_t)stage, &count);
    p->count = (int)count;
    CHECK(p->count <= ACTIONS);
    memset(p->where, 0xff, sizeof p->where);
    memset(p->buffer, 0xff, sizeof p->buffer);
    for (int i = 0; i < p->count; i++) {
        const weft_action *a = &p->at[i];
        p->where[a->kind][a->chunk][a->microbatch] = i;
        p->begin_of_batch[i] = i;
        p->end_of_batch[i] = i + 1;
        if (i > 0 && is_message(a) && a->batch && is_message(a - 1) && a->batch == a[-1].batch)
            p->begin_of_batch[i] = p->begin_of_batch[i - 1];
        for (int k = p->begin_of_batch[i]; k < i; k++)
            p->end_of_batch[k] = i + 1;
    }
}

/* The buffer of the message of this kind for a chunk and microbatch; NULL if there is no such message. */
static int *buffer_of(player *p, weft_action_kind kind, const weft_action *a)
{
    int i = p->where[kind][a->chunk][a->microbatch];
    if (i < 0)
        return NULL;
    uint32_t number = p->at[i].buffer;
    if (number == WEFT_BUFFER_NONE)
        number = BUFFERS - 1 - (a->chunk * REPLAY_MICROBATCHES + a->microbatch);
    CHECK(number < BUFFERS);
    return &p->buffer[kind][number];
}

/* ---- messages ---- */

static bool same_queue(const weft_action *a, const weft_action *b)
{
    switch (queues) {
    case WEFT_QUEUES_DIRECTION:
        return a->kind == b->kind && a->peer == b->peer;
    case WEFT_QUEUES_PEER:
        return carries_gradient(a) == carries_gradient(b) && a->peer == b->peer;
    case WEFT_QUEUES_CHANNEL:
        return carries_gradient(a) == carries_gradient(b);
    default:
        return true;
    }
}

/* Nothing in its queue is before this message, but for its own batch. */
static bool at_head(const player *p, int i)
{
    for (int j = p->undone; j < i; j++)
        if (is_message(&p->at[j]) && !p->done[j] && p->begin_of_batch[j] != p->begin_of_batch[i] &&
            same_queue(&p->at[j], &p->at[i]))
            return false;
    return true;
}

/* The first message of a kind with a peer that is not done, if it is issued; -1. */
static int first_open(const player *p, weft_action_kind kind, int peer)
{
    for (int i = p->undone; i < p->next; i++)
        if (p->at[i].kind == kind && (int)p->at[i].peer == peer && !p->done[i])
            return i;
    return -1;
}

/* Of the messages in one direction that are not over, the one that is told from the others by its place alone: the
 * first batch's, activations before gradients. */
static int first_in_line(const player *p, bool sends)
{
    int first = -1;
    for (int i = 0; i < p->count; i++) {
        if (p->done[i] || !is_message(&p->at[i]) || is_send(&p->at[i]) != sends)
            continue;
        if (first >= 0 && p->begin_of_batch[i] != p->begin_of_batch[first])
            break;
        if (first < 0 || (carries_gradient(&p->at[first]) && !carries_gradient(&p->at[i])))
            first = i;
    }
    return first;
}

static bool transfer(int from, int i)
{
    player *p = &players[from];
    const weft_action *send = &p->at[i];
    player *q = &players[send->peer];
    weft_action_kind kind = send->kind == WEFT_ACTION_SEND_F ? WEFT_ACTION_RECV_F : WEFT_ACTION_RECV_B;
    int j = first_open(q, kind, from);
    if (first_open(p, send->kind, (int)send->peer) != i || j < 0 || !at_head(p, i) || !at_head(q, j))
        return false;
    if (queues == WEFT_QUEUES_ONE && stages == 2) {
        if (first_in_line(p, true) != i)
            return false;
        if (first_in_line(q, false) != j)
            wrong("stage %d sends what stage %d does not wait for yet", from, (int)send->peer);
    }
    if (p == q && p->begin_of_batch[i] != q->begin_of_batch[j])
        wrong("stage %d: a message to itself without its receive beside it", from);
    int *buffer = buffer_of(q, kind, &q->at[j]);
    *buffer = *buffer == SPOILT ? SPOILT : *buffer_of(p, send->kind, send);
    p->done[i] = q->done[j] = true;
    return true;
}

static bool batch_over(const player *p, int i)
{
    for (int k = p->begin_of_batch[i]; k < p->end_of_batch[i]; k++)
        if (!p->done[k])
            return false;
    return true;
}

/* ---- computing ---- */

/* Is the batch over that fills this computation's buffer? A computation without such a message waits for nothing. */
static bool arrived(const player *p, weft_action_kind kind, const weft_action *a)
{
    int i = p->where[kind][a->chunk][a->microbatch];
    return i < 0 || batch_over(p, i);
}

static void expect(player *p, weft_action_kind kind, const weft_action *a, int label)
{
    const int *buffer = buffer_of(p, kind, a);
    if (!buffer || *buffer != label)
        wrong("stage %d action %d finds label %d, not %d", (int)(p - players), (int)(a - p->at), buffer ? *buffer : 0,
              label);
}

static void produce(player *p, weft_action_kind kind, const weft_action *a, int label)
{
    int *buffer = buffer_of(p, kind, a);
    if (buffer)
        *buffer = label;
    else
        wrong("stage %d action %d: nobody sends label %d", (int)(p - players), (int)(a - p->at), label);
}

/* Behind its SYNC a chunk has one backward to come at most. */
static void contribute(player *p, const weft_action *a)
{
    p->contributions[a->chunk]++;
    if (p->synced[a->chunk] && p->contributions[a->chunk] != microbatches)
        wrong("stage %d reduces chunk %u with %d of %d microbatches", (int)(p - players), a->chunk,
              p->contributions[a->chunk], microbatches);
}

static void compute(player *p, const weft_action *a)
{
    int part = part_of((int)(p - players), a->chunk), last = stages * chunks - 1, m = (int)a->microbatch;
    if (part > 0)
        expect(p, WEFT_ACTION_RECV_F, a, ACTIVATION + 100 * (part - 1) + m);
    if (a->kind != WEFT_ACTION_F && part < last)
        expect(p, WEFT_ACTION_RECV_B, a, GRADIENT + 100 * (part + 1) + m);
    if (a->kind != WEFT_ACTION_F && !p->ran[a->kind - 1][a->chunk][m])
        wrong("stage %d action %d is too early", (int)(p - players), (int)(a - p->at));
    if (a->kind == WEFT_ACTION_F && part < last)
        produce(p, WEFT_ACTION_SEND_F, a, ACTIVATION + 100 * part + m);
    if (a->kind == WEFT_ACTION_B && part > 0)
        produce(p, WEFT_ACTION_SEND_B, a, GRADIENT + 100 * part + m);
    if (a->kind == WEFT_ACTION_B)
        contribute(p, a);
    if (p->ran[a->kind][a->chunk][m])
        wrong("stage %d action %d is there twice", (int)(p - players), (int)(a - p->at));
    p->ran[a->kind][a->chunk][m] = true;
}

/* What the send takes out of its buffer must be there when it starts. */
static void check_sent(int stage, player *p, const weft_action *a)
{
    int part = part_of(stage, a->chunk);
    int label = (a->kind == WEFT_ACTION_SEND_F ? ACTIVATION : GRADIENT) + 100 * part + (int)a->microbatch;
    expect(p, a->kind, a, label);
}

/* One action of one stage: did it go on? */
static bool step(int stage)
{
    player *p = &players[stage];
    const weft_action *a = &p->at[p->next];
    if (p->next > 0 && is_message(a - 1)) {
        int before = p->next - 1;
        bool sends = false;
        for (int i = p->begin_of_batch[before]; i <= before; i++)
            sends |= is_send(&p->at[i]);
        if (sends && !batch_over(p, before))
            return false;
    }
    if (p->next == p->count)
        return false;
    if (is_message(a)) {
        for (int end = p->end_of_batch[p->next]; p->next < end; p->next++) {
            a = &p->at[p->next];
            p->issued[p->next] = true;
            int *buffer = buffer_of(p, a->kind, a);
            if (is_send(a))
                check_sent(stage, p, a);
            else
                *buffer = *buffer == OPEN || *buffer == SPOILT ? SPOILT : OPEN;
        }
        return true;
    }
    if (a->kind == WEFT_ACTION_F && !arrived(p, WEFT_ACTION_RECV_F, a))
        return false;
    if (a->kind == WEFT_ACTION_B && !arrived(p, WEFT_ACTION_RECV_B, a))
        return false;
    if (a->kind == WEFT_ACTION_SYNC)
        p->synced[a->chunk] = true;
    else
        compute(p, a);
    p->next++;
    return true;
}

static bool sweep(void)
{
    bool moved = false;
    for (int stage = 0; stage < stages && !failed; stage++)
        while (!failed && step(stage))
            moved = true;
    for (int stage = 0; stage < stages && !failed; stage++) {
        player *p = &players[stage];
        for (int i = p->undone; i < p->next; i++)
            if (is_send(&p->at[i]) && !p->done[i])
                moved |= transfer(stage, i);
    }
    for (int stage = 0; stage < stages; stage++) {
        player *p = &players[stage];
        while (p->undone < p->next && (p->done[p->undone] || !is_message(&p->at[p->undone])))
            p->undone++;
    }
    return moved;
}

static void check_end(void)
{
    bool backward = players[0].ran[WEFT_ACTION_B][0][0];
    for (int stage = 0; stage < stages && !failed; stage++) {
        const player *p = &players[stage];
        if (p->undone < p->count)
            wrong("stage %d stands at action %d", stage, p->next);
        for (int c = 0; c < chunks; c++)
            for (int m = 0; m < microbatches; m++)
                if (!p->ran[WEFT_ACTION_F][c][m] || p->ran[WEFT_ACTION_B][c][m] != backward)
                    wrong("stage %d leaves out microbatch %d of chunk %d", stage, m, c);
    }
}

const char *replay(const weft_schedule *s, weft_queues in)
{
    stages = (int)weft_schedule_stages(s);
    chunks = (int)weft_schedule_chunks(s);
    microbatches = (int)weft_schedule_microbatches(s);
    CHECK(stages <= REPLAY_STAGES && chunks <= REPLAY_CHUNKS && microbatches <= REPLAY_MICROBATCHES);
    queues = in;
    failed = false;
    for (int stage = 0; stage < stages; stage++)
        open_player(stage, s);
    while (!failed && sweep())
        ;
    check_end();
    return failed ? why : NULL;
}
