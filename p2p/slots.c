/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers the buffers of messages: which is filled or read by whom, and when it is free again. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "schedule.h"

static bool exists(const weft__index *x, weft_action_kind kind, uint32_t stage, const weft_action *a)
{
    return weft__index_find(x, kind, (weft__part){stage, a->chunk}, a->microbatch) != 0;
}

bool weft__is_last(const weft__index *index, uint32_t stage, const weft_action *a)
{
    static const weft_action_kind after[] = {WEFT_ACTION_B, WEFT_ACTION_W};
    return weft__computes(a->kind) && (a->kind == WEFT_ACTION_W || !exists(index, after[a->kind], stage, a));
}

bool weft__adds_gradients(const weft__index *index, uint32_t stage, const weft_action *a)
{
    return a->kind != WEFT_ACTION_F && weft__is_last(index, stage, a);
}

static unsigned present(const weft__index *x, weft_action_kind kind, uint32_t stage, const weft_action *a)
{
    return exists(x, kind, stage, a) ? 1u << kind : 0;
}

unsigned weft__buffers_begin(const weft__index *index, uint32_t stage, const weft_action *a)
{
    switch (a->kind) {
    case WEFT_ACTION_F:
        return present(index, WEFT_ACTION_SEND_F, stage, a);
    case WEFT_ACTION_B:
        return present(index, WEFT_ACTION_SEND_B, stage, a);
    case WEFT_ACTION_RECV_F:
    case WEFT_ACTION_RECV_B:
        return 1u << a->kind;
    default:
        return 0;
    }
}

unsigned weft__buffers_end(const weft__index *index, uint32_t stage, const weft_action *a)
{
    if (weft__kinds[a->kind].send)
        return 1u << a->kind;
    if (!weft__is_last(index, stage, a))
        return 0;
    return present(index, WEFT_ACTION_RECV_F, stage, a) | present(index, WEFT_ACTION_RECV_B, stage, a);
}

/* The buffers of one kind of message on one stage. Free ones wait in a ring, so the one free longest is next. */
typedef struct pool {
    uint32_t *slot; /* of each chunk and microbatch */
    uint32_t *ring;
    size_t room, first, free;
    uint32_t made;
} pool;

static void give(pool *p, uint32_t slot)
{
    if (slot != WEFT_SLOT_NONE)
        p->ring[(p->first + p->free++) % p->room] = slot;
}

static uint32_t take(pool *p)
{
    if (p->free == 0)
        return p->made++;
    uint32_t slot = p->ring[p->first];
    p->first = (p->first + 1) % p->room;
    p->free--;
    return slot;
}

static void number_stage(weft_schedule *s, const weft__index *index, uint32_t stage, uint32_t *room)
{
    size_t forwards = (size_t)s->chunks * s->microbatches;
    pool pools[WEFT_ACTION_KINDS] = {0};
    for (unsigned kind = 0; kind < WEFT_ACTION_KINDS; kind++, room += 2 * forwards + 2) {
        pools[kind] = (pool){.slot = room, .ring = room + forwards, .room = forwards + 2};
        memset(room, 0xff, forwards * sizeof *room);
        if (weft__kinds[kind].send)
            for (; pools[kind].made < 2; pools[kind].made++)
                give(&pools[kind], pools[kind].made);
    }
    for (size_t i = 0; i < s->lists[stage].count; i++) {
        weft_action *a = &s->lists[stage].at[i];
        size_t key = (size_t)a->chunk * s->microbatches + a->microbatch;
        unsigned begin = weft__buffers_begin(index, stage, a), end = weft__buffers_end(index, stage, a);
        for (unsigned kind = 0; begin; begin >>= 1, kind++)
            if (begin & 1)
                pools[kind].slot[key] = take(&pools[kind]);
        if (weft__kinds[a->kind].message)
            a->slot = pools[a->kind].slot[key];
        for (unsigned kind = 0; end; end >>= 1, kind++)
            if (end & 1)
                give(&pools[kind], pools[kind].slot[key]);
    }
}

weft_result weft__assign_slots(weft_schedule *s)
{
    weft__index index;
    WEFT_TRY(weft__index_create(s, &index));
    size_t forwards = (size_t)s->chunks * s->microbatches;
    uint32_t *room = weft__alloc(WEFT_ACTION_KINDS * (2 * forwards + 2) * sizeof *room);
    weft_result result = room ? WEFT_OK : WEFT_E_NO_MEMORY;
    for (uint32_t stage = 0; room && stage < s->stages; stage++)
        number_stage(s, &index, stage, room);
    free(room);
    free(index.at);
    return result;
}
