/* SPDX-License-Identifier: Apache-2.0 */
/* When each action would run if computations and messages took so and so many slots of time. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/sized.h"
#include "schedule.h"

#define NEVER UINT32_MAX

typedef struct clock_state {
    const weft_schedule *s;
    const weft__index *index;
    const weft__slots *slots;
    uint32_t *end;          /* of F, then of B, of every part and microbatch; NEVER = has not begun */
    uint32_t *free;         /* a stage: when it has done what it has begun */
    size_t *next;           /* a stage: its first action that has not begun */
    weft_action_time **out; /* a stage: where its times go */
} clock_state;

static uint32_t *end_of(const clock_state *c, weft_action_kind kind, weft__part part, uint32_t microbatch)
{
    size_t parts = (size_t)c->s->stages * c->s->chunks;
    size_t row = (kind == WEFT_ACTION_F ? 0 : parts) + (size_t)part.stage * c->s->chunks + part.chunk;
    return &c->end[row * c->s->microbatches + microbatch];
}

/* When what @p a needs from its own stage and from another is there; NEVER = that is not known yet. */
static uint32_t ready_at(const clock_state *c, uint32_t stage, const weft_action *a)
{
    weft__part here = {stage, a->chunk}, there;
    if (a->kind != WEFT_ACTION_F && *end_of(c, a->kind - 1, here, a->microbatch) == NEVER)
        return NEVER;
    bool forward = a->kind == WEFT_ACTION_B; /* a gradient comes from the part behind */
    if (a->kind == WEFT_ACTION_W || !weft__neighbour(c->s, here, forward, &there))
        return 0;
    uint32_t made = *end_of(c, a->kind, there, a->microbatch);
    return made == NEVER || there.stage == stage ? made : made + c->slots->message;
}

static uint32_t slots_of(const clock_state *c, uint32_t stage, const weft_action *a)
{
    if (a->kind == WEFT_ACTION_B)
        return weft__is_split(c->index, stage, a) ? c->slots->split_backward : c->slots->backward;
    return a->kind == WEFT_ACTION_F ? c->slots->forward : c->slots->weights;
}

/* Pass over what takes no time. The next computation, or NULL at the end. */
static const weft_action *next_computation(clock_state *c, uint32_t stage)
{
    const weft__actions *list = &c->s->lists[stage];
    for (; c->next[stage] < list->count; c->next[stage]++) {
        if (weft__computes(list->at[c->next[stage]].kind))
            return &list->at[c->next[stage]];
        c->out[stage][c->next[stage]] = (weft_action_time){c->free[stage], c->free[stage]};
    }
    return NULL;
}

static void begin(clock_state *c, uint32_t stage, const weft_action *a, uint32_t now)
{
    uint32_t end = now + slots_of(c, stage, a);
    c->out[stage][c->next[stage]++] = (weft_action_time){now, end};
    c->free[stage] = end;
    if (a->kind != WEFT_ACTION_W)
        *end_of(c, a->kind, (weft__part){stage, a->chunk}, a->microbatch) = end;
}

/* What a stage that has nothing to do begins now. */
static void tick(clock_state *c, uint32_t stage, bool joined, uint32_t now)
{
    const weft_action *a = next_computation(c, stage);
    if (!a || c->free[stage] > now || ready_at(c, stage, a) > now)
        return;
    begin(c, stage, a, now);
    const weft_action *b = joined && a->kind == WEFT_ACTION_F ? next_computation(c, stage) : NULL;
    if (b && b->kind == WEFT_ACTION_B && ready_at(c, stage, b) <= now)
        begin(c, stage, b, now);
    next_computation(c, stage);
}

/* When the next computation that is under way ends, or the next message that somebody waits for arrives; NEVER if there
 * is none. */
static uint32_t next_event(clock_state *c, uint32_t now)
{
    uint32_t next = NEVER;
    for (uint32_t stage = 0; stage < c->s->stages; stage++) {
        const weft_action *a = next_computation(c, stage);
        uint32_t event = c->free[stage] > now ? c->free[stage] : a ? ready_at(c, stage, a) : NEVER;
        if (event > now && event < next)
            next = event;
    }
    return next;
}

/* What the computation at which a stage stands waits for: an action of its own stage or of another. */
typedef struct need {
    uint32_t stage;
    weft_action action;
} need;

static need need_of(clock_state *c, uint32_t stage)
{
    const weft_action *a = next_computation(c, stage);
    need n = {stage, *a};
    weft__part here = {stage, a->chunk}, there;
    if (a->kind != WEFT_ACTION_F && *end_of(c, a->kind - 1, here, a->microbatch) == NEVER) {
        n.action.kind = a->kind - 1;
    } else if (weft__neighbour(c->s, here, a->kind == WEFT_ACTION_B, &there)) {
        n.stage = there.stage;
        n.action.chunk = there.chunk;
    }
    return n;
}

/* Nothing moves any more: go from one who waits to the one it waits for, and name what has no end or is a circle. */
static weft_result explain(clock_state *c)
{
    uint32_t stage = 0;
    while (!next_computation(c, stage))
        stage++;
    need n = need_of(c, stage);
    for (uint32_t steps = c->s->stages; steps > 0 && n.stage != stage && next_computation(c, n.stage); steps--) {
        stage = n.stage;
        n = need_of(c, stage);
    }
    const weft_action *held = next_computation(c, n.stage);
    char why[192] = "does not compute it";
    if (n.stage == stage)
        snprintf(why, sizeof why, "does not compute it before");
    else if (held)
        snprintf(why, sizeof why, "waits at action %zu (%s)", c->next[n.stage], weft__describe(held).text);
    return weft__fail(WEFT_E_INVALID, "%s needs %s of stage %u, which %s",
                      weft__locate(c->s, stage, c->next[stage]).text, weft__describe(&n.action).text, n.stage, why);
}

static bool all_begun(const clock_state *c)
{
    for (uint32_t stage = 0; stage < c->s->stages; stage++)
        if (c->next[stage] < c->s->lists[stage].count)
            return false;
    return true;
}

static weft_result run_clock(clock_state *c, bool joined, uint32_t *slots_out)
{
    uint32_t end = 0;
    for (uint32_t now = 0; now != NEVER; now = next_event(c, now)) {
        for (uint32_t stage = 0; stage < c->s->stages; stage++)
            tick(c, stage, joined, now);
        end = now;
    }
    if (!all_begun(c))
        return explain(c);
    *slots_out = end;
    return WEFT_OK;
}

/* Can a time be longer than is counted? No action takes more than the longest, with a message before it. */
static weft_result check_length(const weft_schedule *s, const weft__slots *slots)
{
    uint32_t longest = slots->forward > slots->weights ? slots->forward : slots->weights;
    longest = slots->backward > longest ? slots->backward : longest;
    longest = slots->split_backward > longest ? slots->split_backward : longest;
    size_t total = weft__schedule_total(s);
    if (!__builtin_add_overflow(longest, slots->message, &longest) && total < NEVER / longest)
        return WEFT_OK;
    return weft__fail(WEFT_E_RANGE, "the times of %zu actions of up to %u slots may be too long", total, longest);
}

weft_result weft__clock(const weft_schedule *s, const weft__index *index, const weft__slots *slots, bool joined,
                        weft_action_time *times_out, uint32_t *slots_out)
{
    size_t ends = 2 * (size_t)s->stages * s->chunks * s->microbatches;
    WEFT_TRY(check_length(s, slots));
    clock_state c = {.s = s, .index = index, .slots = slots};
    c.end = weft__alloc((ends + s->stages) * sizeof *c.end);
    c.next = weft__alloc(s->stages * sizeof *c.next);
    c.out = weft__alloc(s->stages * sizeof *c.out);
    weft_result result = WEFT_E_NO_MEMORY;
    if (c.end && c.next && c.out) {
        memset(c.end, 0xff, ends * sizeof *c.end);
        c.free = c.end + ends;
        for (uint32_t stage = 0; stage < s->stages; times_out += s->lists[stage++].count)
            c.out[stage] = times_out;
        result = run_clock(&c, joined, slots_out);
    }
    free(c.end);
    free(c.next);
    free(c.out);
    return result;
}

static uint32_t or_one(uint32_t slots)
{
    return slots ? slots : 1;
}

weft_result weft_schedule_times(const weft_schedule *schedule, const weft_times_config *config,
                                weft_action_time *times_out, size_t count, uint32_t *slots_out)
{
    if (!schedule || !times_out || !slots_out)
        return weft__fail(WEFT_E_INVALID, "the times of a schedule need the schedule and room for both results");
    if (count != weft__schedule_total(schedule))
        return weft__fail(WEFT_E_INVALID, "the schedule has %zu actions, the room is for %zu",
                          weft__schedule_total(schedule), count);
    weft_times_config c = {0};
    WEFT_TRY(weft__take_sized(&c, sizeof c, config, "weft_times_config"));
    weft__slots slots = {.forward = or_one(c.forward),
                         .split_backward = or_one(c.backward),
                         .weights = or_one(c.weights),
                         .message = c.message};
    if (slots.split_backward > UINT32_MAX - slots.weights)
        return weft__fail(WEFT_E_RANGE, "a backward of %u and %u slots is too long", slots.split_backward,
                          slots.weights);
    slots.backward = slots.split_backward + slots.weights;
    weft__index index;
    WEFT_TRY(weft__index_create(schedule, &index));
    weft_result result = weft__clock(schedule, &index, &slots, false, times_out, slots_out);
    free(index.at);
    return result;
}
