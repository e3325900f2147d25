/* SPDX-License-Identifier: Apache-2.0 */
/* The backend's table. */
#include "backend/host/host.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"

static weft_queues stricter(weft_queues a, weft_queues b)
{
    return a > b ? a : b;
}

/* Who reads the list of backends sees by it that this is no other name for `local`. */
static const char *what_it_is(const weft__backend_instance *wire)
{
    static _Thread_local char text[64];
    snprintf(text, sizeof text, "of several hosts: local inside each, %s between them", wire->table->name);
    return text;
}

static weft_result query(const weft_backend_question *question, weft_backend_facts *facts)
{
    int per_machine;
    weft_backend_facts near = {.size = sizeof near}, far = {.size = sizeof far};
    const weft__backend_instance *wire = weft__host_far(question, &per_machine, &far);
    if (!wire || !weft__host_near(question->world, question->ranks, question->count, &near) ||
        2 * near.card_bytes + far.card_bytes > WEFT_BACKEND_CARD_BYTES) {
        facts->score = WEFT_SCORE_NONE;
        return WEFT_OK;
    }
    facts->caps = WEFT_CAP_COLLECTIVE | WEFT_CAP_P2P | WEFT_CAP_ORDERED;
    facts->queues = stricter(near.queues, far.queues);
    facts->score = WEFT_SCORE_HOSTS;
    facts->op_bytes = weft__batch_bytes(&near, &far);
    facts->message_bytes = sizeof(weft_p2p) + near.message_bytes + far.message_bytes;
    facts->card_bytes = 2 * near.card_bytes + far.card_bytes;
    facts->why = what_it_is(wire);
    return WEFT_OK;
}

static weft_result open_world(weft_world *world, void **state_out)
{
    if (!world->control)
        return WEFT_E_UNSUPPORTED; /* all ranks are on one machine */
    weft__host *host = weft__alloc(sizeof *host);
    if (!host)
        return WEFT_E_NO_MEMORY;
    host->world = world;
    host->vector = weft__vector_host();
    *state_out = host;
    return WEFT_OK;
}

static void close_world(void *state)
{
    free(state);
}

static weft_result start(void *comm, weft_op *op)
{
    weft__host_comm *hc = comm;
    if (!hc->active) {
        hc->active = true;
        hc->next = hc->host->active;
        hc->host->active = hc;
    }
    if (op->is_p2p) {
        weft__batches_start(hc, op);
        return WEFT_OK;
    }
    op->next = NULL;
    *hc->tail = op;
    hc->tail = &op->next;
    return WEFT_OK;
}

static bool is_busy(const weft__host_comm *hc)
{
    return hc->head || hc->opened != hc->closed || hc->batches;
}

static unsigned take_turn(weft__host_comm *hc)
{
    weft__wire_stir(hc->far); /* whoever looks here looks at the wire, too */
    if (!weft__host_failed(hc))
        return weft__cells_progress(hc) | weft__batches_progress(hc);
    if (hc->failed) {
        weft__cells_give_back(hc);
        weft__batches_give_back(hc);
    }
    return is_busy(hc) ? 0 : WEFT_PROGRESS_MOVED;
}

static unsigned progress(void *state, uint64_t slice_ticks)
{
    weft__host *host = state;
    unsigned answer = 0;
    for (weft__host_comm **link = &host->active; *link;) {
        weft__host_comm *hc = *link;
        host->turn_end = weft__ticks() + slice_ticks / 2; /* so that a second comm gets its turn within the slice */
        answer |= take_turn(hc);
        if (is_busy(hc)) {
            answer |= WEFT_PROGRESS_ATTENTION;
            link = &hc->next;
        } else {
            hc->active = false;
            *link = hc->next;
        }
    }
    return answer;
}

const weft_backend weft__backend_host = {
    .abi_major = WEFT_BACKEND_ABI,
    .size = sizeof(weft_backend),
    .name = "host",
    .query = query,
    .open = open_world,
    .close = close_world,
    .comm_create = weft__host_comm_create,
    .comm_connect = weft__host_comm_connect,
    .comm_abort = weft__host_comm_abort,
    .comm_leave = weft__host_comm_leave,
    .comm_destroy = weft__host_comm_destroy,
    .start = start,
    .progress = progress,
    .explain = weft__host_explain,
};
