/* SPDX-License-Identifier: Apache-2.0 */
/* GPipe: all forwards, then all backwards. Every stage keeps all microbatches alive. */
#include "policy.h"

weft_result weft__policy_gpipe(const weft_schedule_config *config, weft_schedule *s)
{
    for (uint32_t stage = 0; stage < s->stages; stage++)
        weft__policy_fill(config, s, stage, weft__warmup(config, s->microbatches));
    return WEFT_OK;
}
