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
    return weft__fail(
        WEFT_E_INVALID,
        "%u microbatches in groups of %u leave a last group of %u, fewer than the %u stages: it would stall",
        c->microbatches, c->group, rest, c->stages);
}

uint32_t weft__warmup_interleaved(const weft_schedule_config *config, uint32_t stage)
{
    uint64_t groups = (uint64_t)(config->chunks - 1) * config->group;
    return weft__warmup(config, 2 * (uint64_t)(config->stages - 1 - stage) + groups);
}

weft_result weft__policy_interleaved(const weft_schedule_config *config, weft_schedule *s)
{
    if (config->chunks == 1)
        return weft__policy_1f1b(config, s);
    WEFT_TRY(check_groups(config));
    for (uint32_t stage = 0; stage < s->stages; stage++)
        weft__policy_fill(config, s, stage, weft__warmup_interleaved(config, stage));
    return WEFT_OK;
}
