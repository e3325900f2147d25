/* SPDX-License-Identifier: Apache-2.0 */
/* 1F1B: a stage runs ahead by the forwards that the stages behind it need to be busy, so no stage keeps more
 * microbatches alive than there are stages from it to the last; or by twice as many, so that they stay busy while
 * messages are under way. */
#include "policy.h"

uint32_t weft__warmup_1f1b(const weft_schedule_config *config, uint32_t stage)
{
    uint64_t behind = config->stages - 1 - stage;
    return weft__warmup(config, config->flags & WEFT_SCHEDULE_RUN_AHEAD ? 2 * behind : behind);
}

weft_result weft__policy_1f1b(const weft_schedule_config *config, weft_schedule *s)
{
    for (uint32_t stage = 0; stage < s->stages; stage++)
        weft__policy_fill(config, s, stage, weft__warmup_1f1b(config, stage));
    return WEFT_OK;
}
