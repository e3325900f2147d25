/* SPDX-License-Identifier: Apache-2.0 */
/* The backend's table, and the turns that comms take. */
#include "backend/local/local.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"

#define SLOT_BYTES         ((size_t)1 << 10)  /* longer ones are read faster where they lie */
#define SLOT_BYTES_CROWDED ((size_t)16 << 10) /* saves a round of context switches */
#define SMALL              ((size_t)2 << 10)  /* the same of messages */
#define HASTEN_NS          1000

static weft_result query(const weft_backend_question *question, weft_backend_facts *facts)
{
    facts->caps = WEFT_CAP_COLLECTIVE | WEFT_CAP_P2P | WEFT_CAP_ORDERED;
    facts->queues = WEFT_QUEUES_DIRECTION;
    facts->score = question->same_memory && question->count > 1 ? WEFT_SCORE_SAME_HOST : WEFT_SCORE_NONE;
    facts->op_bytes =
        sizeof(weft__batch) > sizeof(weft__local_collective) ? sizeof(weft__batch) : sizeof(weft__local_collective);
    facts->message_bytes = sizeof(weft__message);
    facts->card_bytes = sizeof(weft__local_card);
    return WEFT_OK;
}

/* Who is on this machine; the first of them measures its caches. */
static void look_around(weft__local *local)
{
    weft_world *world = local->world;
    for (int r = world->size - 1; r >= 0; r--)
        if (world->segments[r]) {
            local->neighbours++;
            local->first = r;
        }
    if (local->first == world->rank)
        atomic_store(&world->own->header->cache_worth, weft__cache_measure(local->vector));
}

bool weft__local_is_cold(weft__local *local, const void *at, size_t bytes, size_t traffic)
{
    if (local->worth == WEFT__CACHE_UNKNOWN) {
        local->worth = atomic_load(&local->world->segments[local->first]->header->cache_worth);
        local->reuse.hot_bytes = weft__cache_hot_bytes(local->worth, local->neighbours);
    }
    return weft__reuse_is_cold(&local->reuse, at, bytes, traffic);
}

static weft_result open_world(weft_world *world, void **state_out)
{
    if (!world->segments)
        return WEFT_E_UNSUPPORTED;
    weft__local *local = weft__alloc(sizeof *local);
    if (!local)
        return WEFT_E_NO_MEMORY;
    bool crowded = weft__identity_crowded(world->identities, world->size, world->identities[world->rank].machine);
    local->world = world;
    local->vector = weft__vector_host();
    look_around(local);
    local->slot_bytes = crowded ? SLOT_BYTES_CROWDED : SLOT_BYTES;
    local->small_bytes = crowded ? WEFT__SMALL_MOST : SMALL;
    local->hasten_ticks = crowded ? 0 : (uint64_t)(HASTEN_NS / weft__ns_per_tick());
    *state_out = local;
    return WEFT_OK;
}

static void close_world(void *state)
{
    free(state);
}

/* Behind the others: what is small then ends right behind the turn of what is large and was there before, and whoever
 * waits for it need not wait for another turn. */
static void activate(weft__local_comm *lc)
{
    weft__local_comm **link = &lc->local->active;
    while (*link)
        link = &(*link)->next;
    *link = lc;
    lc->next = NULL;
    lc->active = true;
}

weft_result weft__local_start_part(void *comm, weft_op *op, const weft_op *whole, size_t stride)
{
    weft__local_comm *lc = comm;
    if (!lc->active)
        activate(lc);
    if (op->is_p2p) {
        weft__lanes_start(lc, op);
        return WEFT_OK;
    }
    size_t part = op->what.count * weft__dtype_bytes(op->what.dtype);
    *(weft__local_collective *)op->memory = (weft__local_collective){.stride = stride ? stride : part, .whole = whole};
    weft__local_collective_start(lc, op);
    return WEFT_OK;
}

static void hasten(void *comm, weft_op *op)
{
    if (op->is_p2p)
        weft__lanes_hasten(comm, op);
    else
        weft__local_collective_hasten(comm, op);
}

static weft_result start(void *comm, weft_op *op)
{
    return weft__local_start_part(comm, op, NULL, 0);
}

/* Can others come to wait for this rank, although its callers do not? Not while all there is of this comm is one small
 * operation of all: its input lies in the slot, and the next one cannot begin anywhere before this rank begins it. */
static bool wants_attention(const weft__local_comm *lc)
{
    if (lc->busy_lanes)
        return true;
    return lc->head &&
           (lc->head->next || !lc->plan.in_slot || lc->phase == WEFT__ENTER || lc->plan.meet != WEFT__EVERYBODY);
}

static unsigned take_turn(weft__local_comm *lc)
{
    lc->local->turn_end = 0;
    lc->local->turn_over = false;
    if (weft__local_has_verdict(lc))
        return weft__local_give_back(lc);
    unsigned moved = lc->head ? weft__local_collectives(lc) : 0;
    if (lc->busy_lanes)
        moved |= weft__lanes_progress(lc);
    if (!moved && (lc->head || lc->busy_lanes))
        weft__local_look_for_failure(lc);
    return moved;
}

static unsigned progress(void *state, uint64_t slice_ticks)
{
    weft__local *local = state;
    unsigned answer = 0;
    local->beside = (local->active && local->active->next) || local->world->progress.callers_return;
    local->turn_ticks = local->beside ? 0 : slice_ticks / 2;
    for (weft__local_comm **link = &local->active; *link;) {
        weft__local_comm *lc = *link;
        answer |= take_turn(lc);
        if (wants_attention(lc))
            answer |= WEFT_PROGRESS_ATTENTION;
        if (lc->head || lc->busy_lanes) {
            link = &lc->next;
        } else {
            lc->active = false;
            *link = lc->next;
        }
    }
    return answer;
}

const weft_backend weft__backend_local = {
    .abi_major = WEFT_BACKEND_ABI,
    .size = sizeof(weft_backend),
    .name = "local",
    .query = query,
    .open = open_world,
    .close = close_world,
    .comm_create = weft__local_comm_create,
    .comm_connect = weft__local_comm_connect,
    .comm_abort = weft__local_abort,
    .comm_leave = weft__local_comm_leave,
    .comm_destroy = weft__local_comm_destroy,
    .start = start,
    .progress = progress,
    .explain = weft__local_explain,
    .hasten = hasten,
};
