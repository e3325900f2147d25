/* SPDX-License-Identifier: Apache-2.0 */
/* Picks a policy by name, and what policies share. */
#include "policy.h"

#include "base/error.h"
#include "base/sized.h"

static const struct {
    const char *name;
    weft__policy_write write;
    bool many_chunks;
} policies[WEFT_POLICIES] = {
    [WEFT_POLICY_NONE] = {"none", NULL, true},
    [WEFT_POLICY_GPIPE] = {"gpipe", weft__policy_gpipe, false},
    [WEFT_POLICY_1F1B] = {"1f1b", weft__policy_1f1b, false},
    [WEFT_POLICY_INTERLEAVED] = {"interleaved", weft__policy_interleaved, true},
};

static bool is_policy(weft_policy policy)
{
    return (unsigned)policy < WEFT_POLICIES;
}

const char *weft_policy_string(weft_policy policy)
{
    return is_policy(policy) ? policies[policy].name : "?";
}

static weft_result check_config(const weft_schedule_config *c)
{
    if (!is_policy(c->policy))
        return weft__fail(WEFT_E_INVALID, "there is no schedule policy %d", (int)c->policy);
    if (c->flags & ~(uint32_t)WEFT_SCHEDULE_FORWARD_ONLY)
        return weft__fail(WEFT_E_INVALID, "schedule flags %#x are unknown", c->flags);
    if (c->chunks > 1 && !policies[c->policy].many_chunks)
        return weft__fail(WEFT_E_INVALID, "policy %s has one chunk a stage, not %u", policies[c->policy].name,
                          c->chunks);
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
    WEFT_TRY(check_config(&c));
    weft_schedule *s;
    WEFT_TRY(weft__schedule_new(c.stages, c.chunks, c.microbatches, &s));
    weft__policy_write write = policies[c.policy].write;
    weft_result result = write ? write(&c, s) : WEFT_OK;
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

static void put(weft_schedule *s, uint32_t stage, weft_action_kind kind, uint32_t group, uint32_t k)
{
    weft_action a = {.kind = kind, .peer = WEFT_PEER_NONE, .slot = WEFT_SLOT_NONE};
    weft__order(s, group, k, &a.microbatch, &a.chunk);
    if (kind == WEFT_ACTION_B)
        a.chunk = s->chunks - 1 - a.chunk;
    weft__actions *list = &s->lists[stage];
    list->at[list->count++] = a;
}

uint32_t weft__warmup(const weft_schedule_config *config, uint64_t forwards)
{
    uint32_t total = config->chunks * config->microbatches;
    return config->flags & WEFT_SCHEDULE_FORWARD_ONLY || forwards > total ? total : (uint32_t)forwards;
}

weft_result weft__policy_fill(const weft_schedule_config *config, weft_schedule *s, uint32_t stage, uint32_t warmup)
{
    uint32_t total = s->chunks * s->microbatches;
    uint32_t backwards = config->flags & WEFT_SCHEDULE_FORWARD_ONLY ? 0 : total;
    WEFT_TRY(weft__actions_reserve(&s->lists[stage], (size_t)total + backwards));
    for (uint32_t k = 0; k < total; k++) {
        put(s, stage, WEFT_ACTION_F, config->group, k);
        if (k >= warmup)
            put(s, stage, WEFT_ACTION_B, config->group, k - warmup);
    }
    for (uint32_t k = total - warmup; k < backwards; k++)
        put(s, stage, WEFT_ACTION_B, config->group, k);
    return WEFT_OK;
}
