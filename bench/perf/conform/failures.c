/* SPDX-License-Identifier: Apache-2.0 */
/* Cases that go wrong: it must be told to all who wait, in words that name it, and must leave the world fit for other
 * comms. */
#include <string.h>
#include <time.h>

#include "perf/conform/conform.h"

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL); /* so that some wait already; right without it too */
}

/* The message must name what it is about. */
static void must_say(conform_verdict *verdict, const char *part)
{
    if (verdict->kind == CONFORM_WELL && !strstr(weft_last_error(), part))
        conform_say(verdict, CONFORM_FAILED, "'%.150s' does not say '%s'", weft_last_error(), part);
}

/* ------------------------------------------------------------------------------------------- mismatches */

typedef struct asked {
    weft_collective_kind kind;
    size_t count;
    weft_dtype dtype;
    weft_reduction reduction;
    int root;
} asked;

typedef struct mismatch {
    const char *line;
    asked most, last; /* of the last rank */
    const char *says[2];
} mismatch;

static const mismatch mismatches[] = {
    {"mismatch: operations",
     {WEFT_ALL_REDUCE, 7, WEFT_FP32, WEFT_SUM, 0},
     {WEFT_ALL_GATHER, 7, WEFT_FP32, WEFT_SUM, 0},
     {"all_reduce", "all_gather"}},
    {"mismatch: counts",
     {WEFT_ALL_REDUCE, 4097, WEFT_FP32, WEFT_SUM, 0},
     {WEFT_ALL_REDUCE, 4099, WEFT_FP32, WEFT_SUM, 0},
     {"4097", "4099"}},
    {"mismatch: types",
     {WEFT_REDUCE_SCATTER, 7, WEFT_FP32, WEFT_SUM, 0},
     {WEFT_REDUCE_SCATTER, 7, WEFT_INT32, WEFT_SUM, 0},
     {"fp32", "int32"}},
    {"mismatch: reductions",
     {WEFT_ALL_REDUCE, 1, WEFT_FP64, WEFT_SUM, 0},
     {WEFT_ALL_REDUCE, 1, WEFT_FP64, WEFT_MAX, 0},
     {"sum", "max"}},
    {"mismatch: roots",
     {WEFT_REDUCE, 7, WEFT_BF16, WEFT_SUM, 0},
     {WEFT_REDUCE, 7, WEFT_BF16, WEFT_SUM, 1},
     {"reduce", "root"}}, /* a sender may be in the barrier below already when it meets a root that misses it */
    {"mismatch: a barrier and another operation",
     {WEFT_BARRIER, 0, WEFT_FP32, WEFT_SUM, 0},
     {WEFT_ALL_TO_ALL, 1, WEFT_FP32, WEFT_SUM, 0},
     {"barrier", "all_to_all"}},
    {"mismatch: nothing and something",
     {WEFT_ALL_GATHER, 0, WEFT_UINT8, WEFT_SUM, 0},
     {WEFT_ALL_GATHER, 7, WEFT_UINT8, WEFT_SUM, 0},
     {"0", "7"}},
};

static void ask_for_different(conform *c, const void *what, conform_verdict *verdict)
{
    const mismatch *it = what;
    static const double in[8 * 4099];
    double *out = (double *)(void *)conform_memory(c, false, 1, sizeof in);
    bool last = weft_comm_rank(c->comm) == weft_comm_size(c->comm) - 1;
    const asked *a = last ? &it->last : &it->most;
    weft_collective k = WEFT_COLLECTIVE_INIT;
    k.kind = a->kind, k.count = a->count, k.dtype = a->dtype, k.reduction = a->reduction, k.root = a->root;
    k.send = in, k.recv = out;
    if (!out) {
        conform_say(verdict, CONFORM_FAILED, "no memory");
        return;
    }
    weft_result result = weft_collective_run(c->comm, &k, WEFT_STREAM_HOST);
    if (k.kind == WEFT_REDUCE && result == WEFT_OK)           /* who is not the root need not wait for anybody, */
        result = weft_barrier_run(c->comm, WEFT_STREAM_HOST); /* but hears of it */
    if (!conform_expect(verdict, "the operation", result, WEFT_E_MISMATCH))
        return;
    must_say(verdict, "rank");
    must_say(verdict, it->says[0]);
    must_say(verdict, it->says[1]);
}

/* In size if @p what is NULL, else in tag. Only those two ranks are concerned, but the comm is lost to all. */
static void send_different(conform *c, const void *what, conform_verdict *verdict)
{
    int self = weft_comm_rank(c->comm);
    unsigned char data[4099] = {0};
    weft_p2p m = {.kind = self ? WEFT_RECV : WEFT_SEND, .peer = 1 - self, .dtype = WEFT_UINT8, .buffer = data};
    weft_p2p_batch batch = WEFT_P2P_BATCH_INIT;
    m.count = what || self ? 4099 : 4097;
    m.tag = what && self ? 0x77 : 0x66;
    batch.messages = &m, batch.count = 1;
    if (self > 1)
        return;
    weft_result result = weft_p2p_run(c->comm, &batch, WEFT_STREAM_HOST);
    if (self == 0 && result == WEFT_OK)
        return; /* who sends may be done before anybody has looked */
    if (!conform_expect(verdict, "the message", result, WEFT_E_MISMATCH))
        return;
    must_say(verdict, what ? "66" : "4097");
    must_say(verdict, what ? "77" : "4099");
}

/* ------------------------------------------------------------------------------------------- the end of a comm */

static weft_result wait_in_sum(conform *c)
{
    float one[4097] = {1}, sum[4097];
    return weft_all_reduce_run(c->comm, one, sum, 4097, WEFT_FP32, WEFT_SUM, WEFT_STREAM_HOST);
}

static void abort_sum(conform *c, const void *what, conform_verdict *verdict)
{
    (void)what;
    if (weft_comm_rank(c->comm) == 0) {
        nap();
        CONFORM_OK(verdict, weft_comm_abort_because(c->comm, "the soup is cold"));
        return;
    }
    if (conform_expect(verdict, "the operation", wait_in_sum(c), WEFT_E_ABORTED))
        must_say(verdict, "the soup is cold");
}

/* Its own operation ends too. */
static void abort_own(conform *c, const void *what, conform_verdict *verdict)
{
    (void)what;
    weft_work work;
    int64_t value = 1;
    int self = weft_comm_rank(c->comm);
    if (self != 0 && self != 1)
        return;
    weft_result result = weft_irecv(c->comm, &value, 1, WEFT_INT64, 1 - self, WEFT_STREAM_HOST, &work);
    if (self == 1)
        CONFORM_OK(verdict, weft_comm_abort_because(c->comm, "nobody sends"));
    if (result == WEFT_OK) /* the other may have been faster */
        result = weft_work_finish(work, WEFT_STREAM_HOST);
    if (conform_expect(verdict, "the receive", result, WEFT_E_ABORTED))
        must_say(verdict, "nobody sends");
}

/* The last rank gives the comm up while the others wait for it. */
static void leave(conform *c, const void *what, conform_verdict *verdict)
{
    (void)what;
    if (weft_comm_rank(c->comm) == weft_comm_size(c->comm) - 1) {
        nap();
        weft_comm_destroy(c->comm);
        c->comm = NULL;
        return;
    }
    weft_result result = wait_in_sum(c);
    if (result != WEFT_E_ABORTED)
        conform_expect(verdict, "the operation", result, WEFT_E_PEER_LOST);
}

/* What has ended before is good, though others have not seen its end when the comm goes. */
static void leave_behind_a_sum(conform *c, const void *what, conform_verdict *verdict)
{
    (void)what;
    if (!CONFORM_OK(verdict, wait_in_sum(c)))
        return;
    weft_comm_destroy(c->comm);
    c->comm = NULL;
}

/* ------------------------------------------------------------------------------------------- all of them */

/* On new comms: some backends compare the first operations only. */
static weft_result try_anew(conform *c, const char *line, conform_body body, const void *what)
{
    conform_drop(c);
    return conform_try_sizes(c, 2, line, body, what);
}

static const struct failure {
    const char *line;
    bool by_message; /* else by a collective */
    conform_body body;
    const void *what;
} failures[] = {
    {"mismatch: sizes of a message", true, send_different, NULL},
    {"mismatch: tags of a message", true, send_different, "tags"},
    {"abort: of who receives", true, abort_own, NULL},
    {"abort: while others wait", false, abort_sum, NULL},
    {"end: while others wait", false, leave, NULL},
    {"end: right behind an operation", false, leave_behind_a_sum, NULL},
};

weft_result conform_failures(conform *c)
{
    weft_result result = WEFT_OK;
    for (size_t i = 0; i < sizeof mismatches / sizeof *mismatches && c->collectives && result == WEFT_OK; i++)
        result = try_anew(c, mismatches[i].line, ask_for_different, &mismatches[i]);
    for (size_t i = 0; i < sizeof failures / sizeof *failures && result == WEFT_OK; i++)
        if (failures[i].by_message ? c->messages : c->collectives)
            result = try_anew(c, failures[i].line, failures[i].body, failures[i].what);
    return result;
}
