/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers the buffers of messages: which is filled or read by whom, and when it is free again. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "schedule.h"

/* The buffers of one kind of message on one stage. Free ones wait in a ring, so the one free longest is next. */
typedef struct pool {
    uint32_t *number; /* of each chunk and microbatch */
    uint32_t *ring;
    size_t room, first, free;
    uint32_t made;
} pool;

static void give(pool *p, uint32_t number)
{
    if (number != WEFT_BUFFER_NONE)
        p->ring[(p->first + p->free++) % p->room] = number;
}

static uint32_t take(pool *p)
{
    if (p->free == 0)
        return p->made++;
    uint32_t number = p->ring[p->first];
    p->first = (p->first + 1) % p->room;
    p->free--;
    return number;
}

static void number_stage(weft_schedule *s, const weft__index *index, uint32_t stage, uint32_t *room)
{
    size_t forwards = (size_t)s->chunks * s->microbatches;
    pool pools[WEFT_ACTION_KINDS] = {0};
    for (unsigned kind = 0; kind < WEFT_ACTION_KINDS; kind++, room += 2 * forwards + 2) {
        pools[kind] = (pool){.number = room, .ring = room + forwards, .room = forwards + 2};
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
                pools[kind].number[key] = take(&pools[kind]);
        if (weft__kinds[a->kind].message)
            a->buffer = pools[a->kind].number[key];
        for (unsigned kind = 0; end; end >>= 1, kind++)
            if (end & 1)
                give(&pools[kind], pools[kind].number[key]);
    }
}

weft_result weft__number_buffers(weft_schedule *s)
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
