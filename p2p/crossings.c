/* SPDX-License-Identifier: Apache-2.0 */
/* Where the messages between computations stand.
 *
 * A message leaves in the gap behind its computation. Its receive stands in the gap before the computation that needs
 * it, or earlier: never behind the receive of what its sender sends later, and, unless messages go only in exchanges,
 * no later than the gap in which the receiver is when, in an ideal run, the sender has it. With the last, both ends of
 * every message are there at its ideal time, so one batch a gap cannot deadlock in any queues, and neither can
 * receives that are posted first where directions do not hold each other up. */
#include "crossings.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"

static void find_steps(const weft_schedule *s, const weft_action_time *times, weft__crossings *c)
{
    uint32_t *room = c->numbers;
    for (uint32_t stage = 0; stage < s->stages; stage++) {
        const weft__actions *list = &s->lists[stage];
        weft__steps *t = &c->steps[stage];
        *t = (weft__steps){.of = room, .opens = room + list->count};
        t->opens[0] = 0;
        for (size_t i = 0; i < list->count; i++) {
            if (!weft__computes(list->at[i].kind))
                continue;
            if (t->count == 0 || times[i].end != t->opens[t->count])
                t->opens[++t->count] = times[i].end;
            t->of[i] = t->count - 1;
        }
        times += list->count;
        room += 2 * list->count + 1;
    }
}

/* All crossings of a link, their receives in the gap before the need. */
static weft_result fill_link(const weft_schedule *s, const weft__index *index, const weft__steps *steps,
                             uint32_t channel, weft__link *k)
{
    weft_action_kind kind = channel == 0 ? WEFT_ACTION_F : WEFT_ACTION_B;
    const weft__actions *list = &s->lists[k->from];
    for (size_t i = 0; i < list->count; i++) {
        const weft_action *a = &list->at[i];
        weft__part there;
        if (a->kind != kind || !weft__neighbour(s, (weft__part){k->from, a->chunk}, channel == 0, &there))
            continue;
        uint32_t need = weft__index_find(index, kind, there, a->microbatch);
        if (!need)
            return weft__fail(WEFT_E_INVALID, "%s is for %s %u.%u of stage %u, which is missing",
                              weft__locate(s, k->from, i).text, weft_action_string(kind), a->microbatch, there.chunk,
                              there.stage);
        k->at[k->count++] = (weft__crossing){.microbatch = a->microbatch,
                                             .from_chunk = a->chunk,
                                             .from_gap = steps[k->from].of[i] + 1,
                                             .to_chunk = there.chunk,
                                             .to_gap = steps[k->to].of[need - 1]};
    }
    return WEFT_OK;
}

/* Move receives from the gap before their need to where they have to be. */
static void place_receives(const weft__steps *steps, weft_batching batching, bool ahead, weft__link *k)
{
    const weft__steps *from = &steps[k->from], *to = &steps[k->to];
    bool when_sent = batching != WEFT_BATCHING_EXCHANGE;
    uint32_t gap = 0;
    for (size_t i = 0; i < k->count; i++) {
        weft__crossing *c = &k->at[i];
        while (gap < to->count && to->opens[gap + 1] <= from->opens[c->from_gap])
            gap++;
        if (k->from == k->to)
            c->to_gap = c->from_gap; /* a message to oneself is received where it is sent */
        else if (when_sent && gap < c->to_gap)
            c->to_gap = gap;
    }
    for (size_t i = k->count; i-- > 1;)
        if (k->at[i - 1].to_gap > k->at[i].to_gap)
            k->at[i - 1].to_gap = k->at[i].to_gap;
    for (size_t i = 0; ahead && k->from != k->to && i < k->count; i++)
        k->at[i].to_gap -= k->at[i].to_gap > 0;
}

static weft_result find_all(const weft_schedule *s, const weft__index *index, weft_batching batching, bool ahead,
                            weft_action_time *times, weft__crossings *c)
{
    static const weft__slots even = {1, 1, 1, 1};
    uint32_t slots;
    weft__crossing *room = c->crossings;
    WEFT_TRY(weft__clock(s, index, &even, batching == WEFT_BATCHING_STEP, times, &slots));
    find_steps(s, times, c);
    for (uint32_t channel = 0; channel < 2; channel++)
        for (uint32_t stage = 0; stage < s->stages; stage++) {
            weft__link *k = &c->links[channel][stage];
            *k = (weft__link){.at = room, .from = weft__beside(s, stage, channel == 1), .to = stage};
            WEFT_TRY(fill_link(s, index, c->steps, channel, k));
            place_receives(c->steps, batching, ahead, k);
            room += k->count;
        }
    return WEFT_OK;
}

weft_result weft__crossings_find(const weft_schedule *s, const weft__index *index, weft_batching batching, bool ahead,
                                 weft__crossings *out)
{
    size_t total = weft__schedule_total(s), stages = s->stages;
    weft_action_time *times = weft__alloc(total * sizeof *times);
    weft_result result = WEFT_E_NO_MEMORY;
    *out = (weft__crossings){
        .steps = weft__alloc(stages * sizeof *out->steps),
        .numbers = weft__alloc((2 * total + stages) * sizeof *out->numbers),
        .crossings = weft__alloc(total * sizeof *out->crossings),
        .links = {weft__alloc(stages * sizeof *out->links[0]), weft__alloc(stages * sizeof *out->links[1])},
    };
    if (times && out->steps && out->numbers && out->crossings && out->links[0] && out->links[1])
        result = find_all(s, index, batching, ahead, times, out);
    free(times);
    return result;
}

void weft__crossings_release(weft__crossings *c)
{
    free(c->steps);
    free(c->links[0]);
    free(c->links[1]);
    free(c->numbers);
    free(c->crossings);
    *c = (weft__crossings){0};
}

const weft__link *weft__crossings_of(const weft_schedule *s, const weft__crossings *c, uint32_t stage, uint32_t channel,
                                     bool sends)
{
    static const weft__link nothing;
    if (!c->links[channel])
        return &nothing;
    return &c->links[channel][sends ? weft__beside(s, stage, channel == 0) : stage];
}
