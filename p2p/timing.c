/* SPDX-License-Identifier: Apache-2.0 */
/* When each action would run if every computation took one slot of time and messages none. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "schedule.h"

#define NEVER UINT32_MAX

typedef struct clock_state {
    const weft_schedule *s;
    uint32_t *end;  /* of F, then of B, of every part and microbatch; NEVER = has not begun */
    size_t *next;   /* a stage: its first action that has not begun */
    uint32_t **out; /* a stage: where its begins go */
} clock_state;

static uint32_t *end_of(const clock_state *c, weft_action_kind kind, weft__part part, uint32_t microbatch)
{
    size_t parts = (size_t)c->s->stages * c->s->chunks;
    size_t row = (kind == WEFT_ACTION_F ? 0 : parts) + (size_t)part.stage * c->s->chunks + part.chunk;
    return &c->end[row * c->s->microbatches + microbatch];
}

/* What must be over before @p a can begin: what it needs from its own stage and from another. */
static bool ready(const clock_state *c, uint32_t stage, const weft_action *a, uint32_t now)
{
    weft__part here = {stage, a->chunk}, there;
    if (a->kind == WEFT_ACTION_W)
        return *end_of(c, WEFT_ACTION_B, here, a->microbatch) != NEVER;
    if (a->kind == WEFT_ACTION_B && *end_of(c, WEFT_ACTION_F, here, a->microbatch) == NEVER)
        return false;
    bool forward = a->kind == WEFT_ACTION_B; /* a gradient comes from the part behind */
    return !weft__neighbour(c->s, here, forward, &there) || *end_of(c, a->kind, there, a->microbatch) <= now;
}

/* Pass over what takes no time. The next computation, or NULL at the end. */
static const weft_action *next_computation(clock_state *c, uint32_t stage, uint32_t now)
{
    const weft__actions *list = &c->s->lists[stage];
    for (; c->next[stage] < list->count; c->next[stage]++) {
        if (weft__computes(list->at[c->next[stage]].kind))
            return &list->at[c->next[stage]];
        c->out[stage][c->next[stage]] = now;
    }
    return NULL;
}

static void begin(clock_state *c, uint32_t stage, const weft_action *a, uint32_t now)
{
    c->out[stage][c->next[stage]++] = now;
    if (a->kind != WEFT_ACTION_W)
        *end_of(c, a->kind, (weft__part){stage, a->chunk}, a->microbatch) = now + 1;
}

/* One slot of one stage: did anything begin? */
static bool tick(clock_state *c, uint32_t stage, bool joined, uint32_t now)
{
    const weft_action *a = next_computation(c, stage, now);
    if (!a || !ready(c, stage, a, now))
        return false;
    begin(c, stage, a, now);
    const weft_action *b = joined && a->kind == WEFT_ACTION_F ? next_computation(c, stage, now + 1) : NULL;
    if (b && b->kind == WEFT_ACTION_B && ready(c, stage, b, now))
        begin(c, stage, b, now);
    next_computation(c, stage, now + 1);
    return true;
}

/* What the computation at which a stage stands waits for: an action of its own stage or of another. */
typedef struct need {
    uint32_t stage;
    weft_action action;
} need;

static need need_of(clock_state *c, uint32_t stage)
{
    const weft_action *a = next_computation(c, stage, 0);
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
    while (!next_computation(c, stage, 0))
        stage++;
    need n = need_of(c, stage);
    for (uint32_t steps = c->s->stages; steps > 0 && n.stage != stage && next_computation(c, n.stage, 0); steps--) {
        stage = n.stage;
        n = need_of(c, stage);
    }
    const weft_action *held = next_computation(c, n.stage, 0);
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
    uint32_t now = 0;
    for (uint32_t stage = 0; stage < c->s->stages; stage++)
        next_computation(c, stage, 0);
    for (bool moved = true; moved; now += moved) {
        moved = false;
        for (uint32_t stage = 0; stage < c->s->stages; stage++)
            moved |= tick(c, stage, joined, now);
    }
    if (!all_begun(c))
        return explain(c);
    *slots_out = now;
    return WEFT_OK;
}

weft_result weft__clock(const weft_schedule *s, bool joined, uint32_t *begin_out, uint32_t *slots_out)
{
    size_t ends = 2 * (size_t)s->stages * s->chunks * s->microbatches;
    clock_state c = {.s = s};
    c.end = weft__alloc(ends * sizeof *c.end);
    c.next = weft__alloc(s->stages * sizeof *c.next);
    c.out = weft__alloc(s->stages * sizeof *c.out);
    weft_result result = WEFT_E_NO_MEMORY;
    if (c.end && c.next && c.out) {
        memset(c.end, 0xff, ends * sizeof *c.end);
        for (uint32_t stage = 0; stage < s->stages; begin_out += s->lists[stage++].count)
            c.out[stage] = begin_out;
        result = run_clock(&c, joined, slots_out);
    }
    free(c.end);
    free(c.next);
    free(c.out);
    return result;
}

weft_result weft_schedule_times(const weft_schedule *schedule, uint32_t *begin_out, size_t count, uint32_t *slots_out)
{
    if (!schedule || !begin_out || !slots_out)
        return weft__fail(WEFT_E_INVALID, "the times of a schedule need the schedule and room for both results");
    if (count != weft__schedule_total(schedule))
        return weft__fail(WEFT_E_INVALID, "the schedule has %zu actions, the room is for %zu",
                          weft__schedule_total(schedule), count);
    return weft__clock(schedule, false, begin_out, slots_out);
}
