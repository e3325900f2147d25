/* SPDX-License-Identifier: Apache-2.0 */
/* The table of policies, and what policies share. */
#include "policy.h"

#include "base/error.h"
#include "base/sized.h"

/* All that is known of a policy outside its file. */
typedef struct policy_row {
    const char *name; /* NULL: there is no such policy */
    weft__policy_write write;
    uint32_t traits;
} policy_row;

/* Leaves all to weft_schedule_append(). */
static weft_result write_nothing(const weft_schedule_config *config, weft_schedule *s)
{
    (void)config, (void)s;
    return WEFT_OK;
}

static const policy_row policies[] = {
    [WEFT_POLICY_NONE] = {"none", write_nothing, WEFT_POLICY_CHUNKS},
    [WEFT_POLICY_GPIPE] = {"gpipe", weft__policy_gpipe, WEFT_POLICY_WRITES},
    [WEFT_POLICY_1F1B] = {"1f1b", weft__policy_1f1b, WEFT_POLICY_WRITES | WEFT_POLICY_RUNS_AHEAD},
    [WEFT_POLICY_INTERLEAVED] = {"interleaved", weft__policy_interleaved,
                                 WEFT_POLICY_WRITES | WEFT_POLICY_CHUNKS | WEFT_POLICY_GROUPS},
};
_Static_assert(sizeof policies / sizeof *policies == WEFT_POLICIES, "each policy has a row");

/* NULL if there is none. */
static const policy_row *find_policy(weft_policy number)
{
    bool known = (unsigned)number < WEFT_POLICIES && policies[number].name && policies[number].write;
    return known ? &policies[number] : NULL;
}

const char *weft_policy_string(weft_policy policy)
{
    return find_policy(policy) ? find_policy(policy)->name : "?";
}

uint32_t weft_policy_traits(weft_policy policy)
{
    return find_policy(policy) ? find_policy(policy)->traits : 0;
}

static weft_result check_config(const weft_schedule_config *c, const policy_row *p)
{
    if (!p)
        return weft__fail(WEFT_E_INVALID, "there is no schedule policy %d", (int)c->policy);
    if (c->flags & ~(uint32_t)(WEFT_SCHEDULE_FORWARD_ONLY | WEFT_SCHEDULE_RUN_AHEAD))
        return weft__fail(WEFT_E_INVALID, "schedule flags %#x are unknown", c->flags);
    if (c->flags & WEFT_SCHEDULE_RUN_AHEAD && !(p->traits & WEFT_POLICY_RUNS_AHEAD))
        return weft__fail(WEFT_E_INVALID, "policy %s cannot be told to run ahead", p->name);
    if (c->chunks > 1 && !(p->traits & WEFT_POLICY_CHUNKS))
        return weft__fail(WEFT_E_INVALID, "policy %s has one chunk a stage, not %u", p->name, c->chunks);
    if (c->group < c->stages)
        return weft__fail(WEFT_E_INVALID,
                          "a group of %u microbatches is smaller than the %u stages it goes through: it would stall",
                          c->group, c->stages);
    return WEFT_OK;
}

weft_result weft_schedule_create(const weft_schedule_config *config, weft_schedule **schedule_out)
{
    if (!schedule_out)
        return weft__fail(WEFT_E_INVALID, "a schedule needs somewhere to be returned to");
    *schedule_out = NULL;
    weft_schedule_config c = {0};
    WEFT_TRY(weft__take_sized(&c, sizeof c, config, "weft_schedule_config"));
    c.chunks = c.chunks ? c.chunks : 1;
    c.group = c.group ? c.group : c.stages;
    const policy_row *p = find_policy(c.policy);
    WEFT_TRY(check_config(&c, p));
    weft_schedule *s;
    WEFT_TRY(weft__schedule_new(c.stages, c.chunks, c.microbatches, &s));
    weft_result result = weft__policy_reserve(&c, s, p->traits);
    if (result == WEFT_OK)
        result = p->write(&c, s);
    if (result < 0) {
        weft_schedule_destroy(s);
        return result;
    }
    *schedule_out = s;
    return WEFT_OK;
}

void weft__order(const weft_schedule *s, uint32_t group, uint32_t k, uint32_t *microbatch, uint32_t *chunk)
{
    uint64_t whole = (uint64_t)group * s->chunks;
    uint32_t first = (uint32_t)(k / whole) * group;
    uint32_t size = s->microbatches - first < group ? s->microbatches - first : group;
    uint32_t within = (uint32_t)(k % whole);
    *microbatch = first + within % size;
    *chunk = within / size;
}

weft_result weft__policy_reserve(const weft_schedule_config *config, weft_schedule *s, uint32_t traits)
{
    size_t kinds = config->flags & WEFT_SCHEDULE_FORWARD_ONLY ? 1 : traits & WEFT_POLICY_SPLITS ? 3 : 2;
    for (uint32_t stage = 0; traits & WEFT_POLICY_WRITES && stage < s->stages; stage++)
        WEFT_TRY(weft__actions_reserve(&s->lists[stage], kinds * s->chunks * s->microbatches));
    return WEFT_OK;
}

void weft__policy_put(const weft_schedule_config *config, weft_schedule *s, uint32_t stage, weft_action_kind kind,
                      uint32_t k)
{
    weft_action a = {.kind = kind, .peer = WEFT_PEER_NONE, .buffer = WEFT_BUFFER_NONE};
    weft__order(s, config->group, k, &a.microbatch, &a.chunk);
    if (kind != WEFT_ACTION_F)
        a.chunk = s->chunks - 1 - a.chunk;
    weft__actions *list = &s->lists[stage];
    list->at[list->count++] = a;
}

uint32_t weft__warmup(const weft_schedule_config *config, uint64_t forwards)
{
    uint32_t total = config->chunks * config->microbatches;
    return config->flags & WEFT_SCHEDULE_FORWARD_ONLY || forwards > total ? total : (uint32_t)forwards;
}

void weft__policy_fill(const weft_schedule_config *config, weft_schedule *s, uint32_t stage, uint32_t warmup)
{
    uint32_t total = s->chunks * s->microbatches;
    uint32_t backwards = config->flags & WEFT_SCHEDULE_FORWARD_ONLY ? 0 : total;
    for (uint32_t k = 0; k < total; k++) {
        weft__policy_put(config, s, stage, WEFT_ACTION_F, k);
        if (k >= warmup)
            weft__policy_put(config, s, stage, WEFT_ACTION_B, k - warmup);
    }
    for (uint32_t k = total - warmup; k < backwards; k++)
        weft__policy_put(config, s, stage, WEFT_ACTION_B, k);
}
