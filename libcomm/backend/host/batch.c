/* SPDX-License-Identifier: Apache-2.0 */
/* Batches of messages: those to ranks of this machine go one way, the others another. */
#include "backend/host/host.h"
#include "base/error.h"

/* In the memory of an operation: the batch, its messages sorted, then memory for both backends. */
typedef struct parts {
    weft__host_batch *batch;
    weft_p2p *messages;
    unsigned char *near_memory, *far_memory;
} parts;

size_t weft__batch_bytes(const weft_backend_facts *near, const weft_backend_facts *far)
{
    return weft__round_up(sizeof(weft__host_batch), 16) + weft__round_up(near->op_bytes, 16) +
           weft__round_up(far->op_bytes, 16) + 32;
}

static parts parts_of(const weft__host_comm *hc, const weft_op *op)
{
    size_t n = op->message_count;
    unsigned char *at = op->memory;
    parts p = {.batch = (weft__host_batch *)at};
    at += weft__round_up(sizeof(weft__host_batch), 16);
    p.messages = (weft_p2p *)at;
    at += weft__round_up(n * sizeof(weft_p2p), 16);
    p.near_memory = at;
    at += weft__round_up(hc->near_facts.op_bytes + n * hc->near_facts.message_bytes, 16);
    p.far_memory = at;
    return p;
}

static bool is_near(const weft__host_comm *hc, int peer)
{
    return peer / hc->per_machine == hc->machine;
}

static void open_part(weft__inner *inner, const weft_op *op, void *memory, const weft_p2p *messages, uint32_t count)
{
    inner->memory = memory;
    weft__inner_prepare(inner, op, (weft_collective){.kind = 0});
    inner->op.is_p2p = 1;
    inner->op.messages = messages;
    inner->op.message_count = count;
    if (!count)
        inner->op.result = WEFT_OK;
}

void weft__batches_start(weft__host_comm *hc, weft_op *op)
{
    parts p = parts_of(hc, op);
    uint32_t near = 0, far = 0;
    for (uint32_t i = 0; i < op->message_count; i++) { /* near ones from the front, far ones behind them, in order */
        weft_p2p m = op->messages[i];
        if (m.peer == hc->rank || !is_near(hc, m.peer))
            continue;
        m.peer -= hc->machine * hc->per_machine;
        p.messages[near++] = m;
    }
    for (uint32_t i = 0; i < op->message_count; i++)
        if (!is_near(hc, op->messages[i].peer))
            p.messages[near + far++] = op->messages[i];
    *p.batch = (weft__host_batch){.op = op};
    open_part(&p.batch->near, op, p.near_memory, p.messages, near);
    open_part(&p.batch->far, op, p.far_memory, p.messages + near, far);
    *hc->last_batch = p.batch;
    hc->last_batch = &p.batch->next;
}

/* WEFT_AGAIN: later batches wait, too. */
static weft_result begin(weft__host_comm *hc, weft__host_batch *b)
{
    if (!b->near.under_way && b->near.op.result == WEFT_PENDING) {
        WEFT_TRY(hc->near->table->start(hc->near_first, &b->near.op));
        b->near.under_way = true;
    }
    if (!b->far.under_way && b->far.op.result == WEFT_PENDING)
        return weft__far_start(hc, &b->far);
    return WEFT_OK;
}

static weft_result how_it_ended(const weft__host_batch *b)
{
    return b->near.op.result < 0 ? (weft_result)b->near.op.result : (weft_result)b->far.op.result;
}

static bool ended(const weft__host_batch *b)
{
    return b->near.op.result != WEFT_PENDING && b->far.op.result != WEFT_PENDING;
}

static unsigned remove_ended(weft__host_comm *hc)
{
    unsigned answer = 0;
    for (weft__host_batch **link = &hc->batches; *link;) {
        weft__host_batch *b = *link;
        if (!ended(b)) {
            link = &b->next;
            continue;
        }
        *link = b->next;
        if (!*link)
            hc->last_batch = link;
        b->op->first = b->near.op.first ? b->near.op.first : b->far.op.first;
        weft_backend_done(b->op, how_it_ended(b));
        answer = WEFT_PROGRESS_MOVED;
    }
    if (!hc->batches)
        hc->last_batch = &hc->batches;
    return answer;
}

unsigned weft__batches_progress(weft__host_comm *hc)
{
    unsigned begun = 0;
    for (weft__host_batch *b = hc->batches; b; b = b->next) {
        bool was_near = b->near.under_way, was_far = b->far.under_way;
        weft_result result = begin(hc, b);
        if (b->near.under_way != was_near || b->far.under_way != was_far)
            begun = WEFT_PROGRESS_MOVED; /* the backends below have had their turn, and need another */
        if (result == WEFT_AGAIN)
            break;
        if (result < 0) {
            weft_backend_fail(hc->comm, result, "comm %s: backend %s did not take messages", hc->comm->name,
                              hc->far->table->name);
            return WEFT_PROGRESS_MOVED;
        }
    }
    return begun | remove_ended(hc);
}

void weft__batches_give_back(weft__host_comm *hc)
{
    weft_result verdict = (weft_result)atomic_load(&hc->comm->verdict);
    for (weft__host_batch *b = hc->batches; b; b = b->next) {
        if (!b->near.under_way && b->near.op.result == WEFT_PENDING)
            b->near.op.result = (int32_t)verdict;
        if (!b->far.under_way && b->far.op.result == WEFT_PENDING)
            b->far.op.result = (int32_t)verdict;
    }
    (void)remove_ended(hc);
}
