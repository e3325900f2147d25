/* SPDX-License-Identifier: Apache-2.0 */
/* Interleaved 1F1B: several chunks a stage, so a microbatch comes by more often and the pipeline fills sooner. A stage
 * runs ahead by one group for each chunk but the last, and by two forwards for each stage behind it, so that a forward
 * and a backward make one step and messages are exchanged between steps. One chunk is plain 1F1B. */
#include "base/error.h"
#include "policy.h"

/* A group that comes back to the first stage before all stages are busy with it makes that stage wait. If it is the
 * last of several, the first stage waits for forwards behind backwards that wait for the first stage. */
static weft_result check_groups(const weft_schedule_config *c)
{
    uint32_t rest = c->microbatches % c->group;
    if (rest == 0 || rest >= c->stages || c->microbatches < c->group)
        return WEFT_OK;
    return weft__fail(WEFT_E_INVALID,
                      "%u microbatches in groups of %u leave a last group of %u, fewer than the %u stages: it would stall",
                      c->microbatches, c->group, rest, c->stages);
}

weft_result weft__policy_interleaved(const weft_schedule_config *config, weft_schedule *s)
{
    if (s->chunks == 1)
        return weft__policy_1f1b(config, s);
    WEFT_TRY(check_groups(config));
    uint32_t group = config->group < s->microbatches ? config->group : s->microbatches;
    for (uint32_t stage = 0; stage < s->stages; stage++) {
        uint64_t warmup = 2 * (uint64_t)(s->stages - 1 - stage) + (uint64_t)(s->chunks - 1) * group;
        WEFT_TRY(weft__policy_fill(config, s, stage, warmup));
    }
    return WEFT_OK;
}
