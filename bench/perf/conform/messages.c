/* SPDX-License-Identifier: Apache-2.0 */
/* P2p batches: order, channels, sizes, a rank to itself, and who must not wait for whom. */
#include <stdlib.h>
#include <string.h>

#include "perf/conform/conform.h"

enum { CHANNELS = 2, IN_A_ROW = 2, LARGE = 1048577 };

static const size_t sizes[] = {0, 1, 7, 4097, 70001};
enum { SIZES = sizeof sizes / sizeof *sizes };

/* ------------------------------------------------------------------------------------------- what is in a message */

/* Byte @p i of a message: who, to whom, on which channel, the how manieth. */
static unsigned char content(int from, int to, uint32_t channel, int number, size_t i)
{
    uint32_t x = (uint32_t)(from * 31 + to * 17 + (int)channel * 7 + number) * 2654435761u + (uint32_t)i * 40503u;
    return (unsigned char)(x >> 13);
}

static size_t size_of(int from, int to, uint32_t channel, int number)
{
    return sizes[(size_t)(from + 2 * to + 3 * (int)channel + number) % SIZES];
}

/* Message @p number between this rank and @p peer, its buffer filled or cleared. Freed by its check, or its sender. */
static weft_p2p message(const conform *c, weft_p2p_kind kind, int peer, uint32_t channel, int number, size_t bytes)
{
    int self = weft_comm_rank(c->comm);
    weft_p2p m = {.kind = kind, .peer = peer, .channel = channel, .dtype = WEFT_UINT8, .count = bytes};
    m.tag = (uint64_t)number + 1;
    unsigned char *data = malloc(bytes + 1);
    m.buffer = data;
    for (size_t i = 0; data && i < bytes; i++)
        data[i] = kind == WEFT_SEND ? content(self, peer, channel, number, i) : 0;
    if (data)
        data[bytes] = 0xa5;
    return m;
}

static void check_message(const conform *c, const weft_p2p *m, conform_verdict *verdict)
{
    int self = weft_comm_rank(c->comm), number = (int)m->tag - 1;
    const unsigned char *data = m->buffer;
    for (size_t i = 0; m->kind == WEFT_RECV && i < m->count; i++)
        if (data[i] != content(m->peer, self, m->channel, number, i)) {
            conform_say(verdict, CONFORM_WRONG, "byte %zu of message %d from rank %d on channel %u is %u", i, number,
                        m->peer, m->channel, data[i]);
            break;
        }
    if (data[m->count] != 0xa5)
        conform_say(verdict, CONFORM_WRONG, "a byte behind message %d on channel %u was written", number, m->channel);
    free(m->buffer);
}

static bool start_batch(const conform *c, const weft_p2p *messages, size_t count, weft_work *work,
                        conform_verdict *verdict)
{
    weft_p2p_batch batch = WEFT_P2P_BATCH_INIT;
    batch.messages = messages, batch.count = count;
    *work = WEFT_WORK_NONE;
    for (size_t i = 0; i < count; i++)
        if (!messages[i].buffer)
            return conform_expect(verdict, "malloc", WEFT_E_NO_MEMORY, WEFT_OK);
    return CONFORM_OK(verdict, weft_p2p_start(c->comm, &batch, WEFT_STREAM_HOST, work));
}

/* A batch of one, and what is looked at when it has ended. */
typedef struct single {
    weft_p2p message;
    weft_work work;
} single;

static single start_one(const conform *c, weft_p2p_kind kind, int peer, uint32_t channel, int number, size_t bytes,
                        conform_verdict *verdict)
{
    single one = {.message = message(c, kind, peer, channel, number, bytes)};
    (void)start_batch(c, &one.message, 1, &one.work, verdict);
    return one;
}

static void finish_one(const conform *c, const single *one, conform_verdict *verdict)
{
    conform_finish(one->work, verdict);
    if (one->message.buffer && verdict->kind == CONFORM_WELL)
        check_message(c, &one->message, verdict);
    else
        free(one->message.buffer);
}

/* ------------------------------------------------------------------------------------------- everybody to everybody */

/* Whose messages a mail holds. */
enum { OUT = 1, IN = 2 };

typedef struct mail {
    weft_p2p messages[WEFT_P2P_BATCH_MAX];
    weft_work works[WEFT_P2P_BATCH_MAX];
    size_t count, batches;
} mail;

static void write_mail(const conform *c, uint32_t channel, int kinds, mail *m)
{
    int self = weft_comm_rank(c->comm), ranks = weft_comm_size(c->comm);
    for (int n = 0; n < IN_A_ROW; n++)
        for (int step = 0; step < ranks; step++) {
            int to = (self + step) % ranks, from = (self + ranks - step) % ranks;
            if (kinds & OUT)
                m->messages[m->count++] = message(c, WEFT_SEND, to, channel, n, size_of(self, to, channel, n));
            if (kinds & IN)
                m->messages[m->count++] = message(c, WEFT_RECV, from, channel, n, size_of(from, self, channel, n));
        }
}

static void post(const conform *c, mail *m, size_t in_a_batch, conform_verdict *verdict)
{
    for (size_t i = 0; i < m->count; i += in_a_batch)
        (void)start_batch(c, m->messages + i, m->count - i < in_a_batch ? m->count - i : in_a_batch,
                          &m->works[m->batches++], verdict);
}

static void collect(const conform *c, const mail *m, conform_verdict *verdict)
{
    for (size_t i = m->batches; i-- > 0;)
        conform_finish(m->works[i], verdict);
    for (size_t i = 0; i < m->count; i++)
        if (m->messages[i].buffer)
            check_message(c, &m->messages[i], verdict);
}

static void exchange(conform *c, const void *what, conform_verdict *verdict)
{
    (void)what;
    mail mails[CHANNELS];
    memset(mails, 0, sizeof mails);
    for (uint32_t channel = CHANNELS; channel-- > 0;) {
        write_mail(c, channel, OUT | IN, &mails[channel]);
        post(c, &mails[channel], WEFT_P2P_BATCH_MAX, verdict);
    }
    for (int channel = 0; channel < CHANNELS; channel++)
        collect(c, &mails[channel], verdict);
}

/* Without those to itself, which must come with their receive. */
static void drop_own(const conform *c, mail *m)
{
    size_t kept = 0;
    for (size_t i = 0; i < m->count; i++) {
        if (m->messages[i].peer == weft_comm_rank(c->comm))
            free(m->messages[i].buffer);
        else
            m->messages[kept++] = m->messages[i];
    }
    m->count = kept;
}

/* Even ranks start all at once, odd ones message by message, and who receives does not care. */
static void exchange_apart(conform *c, const void *what, conform_verdict *verdict)
{
    (void)what;
    bool even = weft_comm_rank(c->comm) % 2 == 0;
    mail sends, receives;
    memset(&sends, 0, sizeof sends), memset(&receives, 0, sizeof receives);
    write_mail(c, 1, OUT, &sends), write_mail(c, 1, IN, &receives);
    drop_own(c, &sends), drop_own(c, &receives);
    post(c, even ? &sends : &receives, even ? WEFT_P2P_BATCH_MAX : 1, verdict);
    post(c, even ? &receives : &sends, even ? WEFT_P2P_BATCH_MAX : 3, verdict);
    collect(c, &receives, verdict);
    collect(c, &sends, verdict);
}

/* ------------------------------------------------------------------------------------------- who waits for whom */

/* Rank 1 asks for what came second on the other channel first. */
static void large_holds_up_nobody(conform *c, const void *what, conform_verdict *verdict)
{
    (void)what;
    int self = weft_comm_rank(c->comm);
    if (self > 1)
        return;
    weft_p2p_kind kind = self == 0 ? WEFT_SEND : WEFT_RECV;
    single large = {.work = WEFT_WORK_NONE};
    if (self == 0)
        large = start_one(c, WEFT_SEND, 1, 0, 0, LARGE, verdict);
    single small = start_one(c, kind, 1 - self, 1, 0, 7, verdict);
    finish_one(c, &small, verdict);
    single answer = start_one(c, self == 0 ? WEFT_RECV : WEFT_SEND, 1 - self, 1, 1, 7, verdict);
    finish_one(c, &answer, verdict);
    if (self == 1)
        large = start_one(c, WEFT_RECV, 0, 0, 0, LARGE, verdict);
    finish_one(c, &large, verdict);
}

/* Neighbours in a ring send what is large first, all of them. */
static void all_send_first(conform *c, const void *what, conform_verdict *verdict)
{
    (void)what;
    int self = weft_comm_rank(c->comm), ranks = weft_comm_size(c->comm);
    single send = start_one(c, WEFT_SEND, (self + 1) % ranks, 0, 0, LARGE, verdict);
    single receive = start_one(c, WEFT_RECV, (self + ranks - 1) % ranks, 0, 0, LARGE, verdict);
    finish_one(c, &receive, verdict);
    finish_one(c, &send, verdict);
}

static void sum_of_ones(conform *c, conform_verdict *verdict)
{
    float one = 1, sum = 0;
    CONFORM_OK(verdict, weft_all_reduce_run(c->comm, &one, &sum, 1, WEFT_FP32, WEFT_SUM, WEFT_STREAM_HOST));
    if (verdict->kind == CONFORM_WELL && sum != (float)weft_comm_size(c->comm))
        conform_say(verdict, CONFORM_WRONG, "ones of %d ranks add up to %g", weft_comm_size(c->comm), (double)sum);
}

static void receive_holds_up_no_collective(conform *c, const void *what, conform_verdict *verdict)
{
    (void)what;
    int self = weft_comm_rank(c->comm), ranks = weft_comm_size(c->comm);
    single receive = start_one(c, WEFT_RECV, (self + ranks - 1) % ranks, 1, 0, 4097, verdict);
    sum_of_ones(c, verdict);
    single send = start_one(c, WEFT_SEND, (self + 1) % ranks, 1, 0, 4097, verdict);
    finish_one(c, &send, verdict);
    finish_one(c, &receive, verdict);
}

/* The last rank comes to the barrier when it has heard of the first, which waits there. */
static void collective_holds_up_no_message(conform *c, const void *what, conform_verdict *verdict)
{
    (void)what;
    int self = weft_comm_rank(c->comm), last = weft_comm_size(c->comm) - 1;
    weft_work barrier = WEFT_WORK_NONE;
    if (self != last)
        CONFORM_OK(verdict, weft_barrier_start(c->comm, WEFT_STREAM_HOST, &barrier));
    if (self == 0 || self == last) {
        single one = start_one(c, self == 0 ? WEFT_SEND : WEFT_RECV, self == 0 ? last : 0, 0, 0, 4097, verdict);
        finish_one(c, &one, verdict);
    }
    if (self == last)
        CONFORM_OK(verdict, weft_barrier_start(c->comm, WEFT_STREAM_HOST, &barrier));
    conform_finish(barrier, verdict);
}

static const struct {
    const char *line;
    conform_body body;
    int least;
    bool needs_collectives;
} cases[] = {
    {"messages: all to all, itself included, two in a row on each channel", exchange, 1, false},
    {"messages: the same, in batches of other sizes on each side", exchange_apart, 2, false},
    {"messages: a large one that nobody has asked for holds up no other channel", large_holds_up_nobody, 2, false},
    {"messages: all send a large one before they receive", all_send_first, 2, false},
    {"messages: a receive that waits holds up no collective", receive_holds_up_no_collective, 2, true},
    {"messages: a collective that waits holds up no message", collective_holds_up_no_message, 2, true},
};

weft_result conform_messages(conform *c)
{
    weft_result result = WEFT_OK;
    for (size_t i = 0; i < sizeof cases / sizeof *cases && result == WEFT_OK; i++)
        if (c->collectives || !cases[i].needs_collectives)
            result = conform_try_sizes(c, cases[i].least, cases[i].line, cases[i].body, NULL);
    return result;
}
